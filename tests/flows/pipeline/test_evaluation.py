"""Questions to the corpora's passages: the steps that a recipe with a table of them has."""

from typing import Any

import pytest

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.misplaced import Misplaced
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.resolve import resolve

CONTENT: dict[str, Any] = {
    "name": "small",
    "corpora": [{"name": "field", "source": "field.txt"}],
    "backbone": "org/model",
    "ingest": {"passages": {}},
    "train": {"phases": [{"rows": "anchors", "loss": "info_nce"}]},
    "evaluate": {"retrieval_sets": {"beir": "folder", "mine": "mine.csv"}},
}


def steps(**changes: Any) -> dict[str, Step]:
    compiled = compile_steps(resolve(Recipe.model_validate({**CONTENT, **changes})))
    return {step.name: step for step in compiled}


def test_a_table_of_questions_is_matched_once_and_measured_by_each_evaluation() -> None:
    found = steps()
    assert found["judgements"].inputs == {"passages": ("passages",)}
    config = found["judgements"].config.model_dump()
    assert list(config["sets"]) == ["mine"]
    assert (config["splits"], config["chosen_on"]) == (("test",), None)
    for name in ("base", "encoder"):
        step = found[f"evaluate.{name}"]
        assert step.inputs["passage_vectors"] == (f"passage_vectors.{name}",)
        assert step.inputs["judgements"] == ("judgements",)
        assert step.inputs["passages"] == ("passages",)
        assert list(step.config.model_dump()["retrieval_sets"]) == ["beir"]
    # The guard reads the questions themselves, found or not.
    assert [name for name, _ in found["guard.sentences"].config.model_dump()["retrieval_sets"]] == [
        "beir", "mine",
    ]  # fmt: skip
    assert "judgements" not in found["train"].inputs


def test_without_a_table_no_step_reads_passages_for_it() -> None:
    found = steps(evaluate={"retrieval_sets": "folder"})
    assert "judgements" not in found
    assert "passages" not in found["evaluate.base"].inputs


def test_a_checkpoint_is_chosen_by_its_questions_of_dev() -> None:
    choose = {**CONTENT["train"], "choose": {"by": "mine"}}
    found = steps(train=choose)
    assert found["judgements"].config.model_dump()["chosen_on"] == "mine"
    assert found["train"].inputs["judgements"] == ("judgements",)
    assert found["train"].inputs["passages"] == ("passages",)
    assert found["train"].config.model_dump()["retrieval_sets"] == {}


def test_questions_need_passages() -> None:
    with pytest.raises(Misplaced, match=r"add ingest: \{passages: \{\}\}"):
        steps(ingest={})
