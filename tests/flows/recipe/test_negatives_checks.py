"""What mined negatives need, and which rows and losses can have how many."""

from typing import Any

import pytest
from pydantic import ValidationError

from tercet.flows.pipeline.compile import compile_steps, steps_to_run
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.misplaced import Misplaced
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.resolve import resolve

PAIRS = {"from": "document_pairs", "negatives": 2}


def steps(
    rows: Any = PAIRS, loss: Any = "info_nce", without: str = "", **changes: Any
) -> tuple[Step, ...]:
    """Of a recipe that trains on these rows, without a key of its own."""
    content: dict[str, Any] = {
        "name": "n",
        "backbone": "a/b",
        "corpora": [
            {"name": "field", "source": "field.csv", "query": "q", "answer": "a"},
            {"name": "clicks", "source": "c.csv", "role": "labelled", "kind": "pairs"},
            {"name": "other", "source": "o.csv", "role": "labelled", "kind": "pairs"},
        ],
        "ingest": {"passages": {}},
        "evaluator": {"model": "a/b"},
        "synthesise": {"title": None},
        "negatives": {"k": 3},
        "train": {"phases": [{"name": "p", "rows": rows, "loss": loss}]},
        **changes,
    }
    content.pop(without, None)
    return compile_steps(resolve(Recipe.model_validate(content)))


@pytest.mark.parametrize(
    ("given", "message", "place"),
    [
        (
            {"without": "ingest", "synthesise": {}},
            "there are none: write `passages: {}` under `ingest`",
            ("negatives",),
        ),
        ({"without": "evaluator"}, "name one under `evaluator`, or find them by: bm25", ("by",)),
        ({"without": "negatives"}, "nothing mines negatives: write `negatives: {}`", ("rows",)),
        ({"rows": {**PAIRS, "negatives": 4}}, "raise negatives.k to 4", ("rows",)),
        ({"loss": "pairwise_logistic"}, "takes one negative a row: set this key to 1", ("rows",)),
        ({"loss": "nt_xent"}, "reads no negatives: leave this key out", ("rows",)),
        (
            {"rows": {**PAIRS, "negatives": 1}, "loss": "gaussian_decay"},
            "rows from document_pairs have no label",
            ("rows",),
        ),
    ],
)
def test_what_does_not_fit_is_refused(given: Any, message: str, place: tuple[str, ...]) -> None:
    with pytest.raises(Misplaced, match=message) as caught:
        steps(**given)
    assert set(place) <= set(caught.value.location)


@pytest.mark.parametrize("source", ["anchors", "pairs", "triplets"])
def test_rows_of_sentences_have_none(source: str) -> None:
    with pytest.raises(ValidationError, match=f"not for {source}: leave negatives out"):
        steps({"from": source, "negatives": 1})


def test_one_of_a_row_can_stand_alone() -> None:
    assert steps({**PAIRS, "negatives": 1}, "pairwise_logistic")


def test_each_source_has_a_step_of_its_own() -> None:
    parts = [
        {"name": name, "rows": {"from": name, "negatives": 2}, "loss": "info_nce"}
        for name in ("queries", "document_pairs", "clicks", "other")
    ]
    found = {step.name: step for step in steps(train={"phases": [{"parts": parts}]})}
    mined = {name: step for name, step in found.items() if name.startswith("negatives")}
    assert {(name, step.config.source) for name, step in mined.items()} == {  # type: ignore[attr-defined]
        ("negatives", "queries"),
        ("negatives.document_pairs", "document_pairs"),
        ("negatives.labelled", "labelled"),
    }
    assert mined["negatives.labelled"].config.corpora == ("clicks", "other")  # type: ignore[attr-defined]
    assert found["train"].inputs["negatives"] == tuple(mined)
    vectors = found["passage_vectors.evaluator"]
    for step in mined.values():
        assert step.models == vectors.models
        assert step.inputs["passage_vectors"] == (vectors.name,)


def test_by_words_no_vector_is_made() -> None:
    found = {step.name: step for step in steps(negatives={"by": "bm25"}, without="evaluator")}
    assert found["negatives.document_pairs"].models == {}
    assert "passage_vectors.evaluator" not in found


def test_what_no_part_reads_is_made_on_demand_alone() -> None:
    every = steps("queries")
    names = {step.name for step in every}
    assert {"negatives", "passage_vectors.evaluator"} <= names
    run = {step.name for step in steps_to_run(every)}
    assert not {"negatives", "passage_vectors.evaluator"} & run
    assert {"negatives", "passage_vectors.evaluator"} <= {
        step.name for step in steps_to_run(every, "negatives")
    }
