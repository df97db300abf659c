"""A plan where weights are not here yet, so that the versions of what they make are unknown."""

import shutil
from pathlib import Path

import pytest
import yaml
from commands_store import make_artifact
from failures import fails
from tiny_run import Finished, Tiny

from tercet.flows.commands.plan import show_plan
from tercet.flows.pipeline.fingerprints import fingerprints, made_model
from tercet.flows.planning import plan
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import RunPlan, prepare
from tercet.storage.runs import end_run, resolve_run, set_tag, start_run
from tercet.storage.store import Store, open_store
from tercet.tasks.stage import BadInput


def test_what_was_never_made_is_to_run_whatever_its_weights_are(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    store = tmp_path / "store"
    arguments = RunArguments(str(tiny.recipe), str(store), ("backbone=nobody/weights",))
    planned = plan(prepare(arguments))
    assert {step.state for step in planned} == {"run"}
    assert {step.step for step in planned if step.version is None} >= {"train", "evaluate.base"}
    show_plan(arguments)
    assert f"{len(planned)} to run" in capsys.readouterr().out
    # Something of another version lies here: it may be what these weights made, or not.
    open_store(str(store)).create("artifacts/train/0123456789abcdef/plan.json", b"[]")
    states = {step.step: (step.state, step.why) for step in plan(prepare(arguments))}
    assert states["train"] == ("unknown", ("weights not fetched yet",))
    assert states["evaluate.encoder"] == ("run", ("never run here",))
    show_plan(arguments)
    assert "1 unknown" in capsys.readouterr().out


def test_after_a_run_the_times_are_those_of_its_rows(finished: Finished) -> None:
    # Sentences are read anew, so that no later step knows yet how many it will read.
    change = ("ingest.min_words=4",)
    arguments = RunArguments(str(finished.tiny.recipe), str(finished.store), change)
    planned = plan(prepare(arguments))
    run = resolve_run(open_store(str(finished.store), create=False), None)
    took = {step["step"]: float(step["seconds"]) for step in run["steps"]}
    open_steps = {step.step: step for step in planned if step.rows is None}
    assert {"sample", "parse", "select", "train", "evaluate.encoder"} <= set(open_steps)
    for name, step in open_steps.items():
        if name != "ingest":  # a source is no other's
            assert step.seconds is not None
            assert step.seconds <= took[name]


FIRST, SECOND, OTHER = (
    "pretrain.small@aaaaaaaaaaaa",
    "pretrain.small@bbbbbbbbbbbb",
    "x@cccccccccccc",
)


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
    assert {name for name in before if before[name] != after[name]} == {
        "train",
        "evaluate.base",
        "evaluate.encoder",
    }
    folder = made_model(store, "aaaaaaaaaaaa")
    assert folder is not None
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        p.name for p in tiny_backbone.iterdir()
    )


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
    ("target", "removed", "words"),
    [(None, False, "small"), (OTHER, False, OTHER), (FIRST, True, FIRST)],
)
def test_a_tag_without_a_model_is_refused(
    tmp_path: Path, store: Store, target: str | None, removed: bool, words: str
) -> None:
    if target is not None:
        set_tag(store, "small", target)
    if removed:
        shutil.rmtree(store.local(f"artifacts/{FIRST.replace('@', '/')}"))
    with pytest.raises(BadInput, match=words):
        prepare(arguments(tmp_path))


def test_without_a_store_there_are_no_tags_and_none_is_made(tmp_path: Path) -> None:
    given = arguments(tmp_path)
    with fails("missing_file"):
        prepare(given)
    assert not Path(given.store).exists()
