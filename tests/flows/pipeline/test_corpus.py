"""Steps from files: passages are made where the recipe asks for them, and change no other step."""

from typing import Any

import pytest

from tercet.flows.pipeline.compile import compile_steps, steps_to_run
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.misplaced import Misplaced
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.resolve import resolve
from tercet.flows.recipe.resolved import Weights

CONTENT: dict[str, Any] = {
    "name": "small",
    "corpora": [
        {"name": "field", "source": "field.txt"},
        {"name": "wiki", "source": "wiki.txt", "role": "pretrain"},
    ],
    "backbone": "org/model",
    "train": {"phases": [{"rows": "anchors", "loss": "info_nce"}]},
}


def steps(**changes: Any) -> dict[str, Step]:
    content = {key: value for key, value in {**CONTENT, **changes}.items() if value is not None}
    compiled = compile_steps(resolve(Recipe.model_validate(content)))
    return {step.name: step for step in steps_to_run(compiled)}


def test_passages_are_a_step_of_their_own() -> None:
    without, found = steps(), steps(ingest={"passages": {"tokens": 64}})
    found = {name: step for name, step in found.items() if "passage_vectors" not in name}
    passages = found.pop("passages")
    assert found == without
    assert "passages" not in without
    assert passages.inputs == {"documents": ("ingest",)}
    assert passages.models == {"tokenizer": Weights("org/model")}
    config = passages.config.model_dump()
    assert (config["tokens"], config["overlap"], config["context"]) == (64, 0, True)
    assert [corpus["name"] for corpus in config["corpora"]] == ["field"]


def test_without_a_backbone_words_are_counted() -> None:
    found = steps(
        ingest={"passages": {}},
        backbone=None,
        train=None,
        models={"m": {"pretrain": {"form": "masked"}}},
    )
    assert found["passages"].models == {}


def test_passages_of_no_documents_are_refused() -> None:
    with pytest.raises(Misplaced, match="no corpus has documents to cut into passages"):
        steps(corpora=CONTENT["corpora"][1:], ingest={"passages": {}})
