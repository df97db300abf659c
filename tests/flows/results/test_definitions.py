"""Held-out definitions as figures, and as the summary shows them."""

import re
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tercet.flows.results.definitions import ARMS, defined, in_words
from tercet.flows.results.summary import of_definitions
from tercet.tasks.evaluation.define import DEFINITION_FIGURES

FIGURES = {"recall@1": 10.0, "recall@10": 40.0, "mrr": 21.25, "median_rank": 1234.0}


def rows(seeds: tuple[int, ...] = (42,), arms: tuple[str, ...] = tuple(ARMS)) -> list[Any]:
    blank = dict.fromkeys(DEFINITION_FIGURES.names)
    found = []
    for seed in seeds:
        for number, arm in enumerate(arms):
            figures = {metric: value - number for metric, value in FIGURES.items()}
            if arm != "before" and "before" in arms:
                figures["mrr_gain"] = 3.0 - number
            for metric, value in figures.items():
                ends = {"ci_low": value - 2, "ci_high": value + 2}
                shift = float(seed - seeds[0])
                found.append(
                    {**blank, "name": "step1", "seed": seed, "arm": arm, "metric": metric}
                    | {"value": value + shift, **ends, "n": 80}
                )
    return found


def connection(found: list[Any]) -> duckdb.DuckDBPyConnection:
    db = duckdb.connect()
    db.register("definition_figures", pa.Table.from_pylist(found, schema=DEFINITION_FIGURES))
    return db


def test_the_training_stands_before_its_controls() -> None:
    (one,) = defined(connection(rows()))
    assert (one.name, one.definitions, one.seeds) == ("step1", 80, 1)
    assert list(one.figures) == list(ARMS)
    assert one.figures["words"]["mrr"] == (18.25, 16.25, 20.25)
    assert re.findall(r"[+-][\d.]+", in_words(one)) == [
        "+3.0",
        "+1.0",
        "+5.0",
        "+2.0",
        "+0.0",
        "+4.0",
    ]


@pytest.mark.parametrize("seeds", [(42,), (42, 43)])
def test_the_summary_has_a_line_for_each_arm(seeds: tuple[int, ...]) -> None:
    first, head, *lines = of_definitions(connection(rows(seeds)))
    assert "80" in first
    assert ("2 seeds" in first) == (len(seeds) == 2)
    assert head.split() == ["recall@1", "recall@10", "MRR", "median", "rank"]
    mean = (len(seeds) - 1) / 2
    assert [line.split()[-1] for line in lines[:4]] == [
        f"{1234 - number + mean:,.1f}" for number in range(4)
    ]
    assert len({len(line) for line in (head, *lines[:4])}) == 1
