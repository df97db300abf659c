"""Figures of generators beside their controls."""

import duckdb
import pyarrow as pa
import pytest

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


@pytest.mark.parametrize(
    ("gain", "n", "word"), [(2.5, 90, "(+1.5 to +3.5)"), (2.5, 9, "(too few)"), (None, 90, "vae")]
)
def test_a_gain_has_an_interval_where_there_are_enough_pairs(
    gain: float | None, n: int, word: str
) -> None:
    found = measured(connection(gain, n))
    assert found is not None
    assert len(found.gains["vae"]) == (gain is not None)
    assert word in in_words("vae", found.gains["vae"])
