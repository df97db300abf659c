"""What the summary and the report say of generators."""

from pathlib import Path

import duckdb
import pyarrow as pa
from commands_store import small_store
from known_tables import known_tables

from tercet.flows.pages.blocks import Note
from tercet.flows.report.measured import generators
from tercet.flows.report.subject import open_runs
from tercet.flows.results.generated import METRICS, Gain, in_words, measured
from tercet.tasks.evaluation.measure_generators import GENERATOR_METRICS


def connection(gain: float | None, n: int = 90) -> duckdb.DuckDBPyConnection:
    blank = dict.fromkeys(GENERATOR_METRICS.names)
    rows = [
        {**blank, "generator": name, "arm": arm, "metric": metric, "value": value, "n": n}
        for name, arm, metric, value in (
            (None, "copy", "average_rouge", 56.0),
            ("vae", "generator", "average_rouge", 61.25),
            ("vae", "generator", "deficiency", 44.0),
            ("plain", "generator", "average_rouge", 60.0),
        )
    ]
    over = {"arm": "generator", "metric": "gain_over_replaced", "n": n, "generator": "vae"}
    low = None if gain is None else gain - 1
    high = None if gain is None else gain + 1
    rows.append({**blank, **over, "value": gain, "ci_low": low, "ci_high": high})
    db = duckdb.connect()
    db.register("generator_metrics", pa.Table.from_pylist(rows, schema=GENERATOR_METRICS))
    return db


def test_generators_stand_apart_from_the_controls_that_they_share() -> None:
    found = measured(connection(2.5))
    assert found is not None
    assert found.pairs == 90
    assert list(found.generators) == ["plain", "vae"]
    assert list(found.controls) == ["copy"]
    values = dict(zip(METRICS, found.generators["vae"], strict=True))
    assert values["average_rouge"] == 61.25
    assert values["deficiency"] == 44.0
    assert values["perplexity"] is None
    assert found.gains == {"plain": [], "vae": [Gain("words replaced at random", 2.5, 1.5, 3.5)]}
    said = in_words("vae", found.gains["vae"])
    assert "+2.5 points (+1.5 to +3.5) against words replaced at random" in said


def test_of_too_few_pairs_a_gain_has_no_interval() -> None:
    found = measured(connection(2.5, n=9))
    assert found is not None
    said = in_words("vae", found.gains["vae"])
    assert "+2.5 points (too few) against words replaced at random" in said


def test_without_a_gain_it_says_why() -> None:
    found = measured(connection(None))
    assert found is not None
    assert found.gains["vae"] == []
    assert "vae changes more words" in in_words("vae", [])


def test_a_run_without_the_table_measured_none() -> None:
    assert measured(known_tables()) is None


def test_a_run_without_generators_says_so(tmp_path: Path) -> None:
    store, run = small_store(tmp_path / "store")
    with open_runs(store, [run]) as subjects:
        (note,) = generators(subjects).blocks
    assert isinstance(note, Note)
    assert note.tone == "missing"
