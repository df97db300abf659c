"""The table `evaluations` as figures."""

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from figure_rows import stored
from known_tables import known_tables

from tercet.flows.recipe.model import Recipe
from tercet.flows.results import figures
from tercet.flows.results.figures import (
    of_geometry,
    of_tasks,
    read_choice,
    read_figures,
)
from tercet.flows.results.metric_names import Metric
from tercet.tasks.stage import REJECTS
from tercet.tasks.synthesis.parse import CANDIDATES
from tercet.tasks.synthesis.synthesise import GENERATIONS
from tercet.tasks.training.phase_rows import DRAWN_PAIRS

RECALL = Metric("retrieval", "document_pairs", "test", "recall@1")


def row(phase: str, value: float, metric: str = "recall@1", **more: Any) -> dict[str, Any]:
    place = {"suite": RECALL.suite, "task": RECALL.task, "subset": RECALL.subset}
    model = f"{phase}-{more.get('seed', 1)}"
    return {"model_version": model, "phase": phase, "metric": metric, "value": value} | place | more


ROWS = [
    row("base", 60.0, seed=1, n=50),
    row("encoder", 66.0, seed=2, n=50, data_digest="d"),
    row("encoder", 64.0, seed=1, n=50, data_digest="d"),
    row("encoder", 6.0, "recall@1_gain", seed=2, ci_low=4.0, ci_high=8.0),
    row("encoder", 4.0, "recall@1_gain", seed=1, ci_low=2.0, ci_high=6.0),
    # What an earlier phase reached.
    row("mixed", 62.0, seed=1),
    row("mixed", 2.0, "recall@1_gain", seed=1),
]


def test_before_after_and_gain_by_seed() -> None:
    (found,) = read_figures(stored(ROWS))
    assert found.metric == RECALL
    assert found.before is not None
    assert (found.before.value, found.before.n) == (60.0, 50)
    assert list(found.values().items()) == [(1, 64.0), (2, 66.0)]
    assert found.mean() == 65.0
    assert found.first is not None
    assert (found.first.model, found.first.digest) == ("encoder-1", "d")
    gain, low, high = found.gain()
    assert gain == 5.0
    # Over two seeds, not over the queries.
    assert low is not None
    assert high is not None
    assert low < 4.0 < 6.0 < high
    (found,) = read_figures(stored([row("base", 60.0), row("encoder", 61.5)]))
    assert found.gain() == (1.5, None, None)


def test_the_figures_of_one_model_also_of_an_earlier_phase() -> None:
    (found,) = read_figures(stored(ROWS), "encoder-2")
    assert found.values() == {2: 66.0}
    assert found.gain() == (6.0, 4.0, 8.0)
    (found,) = read_figures(stored(ROWS), "mixed-1")
    assert found.values() == {1: 62.0}
    assert found.gain() == (2.0, None, None)


def test_of_too_few_questions_there_is_no_interval() -> None:
    few = stored([{**one, "n": 29} for one in ROWS])
    (found,) = read_figures(few)
    assert found.few
    assert found.gain() == (5.0, None, None)
    (found,) = read_figures(few, "encoder-2")
    assert found.gain() == (6.0, None, None)


def test_test_stands_before_dev_geometry_apart_and_undefined_values_nowhere() -> None:
    nan = float("nan")
    assert read_figures(stored([row("encoder", nan), row("encoder", nan, "recall@1_gain")])) == []
    rows = [
        row("encoder", 1.0, "alignment"),
        row("encoder", 1.0, subset="dev"),
        row("encoder", 1.0),
        row("encoder", 1.0, "spearman", suite="sts", task="STS-B", subset="all"),
    ]
    found = read_figures(stored(rows))
    order = [(f.metric.task, f.metric.subset) for f in of_tasks(found)]
    assert order == [("document_pairs", "test"), ("document_pairs", "dev"), ("STS-B", "all")]
    assert [f.metric.name for f in of_geometry(found)] == ["alignment"]


def test_figures_of_sets_whose_texts_stayed_in_training_are_transductive() -> None:
    places = [("sts", "STS-B", "all"), ("sts", "STS-B dev", "all"), ("sts", "STS16", "all")]
    places += [("sts", "STS", "all"), ("pairs", "STS-B", "all"), ("fact_order", "ours dev", "all")]
    rows = [
        row("encoder", 70.0, "spearman", suite=suite, task=task, subset=subset)
        for suite, task, subset in places
    ]
    connection = stored(rows)
    assert not any(figure.transductive for figure in read_figures(connection))
    connection.execute("DROP VIEW contamination")
    connection.execute("CREATE TABLE contamination (suite VARCHAR, task VARCHAR, removed BOOLEAN)")
    connection.execute("INSERT INTO contamination VALUES ('sts', 'STS16', true)")
    assert not any(figure.transductive for figure in read_figures(connection))
    connection.execute(
        "INSERT INTO contamination VALUES ('sts', 'STS-B', false), ('fact_order', 'ours', false)"
    )
    marked = {figure.metric.task for figure in read_figures(connection) if figure.transductive}
    # An average with such a set is one as well.
    assert marked == {"STS-B", "STS-B dev", "STS", "ours dev"}


def recipe(**draw: float) -> dict[str, Any]:
    phase = {"name": "drawn", "rows": {"from": "anchors", "draw": draw}, "loss": "info_nce"}
    content = {
        "name": "g",
        "backbone": "a/b",
        "corpora": [{"name": "field", "source": "f.txt"}],
        "synthesise": {"synonym": None},
        "evaluator": {"model": "a/b"},
        "train": {"phases": [phase]},
    }
    found: dict[str, Any] = Recipe.model_validate(content).model_dump(mode="json")
    return found


def connection(generated: int, of: int, *refused: tuple[str, str]) -> duckdb.DuckDBPyConnection:
    """So many of the drawn pairs are generated. refused: stage and reason of each text that is not
    accepted, beside five that are, and a negative."""

    def table(schema: pa.Schema, rows: list[dict[str, Any]]) -> pa.Table:
        return pa.Table.from_pylist([dict.fromkeys(schema.names) | row for row in rows], schema)

    pairs = [
        {"phase": "drawn", "part": "drawn", "sentence_id": number,
         "operation": "generated" if number < generated else "cutoff"}
        for number in range(of)
    ]  # fmt: skip
    stages = [*(stage for stage, _ in refused), *[""] * 5]
    texts = [
        {"generation_id": number, "purpose": "positive", "relation": "keeps", "sentence_id": number}
        for number in range(len(stages))
    ]
    altered = {"generation_id": 99, "purpose": "negative", "relation": "alters", "sentence_id": 0}
    candidates = [
        {"generation_id": number, "candidate_id": 1000 + number}
        for number, stage in enumerate(stages)
        if stage != "parse"
    ]
    lost = [
        {"stage": stage, "reason": reason, "row_id": number + (0 if stage == "parse" else 1000)}
        for number, (stage, reason) in enumerate(refused)
    ]
    lost.append({"stage": "parse", "reason": "empty", "row_id": 99})
    db = duckdb.connect()
    db.register("drawn_pairs", table(DRAWN_PAIRS, pairs))
    db.register("generations", table(GENERATIONS, [*texts, altered]))
    db.register("candidates", table(CANDIDATES, candidates))
    db.register("rejects", table(REJECTS, lost))
    return db


def test_few_draws_are_told_with_the_reasons() -> None:
    refused = [("parse", "same_as_source")] * 6 + [("parse", "cut_off")] * 3
    db = connection(3, 100, *refused, ("select", "below_positive_min"))
    draw = {"word_shuffle": 1, "cutoff": 1, "word_repetition": 1, "generated": 1}
    (sentence,) = figures.describe_draws(db, recipe(**draw))
    # As many as are meant need no reason, and without generated texts there is nothing to say.
    for generated, enough in ((44, False), (45, True)):
        half = recipe(cutoff=1, generated=1)
        (other,) = figures.describe_draws(connection(generated, 100), half)
        assert ("per_unit" not in other) == enough
    assert not [*figures.describe_draws(connection(0, 10), recipe(cutoff=1))]
    assert not [*figures.describe_draws(known_tables(), half)]
    for part in (
        "3.0%",
        "25.0%",
        "3 of 100",
        "15",
        "same_as_source 6, cut_off 3, below_positive_min 1",
    ):
        assert part in sentence


@pytest.mark.parametrize(
    ("mix", "by", "n", "parts"),
    [
        (0.0, "questions", 55, ("55", "untouched")),
        (0.25, "questions", 55, ("25 %",)),
        (0.5, "default", 29, ("50 %", "29")),
    ],
)
def test_the_choice_names_the_encoder_and_the_questions(
    mix: float, by: str, n: int, parts: tuple[str, ...]
) -> None:
    with duckdb.connect() as db:
        db.execute(
            f"CREATE TABLE choices AS SELECT 7 AS seed, {mix} AS mix, '{by}' AS chosen_by "
            "FROM range(3)"
        )
        db.execute(f"CREATE TABLE candidate_encoders AS SELECT 7 AS seed, {n} AS n, true AS chosen")
        sentence = str(read_choice(db, 7))
        assert all(part in sentence for part in parts)
        assert read_choice(db, 8) is None
