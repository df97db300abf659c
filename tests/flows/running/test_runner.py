"""What can only be checked when a run opens, as its models are fetched then."""

import re
import shutil
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import yaml
from commands_store import make_artifact
from failures import fails
from safetensors.numpy import load_file, save_file

from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.names import Made
from tercet.flows.results.queries import connect, read_warnings
from tercet.flows.running import runner
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.processes import Ended
from tercet.flows.running.run_plan import prepare
from tercet.flows.running.runner import (
    Listener,
    Make,
    StepResult,
    chains,
    open_run,
    reordered,
    run_steps,
)
from tercet.storage import locks, runs
from tercet.storage.runs import list_runs
from tercet.storage.store import open_store
from tercet.tasks.corpus.ingest import CORPUS_OUTCOMES
from tercet.tasks.corpus.sources.corpora import IngestConfig
from tercet.tasks.knowledge.graph import GraphConfig
from tercet.tasks.stage import BadInput, Config, Stage


def test_a_head_that_training_loses_is_found_once_the_model_is_fetched(
    tmp_path: Path, tiny_backbone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = shutil.copytree(tiny_backbone, tmp_path / "hub")
    tensors = load_file(hub / "model.safetensors")
    save_file({"lm_head.dense.weight": tensors["pooler.dense.weight"]}, hub / "model.safetensors")
    fetched: list[str] = []

    def download(name: str, local_files_only: bool = False, **_: Any) -> str:
        if local_files_only and not fetched:
            raise FileNotFoundError(name)
        fetched.append(name)
        return str(hub)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("The old file is open.\n")
    (tmp_path / "terms.tsv").write_text("members\tdefinition\nfile\ta list of rows\n")
    terms = {"name": "terms", "source": "terms.tsv", "role": "labelled", "kind": "definitions"}
    part = {"rows": "terms", "loss": "definition", "models": {"entry_matrix": "base"}}
    second = {"name": "second", "backbone": "previous", **part}
    recipe = {
        "name": "heads",
        "backbone": "somebody/roberta",
        "corpora": [{"name": "field", "source": "text.txt"}, terms],
        "train": {"phases": [{"name": "first", **part}, second]},
    }
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    store = str(tmp_path / "store")
    plan = prepare(RunArguments(recipe=str(tmp_path / "recipe.yaml"), store=store))
    with fails("unfit_model", "lm_head.dense"), open_run(plan):
        raise AssertionError("the run has begun")
    assert list_runs(open_store(store)) == []


@pytest.fixture
def arguments(tmp_path: Path) -> RunArguments:
    """Those of a run that ends when its text is read."""
    (tmp_path / "text.txt").write_text("The old file is open.\n")
    recipe = {
        "name": "waits",
        "backbone": "nobody/nothing",
        "corpora": [{"name": "field", "source": str(tmp_path / "text.txt")}],
        "train": {"phases": [{"rows": "anchors", "loss": "info_nce"}]},
    }
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    return RunArguments(str(tmp_path / "recipe.yaml"), str(tmp_path / "store"), until="ingest")


def test_a_key_without_effect_is_a_warning_of_the_run_whatever_it_reuses(
    arguments: RunArguments,
) -> None:
    for overrides in ((), ("select.rank_max=3",)):
        plan = prepare(replace(arguments, overrides=overrides))
        with open_run(plan) as handle:
            run_steps(handle)
    with closing(connect(open_store(arguments.store), handle.run_id)) as connection:
        rows = read_warnings(connection)
    notes = [row for row in rows if row["step"] == "recipe"]
    assert [(row["kind"], row["key"]) for row in notes] == [("no_effect", "select.rank_max")]


def test_a_run_says_that_it_waits_for_a_collection(arguments: RunArguments) -> None:
    store = open_store(arguments.store)
    lines: list[str] = []
    with ExitStack() as collection:
        collection.enter_context(locks.hold(store, runs.COLLECTION, who="tercet gc"))

        def say(text: str) -> None:
            lines.append(text)
            collection.close()

        with open_run(prepare(arguments), say):
            pass
    (line,) = lines
    assert "tercet gc" in line


@pytest.mark.parametrize(
    ("error", "reason"),
    [(MemoryError(), "MemoryError: "), (BadInput("bad_value", "No text."), "No text.")],
)
def test_a_run_that_failed_says_why(arguments: RunArguments, error: Exception, reason: str) -> None:
    with pytest.raises(type(error)), open_run(prepare(arguments)):
        raise error
    assert list_runs(open_store(arguments.store))[0]["end_info"] == {"error": reason}


def test_a_seed_that_fails_apart_is_made_here_when_it_is_wanted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Prefect does that retries a task; what another process tells of others is kept."""
    steps: Any = [SimpleNamespace(name=name, needs=()) for name in ("train", "train.seed8")]
    heard: list[Any] = []
    events = [
        (1, "a line"),
        (0, ("train", 1, 2, "steps")),
        (1, StepResult("train.seed8", "v", "made", 0.0, {})),
        (0, Ended(error=BadInput("bad_value", "the rows are bad: mend them."))),
    ]
    settings = SimpleNamespace(workers=2, device="cpu")
    recipe = SimpleNamespace(seed=7, seeds=2, run=settings)
    handle: Any = SimpleNamespace(plan=SimpleNamespace(recipe=recipe), run_id="r", fingerprints={})
    handle.say, handle.executor = heard.append, SimpleNamespace(close=lambda: None)
    monkeypatch.setattr(runner, "run_jobs", lambda *given: (event for event in events))
    monkeypatch.setattr(runner.SeedsAtOnce, "_is_made", lambda self, step: False)
    monkeypatch.setattr(runner, "run_step", lambda handle, step, progress: f"{step.name} here")
    seeds: Any = runner.SeedsAtOnce(handle, steps)
    with fails("bad_value"):
        seeds.make(steps[0], lambda *numbers: heard.append(numbers))
    assert heard == ["a line", (1, 2, "steps")]
    assert seeds.make(steps[0], print) == "train here"
    assert seeds.make(steps[1], print).step == "train.seed8"
    seeds.close()


def test_listeners_stand_around_each_step_and_all_see_its_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[str] = []

    def run_step(handle: Any, step: Any, progress: Any) -> StepResult:
        progress(1, 2, "rows")
        return StepResult(step.name, "v", "made", 0.0, {})

    def listener(name: str) -> Listener:
        def follow(step: Any, make: Make) -> StepResult:
            heard.append(f"{name} {step.name}")
            result = make(lambda done, total, unit: heard.append(f"{name} {unit}"))
            heard.append(f"{name} {result.state}")
            return result

        return follow

    monkeypatch.setattr(runner, "run_step", run_step)
    steps = tuple(SimpleNamespace(name=name) for name in ("one", "two"))
    recipe = SimpleNamespace(seeds=1, run=SimpleNamespace(workers=1))
    handle: Any = SimpleNamespace(plan=SimpleNamespace(steps=steps, recipe=recipe))
    run_steps(handle, [listener("near"), listener("far")])
    one = ["far one", "near one", "near rows", "far rows", "near made", "far made"]
    assert heard == one + [line.replace("one", "two") for line in one]
    heard.clear()
    run_steps(handle, [listener("only")], steps[1:])
    assert heard == ["only two", "only rows", "only made"]


STAGE = Stage("toy", Config, {}, lambda work: None)


def step(name: str, *needs: str, model: str | None = None) -> Step:
    models = {} if model is None else {"encoder": Made(model)}
    return Step(name, STAGE, Config(), {"rows": needs} if needs else {}, models)


RUN = [
    step("ingest"),
    step("train", "ingest"),
    step("evaluate.encoder", "ingest", model="train"),
    # Of a later phase, and built with what was there before: it serves all seeds.
    step("entry_matrix.b", "ingest"),
    step("train.b", "entry_matrix.b", model="train"),
    step("train.seed8", "ingest"),
    step("evaluate.encoder.seed8", "ingest", model="train.seed8"),
    step("train.b.seed8", "entry_matrix.b", model="train.seed8"),
    step("compare", "evaluate.encoder", "evaluate.encoder.seed8"),
]


def names(steps: list[Step]) -> list[str]:
    return [one.name for one in steps]


def test_each_seed_has_its_steps_and_shared_ones_come_before() -> None:
    found = chains(RUN, range(7, 9))
    first = ["train", "evaluate.encoder", "train.b"]
    second = [f"{name}.seed8" for name in first]
    assert [names(chain) for chain in found] == [first, second]
    shared = ["ingest", "entry_matrix.b"]
    assert names(reordered(RUN, found)) == [*shared, *first, *second, "compare"]


def test_one_seed_or_seeds_that_read_each_other_are_made_in_order() -> None:
    assert chains(RUN[:5], range(7, 8)) == []
    assert reordered(RUN, []) == RUN
    both = [*RUN[:5], step("train.seed8", "ingest", model="train")]
    assert chains(both, range(7, 9)) == []


def test_columns_and_dialects_are_told_once_for_all_files(tmp_path: Path) -> None:
    lines = [f"Heron {number} stands in the water." for number in range(20)]
    for name, mark in (("a.csv", "|"), ("b.csv", ","), ("c.csv", ",")):
        rows = [f"{number}{mark}{line}" for number, line in enumerate(lines)]
        (tmp_path / name).write_text("\n".join([f"id{mark}Remark", *rows]))
    (tmp_path / "plain.txt").write_text("\n".join(lines))
    plain = {"name": "p", "source": str(tmp_path / "plain.txt")}
    corpora = [{"name": "c", "source": str(tmp_path)}, plain]
    config = IngestConfig.model_validate({"corpora": corpora})
    ingest: Any = SimpleNamespace(name="ingest", config=config)
    (guess,) = runner.guesses_of_tables(ingest)
    assert [part for part in ("'c'", "'Remark'", "'|'") if part not in guess] == []
    assert not runner.guesses_of_tables(SimpleNamespace(name="sample", config=GraphConfig()))


@pytest.mark.parametrize("source", ["package:tercet.recipes/plain_english.txt", "p.txt"])
def test_documents_that_come_with_tercet_are_counted_apart(tmp_path: Path, source: str) -> None:
    counts = [
        ("docs", "document", "train", 500),
        ("docs", "document", "large_cluster", 84),
        ("docs", "document", "nothing_kept", 7),
        ("docs", "sentence", "train", 9000),
        ("docs", "parted", "train", 584),
        ("plain", "document", "train", 1000),
        ("plain", "document", "test", 496),
    ]
    columns = [list(column) for column in zip(*counts, strict=True)]
    table = pa.table(columns, schema=CORPUS_OUTCOMES)
    store = open_store(str(tmp_path / "store"))
    artifact = make_artifact(store, "ingest", "aaaa", {"corpus_outcomes": table})
    corpora = [{"name": "docs", "source": "docs"}, {"name": "plain", "source": source}]
    config = IngestConfig.model_validate({"corpora": corpora})
    ingest: Any = SimpleNamespace(name="ingest", config=config)
    numbers = [re.findall(r"[\d,]+\d", line) for line in runner.own_documents(ingest, artifact)]
    assert numbers == ([["584", "1,496"]] if source.startswith("package:") else [])
    pretrain = make_artifact(store, "ingest.pretrain", "bbbb", {})
    assert runner.own_documents(ingest, pretrain) == ()
