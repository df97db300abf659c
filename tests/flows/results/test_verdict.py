"""Which figures decide, and what they decide."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from cards_store import evaluation
from commands_store import make_run
from figure_rows import stored

from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.model import Recipe
from tercet.flows.results.verdict import Verdict, read_verdict, verdict_of
from tercet.storage.runs import end_run, resolve_run
from tercet.storage.store import open_store

OWN = {"suite": "retrieval_sets", "task": "mine", "subset": "all"}
GRADED = {"suite": "sts_sets", "task": "graded", "subset": "all"}
LABELS = {"suite": "labels", "task": "notes.kind nearest", "subset": "all"}
NAMES = {"suite": "retrieval", "task": "name_to_summary", "subset": "test"}
PAIRS = {"suite": "retrieval", "task": "document_pairs", "subset": "test"}
HALVES = {"suite": "retrieval", "task": "halves", "subset": "test"}
ORDER = {"suite": "fact_order", "task": "plain", "subset": "all"}


def gained(metric: str, gain: float, spread: float = 1.0, n: int = 50, **more: Any) -> list[Any]:
    """Rows of a figure whose gain has the interval gain ± spread."""
    ends = {"ci_low": gain - spread, "ci_high": gain + spread, "n": n}
    return [
        evaluation("m0", "base", metric, 60.0, n=n, **more),
        evaluation("m1", "encoder", metric, 60.0 + gain, n=n, **more),
        evaluation("m1", "encoder", f"{metric}_gain", gain, **{**more, **ends}),
    ]


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    """One that trains on the natural pairs of its documents."""
    phase = {"name": "one", "rows": "document_pairs", "loss": "info_nce"}
    content = {
        "name": "mine",
        "backbone": "x/y",
        "corpora": [{"name": "notes", "source": "n.csv", "query": "q", "answer": "a"}],
        "train": {"phases": [phase]},
    }
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(content))
    return recipe_file.load(str(path))


def word(recipe: Recipe, *rows: list[Any]) -> str:
    verdict = read_verdict(stored([row for figure in rows for row in figure]), recipe)
    assert verdict is not None
    return verdict.word


UP, DOWN, EVEN = 5.0, -5.0, 0.5


def test_the_first_of_own_questions_graded_pairs_labels_and_untrained_pairs_decides(
    recipe: Recipe,
) -> None:
    own, graded = gained("ndcg@10", DOWN, **OWN), gained("spearman", UP, **GRADED)
    labels, names = gained("accuracy", EVEN, **LABELS), gained("recall@1", UP, **NAMES)
    assert word(recipe, names, labels, graded, own) == "worse"
    assert word(recipe, names, labels, graded) == "better"
    assert word(recipe, names, labels) == "no difference shown"
    assert word(recipe, names) == "better"


@pytest.mark.parametrize(
    "rows",
    [
        gained("recall@1", UP, **PAIRS),
        gained("recall@1", UP, **HALVES),
        gained("accuracy", UP, **ORDER),
        gained("ndcg@10", DOWN, n=29, **OWN),
        gained("map", DOWN, **OWN),
        gained("ndcg@10", DOWN, **{**OWN, "task": "mine dev"}),
        gained("ndcg@10", DOWN, **{**OWN, "task": "mine hybrid"}),
    ],
    ids=["trained on", "halves", "facts", "too few", "other metric", "dev", "hybrid"],
)
def test_what_does_not_decide(recipe: Recipe, rows: list[Any]) -> None:
    assert word(recipe, rows) == "not known"
    assert word(recipe, rows, gained("ndcg@10", UP, **OWN)) == "better"


def test_a_worse_set_outweighs_a_better_one(recipe: Recipe) -> None:
    other = gained("ndcg@10", DOWN, **{**OWN, "task": "other"})
    verdict = read_verdict(stored(gained("ndcg@10", UP, **OWN) + other), recipe)
    assert verdict is not None
    interval = (verdict.gain, verdict.low, verdict.high)
    assert (verdict.word, interval, verdict.n) == ("worse", (-5.0, -6.0, -4.0), 50)
    assert "other" in str(verdict.figure)


def test_pairs_whose_titles_were_trained_on_do_not_decide(recipe: Recipe) -> None:
    (corpus,) = recipe.corpora
    titled = recipe_file.load("search").model_copy(
        update={"corpora": [corpus.model_copy(update={"query": "Title"})]}
    )
    assert word(titled, gained("recall@1", UP, **PAIRS)) == "not known"
    other = titled.model_copy(update={"corpora": recipe.corpora})
    assert word(other, gained("recall@1", UP, **PAIRS)) == "better"


def test_the_same_gain_with_each_seed_is_a_verdict(recipe: Recipe) -> None:
    rows = gained("ndcg@10", 0.0, **OWN)
    seeds = [row | {"seed": seed} for seed in (1, 2) for row in rows]
    verdict = read_verdict(stored(seeds), recipe)
    assert verdict is not None
    assert (verdict.word, verdict.low) == ("no difference shown", None)
    assert verdict.n == 50


def test_without_a_trained_encoder_there_is_no_verdict(recipe: Recipe) -> None:
    assert read_verdict(stored([evaluation("m0", "base", "ndcg@10", 60.0, **OWN)]), recipe) is None


def test_the_record_of_a_run_gives_the_same_verdict_back(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    run_id = make_run(store, "mine", {})
    assert verdict_of(resolve_run(store, run_id)["end_info"]) is None
    verdict = Verdict("better", "mine, nDCG@10", 5.0, 4.0, 6.0, 50, "queries")
    end_run(store, run_id, "done", {"verdict": verdict.__dict__})
    assert verdict_of(resolve_run(store, run_id)["end_info"]) == verdict
