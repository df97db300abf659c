"""Models by name become steps, and whatever names them reads those steps."""

from typing import Any

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.pipeline.step import Step, until
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.resolve import resolve
from tercet.flows.recipe.resolved import Made, Tagged, Weights

CONTENT: dict[str, Any] = {
    "name": "small",
    "corpora": [
        {"name": "field", "source": "field.txt"},
        {"name": "wiki", "source": "wiki.txt", "role": "pretrain"},
    ],
    "models": {
        "later": {"pretrain": {"form": "masked", "init": "alias"}},
        "alias": "first",
        "first": {"pretrain": {"form": "masked"}},
        "mixed": {"pretrain": {"form": "t5", "corpora": ["field", "wiki"]}},
        "borrowed": "tag:wiki_masked",
    },
    "backbone": "later",
    "evaluator": {"model": "alias"},
    "synthesise": {"negation": None},
    "train": {"phases": [{"name": "one"}, {"name": "two", "backbone": "borrowed"}]},
}


def steps(**changes: Any) -> dict[str, Step]:
    content = {key: value for key, value in {**CONTENT, **changes}.items() if value is not None}
    return {step.name: step for step in compile_steps(resolve(Recipe.model_validate(content)))}


def test_a_name_is_the_step_that_makes_the_model() -> None:
    found = steps()
    assert found["evaluate.base"].models["model"] == Made("pretrain.later")
    assert found["train.one"].models["backbone"] == Made("pretrain.later")
    assert found["embed"].models["evaluator"] == Made("pretrain.first")
    assert found["pretrain.later"].models["init"] == Made("pretrain.first")
    assert found["train.two"].models["backbone"] == Tagged("wiki_masked")
    taken = steps(backbone="org/model")
    assert taken["train.one"].models["backbone"] == Weights("org/model")


def test_models_are_made_before_what_reads_them() -> None:
    found = list(steps().values())
    made = [step.name for step in found]
    assert all(made.index(need) < made.index(step.name) for step in found for need in step.needs)


def test_each_model_reads_the_corpora_that_it_names() -> None:
    found = steps()
    assert found["pretrain.first"].inputs == {"pretrain_sentences": ("ingest.pretrain",)}
    assert found["pretrain.first"].config.corpora == ("wiki",)
    # A slot for each table: what a slot is named after is all that is read from it.
    both = {"pretrain_sentences": ("ingest.pretrain",), "sentences": ("ingest",)}
    assert found["pretrain.mixed"].inputs == both
    alone = steps(corpora=CONTENT["corpora"][:1], models={"later": CONTENT["models"]["first"]},
                  evaluator={"model": "later"}, train={})  # fmt: skip
    assert alone["pretrain.later"].inputs == {"sentences": ("ingest",)}
    assert alone["pretrain.later"].config.corpora == ("field",)
    assert "ingest.pretrain" not in alone


def test_what_is_read_to_pretrain_reaches_nothing_else() -> None:
    found = steps()
    readers = {name for name, step in found.items() if "ingest.pretrain" in step.needs}
    assert readers == {"pretrain.first", "pretrain.later", "pretrain.mixed"}
    assert [corpus.name for corpus in found["ingest"].config.corpora] == ["field"]
    assert set(found["ingest.pretrain"].stage.tables) == {"pretrain_sentences"}


def test_models_are_made_though_nothing_uses_them() -> None:
    only = {"corpora": CONTENT["corpora"][1:], "models": {"first": CONTENT["models"]["first"]}}
    bare = steps(backbone=None, evaluator=None, synthesise=None, train=None, **only)
    assert list(bare) == ["ingest.pretrain", "pretrain.first"]
    assert [step.name for step in until(list(bare.values()), "ingest")] == ["ingest.pretrain"]
