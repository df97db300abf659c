"""What can only be checked when a run opens, as its models are fetched then."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.numpy import load_file, save_file

from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.flows.running.runner import open_run
from tercet.storage.runs import list_runs
from tercet.storage.store import open_store
from tercet.tasks.stage import BadInput


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
    with pytest.raises(BadInput, match=r"lm_head\.dense of the original"), open_run(plan):
        raise AssertionError("the run has begun")
    assert list_runs(open_store(store)) == []
    with pytest.raises(BadInput, match=r"lm_head\.dense of the original"):
        prepare(plan.arguments)
