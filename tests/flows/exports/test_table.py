"""Tables become directories that `datasets` loads, graphs GraphML; files are written whole."""

import hashlib
from pathlib import Path

import networkx as nx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands_store import graph_store, make_artifact, make_run, names
from failures import fails

from tercet.flows.commands.export import export
from tercet.flows.exports.table import write_shards
from tercet.flows.exports.writing import whole_file
from tercet.storage.store import open_store
from tercet.tasks.stages import known_schemas

LARGE = 2**64 - 5


def test_a_table_is_loaded_by_datasets_with_its_ids_and_types(tmp_path: Path) -> None:
    from datasets import load_dataset

    store = open_store(str(tmp_path / "store"))
    schema = known_schemas()["candidates"]
    rows = [
        {"candidate_id": LARGE, "text": "x", "detail": {"old": "a", "node_id": LARGE}},
        {"candidate_id": 1, "text": "é|"},
    ]
    first = pa.Table.from_pylist([dict.fromkeys(schema.names) | row for row in rows], schema)
    make_artifact(store, "parse", "aaaa", {"candidates": first})
    make_artifact(store, "parse", "bbbb", {"candidates": first.slice(0, 1)})
    old = make_run(store, "birds", {"parse": ("bbbb", "made", {"candidates": 1})})
    make_run(store, "birds", {"parse": ("aaaa", "made", {"candidates": 2})})
    export("candidates", str(tmp_path / "new"), store.location, None)
    assert names(tmp_path / "new") == ["README.md", "data/train-00000-of-00001.parquet"]
    data = load_dataset(str(tmp_path / "new"), split="train", cache_dir=str(tmp_path / "cache"))
    assert data.to_list() == first.to_pylist()
    assert str(data.features["candidate_id"]) == "Value('uint64')"
    export("candidates", str(tmp_path / "old"), store.location, old)
    export("candidates@bbbb", str(tmp_path / "version"), store.location, None)
    for place in ("old", "version"):
        table = pq.read_table(tmp_path / place / "data" / "train-00000-of-00001.parquet")
        assert table["candidate_id"].to_pylist() == [LARGE]
        assert "`parse@bbbb`" in (tmp_path / place / "README.md").read_text()


def test_many_rows_become_several_files_with_stable_names(tmp_path: Path) -> None:
    # Digests: what cannot be compressed is written as it comes.
    values = [int(hashlib.md5(b"%d" % n).hexdigest()[:15], 16) for n in range(5000)]
    batches = [
        pa.record_batch({"n": pa.array(values[start : start + 1000], pa.int64())})
        for start in range(0, 5000, 1000)
    ]
    written = write_shards(batches[0].schema, iter(batches), tmp_path / "data", shard_bytes=12_000)
    assert (written.rows, written.memory) == (5000, 40_000)
    files = sorted((tmp_path / "data").iterdir())
    count = len(files)
    assert count > 1
    assert [f.name for f in files] == [
        f"train-{i:05d}-of-{count:05d}.parquet" for i in range(count)
    ]
    assert sum(f.stat().st_size for f in files) == written.bytes
    read = pa.concat_tables([pq.read_table(f) for f in files])
    assert read["n"].to_pylist() == values


def test_tables_of_the_store_itself_can_be_exported_and_empty_ones_not(
    store: str, tmp_path: Path
) -> None:
    export("artifacts", str(tmp_path / "artifacts"), store, None)
    assert (tmp_path / "artifacts" / "README.md").is_file()
    with fails("no_rows"):
        export("tags", str(tmp_path / "tags"), store, None)
    assert not (tmp_path / "tags").exists()


@pytest.fixture
def birds(tmp_path: Path) -> str:
    return graph_store(tmp_path / "birds")[0].location


def test_nodes_and_edges_of_a_graph_have_what_gephi_shows(birds: str, tmp_path: Path) -> None:
    for ref in ("graph", "graph@aaaa1111"):
        target = tmp_path / f"{ref}.graphml"
        export(ref, str(target), birds, None)
        graph = nx.read_graphml(target)
        assert (graph.number_of_nodes(), graph.number_of_edges()) == (6, 6)
    assert not graph.is_directed()
    heron = {"label": "heron & <egret>", "kind": "entity", "type": "animal", "count": 5}
    assert graph.nodes[str(LARGE)] == heron
    assert graph.nodes["2"]["type"] == "place"
    assert graph.edges["2", str(LARGE)] == {"kind": "soft", "weight": 2}
    assert graph.edges[str(LARGE), "20"] == {"kind": "hard", "weight": 2}
    assert not graph.has_edge("2", "10")
    with fails("exists"):
        export("graph", str(target), birds, None)


def test_what_is_no_graph(birds: str, store: str, tmp_path: Path) -> None:
    with fails("unfit_model", "ingest@aaaa1111"):
        export("ingest", str(tmp_path / "x.graphml"), store, None)
    with fails("no_effect", "--onnx"):
        export("graph", str(tmp_path / "x.graphml"), birds, None, onnx=True)
    assert not (tmp_path / "x.graphml").exists()


def test_what_stood_there_stays_until_the_new_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_bytes(b"old")

    def half() -> None:
        with whole_file(path, replaces=True) as sink:
            sink.write(b"half of the new")
            raise ValueError("half")

    with pytest.raises(ValueError, match="half"):
        half()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    with whole_file(path, replaces=True) as sink:
        sink.write(b"new")
    assert path.read_bytes() == b"new"
    for taken in (path, tmp_path):
        with fails("exists"), whole_file(taken):
            pass
    with fails("missing_file"), whole_file(tmp_path / "nowhere" / "a.html"):
        pass
    assert path.read_bytes() == b"new"
