"""What enters a step's version, and what only says where something lies."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from tercet.flows.pipeline.fingerprints import fingerprints, without
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.resolved import Weights
from tercet.storage.store import open_store
from tercet.tasks.stage import Stage
from tercet.tasks.stages import stages
from tercet.tasks.training import whiten


def test_a_nested_key_of_the_same_name_stays() -> None:
    config = {"model": "a", "llm": {"model": "b", "kwargs": {"model": "c"}}, "all": [{"model": 1}]}
    assert without(config, ["llm.model"]) == {
        "model": "a",
        "llm": {"kwargs": {"model": "c"}},
        "all": [{"model": 1}],
    }
    assert without(config, ["model"])["llm"] == config["llm"]


def test_a_star_is_every_member_of_a_list() -> None:
    config = {"corpora": [{"source": "a", "name": "x"}, {"source": "b"}], "source": "kept"}
    found = without(config, ["corpora.*.source", "absent.key", "source.deeper"])
    assert found == {"corpora": [{"name": "x"}, {}], "source": "kept"}
    assert config["corpora"][0] == {"source": "a", "name": "x"}


@pytest.mark.parametrize("stage", stages(), ids=lambda stage: f"{stage.name}-{stage.method}")
def test_every_location_is_a_key_of_its_stage(stage: Stage) -> None:
    """A path that leads nowhere would leave a location in the version unseen."""
    for path in stage.locations:
        # The parameters of a method are a model of its own, checked when the recipe is read.
        if not path.startswith("params."):
            assert leads_somewhere(stage.config, path.split(".")), path


def leads_somewhere(kind: Any, path: list[str]) -> bool:
    if not path:
        return True
    if path[0] == "*":
        return any(leads_somewhere(member, path[1:]) for member in get_args(kind))
    return any(
        leads_somewhere(model.model_fields[path[0]].annotation, path[1:])
        for model in models_in(kind)
        if path[0] in model.model_fields
    )


def models_in(kind: Any) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for member in get_args(kind):
        yield from models_in(member)


def test_a_models_version_is_that_of_the_files_that_are_fetched(
    tiny_backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other programs put further files of the same model into the hub's cache."""
    import huggingface_hub

    folder = Path(shutil.copytree(tiny_backbone, tmp_path / "model"))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *name, **options: str(folder))
    store = open_store(str(tmp_path / "store"))

    def version(model: str) -> str:
        config = whiten.WhitenConfig()
        step = Step("whiten", whiten.STAGE, config, {}, {"encoder": Weights(model)})
        return str(fingerprints([step], 1, store)["whiten"].components["models"]["encoder"])

    before = version("owner/name")
    assert before == version(str(folder))
    for other in ("README.md", "pytorch_model.bin", "onnx/model.onnx"):
        (folder / other).parent.mkdir(exist_ok=True)
        (folder / other).write_text("another")
    assert version("owner/name") == before
    # Of a directory the user's own, everything counts.
    assert version(str(folder)) != before
    config = folder / "config.json"
    config.write_text(config.read_text() + " ")
    assert version("owner/name") != before
