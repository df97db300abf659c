"""What a store needs of its objects, wherever they lie."""

import pickle
import time
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import toy_objects

from tercet.storage import store
from tercet.storage.answers import Journal, checked, contents, journal_names, sealed_names
from tercet.storage.objects import Folder, Objects
from tercet.storage.store import SCHEMES, StoreError, open_store, work_of


@pytest.fixture(params=["folder", "elsewhere"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    if request.param == "folder":
        return Folder(tmp_path / "objects")
    return toy_objects.Rows(str(tmp_path / "objects.db"))


def test_objects_come_and_go(objects: Objects, tmp_path: Path) -> None:
    if isinstance(objects, Folder):
        objects.root.mkdir()
    source, cache = tmp_path / "source", tmp_path / "cache"
    source.write_bytes(b"12345")
    assert objects.put("a/b.json", b"one", absent=True)
    assert not objects.put("a/b.json", b"two", absent=True)
    assert objects.get("a/b.json") == b"one"
    objects.put("a/b.json", b"three", absent=False)
    objects.put_file("a/c/d", source, move=True)
    there = pickle.loads(pickle.dumps(objects))
    assert sorted(there.names("a")) == [("b.json", False), ("c", True)]
    assert list(there.names("nowhere")) == []
    stats = dict(there.stats("a"))
    assert {path: stat.bytes for path, stat in stats.items()} == {"a/b.json": 5, "a/c/d": 5}
    assert all(abs(stat.written - time.time()) < 60 for stat in stats.values())
    for _ in range(2):
        assert there.local("a/c/d", cache).read_bytes() == b"12345"
    objects.delete("a/b.json")
    with pytest.raises(FileNotFoundError):
        objects.get("a/b.json")
    objects.delete("a/c/d")
    assert list(there.names("")) == []


def test_a_link_that_leads_back_is_followed_once(tmp_path: Path) -> None:
    (tmp_path / "bigger").mkdir()
    (tmp_path / "bigger" / "rows").write_bytes(b"12345")
    root = tmp_path / "objects"
    root.mkdir()
    (root / "artifacts").symlink_to(tmp_path / "bigger")
    (root / "artifacts" / "back").symlink_to(root)
    assert [path for path, _ in Folder(root).stats("")] == ["artifacts/rows"]


def test_a_scheme_of_a_package_opens_a_store_and_an_unknown_one_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERCET_WORK", str(tmp_path / "work"))
    location = f"toy://{tmp_path}/objects.db"
    with pytest.raises(StoreError):
        open_store(location)
    point = EntryPoint("toy", "toy_objects:opened", "tercet.stores")
    installed = {("tercet.stores", "toy"): [point]}
    found = lambda group, name: installed.get((group, name), [])  # noqa: E731
    monkeypatch.setattr(store, "entry_points", found)
    monkeypatch.setattr(store, "SCHEMES", dict(SCHEMES))
    with pytest.raises(StoreError):
        open_store(location, create=False)
    opened = open_store(location)
    assert open_store(location, create=False) == opened
    assert opened.work == work_of(location)
    assert opened.work.parent == tmp_path / "work"
    assert work_of(f"{location}2") != opened.work


def test_answers_wait_in_the_work_directory_until_they_are_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERCET_WORK", str(tmp_path / "work"))
    monkeypatch.setitem(SCHEMES, "toy", toy_objects.opened)
    store = open_store(f"toy://{tmp_path}/objects.db")
    texts = ("request_digest", "recipe", "run_id", "method", "model", "endpoint", "raw")
    numbers = dict.fromkeys(("prompt_tokens", "n_tokens", "attempts", "seconds"), 1)
    row = dict.fromkeys(texts, "x") | numbers | {"finish_reason": "stop"}
    journal = Journal(store, "0" * 32, "a test")
    journal.append(checked({**row, "created": "2026-11-26T10:00:00"}))
    assert journal_names(store) == ["0" * 32]
    assert dict(store.objects.stats("responses")) == {}
    journal.seal()
    assert journal_names(store) == []
    assert sealed_names(store) == ["0" * 32]
    (file,) = contents(store)[0]
    assert Path(file).is_relative_to(store.work)
    assert [path for path, _ in store.objects.stats("responses")] == [
        f"responses/{'0' * 32}.parquet"
    ]
