"""Copies of objects: fetched once, whole or not at all, and no more than fit."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tercet.storage import bucket
from tercet.storage.bucket import fetched, keep_copy

MEGABYTE = bytes(2**20)


def writes(content: bytes, asked: list[int] | None = None) -> Callable[[Path], object]:
    def fetch(aside: Path) -> None:
        if asked is not None:
            asked.append(1)
        aside.write_bytes(content)

    return fetch


def asked_before(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


@pytest.fixture
def room_for_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERCET_CACHE_GB", str(10 / 1024))


def test_what_nobody_has_asked_for_the_longest_goes(tmp_path: Path, room_for_ten: None) -> None:
    for number in range(9):
        asked_before(fetched(tmp_path, f"a/{number}", writes(MEGABYTE)), 7200 - number)
    # Asked for again, which makes it the youngest.
    first = fetched(tmp_path, "a/0", writes(b"never fetched twice"))
    with first.open("rb") as open_, (tmp_path / "a/1").open("rb") as gone:
        for number in range(9, 12):
            fetched(tmp_path, f"a/{number}", writes(MEGABYTE))
        there = {path.name for path in (tmp_path / "a").iterdir()}
        assert {"0", "9", "10", "11"} <= there
        assert not {"1", "2"} & there
        assert len(there) <= 10
        # Whoever has opened a copy reads it to its end.
        assert open_.read() == gone.read() == MEGABYTE


def test_what_is_asked_for_while_room_is_made_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        asked_before(fetched(tmp_path, f"a/{number}", writes(MEGABYTE)), 7200 - number)
    walk = os.walk

    def looking(folder: Path) -> Iterator[object]:
        yield from walk(folder)
        fetched(tmp_path, "a/0", writes(b"never fetched twice"))

    monkeypatch.setattr(os, "walk", looking)
    monkeypatch.setenv("TERCET_CACHE_GB", str(10 / 1024))
    fetched(tmp_path, "b", writes(MEGABYTE))
    assert sorted(int(path.name) for path in (tmp_path / "a").iterdir()) == [0, *range(5, 12)]
    assert fetched(tmp_path, "a/0", writes(b"")).read_bytes() == MEGABYTE


def test_what_was_asked_for_within_the_hour_stays(tmp_path: Path, room_for_ten: None) -> None:
    for number in range(14):
        fetched(tmp_path, f"a/{number}", writes(MEGABYTE))
    assert len(list((tmp_path / "a").iterdir())) == 14


def test_readers_at_once_get_a_whole_copy_and_a_failure_leaves_none(tmp_path: Path) -> None:
    asked: list[int] = []
    found: list[bytes] = []

    def read() -> None:
        found.append(fetched(tmp_path, "x", writes(MEGABYTE, asked)).read_bytes())

    reading = [threading.Thread(target=read) for _ in range(8)]
    for thread in reading:
        thread.start()
    for thread in reading:
        thread.join()
    assert found == [MEGABYTE] * 8
    fetched(tmp_path, "x", writes(b"", asked))
    assert len(asked) <= 8

    def breaks(aside: Path) -> None:
        aside.write_bytes(b"half")
        raise OSError("the line broke")

    with pytest.raises(OSError, match="the line broke"):
        fetched(tmp_path, "y", breaks)
    assert {path.name for path in tmp_path.iterdir()} == {"x"}


def test_a_file_that_was_put_is_its_own_copy(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"put")
    # Its folder is there or not.
    fetched(tmp_path / "cache", "a/other", writes(b""))
    keep_copy(tmp_path / "cache", "a/b", source)
    assert fetched(tmp_path / "cache", "a/b", writes(b"")).read_bytes() == b"put"
    assert not source.exists()


def test_a_limit_that_is_no_number_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERCET_CACHE_GB", "20GB")
    monkeypatch.setattr(bucket, "_added", {})
    with pytest.raises(OSError, match="TERCET_CACHE_GB"):
        fetched(tmp_path, "x", writes(b""))
