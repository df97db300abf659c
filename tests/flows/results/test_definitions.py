"""What the summary and the report say of held-out definitions."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from known_tables import known_tables
from report_store import write_run

from tercet.flows.pages.blocks import Table
from tercet.flows.report.measured import entries
from tercet.flows.report.subject import open_runs
from tercet.flows.results.definitions import ARMS, defined, in_words
from tercet.flows.results.summary import of_definitions
from tercet.storage.store import open_store
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
    assert in_words(one) == (
        "MRR over the encoder before it: +3.0 (+1.0 to +5.0) by cosine, +2.0 (+0.0 to +4.0) by the "
        "projection."
    )


def test_several_seeds_are_a_mean_without_an_interval() -> None:
    (one,) = defined(connection(rows((42, 44))))
    assert one.seeds == 2
    assert one.figures["own_entries"]["mrr"] == (22.25, None, None)
    assert (
        in_words(one) == "MRR over the encoder before it: +4.0 by cosine, +3.0 by the projection."
    )


def test_of_too_few_definitions_a_gain_has_no_interval() -> None:
    (one,) = defined(connection([{**row, "n": 20} for row in rows()]))
    assert one.figures["words"]["mrr"] == (18.25, None, None)
    assert "+3.0 (too few) by cosine" in in_words(one)


def test_where_nothing_stood_before_there_is_no_gain() -> None:
    (one,) = defined(connection(rows(arms=("own_entries", "projection", "words"))))
    assert list(one.figures) == ["own_entries", "projection", "words"]
    assert in_words(one) == ""
    lines = of_definitions(connection(rows(arms=("own_entries", "projection", "words"))))
    assert len(lines) == 5


def test_a_run_without_definitions_has_none() -> None:
    assert defined(known_tables()) == []


@pytest.mark.parametrize("seeds", [(42,), (42, 43)])
def test_the_summary_has_a_line_for_each_arm(seeds: tuple[int, ...]) -> None:
    first, head, *lines = of_definitions(connection(rows(seeds)))
    more = "" if len(seeds) == 1 else ", the mean of 2 seeds"
    assert first == f"\nstep1: entries found by 80 held-out definitions{more}:"
    assert head.split() == ["recall@1", "recall@10", "MRR", "median", "rank"]
    mean = (len(seeds) - 1) / 2
    assert [line.split()[-1] for line in lines[:4]] == [
        f"{1234 - number + mean:,.1f}" for number in range(4)
    ]
    assert len({len(line) for line in (head, *lines[:4])}) == 1


def test_the_report_has_them_beside_the_entries(tmp_path: Path) -> None:
    space = {"name": "step1", "seed": None, "metric": "entries", "value": 9.0}
    point = {"name": "step1", "seed": None, "entry_id": 0, "text": "a", "x": 0.0, "y": 0.0}
    point |= {"pca_x": 0.0, "pca_y": 0.0}
    tables = {"entry_spaces": [space], "entry_points": [point], "definition_figures": rows()}
    run = write_run(tmp_path / "store", tables)
    with open_runs(open_store(str(tmp_path / "store"), create=False), [run]) as subjects:
        section = entries(subjects)
    (table,) = [
        block
        for block in section.blocks
        if isinstance(block, Table) and "recall@1" in block.columns
    ]
    assert table.rows[0] == ["step1", "after training, by cosine", 10.0, 40.0, 21.2, 1234.0]
    assert "(80 of step1)" in table.caption
    assert "step1: MRR over the encoder before it: +3.0" in table.caption
