"""What the summary concludes from the figures, and what it advises to run or to change."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import yaml
from known_tables import known_tables

from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.model import Recipe
from tercet.flows.results import metric_names, summary
from tercet.flows.results.figures import Figure, Value
from tercet.flows.results.metric_names import Metric
from tercet.flows.results.summary import (
    NEXT_QUERY,
    _before_and_after,
    _define_next,
    _over_seeds,
    _without_shipped,
)
from tercet.tasks.stage import REJECTS

SEED = 42
ANCHORS = {"rows": "anchors", "loss": "info_nce"}
TERMS = {"rows": "terms", "loss": "definition", "models": {"entry_matrix": "base"}}


def figure(gain: float, n: int, task: str = "document_pairs", seeds: int = 1) -> Figure:
    def value(of: float) -> Value:
        return Value(of, of - 1, of + 1, n, "m")

    after = {SEED + seed: value(60.0 + gain) for seed in range(seeds)}
    gains = {SEED + seed: value(gain + seed) for seed in range(seeds)}
    return Figure(Metric("retrieval", task, "test", "recall@1"), value(60.0), after, gains)


@pytest.fixture
def recipe(tmp_path: Path) -> Any:
    """A recipe of these phases over notes and a dictionary of terms."""

    def _recipe(*phases: dict[str, Any], **more: Any) -> Recipe:
        corpora = [
            {"name": "notes", "source": "notes.txt"},
            {"name": "terms", "source": "t.tsv", "role": "labelled", "kind": "definitions"},
        ]
        named = [{"name": f"step{n}", **phase} for n, phase in enumerate(phases, 1)]
        content = {"name": "mine", "backbone": "x/y", "seed": SEED, "corpora": corpora}
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump({**content, "train": {"phases": named}, **more}))
        return recipe_file.load(str(path))

    return _recipe


def test_a_handful_of_questions_shows_no_interval(recipe: Any) -> None:
    few = [figure(-100.0, 1), figure(5.0, 29, "halves")]
    lines = _before_and_after(few, recipe(ANCHORS))
    assert [line.split("test recall@1")[1].split() for line in lines[1:3]] == [
        ["60.00", "-40.00", "-100.00", "(too", "few)", "1"],
        ["60.00", "65.00", "+5.00", "(too", "few)", "29"],
    ]
    told = "\n".join(_before_and_after([*few, figure(0.5, 30)], recipe(ANCHORS)))
    assert "+0.50 (-0.50 to +1.50)" in told


def test_a_ranking_by_words_shows_no_gain(recipe: Any) -> None:
    words = figure(0.0, 10)
    words.gains.clear()
    line = _before_and_after([words, figure(5.0, 500)], recipe(ANCHORS))[1]
    assert line.split("test recall@1")[1].split() == ["60.00", "60.00", "10"]


def test_a_set_whose_texts_stood_in_training_is_marked(recipe: Any) -> None:
    seen = figure(5.0, 500)
    seen.transductive = True
    told = _before_and_after([seen, figure(4.0, 500)], recipe(ANCHORS))
    assert [line.split("  ")[0].endswith("(transductive)") for line in told[1:3]] == [True, False]
    assert told.count(metric_names.WHY_TRANSDUCTIVE) == 1
    several = figure(5.0, 500, seeds=2)
    several.transductive = True
    assert "recall@1 (transductive) gain" in "\n".join(_over_seeds([several]))


def test_over_seeds_a_handful_of_questions_has_no_interval_either() -> None:
    assert _over_seeds([figure(5.0, 3, seeds=3)])[1].endswith("too few")
    assert _over_seeds([figure(5.0, 30, seeds=3)])[1].endswith(")")


def test_a_dictionary_that_was_trained_on_is_asked_next(recipe: Any) -> None:
    said = 'tercet define "a description in your own words"'
    assert _define_next(recipe(TERMS), {"train"}) == said
    assert _define_next(recipe(TERMS), {"ingest"}) is None
    assert _define_next(recipe(ANCHORS), {"train"}) is None
    trained = {"train.step1", "train.step2"}
    assert _define_next(recipe(ANCHORS, TERMS), trained) == said
    assert _define_next(recipe(TERMS, ANCHORS), trained) == f"{said} --model train.step1"


def test_the_query_that_is_advised_shows_the_users_own_triplets_if_there_are_any() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE sentences AS FROM (VALUES (1, 'plain'), (2, 'docs')) "
                       "s(sentence_id, corpus)")  # fmt: skip
    connection.execute("CREATE TABLE triplets AS SELECT 1 AS sentence_id, 'a1' AS anchor, "
                       "'p' AS positive, 'n' AS negative, 0.5 AS negative_similarity")  # fmt: skip
    shipped = {"name": "plain", "source": "package:tercet.recipes/plain_english.txt"}
    run: Any = {"recipe": {"corpora": [{"name": "docs", "source": "docs"}, shipped]}}

    def anchors() -> set[str]:
        query = NEXT_QUERY.format(own=_without_shipped(connection, run))
        assert '"' not in query
        return {row[0] for row in connection.execute(query).fetchall()}

    assert anchors() == {"a1"}
    # The second is of a sentence of the user's, the third of a passage.
    connection.execute("INSERT INTO triplets SELECT n, 'a' || n, 'p', 'n', 0.5 FROM range(2, 4) "
                       "t(n)")  # fmt: skip
    assert anchors() == {"a2", "a3"}
    shipped["name"] = 'pl"ain'
    assert anchors() == {"a1", "a2", "a3"}


def recipe_of_unmeasured(**corpus: Any) -> Recipe:
    return Recipe.model_validate(
        {
            "name": "r",
            "backbone": "b",
            "whiten": {},
            "corpora": [{"name": "c", "source": "c.csv", **corpus}],
        }
    )


def told(
    rejects: list[tuple[str, int | None, str, str, str | None]], of: Recipe, pairs: int = 0
) -> list[str]:
    """rejects: stage, row, reason, detail and text."""
    rows = [dict(zip(REJECTS.names, row, strict=True)) for row in rejects]
    with duckdb.connect() as db:
        db.register("rejects", pa.Table.from_pylist(rows, schema=REJECTS))
        db.register("document_pairs", pa.table({"pair_id": list(range(pairs))}))
        return summary.describe_unmeasured(db, of)


@pytest.mark.parametrize(
    "reject",
    [
        ("halves", None, "no_halves", "halves were not measured: why", "test"),
        ("labels", None, "one_label", "column 'x' has 1 label", None),
        ("labels", None, "rare_label", "column 'x': 9 of 80 texts have this label", "red"),
        ("labels", None, "no_texts", "column 'x' has no value in split test", "test"),
        ("awareness", None, "too_few", "entity: 3 pairs, fewer than the 30 needed", None),
        ("define", None, "no_held_out", "none is held out", None),
        ("evaluate", None, "no_judgement", "own: 1 of 2 queries have no relevant document", None),
    ],
)
def test_each_is_told_once_with_its_reason(
    reject: tuple[str, int | None, str, str, str | None],
) -> None:
    assert told([reject, reject], recipe_of_unmeasured()) == [f"Not measured: {reject[3]}."]


def test_a_split_that_is_not_measured_promises_nothing() -> None:
    assert told([("halves", None, "no_halves", "why", "dev")], recipe_of_unmeasured()) == []


def test_pairs_are_promised_where_there_are_any_or_columns_of_them() -> None:
    reject = ("evaluate", None, "no_pairs", "no pairs in split test", "test")
    assert told([reject], recipe_of_unmeasured()) == []
    assert told([reject], recipe_of_unmeasured(), pairs=3) == [
        "Not measured: no pairs in split test."
    ]
    paired = recipe_of_unmeasured(query="title", answer="body")
    assert told([reject], paired) == ["Not measured: no pairs in split test."]


def test_rejects_of_rows_and_of_other_stages_are_none() -> None:
    rows: list[tuple[str, int | None, str, str, str | None]] = [
        ("awareness", 7, "no_pair", "why", None), ("ingest", None, "no_text", "why", None),
    ]  # fmt: skip
    assert told(rows, recipe_of_unmeasured()) == []
    # The warnings have it, with what to do.
    assert (
        told(
            [("evaluate", None, "no_document", "own: 1 relevant document", None)],
            recipe_of_unmeasured(),
        )
        == []
    )
    with known_tables() as db:
        assert summary.describe_unmeasured(db, recipe_of_unmeasured()) == []
