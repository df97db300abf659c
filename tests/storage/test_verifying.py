"""What is not as it was written is named, discarded, and made again."""

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from processes import SCHEMAS, staged, two_parts
from s3_server import EVERYWHERE

from tercet.storage import locks, runs
from tercet.storage.artifacts import Artifact, find_parts, open_artifact
from tercet.storage.part_writer import PartWriter, schema_path
from tercet.storage.rows import rows_of
from tercet.storage.runs import list_tags, set_tag
from tercet.storage.store import Damaged, Store, open_store
from tercet.storage.verifying import compare, discard, faults_of


def flip(store: Store, path: str, at: int = -40) -> None:
    """Flips a bit of an object."""
    data = bytearray(store.get(path) or b"")
    data[at] ^= 4
    store.replace(path, bytes(data))


def a_file(artifact: Artifact, index: int = 0) -> str:
    path: str = artifact.records()[index]["tables"]["right"][0]["path"]
    return path


@EVERYWHERE
def test_a_flipped_bit_is_found_and_its_part_alone_is_made_again(store: Store) -> None:
    two_parts(store)
    artifact = open_artifact(store, "extract", "aaaa")
    before = artifact.records()
    found = compare(store)
    assert (found.artifacts, found.others, found.answers) == ({}, {}, {})
    assert found.files == 2 * 4 + len(SCHEMAS)
    flip(store, a_file(artifact))
    assert artifact.intact()
    # Copies of the work directory count for nothing here.
    assert compare(store).artifacts == {artifact: {a_file(artifact): "has changed"}}
    discard(store, compare(store), [])
    assert artifact.manifest() is None
    assert artifact.records() == {1: before[1]}
    artifact.commit(0, staged(artifact, 0), "k0", {})
    artifact.finish({})
    assert compare(store).artifacts == {}
    digests = [
        [file["digest"] for file in one[0]["tables"]["right"]]
        for one in (before, artifact.records())
    ]
    assert digests[0] == digests[1]


def test_pages_have_checksums(store: Store) -> None:
    artifact = open_artifact(store, "extract", "aaaa")
    artifact.commit(0, staged(artifact, 0), "k", {})
    path = store.local(a_file(artifact))
    data = path.read_bytes()
    rows, seen = rows_of({"right": [path]}), 0
    before = rows.table("right")
    for at in range(10, 110):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        try:
            # What is in a page's header besides may say nothing of the rows.
            assert rows.table("right").equals(before)
        except Damaged:
            seen += 1
    assert seen > 50


def test_whatever_arrow_says_of_a_damaged_file_is_one_error(store: Store, tmp_path: Path) -> None:
    """Of each byte of the footer a bit: a type that Arrow does not implement is damage, too."""
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": pa.array([1, 2], pa.uint64())}), path, write_page_checksum=True)
    data = path.read_bytes()
    for at in range(len(data) - 8, 0, -1):
        for bit in (1, 8, 64):
            path.write_bytes(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
            with suppress(Damaged):
                rows_of({"rows": [path]}).table("rows")


@pytest.mark.parametrize("name", ["manifest.json", "plan.json", "parts.json", "_parts/00001.json"])
@pytest.mark.parametrize("content", [b"", b'{"step": "extr'], ids=["empty", "cut"])
def test_a_record_that_is_no_json_blocks_nobody_and_is_made_again(
    store: Store, name: str, content: bytes
) -> None:
    two_parts(store)
    path = f"artifacts/extract/aaaa/{name}"
    store.replace(path, content)
    # Each process sees it for itself.
    store = open_store(store.location)
    artifact = open_artifact(store, "extract", "aaaa")
    assert len(artifact.records()) == 2
    found = compare(store)
    assert found.artifacts == {artifact: {path: "is damaged"}}
    discard(store, found, [])
    assert artifact.manifest() is None
    artifact.adopt_plan([{}, {}])
    for index in {0, 1} - artifact.records().keys():
        artifact.commit(index, staged(artifact, index), f"k{index}", {})
    artifact.finish({"stage": "extract"})
    assert open_artifact(open_store(store.location), "extract", "aaaa").intact()
    assert compare(open_store(store.location)).artifacts == {}


def test_a_damaged_part_is_not_taken_over(store: Store) -> None:
    two_parts(store)
    assert find_parts(store, "extract", {"k0", "k1"}).keys() == {"k0", "k1"}
    flip(store, a_file(open_artifact(store, "extract", "aaaa")))
    assert find_parts(store, "extract", {"k0", "k1"}).keys() == {"k1"}


def test_the_file_of_a_schema_is_written_again(store: Store) -> None:
    two_parts(store)
    path = schema_path(SCHEMAS["rejects"])
    whole = store.get(path)
    store.replace(path, b"")
    artifact = open_artifact(store, "extract", "aaaa")
    assert faults_of(artifact) == {path: "has changed"}
    discard(store, compare(store), SCHEMAS.values())
    assert store.get(path) == whole
    assert artifact.manifest() is not None


@pytest.mark.parametrize("where", ["disk", "copy"])
def test_weights_are_compared_before_they_are_given(
    store: Store, tmp_path: Path, where: str, request: pytest.FixtureRequest
) -> None:
    if where == "copy":
        request.getfixturevalue("bucket")
        store = open_store("s3://bucket/weights")
    artifact = open_artifact(store, "train", "aaaa")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"weights" * 100)
    with PartWriter(artifact.scratch(), {"log": pa.schema([("x", pa.int64())])}, 10) as writer:
        record = artifact.commit(0, writer.close(tmp_path / "model"), "k", {})
    artifact.finish({})
    path = record["files"][0]["path"]
    folder = artifact.model_dir()
    assert folder is not None
    (folder / "model.safetensors").write_bytes(b"weights" * 99 + b"weighty")
    if where == "copy":
        # The object is whole: it is fetched again.
        assert artifact.model_dir() == folder
        assert (folder / "model.safetensors").read_bytes() == store.get(path)
        return
    assert artifact.intact()
    assert faults_of(artifact, tables=False) == {path: "has changed"}
    with pytest.raises(Damaged):
        artifact.model_dir()


@pytest.mark.parametrize("name", ["start.json", "end.json"])
def test_a_run_whose_record_is_damaged_is_left_out(
    store: Store, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    ids = [runs.start_run(store, "birds", {}, {"steps": []}) for _ in range(2)]
    for run_id in ids:
        runs.end_run(store, run_id, "done", {})
    set_tag(store, "first", ids[1])
    store.replace(f"runs/{ids[0]}/{name}", b"")
    store.replace("tags/first.json", b"{")
    assert [run["run_id"] for run in runs.list_runs(store)] == [ids[1]]
    assert list_tags(store) == {}
    assert f"runs/{ids[0]}/{name}" in caplog.text
    found = compare(store)
    damaged = [f"runs/{ids[0]}/{name}", "tags/first.json"]
    assert found.others == dict.fromkeys(damaged, "is damaged")
    # The damaged tag may name the run whose start cannot be read.
    stays = discard(store, found, [])
    assert list(stays) == [path for path in damaged if path.endswith("start.json")]
    assert discard(store, compare(store), []) == {}
    again = open_store(store.location)
    assert compare(again).others == {}
    listed = {run["run_id"]: run["state"] for run in runs.list_runs(again)}
    # Without its end it has crashed, and what it reached is still used.
    assert listed == {ids[1]: "done"} | ({ids[0]: "crashed"} if name == "end.json" else {})


def test_the_record_of_a_tagged_run_stays(store: Store) -> None:
    run_id = runs.start_run(store, "birds", {}, {"steps": []})
    runs.end_run(store, run_id, "done", {})
    set_tag(store, "kept", run_id)
    store.replace(f"runs/{run_id}/start.json", b"")
    stays = discard(store, compare(store), [])
    assert stays.keys() == {f"runs/{run_id}/start.json"}
    assert "'kept'" in stays[f"runs/{run_id}/start.json"]


def test_what_was_mended_since_and_what_a_run_uses_stays(store: Store) -> None:
    two_parts(store)
    artifact = open_artifact(store, "extract", "aaaa")
    flip(store, a_file(artifact))
    found = compare(store)
    run_id = runs.start_run(store, "birds", {}, {"steps": ["extract"]})
    runs.use(store, run_id, ["extract@aaaa"])
    with locks.hold(store, f"run-{run_id}"):
        assert discard(store, found, []).keys() == {"extract@aaaa"}
        assert artifact.manifest() is not None
    artifact.repair()
    artifact.commit(0, staged(artifact, 0), "k0", {})
    artifact.finish({})
    assert discard(store, found, []) == {}
    assert artifact.manifest() is not None
    assert len(artifact.records()) == 2


@pytest.mark.parametrize("key", ["index", "tables", "schemas", "path", "bytes", "digest"])
def test_a_bit_in_a_key_leaves_json_and_is_seen(store: Store, key: str) -> None:
    two_parts(store)
    artifact = open_artifact(store, "extract", "aaaa")
    path = f"{artifact.path}/parts.json"
    store.replace(path, (store.get(path) or b"").replace(f'"{key}"'.encode(), b'"flipped"', 1))
    assert compare(store).artifacts[artifact][path] == "is damaged"
    discard(store, compare(store), [])
    assert len(artifact.records()) == 2
    artifact.finish({})
    assert compare(open_store(store.location)).artifacts == {}
