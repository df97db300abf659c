"""What enters a step's version, and what only says where something lies."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest
from commands_store import make_artifact, make_run
from failures import fails
from pydantic import BaseModel

from tercet.flows.pipeline.fingerprints import fingerprints, kept_artifact, tagged, without
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.names import Weights
from tercet.storage.runs import set_tag
from tercet.storage.store import Store, open_store
from tercet.tasks.knowledge.graph import STAGE, GraphConfig
from tercet.tasks.stage import Stage
from tercet.tasks.stages import stages
from tercet.tasks.training import whiten


def test_a_path_leaves_out_that_key_alone_and_a_star_is_every_member_of_a_list() -> None:
    config = {"model": "a", "llm": {"model": "b", "kwargs": {"model": "c"}}, "all": [{"model": 1}]}
    assert without(config, ["llm.model", "all.*.model", "absent.key", "model.deeper"]) == {
        "model": "a",
        "llm": {"kwargs": {"model": "c"}},
        "all": [{}],
    }
    assert config["all"] == [{"model": 1}]
    assert without(config, ["model"])["llm"] == config["llm"]


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


NODES = pa.table({"node_id": pa.array([1], pa.uint64())})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A graph, one in another artifact that keeps it, an unfinished one, and a run of the first."""
    store = open_store(str(tmp_path / "store"))
    make_artifact(store, "graph", "aaaa1111", {"kg_nodes": NODES})
    keeps = {"components": {"config": {"keep": "aaaa1111"}}}
    make_artifact(store, "graph", "bbbb2222", {"kg_nodes": NODES}, keeps)
    make_artifact(store, "graph", "cccc3333", {"kg_nodes": NODES}, finished=False)
    make_artifact(store, "sample", "dddd4444", {"anchors": NODES})
    set_tag(store, "base", make_run(store, "birds", {"graph": ("aaaa1111", "made", {})}))
    set_tag(store, "bare", make_run(store, "bees", {"sample": ("dddd4444", "made", {})}))
    set_tag(store, "keeper", "graph@bbbb2222")
    set_tag(store, "anchors", "sample@dddd4444")
    return store


@pytest.mark.parametrize("ref", ["tag:base", "tag:keeper", "graph@aaaa1111", "graph@bbbb"])
def test_a_tag_of_a_run_or_a_version_leads_to_what_was_made(store: Store, ref: str) -> None:
    assert kept_artifact(store, "graph", ref).version == "aaaa1111"


def test_a_version_that_only_read_what_it_kept_is_itself_what_is_kept(store: Store) -> None:
    config = {"config": {"min_words": 4, "keep": "1111"}}
    make_artifact(store, "ingest", "2222", {"documents": NODES}, {"components": config})
    assert kept_artifact(store, "ingest", "ingest@2222").version == "2222"


@pytest.mark.parametrize("ref", ["tag:none", "graph@ffff", "tag:anchors", "tag:bare", "graph@cccc"])
def test_what_cannot_be_kept_is_said(store: Store, ref: str) -> None:
    with fails("unknown_name", "graph.keep: ", ref.removeprefix("tag:")):
        kept_artifact(store, "graph", ref)


def test_a_graph_that_lost_its_file_cannot_be_kept(store: Store) -> None:
    for file in (Path(store.location) / "artifacts/graph/aaaa1111/data").rglob("*.parquet"):
        file.unlink()
    with fails("unknown_name", "graph.keep"):
        kept_artifact(store, "graph", "tag:base")


def test_the_tags_of_kept_versions_are_noted_with_the_run(store: Store) -> None:
    step = Step("graph", STAGE, GraphConfig(), keep="tag:keeper")
    assert tagged([step], store) == {"keeper": "graph@bbbb2222"}
    # Nor can a collection know of a version without a tag but from the runs that name it.
    pinned = Step("graph", STAGE, GraphConfig(), keep="graph@bbbb")
    assert tagged([pinned], store) == {"graph@bbbb": "graph@bbbb2222"}
