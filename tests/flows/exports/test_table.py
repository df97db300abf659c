"""Tables become directories that `datasets` loads."""

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands_store import make_artifact, make_run, names
from failures import fails

from tercet.flows.commands.export import export
from tercet.flows.exports.table import write_shards
from tercet.storage.store import open_store
from tercet.tasks.stages import known_schemas

LARGE = 2**64 - 5


def test_a_table_is_loaded_by_datasets_with_its_ids_and_types(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    assert "2 rows of candidates" in capsys.readouterr().out
    assert names(tmp_path / "new") == ["README.md", "data/train-00000-of-00001.parquet"]
    data = load_dataset(str(tmp_path / "new"), split="train", cache_dir=str(tmp_path / "cache"))
    assert data.to_list() == first.to_pylist()
    assert str(data.features["candidate_id"]) == "Value('uint64')"
    export("candidates", str(tmp_path / "old"), store.location, old)
    export("candidates@bbbb", str(tmp_path / "version"), store.location, None)
    for place in ("old", "version"):
        found = pq.read_table(tmp_path / place / "data" / "train-00000-of-00001.parquet")
        assert found["candidate_id"].to_pylist() == [LARGE]
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
    found = sorted((tmp_path / "data").iterdir())
    count = len(found)
    assert count > 1
    assert [f.name for f in found] == [
        f"train-{i:05d}-of-{count:05d}.parquet" for i in range(count)
    ]
    assert sum(f.stat().st_size for f in found) == written.bytes
    read = pa.concat_tables([pq.read_table(f) for f in found])
    assert read["n"].to_pylist() == values


def test_tables_of_the_store_itself_can_be_exported_and_empty_ones_not(
    store: str, tmp_path: Path
) -> None:
    export("artifacts", str(tmp_path / "artifacts"), store, None)
    assert "span all runs" in (tmp_path / "artifacts" / "README.md").read_text()
    with fails("no_rows"):
        export("tags", str(tmp_path / "tags"), store, None)
    assert not (tmp_path / "tags").exists()
