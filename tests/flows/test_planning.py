"""What a plan knows of a run: versions whose weights are not here yet, tags, and times."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from commands_store import make_artifact
from failures import fails
from tiny_run import Finished, Tiny

from tercet.errors import ErrorKind
from tercet.flows.commands.plan import show_plan
from tercet.flows.pipeline.fingerprints import fingerprints, made_model
from tercet.flows.pipeline.step import Step
from tercet.flows.planning import PlannedStep, earlier_seconds, existing_store, plan
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import RunPlan, prepare
from tercet.storage.artifacts import open_artifact
from tercet.storage.part_writer import PartWriter
from tercet.storage.runs import end_run, resolve_run, set_tag, start_run
from tercet.storage.store import Store, open_store
from tercet.tasks.stage import Config, EachPart, Stage, Work


def planned_by(arguments: RunArguments) -> list[PlannedStep]:
    return plan(prepare(arguments), existing_store(arguments.store))


def test_what_was_never_made_is_to_run_whatever_its_weights_are(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    store = tmp_path / "store"
    arguments = RunArguments(str(tiny.recipe), str(store), ("backbone=nobody/weights",))
    planned = planned_by(arguments)
    assert {step.state for step in planned} == {"run"}
    assert {step.step for step in planned if step.version is None} >= {"train", "evaluate.base"}
    show_plan(arguments)
    assert f"{len(planned)} to run" in capsys.readouterr().out
    # Something of another version lies here: it may be what these weights made, or not.
    open_store(str(store)).create("artifacts/train/0123456789abcdef/plan.json", b"[]")
    states = {step.step: (step.state, step.why) for step in planned_by(arguments)}
    assert states["train"] == ("unknown", ("weights not fetched yet",))
    assert states["evaluate.encoder"] == ("run", ("never run here",))
    show_plan(arguments)
    assert "1 unknown" in capsys.readouterr().out


def test_after_a_run_the_times_are_those_of_its_rows(finished: Finished) -> None:
    # Sentences are read anew, so that no later step knows yet how many it will read.
    change = ("ingest.min_words=4",)
    arguments = RunArguments(str(finished.tiny.recipe), str(finished.store), change)
    planned = planned_by(arguments)
    run = resolve_run(open_store(str(finished.store), create=False), None)
    took = {step["step"]: float(step["seconds"]) for step in run["steps"]}
    open_steps = {step.step: step for step in planned if step.rows is None}
    assert {"sample", "parse", "select", "train", "evaluate.encoder"} <= set(open_steps)
    for name, step in open_steps.items():
        if name != "ingest":  # a source is no other's
            assert step.seconds is not None
            assert step.seconds <= took[name]


FIRST, SECOND = "pretrain.small@aaaaaaaaaaaa", "pretrain.small@bbbbbbbbbbbb"
OTHER = "x@cccccccccccc"


@pytest.fixture
def store(tmp_path: Path, tiny_backbone: Path) -> Store:
    store = open_store(str(tmp_path / "store"))
    for target in (FIRST, SECOND):
        make_artifact(store, *target.split("@"), {}, model=tiny_backbone)
    make_artifact(store, *OTHER.split("@"), {})
    return store


def arguments(tmp_path: Path) -> RunArguments:
    (tmp_path / "texts.txt").write_text("A text of five words.\n", encoding="utf-8")
    content = {
        "name": "borrower",
        "backbone": "borrowed",
        "models": {"borrowed": "tag:small"},
        "corpora": [{"name": "texts", "source": str(tmp_path / "texts.txt")}],
        "train": {"phases": [{"name": "only", "rows": "anchors", "loss": "info_nce"}]},
    }
    path = tmp_path / "borrower.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return RunArguments(str(path), str(tmp_path / "store"))


def versions(plan: RunPlan, store: Store) -> dict[str, str | None]:
    found = fingerprints(plan.steps, 42, store)
    return {name: one.version for name, one in found.items()}


def test_the_version_behind_the_tag_counts_and_its_name_does_not(
    tmp_path: Path, store: Store, tiny_backbone: Path
) -> None:
    given = arguments(tmp_path)
    set_tag(store, "small", FIRST)
    before = versions(prepare(given), store)
    set_tag(store, "other_name", FIRST)
    text = Path(given.recipe).read_text(encoding="utf-8")
    Path(given.recipe).write_text(text.replace("tag:small", "tag:other_name"), encoding="utf-8")
    assert versions(prepare(given), store) == before
    set_tag(store, "other_name", SECOND)
    after = versions(prepare(given), store)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"train", "evaluate.base", "evaluate.encoder"}
    folder = made_model(store, "aaaaaaaaaaaa")
    assert folder is not None
    assert {file.name for file in folder.iterdir()} == {f.name for f in tiny_backbone.iterdir()}


def test_a_plan_names_a_tag_that_has_moved(
    tmp_path: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    given = arguments(tmp_path)
    set_tag(store, "small", FIRST)
    run = start_run(store, "borrower", {}, {"tags": {"small": FIRST}})
    end_run(store, run, "done", {})
    show_plan(given)
    assert "moved" not in capsys.readouterr().out
    set_tag(store, "small", SECOND)
    show_plan(given)
    assert f"{FIRST} → {SECOND}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("target", "removed", "kind", "name"),
    [
        (None, False, "unknown_name", "small"),
        (OTHER, False, "unfit_model", OTHER),
        (FIRST, True, "unfit_model", FIRST),
    ],
)
def test_a_tag_without_a_model_is_refused(
    tmp_path: Path, store: Store, target: str | None, removed: bool, kind: ErrorKind, name: str
) -> None:
    if target is not None:
        set_tag(store, "small", target)
    if removed:
        shutil.rmtree(store.local(f"artifacts/{FIRST.replace('@', '/')}"))
    with fails(kind, name):
        prepare(arguments(tmp_path))


def test_without_a_store_there_are_no_tags_and_none_is_made(tmp_path: Path) -> None:
    given = arguments(tmp_path)
    with fails("missing_file"):
        prepare(given)
    assert not Path(given.store).exists()


ROWS = pa.schema([("n", pa.int64())])


def nothing(work: Work) -> None:
    """No stage of this test runs."""


SOURCE = Step("source", Stage("source", Config, {"rows": ROWS}, nothing), Config())
MAPPED = Step(
    "mapped",
    Stage("mapped", Config, {"out": ROWS}, nothing, cut=EachPart("rows")),
    Config(),
    {"rows": ("source",)},
)
FITTED = Step("fitted", Stage("fitted", Config, {}, nothing, model=True), Config(), MAPPED.inputs)


def make(
    store: Store, step: Step, version: str, rows: int, seconds: float, **components: Any
) -> None:
    artifact = open_artifact(store, step.name, version)
    artifact.adopt_plan([{"spec": {}}])
    with PartWriter(artifact.scratch() / "staging", {"rows": ROWS}, 1000) as writer:
        writer.emit("rows", pa.table({"n": range(rows)}, schema=ROWS))
        artifact.commit(0, writer.close(), f"{step.name}-{version}", {})
    artifact.finish({"components": components, "seconds": seconds, "at_once": True})


def took(store: Store, step: Step, rows: int | None, **components: Any) -> float | None:
    return earlier_seconds(store, step, components, rows)


def test_the_largest_earlier_artifact_gives_the_time_a_row(store: Store) -> None:
    assert took(store, MAPPED, 100) is None
    for version, rows, seconds in (("a", 10, 50.0), ("b", 200, 20.0), ("c", 50, 40.0)):
        make(store, SOURCE, version, rows, 1.0)
        make(store, MAPPED, version, rows, seconds, inputs={"rows": [version]})
    assert took(store, MAPPED, 100) == pytest.approx(10.0)
    # Rows that are not known yet are taken to be those of the last artifact.
    assert took(store, MAPPED, None) == pytest.approx(5.0)


def test_a_source_takes_as_long_as_the_same_source_did(store: Store) -> None:
    make(store, SOURCE, "a", 10, 7.0, externals={"corpus": "x"}, inputs={})
    assert took(store, SOURCE, None, externals={"corpus": "x"}) == 7.0
    assert took(store, SOURCE, None, externals={"corpus": "y"}) is None


def test_a_training_counts_only_for_the_same_configuration(store: Store) -> None:
    make(store, SOURCE, "a", 10, 1.0)
    make(store, FITTED, "a", 0, 30.0, config={"epochs": 1}, inputs={"rows": ["a"]})
    assert took(store, FITTED, 20, config={"epochs": 1, "model_seed": 8}) == pytest.approx(60.0)
    assert took(store, FITTED, 20, config={"epochs": 2}) is None


def test_what_was_taken_over_or_resumed_counts_for_nothing(store: Store) -> None:
    make(store, SOURCE, "a", 10, 1.0)
    make(store, MAPPED, "a", 10, 5.0, inputs={"rows": ["a"]})
    record = open_artifact(store, "mapped", "a").record(0)
    assert record is not None
    make(store, SOURCE, "b", 1000, 1.0)
    reused = open_artifact(store, "mapped", "b")
    reused.adopt_plan([{"spec": {}}])
    reused.reference(0, record, {})
    manifest = {"components": {"inputs": {"rows": ["b"]}}, "seconds": 0.1, "at_once": False}
    reused.finish(manifest)
    assert took(store, MAPPED, 10) == pytest.approx(5.0)
