"""What the summary and the report say of generators."""

from pathlib import Path

import duckdb
import pyarrow as pa
from commands_store import small_store

from tercet.flows.pages.blocks import Note
from tercet.flows.report.generators import generators
from tercet.flows.report.subject import opened
from tercet.flows.results.generated import METRICS, in_words, measured
from tercet.tasks.evaluation.measure_generator import GENERATOR_METRICS


def connection(gain: float | None) -> duckdb.DuckDBPyConnection:
    blank = dict.fromkeys(GENERATOR_METRICS.names)
    rows = [
        {**blank, "generator": "vae", "arm": arm, "metric": metric, "value": value, "n": 9}
        for arm, metric, value in (
            ("copy", "average_rouge", 56.0),
            ("generator", "average_rouge", 61.25),
            ("generator", "deficiency", 44.0),
        )
    ]
    over = {"arm": "generator", "metric": "gain_over_replaced", "n": 9, "generator": "vae"}
    low = None if gain is None else gain - 1
    high = None if gain is None else gain + 1
    rows.append({**blank, **over, "value": gain, "ci_low": low, "ci_high": high})
    db = duckdb.connect()
    db.register("generator_metrics", pa.Table.from_pylist(rows, schema=GENERATOR_METRICS))
    return db


def test_the_generator_stands_first_with_its_gains() -> None:
    (one,) = measured(connection(2.5))
    assert (one.generator, one.pairs) == ("vae", 9)
    assert [arm for arm, _ in one.rows] == ["generator", "copy"]
    values = dict(zip(METRICS, one.rows[0][1], strict=True))
    assert values["average_rouge"] == 61.25
    assert values["deficiency"] == 44.0
    assert values["perplexity"] is None
    assert one.gains == [("words replaced at random", 2.5, 1.5, 3.5)]
    assert "+2.5 points (+1.5 to +3.5) against words replaced at random" in in_words(one)


def test_without_a_gain_it_says_why() -> None:
    (one,) = measured(connection(None))
    assert one.gains == []
    assert "not compared at equal diversity" in in_words(one)


def test_a_run_without_generators_says_so(tmp_path: Path) -> None:
    store, run = small_store(tmp_path / "store")
    with opened(store, [run]) as subjects:
        (note,) = generators(subjects).blocks
    assert isinstance(note, Note)
    assert note.tone == "missing"
