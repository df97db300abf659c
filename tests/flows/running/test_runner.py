"""What can only be checked when a run opens, as its models are fetched then."""

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands_store import make_artifact
from safetensors.numpy import load_file, save_file

from tercet.flows.pipeline.fingerprints import Fingerprint
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.resolved import Made
from tercet.flows.running import runner
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.flows.running.runner import (
    chains,
    open_run,
    reordered,
)
from tercet.storage import locks, runs
from tercet.storage.runs import list_runs
from tercet.storage.store import open_store
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
    with pytest.raises(BadInput, match=r"lm_head\.dense"), open_run(plan):
        raise AssertionError("the run has begun")
    assert list_runs(open_store(store)) == []
    with pytest.raises(BadInput, match=r"lm_head\.dense"):
        prepare(plan.arguments)


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


def test_a_run_says_that_it_waits_for_a_collection(arguments: RunArguments) -> None:
    store = open_store(arguments.store)
    said: list[str] = []
    with ExitStack() as collection:
        collection.enter_context(locks.hold(store, runs.COLLECTION, who="tercet gc"))

        def say(text: str) -> None:
            said.append(text)
            collection.close()

        with open_run(prepare(arguments), say):
            pass
    (line,) = said
    assert "tercet gc" in line


@pytest.mark.parametrize(
    ("error", "said"), [(MemoryError(), "MemoryError: "), (BadInput("No text."), "No text.")]
)
def test_a_run_that_failed_says_why(arguments: RunArguments, error: Exception, said: str) -> None:
    with pytest.raises(type(error)), open_run(prepare(arguments)):
        raise error
    assert list_runs(open_store(arguments.store))[0]["end_info"] == {"error": said}


def test_a_version_that_was_deleted_before_the_run_began_is_not_kept(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    prints = {"ingest": Fingerprint("1111", {"config": {"keep": "2222"}})}
    with pytest.raises(BadInput, match="ingest@2222"):
        runner._kept(store, prints)
    make_artifact(store, "ingest", "2222", {})
    assert runner._kept(store, prints) == ["ingest@2222"]


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


def test_one_seed_has_no_chain_and_keeps_its_order() -> None:
    assert chains(RUN[:5], range(7, 8)) == []
    assert reordered(RUN, []) == RUN


def test_seeds_that_read_each_other_are_made_in_order() -> None:
    both = [*RUN[:5], step("train.seed8", "ingest", model="train")]
    assert chains(both, range(7, 9)) == []
