"""A tag stands for the version behind it; a plan names a tag that has moved."""

import shutil
from pathlib import Path

import pytest
import yaml
from commands_store import make_artifact

from tercet.flows.commands.plan import show_plan
from tercet.flows.pipeline.fingerprints import fingerprints, made_model, tagged_model
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import RunPlan, prepare
from tercet.storage.runs import end_run, start_run
from tercet.storage.store import Store, open_store
from tercet.storage.tags import set_tag
from tercet.tasks.stage import BadInput

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
    said = f"tag:small has moved since the last run: {FIRST} → {SECOND}."
    assert said in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (None, "This store has no tags. Make the model first, and name it: tercet tag STEP@"),
        (OTHER, f"The tag 'small' names {OTHER}, which is not a model: tag the step that made"),
    ],
)
def test_a_tag_without_a_model_is_refused(tmp_path: Path, store: Store, target, words) -> None:
    if target is not None:
        set_tag(store, "small", target)
    with pytest.raises(BadInput, match=words):
        prepare(arguments(tmp_path))


def test_a_tag_of_a_removed_model_says_so(tmp_path: Path, store: Store) -> None:
    set_tag(store, "small", FIRST)
    with pytest.raises(BadInput, match="There is no tag 'other' in this store, only: small"):
        tagged_model(store, "other")
    shutil.rmtree(store.local(f"artifacts/{FIRST.replace('@', '/')}"))
    with pytest.raises(BadInput, match=f"The tag 'small' names {FIRST}, which was removed"):
        prepare(arguments(tmp_path))


def test_without_a_store_there_are_no_tags_and_none_is_made(tmp_path: Path) -> None:
    given = arguments(tmp_path)
    with pytest.raises(BadInput, match="The recipe takes tag:small from the store"):
        prepare(given)
    assert not Path(given.store).exists()
