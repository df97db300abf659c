"""Passages have vectors by each encoder that somebody searches with, and not without passages."""

from typing import Any

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.pipeline.retrieval import EVALUATOR, evaluator_vectors
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.file import resolve
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.resolved import Made, Weights

CONTENT: dict[str, Any] = {
    "name": "small",
    "corpora": [{"name": "field", "source": "field.txt"}],
    "backbone": "org/model",
    "evaluator": {"model": "org/model"},
    "ingest": {"passages": {"tokens": 64}},
    "train": {"phases": [{"rows": "anchors", "loss": "info_nce"}]},
}


def steps(**changes: Any) -> dict[str, Step]:
    found = compile_steps(resolve(Recipe.model_validate({**CONTENT, **changes})))
    return {step.name: step for step in found}


def vectors(**changes: Any) -> dict[str, Step]:
    found = steps(**changes)
    return {name: step for name, step in found.items() if step.stage.name == "passage_vectors"}


def test_the_encoder_before_and_after_makes_vectors_of_all_passages() -> None:
    found = vectors(seeds=2)
    assert {name: step.models["encoder"] for name, step in found.items()} == {
        "passage_vectors.base": Weights("org/model"),
        "passage_vectors.encoder": Made("train"),
        "passage_vectors.encoder.seed43": Made("train.seed43"),
    }
    assert {step.inputs["passages"] for step in found.values()} == {("passages",)}
    assert vectors(ingest={}) == {}


def test_a_whitened_encoder_makes_them_after_it() -> None:
    assert vectors(whiten={})["passage_vectors.encoder"].models == {"encoder": Made("whiten")}
    only = vectors(train={"phases": []}, whiten={})
    assert {name: step.models["encoder"] for name, step in only.items()} == {
        "passage_vectors.base": Weights("org/model"),
        "passage_vectors.encoder": Made("whiten"),
    }


def test_they_are_made_as_the_encoder_is_measured() -> None:
    found = vectors(
        evaluate={"pooling": "cls", "max_length": 48, "precision": "bf16"},
        prompts={"document": "text: "},
        train={**CONTENT["train"], "trust_remote_code": True},
    )
    for step in found.values():
        assert step.config.model_dump(exclude={"cnn_seed", "mix", "prompt"}) == {
            "pooling": "cls",
            "max_length": 48,
            "precision": "bf16",
            "prompts": {"query": None, "document": "text: "},
            "trust_remote_code": True,
        }
    train = {**CONTENT["train"], "pooling": "token_cnn"}
    drawn = vectors(evaluate={"pooling": "token_cnn"}, train=train, whiten={})
    seeds = {name: step.config.model_dump()["cnn_seed"] for name, step in drawn.items()}
    assert seeds == {"passage_vectors.base": 42, "passage_vectors.encoder": None}


def test_the_evaluators_are_made_only_where_they_are_read() -> None:
    assert EVALUATOR not in steps()
    recipe = Recipe.model_validate({**CONTENT, "embed": {"max_length": 32, "pooling": "cls"}})
    resolved = resolve(recipe)
    (step,) = evaluator_vectors(recipe, resolved.evaluator)
    assert (step.name, step.models) == (EVALUATOR, {"encoder": Weights("org/model")})
    assert step.config.model_dump(include={"max_length", "pooling"}) == {
        "max_length": None,
        "pooling": "cls",
    }
    assert evaluator_vectors(recipe, None) == []


def test_a_round_trip_reads_them_and_encodes_queries_alike() -> None:
    asked = {
        "synthesise": {"title": None},
        "score": {"round_trip": None},
        "embed": {"pooling": "cls", "max_length": 32},
        "prompts": {"query": "find: "},
    }
    found = steps(**asked)
    scorer, vectors = found["score.round_trip"], found[EVALUATOR]
    assert scorer.inputs == {
        "candidates": ("parse",),
        "passages": ("passages",),
        "passage_vectors": (EVALUATOR,),
    }
    assert (scorer.config, scorer.models) == (vectors.config, vectors.models)
    assert scorer.config.model_dump()["prompts"]["query"] == "find: "
    assert found["select"].inputs["scores"] == ("score.evaluator",)
    bounded = steps(**asked, select={"rank_max": 3})
    assert bounded["select"].inputs["scores"] == ("score.evaluator", "score.round_trip")
    assert [name for name in found if found[name] != bounded[name]] == ["select"]
