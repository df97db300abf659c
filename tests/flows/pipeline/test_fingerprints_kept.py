"""A version that a recipe keeps: how it is named, and what is said if it is not there."""

from pathlib import Path

import pyarrow as pa
import pytest
from commands_store import make_artifact, make_run
from failures import fails

from tercet.flows.pipeline.fingerprints import kept_artifact, tagged
from tercet.flows.pipeline.step import Step
from tercet.storage.runs import set_tag
from tercet.storage.store import Store, open_store
from tercet.tasks.knowledge.graph import STAGE, GraphConfig
from tercet.tasks.stage import BadInput

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


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("tag:none", "graph.keep: .*'none'"),
        ("graph@ffff", "graph.keep: .*'graph@ffff'"),
        ("tag:anchors", "graph.keep: tag:anchors"),
        ("tag:bare", "graph.keep: tag:bare"),
        ("graph@cccc", "graph.keep: graph@cccc"),
    ],
)
def test_what_cannot_be_kept_is_said(store: Store, ref: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
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
