"""The store: atomic operations, races between processes, errors in one sentence."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from failures import fails
from s3_server import EVERYWHERE, FAR_APART

from tercet.storage.store import FullDisk, Store, StoreError, clear_errors, open_store

PROGRAM = Path(__file__).parents[1] / "support" / "processes.py"


@EVERYWHERE
def test_objects_come_and_go_whole(store: Store) -> None:
    assert store.get("a/b.json") is None
    assert store.create_json("a/b.json", {"x": 1})
    assert not store.create("a/b.json", b"{}")
    assert store.get_json("a/b.json") == {"x": 1}
    store.replace("a/b.json", b"[2]")
    assert store.get_json("a/b.json") == [2]
    store.create("a/c/d", b"")
    assert store.exists("a/c/d")
    assert not store.exists("a/c/e")
    assert store.local("a/c/d").read_bytes() == b""
    store.delete("a/c/d")
    store.delete("a/c/d")
    assert not store.exists("a/c/d")
    assert store.sizes("a") == {"a/b.json": 3}
    assert store.sizes("b") == {}


@EVERYWHERE
@pytest.mark.parametrize("move", [True, False])
def test_a_file_is_taken_in(store: Store, tmp_path: Path, move: bool) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(100_000))
    data = source.read_bytes()
    store.put_file("files/x/model.bin", source, move=move)
    assert store.get("files/x/model.bin") == data
    assert source.exists() is not move


def test_a_store_in_a_place_with_an_odd_name(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "it's a [store] #1 %20 é"))
    assert store.create("tags/b.json", b"1")
    assert store.local("tags/b.json").read_bytes() == b"1"
    assert store.list("tags") == ["b.json"]


@pytest.mark.parametrize("name", [b"st\xf6re", b"\xff", b"caf\xe9/store"])
def test_a_store_in_a_place_whose_name_is_not_utf8(tmp_path: Path, name: bytes) -> None:
    with pytest.raises(StoreError):
        open_store(str(tmp_path / os.fsdecode(name)))
    assert not list(tmp_path.iterdir())


def test_the_root_of_a_mounted_disk_is_empty(tmp_path: Path) -> None:
    (tmp_path / "disk" / "lost+found").mkdir(parents=True)
    assert open_store(str(tmp_path / "disk")).exists("store.json")


def test_what_is_no_store_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name, file, text in (
        ("other", "letters.txt", ""),
        ("newer", "store.json", '{"format": 99}'),
        ("broken", "store.json", "{"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text(text)
    for place, create, kind in [
        ("file", True, "exists"),
        ("file/below", True, "unreachable"),
        ("other", True, "exists"),
        ("other", False, "missing_file"),
        ("absent", False, "missing_file"),
        ("newer", True, "unreadable"),
        ("broken", True, "damaged"),
    ]:
        with fails(kind, tmp_path / place.split("/")[0]):
            open_store(str(tmp_path / place), create=create)
    with fails("bad_value", "ftp://"):
        open_store("ftp://server/place")
    assert not (tmp_path / "absent").exists()


def test_system_errors_become_errors_of_the_store(tmp_path: Path) -> None:
    for error, kind in [
        (OSError(28, "No space left on device"), FullDisk),
        (OSError("IO Error: No space left on device"), FullDisk),
        (PermissionError(13, "Permission denied"), StoreError),
        (OSError(30, "Read-only file system"), StoreError),
        (OSError(5, "Input/output error"), StoreError),
    ]:
        with pytest.raises(StoreError) as raised, clear_errors(tmp_path):
            raise error
        assert type(raised.value) is kind
    with pytest.raises(KeyError), clear_errors(tmp_path):
        raise KeyError("not ours")


@FAR_APART
def test_put_if_absent_between_processes(
    store: Store, beside: Callable[..., "subprocess.Popen[Any]"]
) -> None:
    racers = [beside("race") for _ in range(4)]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won = [key for racer in racers for key in json.loads(racer.stdout.readline())]  # type: ignore[union-attr]
    assert sorted(won) == list(range(50))


def _in_namespace(store: Path, size: str, options: str = "") -> "subprocess.CompletedProcess[str]":
    """`fill` on a small file system of its own."""
    store.mkdir()
    script = f'mount -t tmpfs -o size={size}{options} none "$1" && exec "$2" "$3" fill "$1/store"'
    arguments = ["sh", "-c", script, "sh", str(store), sys.executable, str(PROGRAM)]
    return subprocess.run(["unshare", "-rm", *arguments], capture_output=True, text=True)


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("size", ["500k", "612k", "700k"])
def test_a_full_disk_leaves_no_half_part(tmp_path: Path, size: str) -> None:
    done = _in_namespace(tmp_path / "small", size)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("went on\n")


@pytest.mark.usefixtures("namespaces")
def test_a_store_on_a_read_only_file_system(tmp_path: Path) -> None:
    done = _in_namespace(tmp_path / "small", "500k", ",ro")
    assert "StoreError" in done.stderr
