"""The recipes and arms of the benchmarks say nothing that a recipe no longer understands."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.recipe import file
from tercet.flows.studies.arms import arms_of

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_arms(recipe: str, arms: Path, *common: str) -> None:
    for arm in arms_of(recipe, [], str(arms), common):
        assert compile_steps(file.load(arm.recipe, arm.overrides)), arm.name


def test_arms_of_the_quickstart() -> None:
    arms = BENCHMARKS / "arms_pydocs.yaml"
    check_arms("quickstart", arms, "seeds=5")
    by_role = str(BENCHMARKS / "by_role.yaml")
    check_arms(by_role, BENCHMARKS / "arms_by_role.yaml", "train.phases.0.rows.max_rows=1280")
    check_arms("quickstart", BENCHMARKS / "arms_rules.yaml", "train.phases.0.max_steps=65")


def test_arms_of_definitions() -> None:
    check_arms("defsent_plus_cpu", BENCHMARKS / "arms_definitions.yaml", "seeds=4")


def test_arms_of_what_is_drawn() -> None:
    check_arms("generate_cse_cpu", BENCHMARKS / "arms_drawn.yaml", "seeds=6", "backbone=x/y")


def test_the_generators() -> None:
    recipe = file.load(str(BENCHMARKS / "generators_sick.yaml"))
    assert set(recipe.generators) >= {"vaegpt", "gpt2", "t5"}


def test_the_discriminators() -> None:
    steps = compile_steps(file.load(str(BENCHMARKS / "gense_nli.yaml")))
    assert {step.name for step in steps} >= {"fit_generator.writer", "fit_pair.judge"}


def test_the_second_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = script("second_field")
    recipe, arms = tmp_path / "recipe.yaml", tmp_path / "arms.yaml"
    recipe.write_text(module.RECIPE)
    arms.write_text(module.ARMS)
    check_arms(str(recipe), arms)


def test_the_learned_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = script("learned_llm")
    path = module.write_recipe(tmp_path / "base.yaml", tmp_path / "c.txt", tmp_path / "m", "python")
    assert compile_steps(file.load(str(path)))
