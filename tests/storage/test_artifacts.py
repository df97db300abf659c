"""Parts and artifacts: whole or not there, whoever dies and whoever else writes."""

import json
import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import ROWS, SCHEMAS, parts_in, staged
from s3_server import EVERYWHERE, FAR_APART

from tercet.storage import locks
from tercet.storage.artifacts import Artifact, find_parts, open_artifact, sweep_leftovers
from tercet.storage.objects import Folder
from tercet.storage.part_writer import PartWriter, StagedPart
from tercet.storage.store import Store

NUMBERS = {"numbers": pa.schema([("x", pa.int64())])}


def _write(folder: Path, sizes: list[int], part_rows: int) -> tuple[list[int], StagedPart]:
    start = 0
    with PartWriter(folder, NUMBERS, part_rows) as writer:
        for size in sizes:
            writer.emit("numbers", pa.table({"x": list(range(start, start + size))}))
            start += size
        part = writer.close()
    rows: list[int] = []
    for file in part.files.get("numbers", ()):
        found = pq.ParquetFile(file.path).read()["x"].to_pylist()
        assert len(found) == file.rows
        rows += found
    return rows, part


@settings(max_examples=25, deadline=None)
@given(sizes=st.lists(st.integers(0, 30), max_size=12), part_rows=st.integers(1, 12))
def test_files_are_cut_between_emits(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], part_rows: int
) -> None:
    rows, part = _write(tmp_path_factory.mktemp("parts"), sizes, part_rows)
    assert rows == list(range(sum(sizes)))
    files = part.files.get("numbers", ())
    ends = {sum(sizes[:count]) for count in range(len(sizes) + 1)}
    begin = 0
    for position, file in enumerate(files):
        assert file.rows > 0
        assert file.path.suffix != ".parquet"
        if position < len(files) - 1:
            assert file.rows >= part_rows
        end = begin + file.rows
        if end not in ends:  # only inside an emit of its own that was too large
            emit = next(s for i, s in enumerate(sizes) if sum(sizes[: i + 1]) > end)
            assert emit > 4 * part_rows
        begin = end


def test_equal_rows_give_equal_bytes_however_they_were_emitted(tmp_path: Path) -> None:
    _, one = _write(tmp_path / "one", [70_000], 100_000)
    _, other = _write(tmp_path / "other", [1, 40_000, 29_000, 999], 100_000)
    digests = [[file.digest for file in part.files["numbers"]] for part in (one, other)]
    assert digests[0] == digests[1]


def test_the_writer_casts_and_refuses(tmp_path: Path) -> None:
    schemas = {"t": pa.schema([("a", pa.int32()), pa.field("b", pa.string(), nullable=False)])}
    with PartWriter(tmp_path, schemas, 10) as writer:
        writer.emit("t", pa.record_batch({"b": ["x"], "a": pa.array([3], pa.int64())}))
        for table, rows, name in [
            ("u", {"a": [1]}, "'u'"),
            ("t", {"a": [1]}, "b"),
            ("t", {"a": [1], "b": ["x"], "c": [1]}, "c"),
            ("t", {"a": [2**40], "b": ["x"]}, "int32"),
            ("t", {"a": [1], "b": [None]}, "null"),
        ]:
            with pytest.raises(ValueError, match=name):
                writer.emit(table, pa.table(rows))
        part = writer.close()
    found = pq.ParquetFile(part.files["t"][0].path).read()
    assert found.to_pydict() == {"a": [3], "b": ["x"]}
    assert found.schema.field("a").type == pa.int32()


def test_an_exception_removes_the_files(tmp_path: Path) -> None:
    def work() -> None:
        with PartWriter(tmp_path, NUMBERS, 2) as writer:
            for _ in range(3):
                writer.emit("numbers", pa.table({"x": [1]}))
            assert len(list(tmp_path.iterdir())) == 2
            raise RuntimeError

    with pytest.raises(RuntimeError):
        work()
    assert list(tmp_path.iterdir()) == []


@EVERYWHERE
def test_the_first_plan_stands(store: Store) -> None:
    artifact = open_artifact(store, "extract", "aaaa")
    assert artifact.plan() is None
    assert artifact.adopt_plan([{"a": 1}]) == [{"a": 1}]
    assert artifact.adopt_plan([{"a": 1}, {"a": 2}]) == [{"a": 1}]
    with pytest.raises(ValueError, match="1"):
        artifact.finish({})


@EVERYWHERE
def test_from_parts_to_the_manifest(store: Store) -> None:
    artifact = open_artifact(store, "extract", "aaaa")
    artifact.adopt_plan([{}, {}])
    assert artifact.rows(SCHEMAS).count("left") == 0
    for index in (1, 0):
        record = artifact.commit(index, staged(artifact, index), f"k{index}", {"source": ["s"]})
        assert record["source"] == ["s"]
        assert [file["rows"] for file in record["tables"]["right"]] == [ROWS] * 3
    manifest = artifact.finish({"stage": "extract", "inputs": {}})
    assert artifact.finish({"stage": "another"}) == manifest == artifact.manifest()
    assert manifest["tables"]["right"]["rows"] == 6 * ROWS
    assert manifest["tables"]["rejects"] == {"rows": 0, "files": 0, "bytes": 0}
    rows = artifact.rows()
    assert rows.versions == ("aaaa",)
    assert rows.table("left")["part"].to_pylist() == [0] * ROWS + [1] * ROWS
    assert rows.table("rejects").schema == SCHEMAS["rejects"]
    assert not (store.work / "scratch" / "extract" / "aaaa").exists()


@pytest.mark.parametrize("lost", ["parts.json", "_parts/00001.json", "data"])
def test_an_artifact_that_lacks_a_record_or_a_file_is_not_intact(store: Store, lost: str) -> None:
    artifact = open_artifact(store, "extract", "aaaa")
    artifact.adopt_plan([{}, {}])
    for index in range(2):
        artifact.commit(index, staged(artifact, index), f"k{index}", {})
    assert artifact.intact()
    artifact.finish({})
    assert artifact.intact()
    if lost != "data":
        store.delete(f"{artifact.path}/parts.json")
        assert artifact.intact()
        store.delete(f"{artifact.path}/_parts/00001.json")
    else:
        shutil.rmtree(store.local(f"{artifact.path}/data"))
    assert not artifact.intact()


@EVERYWHERE
def test_parts_are_found_by_key_while_their_files_last(store: Store) -> None:
    one = open_artifact(store, "synthesise.swap", "aaaa")
    assert find_parts(store, "synthesise", {"k"}).get("k") is None
    one.commit(0, staged(one, 0), "k", {"seconds": 3})
    record = find_parts(store, "synthesise", {"k"}).get("k")
    assert record is not None
    other = open_artifact(store, "synthesise.swap", "bbbb")
    referred = other.reference(5, record, {"reused": True})
    assert other.reference(5, record, {"reused": False}) == referred
    assert referred["index"] == 5
    assert other.rows().table("left").equals(one.rows().table("left"))
    store.delete(record["tables"]["left"][0]["path"])
    assert find_parts(store, "synthesise.swap", {"k"}) == {}
    third = open_artifact(store, "synthesise.swap", "cccc")
    third.commit(0, staged(third, 0), "k", {})
    again = find_parts(store, "synthesise", {"k"}).get("k")
    assert again is not None
    assert again["tables"]["left"][0]["path"].startswith("artifacts/synthesise.swap/cccc/")


@EVERYWHERE
def test_a_part_whose_key_was_never_noted_is_found_after_the_end(store: Store) -> None:
    artifact = open_artifact(store, "extract", "aaaa")
    artifact.commit(0, staged(artifact, 0), "k", {})
    store.delete("keys/extract/k.json")  # as if killed right after the record
    artifact.finish({})
    assert set(find_parts(store, "extract", {"k"})) == {"k"}


def test_model_files(store: Store, tmp_path: Path) -> None:
    artifact = open_artifact(store, "train", "aaaa")
    assert artifact.model_dir() is None
    model = tmp_path / "model"
    (model / "1_Pooling").mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (model / "1_Pooling" / "config.json").write_text("[]")
    with PartWriter(artifact.scratch(), NUMBERS, 10) as writer:
        writer.emit("numbers", pa.table({"x": [1]}))
        part = writer.close(model)
    record = artifact.commit(0, part, "k", {})
    assert [file["bytes"] for file in record["files"]] == [2, 2]
    found = artifact.model_dir()
    assert found is not None
    assert (found / "1_Pooling" / "config.json").read_text() == "[]"
    assert (model / "config.json").exists()
    lost = artifact.commit(0, StagedPart({}, NUMBERS, model), "k", {})
    assert lost == record
    assert len(list(store.local(artifact.path).rglob("config.json"))) == 2


def _check(artifact: Artifact) -> dict[int, Mapping[str, Any]]:
    """Reads as any reader would: every part that is there is whole."""
    records = artifact.records()
    for index, record in records.items():
        for table, count in (("left", ROWS), ("right", 3 * ROWS)):
            paths = [artifact.store.local(file["path"]) for file in record["tables"][table]]
            parts = [pq.ParquetFile(path).read()["part"].to_pylist() for path in paths]
            assert [part for found in parts for part in found] == [index] * count
    return dict(records)


@FAR_APART
def test_killed_at_any_moment_a_reader_sees_whole_parts(
    store: Store, beside: Callable[..., "subprocess.Popen[Any]"]
) -> None:
    artifact = open_artifact(store, "extract", "aaaa")
    moments = random.Random(5)
    seen: dict[int, Mapping[str, Any]] = {}
    parts = parts_in(store)
    kills, most = 0, parts // 6
    while kills < most and len(seen) < parts:
        # However late the kill is, some parts are left for the next one.
        process = beside("write", "--most", "5")
        wanted = min(len(seen) + moments.randrange(3), parts)
        while process.poll() is None:
            now = _check(artifact)
            assert {index: now[index] for index in seen} == seen
            seen = now
            if len(seen) >= wanted:
                break
        time.sleep(moments.uniform(0, 0.01))
        process.kill()
        process.wait()
        kills += 1
    assert kills == most
    assert 0 < len(seen) < parts
    process = beside("write")
    while process.poll() is None:
        now = _check(artifact)
        assert {index: now[index] for index in seen} == seen
        seen = now
    assert process.returncode == 0
    assert sorted(_check(artifact)) == list(range(parts))
    assert artifact.manifest() is not None
    undisturbed = open_artifact(store, "extract", "bbbb")
    for index in range(parts):
        undisturbed.commit(index, staged(undisturbed, index), f"key{index}", {})
    for table in ("left", "right"):
        assert artifact.rows().table(table).equals(undisturbed.rows().table(table))


@FAR_APART
def test_two_processes_on_one_artifact_leave_each_part_once(
    store: Store, beside: Callable[..., "subprocess.Popen[Any]"]
) -> None:
    writers = [beside("write", "--everything") for _ in range(2)]
    for writer in writers:
        assert writer.wait() == 0
    artifact = open_artifact(store, "extract", "aaaa")
    records = _check(artifact)
    assert sorted(records) == list(range(parts_in(store)))
    wanted = {
        file["path"]
        for record in records.values()
        for files in record["tables"].values()
        for file in files
    }
    assert set(store.sizes(f"{artifact.path}/data")) == wanted


def test_locks_and_files_of_dead_processes_go(
    store: Store, beside: Callable[..., "subprocess.Popen[Any]"]
) -> None:
    sweep_leftovers(store)
    holder, killed = beside("hold"), subprocess.Popen(["true"])
    killed.wait()
    dead, alive = killed.pid, os.getpid()
    (store.work / "scratch").mkdir()
    for pid in (dead, alive):
        (store.work / f".probe-{pid}-ab").write_text("")
        for name in (f"sql-{pid}", f"bm25-{pid}-ab"):
            (store.work / "scratch" / name).mkdir()
            (store.work / "scratch" / name / "spill").write_text("")
    (store.work / "locks" / "artifact-train-aaaa").write_text('{"pid": 1}')
    with locks.hold(store, "mine"):
        sweep_leftovers(store)
        assert {path.name for path in (store.work / "locks").iterdir()} == {"thing", "mine"}
    left = [path for path in store.work.rglob("*") if str(dead) in path.name]
    # They may be of a process that has this number somewhere else, and writes.
    assert len(left) == 3
    for path in store.work.rglob("*"):
        os.utime(path, (time.time() - 4_000,) * 2)
    sweep_leftovers(store)
    assert not any(path.exists() for path in left)
    assert len([path for path in store.work.rglob("*") if str(alive) in path.name]) == 3
    assert locks.is_held(store, "thing")
    holder.kill()
    holder.wait()
    sweep_leftovers(store)
    assert list((store.work / "locks").iterdir()) == []


def test_locks_exclude_each_other_while_they_are_swept(store: Store) -> None:
    inside: list[int] = []
    seen: list[int] = []
    done = threading.Event()

    def sweeping() -> None:
        while not done.is_set():
            sweep_leftovers(store)

    def work() -> None:
        for _ in range(30):
            with locks.hold(store, "counter"):
                inside.append(1)
                time.sleep(0.001)
                seen.append(len(inside))
                inside.pop()

    sweepers = [threading.Thread(target=sweeping) for _ in range(2)]
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in (*sweepers, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    for thread in sweepers:
        thread.join()
    assert seen == [1] * 90


def test_files_of_a_killed_attempt_at_a_part_go_once_every_part_is_made(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    artifact = open_artifact(store, "train", "aaaa")
    artifact.adopt_plan([{}, {}])
    model = tmp_path / "model"
    model.mkdir()
    (model / "weights").write_text("weights")

    class Killed(BaseException):
        pass

    def killed(folder: Folder, path: str, *_: Any, **__: Any) -> bool:
        if path.endswith("/_parts/00000.json"):
            # As of a process that is not there any more to remove what it brought.
            monkeypatch.setattr(Folder, "delete", lambda folder, path: None)
            (folder.root / f"{named()[-1]}#1").write_text("half")
            raise Killed
        return bool(put(folder, path, *_, **__))

    def named() -> list[str]:
        (note,) = artifact.scratch().glob("uploading-*")
        return list(json.loads(note.read_text()))

    put = Folder.put
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "put", killed)
        part = staged(artifact, 0)
        with pytest.raises(Killed):
            artifact.commit(0, type(part)(part.files, part.schemas, model), "key0", {})
    monkeypatch.undo()
    brought = set(named())
    there = store.sizes(artifact.path).keys()
    assert brought <= there
    for index in (1, 0):
        artifact.commit(index, staged(artifact, index), f"key{index}", {})
        assert brought <= store.sizes(artifact.path).keys()
    artifact.finish({})
    left = store.sizes(artifact.path).keys()
    assert not brought & left
    assert not any("#" in path for path in left)
    assert artifact.intact()
