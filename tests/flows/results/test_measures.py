"""The tables of figures that every reader shows, by hand-computed rows."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from failures import fails
from known_tables import known_tables
from report_store import write_run

import tercet
from tercet.flows.pages import blocks
from tercet.flows.report import report
from tercet.flows.results import measure, measures
from tercet.flows.results.measure import Column, Measure, Table
from tercet.flows.results.measures import (
    CANDIDATES_JUDGED,
    DEFINITIONS,
    DISCRIMINATORS,
    GENERATORS,
    MEASURES,
    RELIABILITY,
)
from tercet.flows.results.subject import Subject, open_runs
from tercet.storage.store import open_store
from tercet.tasks.evaluation.define import DEFINITION_FIGURES
from tercet.tasks.evaluation.measure_generators import GENERATOR_METRICS
from tercet.tasks.training.discriminator_figures import DISCRIMINATOR_METRICS


def read(of: Measure, connection: duckdb.DuckDBPyConnection) -> Table:
    """The measure of a run with these tables."""
    store: Any = None
    table = of.read(Subject(store, {"run_id": "r", "recipe": {}}, "run", connection))
    assert table is not None
    return table


def cells(table: Table) -> dict[str, dict[str, Any]]:
    """What stands in each column, by the row's second cell."""
    return {
        str(table.columns[1].cell(row)): {c.key: c.cell(row) for c in table.columns}
        for row in table.rows
    }


ARMS = ("own_entries", "projection", "before", "words")
FIGURES = {"recall@1": 10.0, "recall@10": 40.0, "mrr": 21.25, "median_rank": 1234.0}


def rows(seeds: tuple[int, ...] = (42,), arms: tuple[str, ...] = ARMS) -> list[Any]:
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


def connection_of_definitions(found: list[Any]) -> duckdb.DuckDBPyConnection:
    db = duckdb.connect()
    db.register("definition_figures", pa.Table.from_pylist(found, schema=DEFINITION_FIGURES))
    return db


def test_the_training_stands_before_its_controls() -> None:
    table = read(DEFINITIONS, connection_of_definitions(rows()))
    assert [row["n"] for row in table.rows] == [80] * 4
    assert [row["mrr"] for row in table.rows] == [21.25, 20.25, 19.25, 18.25]
    gains = [found["mrr_gain"] for found in cells(table).values()]
    assert gains == ["+3.0 (+1.0 to +5.0)", "+2.0 (+0.0 to +4.0)", None, None]


def test_several_seeds_or_too_few_definitions_have_no_interval() -> None:
    table = read(DEFINITIONS, connection_of_definitions(rows((42, 44))))
    assert (table.rows[0]["seeds"], table.rows[0]["mrr"]) == (2, 22.25)
    assert table.columns[-3].cell(table.rows[0]) == "+4.0"
    table = read(DEFINITIONS, connection_of_definitions([{**row, "n": 20} for row in rows()]))
    assert table.columns[-3].cell(table.rows[0]) == "+3.0 (too few)"


AREAS = {"discriminator": 0.91, "hypothesis": 0.76, "pair_words": 0.87, "cosine": 0.84}


def metrics(margin: float = 0.02) -> list[dict[str, Any]]:
    """margin: what the interval of the gain over words of both texts begins at."""
    blank = {**dict.fromkeys(DISCRIMINATOR_METRICS.names), "pairs": 200, "anchors": 80}
    rows = []
    for arm, area in AREAS.items():
        figures = {"auc": area, "accuracy": 100 * area - 8, "calibration_error": 0.05}
        if arm != "discriminator":
            figures["auc_gain"] = AREAS["discriminator"] - area
        for metric, value in figures.items():
            low = margin if metric == "auc_gain" and arm == "pair_words" else value - 0.01
            rows.append(
                {**blank, "discriminator": "judge", "arm": arm, "subset": "all", "metric": metric}
                | {"value": value, "ci_low": low, "ci_high": value + 0.01}
            )
    rows.append({**rows[0], "subset": "one corpus", "value": 0.1})
    return rows


def connection_of_discriminators(rows: list[dict[str, Any]]) -> duckdb.DuckDBPyConnection:
    db = duckdb.connect()
    db.register("discriminator_metrics", pa.Table.from_pylist(rows, schema=DISCRIMINATOR_METRICS))
    return db


def test_the_discriminator_stands_before_its_controls() -> None:
    table = read(DISCRIMINATORS, connection_of_discriminators(metrics()))
    assert [row["auc"] for row in table.rows] == [0.91, 0.87, 0.84, 0.76]
    assert (table.rows[0]["pairs"], table.rows[0]["n"]) == (200, 80)
    assert [row["strong"] for row in table.rows] == [True, False, False, False]
    shown = cells(table)
    assert shown["the discriminator"]["auc"] == "0.910 (0.900 to 0.920)"
    assert shown["the discriminator"]["auc_gain"] is None
    assert shown["the evaluator's cosine"]["auc_gain"] == "+0.070 (+0.060 to +0.080)"


def test_it_says_whether_it_is_better_than_what_anyone_could() -> None:
    no_cosine = [row for row in metrics() if row["arm"] != "cosine"]
    few = [{**row, "anchors": 29} for row in metrics()]
    for found, part in (
        (metrics(), "0.020"),
        (no_cosine, "0.020"),
        (metrics(margin=-0.001), "words of both texts"),
        (few, "not known"),
    ):
        table = read(DISCRIMINATORS, connection_of_discriminators(found))
        (sentence,) = table.findings
        assert part in sentence
    assert table.columns[2].cell(table.rows[0]) == "0.910 (too few)"


def test_the_report_shows_verdicts_by_generator_and_method(tmp_path: Path) -> None:
    candidates = [
        {"candidate_id": i, "generation_id": i, "sentence_id": 1, "method": method}
        | {"role": role, "relation": relation, "text": f"text {i}"}
        for i, (method, role, relation) in enumerate(
            [
                ("paraphrase", "positive", "keeps"),
                ("paraphrase", "positive", "keeps"),
                ("negation", "negative", "alters"),
                ("next_sentences", "positive", "topic"),
            ]
        )
    ]
    by_scorer = {"pair": [0.98, 0.5, 0.25, 0.1], "own": [0.125, 0.75]}
    bin_of_p = {"discriminator": "judge", "p_low": 0.95, "p_high": 1.0, "pairs": 50}
    models = ["/models/writer", "/models/writer", None, None]
    tables = {
        "discriminator_metrics": metrics(),
        "reliability": [
            bin_of_p | {"mean_p": 0.98, "share_true": 0.96, "ci_low": 0.91, "ci_high": 0.99}
        ],
        "candidates": candidates,
        "generations": [{"generation_id": i, "model": model} for i, model in enumerate(models)],
        "scores": [
            {"candidate_id": i, "scorer": name, "measure": "p_true", "value": value}
            for name, values in by_scorer.items()
            for i, value in enumerate(values)
        ],
        "rejects": [
            {"stage": "select", "row_id": 1, "reason": "below_p_min"},
            {"stage": "select", "row_id": 2, "reason": "surplus"},
        ],
    }
    recipe = {"select": {"p_true": "pair", "p_min": 0.5}}
    run = write_run(tmp_path / "store", tables, recipe=recipe)
    with open_runs(open_store(str(tmp_path / "store")), [run]) as (subject,):
        reliability, verdicts = (m.read(subject) for m in (RELIABILITY, CANDIDATES_JUDGED))
    assert reliability is not None
    assert verdicts is not None
    (shown,) = ([c.cell(row) for c in reliability.columns] for row in reliability.rows)
    assert shown == ["judge", "0.95 to 1.00", 50, "0.980", "0.960 (0.910 to 0.990)"]
    # Refusals are put to the scorer that decides.
    (page,) = verdicts.on_page()
    assert isinstance(page, blocks.Table)
    assert page.rows == [
        ["own", "writer", "paraphrase", "positive", 2, "0.438", None, None],
        ["pair", "writer", "paraphrase", "positive", 2, "0.740", 1, 1],
        ["pair", "rule", "negation", "negative", 1, "0.750", 0, 0],
    ]


def connection_of_generated(gain: float | None, n: int = 90) -> duckdb.DuckDBPyConnection:
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
    table = read(GENERATORS, connection_of_generated(2.5))
    names = [(row["texts"], row["strong"]) for row in table.rows]
    assert names == [("plain", True), ("vae", True), ("copy", False)]
    vae = table.rows[1]
    assert (vae["average_rouge"], vae["deficiency"], vae["perplexity"]) == (61.25, 44.0, None)
    assert "not compared" in table.findings[0]
    assert "+2.5 (+1.5 to +3.5) against words replaced at random" in table.findings[1]
    assert "+2.5 (too few)" in read(GENERATORS, connection_of_generated(2.5, n=9)).findings[1]
    assert "not compared" in read(GENERATORS, connection_of_generated(None)).findings[1]


def test_a_run_without_these_tables_measured_nothing() -> None:
    store: Any = None
    run = {"run_id": "r", "recipe": {}}
    with known_tables() as connection:
        connection.execute("CREATE TABLE usage AS SELECT NULL AS run_id WHERE false")
        subject = Subject(store, run, "run", connection)
        measured = {m.name for m in MEASURES if m.read(subject) is not None}
    # Nothing of each kind is a count as well.
    assert measured == {"funnel"}


def test_a_package_s_measure_is_shown_as_ours_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    towns = Measure(
        "towns",
        "Length of texts",
        "How long the sentences are.",
        "There are none.",
        "SELECT corpus, count(*) AS n, avg(n_words) AS words FROM sentences GROUP BY corpus",
        (Column("corpus", "corpus"), Column("words", "words", 1), Column("n", "n")),
        findings=lambda subject, rows: [f"{len(rows)} corpus"],
    )
    names = {measure.name: measure for measure in (*MEASURES, towns)}
    monkeypatch.setattr(measures, "all_measures", lambda: names)
    monkeypatch.setattr(report, "all_measures", lambda: names)
    rows = [{"sentence_id": n, "corpus": "a_b", "n_words": n} for n in range(4)]
    run = write_run(tmp_path / "store", {"sentences": rows})
    with open_runs(open_store(str(tmp_path / "store")), [run]) as (subject,):
        _, table = measures.read_measures(subject, brief=True)["towns"]
        html = report.render_report([subject])
    assert "1.5" in table.text(None)[2]
    assert table.text(None)[-1] == "1 corpus"
    assert "| a\\_b | 1.5 | 4 |" in table.markdown()
    assert table.records() == [{"corpus": "a_b", "words": 1.5, "n": 4}]
    assert ">Length of texts</h2>" in html
    from_python = tercet.open(str(tmp_path / "store")).run(run).measures()
    assert from_python["towns"].to_pylist() == table.records()


def test_a_package_s_measure_that_cannot_be_read_names_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store: Any = None
    monkeypatch.setattr(measure, "package_of", lambda module: "toys 0.1")
    towns = Measure("towns", "T", "", "", "SELECT missing FROM sentences", (), module="toys.towns")
    with known_tables() as connection, fails("bad_query", "towns", "toys 0.1", "missing"):
        towns.read(Subject(store, {"run_id": "r", "recipe": {}}, "run", connection))
