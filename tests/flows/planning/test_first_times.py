"""A plan on a store that does not exist yet says what to expect, and from where it knows."""

from pathlib import Path

import pytest
from tiny_run import Tiny

from tercet.flows.commands.plan import show_plan
from tercet.flows.planning.plan import PlannedStep, plan
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare


def planned(recipe: str, folder: Path, *changes: str) -> dict[str, PlannedStep]:
    arguments = RunArguments(recipe, str(folder / "store"), changes)
    found = {step.step: step for step in plan(prepare(arguments))}
    assert not (folder / "store").exists()
    return found


def test_the_quickstart_takes_minutes_and_so_it_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = planned("quickstart", tmp_path)
    assert all(step.elsewhere for step in steps.values())
    assert 180 < sum(step.seconds or 0.0 for step in steps.values()) < 360
    show_plan(RunArguments("quickstart", str(tmp_path / "store")))
    lines = capsys.readouterr().out.splitlines()
    assert not [line for line in lines if line.startswith("train ") and "about" in line]
    assert f"{len(steps)} steps: {len(steps)} to run; about 4:" in lines[-1]
    assert "(from rates measured on another machine, " in lines[-1]


def test_times_follow_the_anchors_the_steps_and_the_weights(tiny: Tiny, tmp_path: Path) -> None:
    recipe = str(tiny.recipe)
    few = planned(recipe, tmp_path, "sample.rows=1000", "train.phases.0.max_steps=null")
    many = planned(recipe, tmp_path, "sample.rows=4000", "train.phases.0.max_steps=null")
    for name in ("ingest", "embed", "train"):
        assert many[name].seconds == pytest.approx(4 * (few[name].seconds or 0.0)), name
    steps = planned(recipe, tmp_path, "train.phases.0.max_steps=10")["train"].seconds
    assert planned(recipe, tmp_path, "train.phases.0.max_steps=30")["train"].seconds == (
        pytest.approx(3 * (steps or 0.0))
    )
    # Its weights are a few kilobytes.
    assert 0 < (few["evaluate.encoder"].seconds or 0.0) < 1


def test_passages_are_encoded_in_proportion_to_the_files(tiny: Tiny, tmp_path: Path) -> None:
    files, name = [tmp_path / "short.txt", tmp_path / "long.txt"], "passage_vectors.encoder"
    for path, times in zip(files, (1, 3), strict=True):
        path.write_text("A sentence about something.\n" * 1_000 * times)
    named = [f"corpora=[{{name: c, source: {path}}}]" for path in files]
    rows = ("ingest.passages={}", "train.choose=null", 'train.phases.0.rows="anchors"')
    rows = (*rows, 'train.phases.0.loss="info_nce"')
    short, long = (planned(str(tiny.recipe), tmp_path, one, *rows)[name] for one in named)
    assert short.elsewhere
    assert long.seconds == pytest.approx(3 * (short.seconds or 0.0))


def test_what_the_recipe_does_not_say_is_unknown(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    steps = planned(str(tiny.recipe), tmp_path, "backbone=nobody/weights", "sample.rows=null")
    for name in ("ingest", "embed", "train", "evaluate.base"):
        assert (steps[name].seconds, steps[name].elsewhere) == (None, False), name


def test_the_endpoint_recipes_ceiling_is_above_what_its_anchors_take(tmp_path: Path) -> None:
    recipe = prepare(RunArguments("gcse_endpoint", str(tmp_path / "store"))).recipe
    # What a sentence of 20 tokens took with MiniLM's tokenizer, chat template and answers
    # included: 1,500 tokens for extraction and seven methods.
    assert recipe.run.llm.max_tokens_total is not None
    assert recipe.run.llm.max_tokens_total > 1.4 * 1_500 * (recipe.sample.rows or 0)
