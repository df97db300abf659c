"""A store passes over what other programs leave in it."""

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from commands_store import make_artifact, small_store
from failures import fails

from tercet.storage import artifacts, records, runs
from tercet.storage.answers import open_pool
from tercet.storage.catalog.snapshot import read_snapshot
from tercet.storage.store import Store, check_outside, open_store

SYSTEMS = (".DS_Store", "._start.json", "Thumbs.db", "desktop.ini", "Icon\r", ".directory")
EDITORS = ("#notes#", ".start.json.swp", "start.json~", "4913", "manifest.json.bak")
# `\udce9` is the byte 0xe9, as Python reads it in a file's name.
ODD = ("caf\udce9", "a\nb", "a b%20c", "\x1b[31m.json", "lost+found.txt")
FOLDERS = ("untitled folder", ".git", "@eaDir", "backup (1)")


def strew(root: Path, place: Path) -> set[str]:
    """Leaves such things in a folder of the store at `root`; returns their names in it."""
    left: set[Path] = set()
    before = sorted(place.iterdir())
    for name in (*SYSTEMS, *EDITORS, *ODD):
        path = place / name
        if not path.exists():
            path.write_bytes(b"\x00\x00\x00\x01Bud1")
            left.add(path)
    for name in FOLDERS:
        (place / name / "inner").mkdir(parents=True)
        (place / name / "start.json").write_text("not JSON")
        left.add(place / name)
    for name, target in (("nowhere", "gone"), ("circle", "circle"), ("again", ".")):
        if not _is_a_name(root, place):
            (place / name).symlink_to(target)
            left.add(place / name)
    for path in before:
        left |= set(_copies(path))
    return {path.relative_to(root).as_posix() for path in left}


def _is_a_name(root: Path, place: Path) -> bool:
    # There, `again` would be the name of a step, a version, a stage or a key.
    top = place.relative_to(root).parts[:1]
    return top in [(name,) for name in ("artifacts", "keys", "cache", "rounds")]


def _copies(path: Path) -> list[Path]:
    """Copies of a file or folder as tools name them."""
    stem, ending = path.stem, path.suffix
    names = [f"{stem} 2{ending}", f"{stem} (conflicted copy 2026-11-26){ending}",
             f"{stem} - Copy{ending}", f"{stem}.sync-conflict-20261126-101010-ABCDEFG{ending}",
             f"{path.name}.orig"]  # fmt: skip
    if path.is_dir():
        names = names[:3]
        copy = shutil.copytree
    else:
        copy = shutil.copyfile
    for name in names:
        copy(path, path.with_name(name))
    return [path.with_name(name) for name in names]


def own_folders(root: Path) -> list[Path]:
    """The folders of a store in which it lists names."""
    apart = {"scratch", "locks", "prefect", "files"}
    found = [root]
    for place, folders, _ in os.walk(root):
        folders[:] = [name for name in folders if name not in apart]
        found += [Path(place, name) for name in folders]
    return found


def told(store: Store) -> list[Any]:
    """All that a store says of itself."""
    snapshot = read_snapshot(store)
    tables = {name: table.to_pylist() for name, table in snapshot.metadata().items()}
    recorded = [found.records() for found in artifacts.all_artifacts(store) if found.records()]
    return [
        tables, recorded, runs.list_runs(store), runs.list_tags(store),
        records.current_round(store, "extract", "key"),
        runs.resolve_ref(store, "sentences").path, runs.resolve_run(store, None)["run_id"],
    ]  # fmt: skip


@pytest.fixture
def full(tmp_path: Path) -> Store:
    """A store with something in every folder."""
    store, run_id = small_store(tmp_path / "store")
    runs.set_tag(store, "good", run_id)
    records.next_round(store, "extract", "key")
    table = pa.table({"x": [1]})
    make_artifact(store, "partial", "cccc", {"rows": table}, finished=False)
    (store.work / "catalog.duckdb").touch()
    # A killed process was writing it.
    store.local("tags/x.json#1").touch()
    return store


def test_a_store_strewn_with_other_programs_files_says_the_same(full: Store) -> None:
    before = told(full)
    left = set()
    for place in own_folders(full.work):
        left |= strew(full.work, place)
    assert len(left) > 500
    assert told(full) == before


@pytest.mark.parametrize("name", ["good-DESKTOP-4711", "good.copy", "good2"])
def test_a_copy_of_a_tag_or_a_step_is_none(full: Store, name: str) -> None:
    before = told(full)
    run_id = runs.resolve_run(full, None)["run_id"]
    for place, copied in [
        ("tags/good.json", f"tags/{name}.json"),
        (f"runs/{run_id}/steps/ingest.json", f"runs/{run_id}/steps/{name}.json"),
    ]:
        shutil.copyfile(full.work / place, full.work / copied)
    shutil.copytree(full.work / "artifacts/ingest", full.work / "artifacts" / name)
    place = full.work / "artifacts/train"
    shutil.copytree(place / "bbbb2222", place / name)
    assert told(full) == before


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("artifacts/x", "file"), ("artifacts/x", "link"),
        ("artifacts/train/x", "file"), ("artifacts/train/x", "link"),
        ("artifacts/train/x", "folder"),
        ("runs/20261126T101010000000-abcd", "file"), ("runs/20261126T101010000000-abcd", "link"),
        ("runs/20261126T101010000000-abcd", "folder"),
        ("tags/x.json", "folder"), ("tags/x.json", "link"),
    ],
)  # fmt: skip
def test_a_name_of_ours_that_is_of_the_wrong_kind(full: Store, place: str, kind: str) -> None:
    before = told(full)
    path = full.work / place
    if kind == "link":
        path.symlink_to(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_text("{}")
    assert told(full) == before


def test_answers_are_read_beside_other_programs_files(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    for name in ("._0a1b2c3d", "x", "0" * 32 + " 2", "0" * 32 + ".sync-conflict-1"):
        store.create(f"responses/{name}.parquet", b"no Parquet")
        store.create(f"responses/journal/{name}.jsonl", b"no JSON")
    with open_pool(store, "recipe", "run") as pool:
        assert pool.find(["digest"]) == {}


@pytest.mark.parametrize("name", [".DS_Store", "Thumbs.db", "._x", "desktop.ini", "lost+found"])
def test_an_empty_folder_that_was_looked_at_becomes_a_store(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert open_store(str(tmp_path)).exists("store.json")


@pytest.mark.parametrize("place", ["x", "artifacts/x", "artifacts/train/x/y.csv", "runs/r.html"])
def test_no_output_may_lie_in_a_store(full: Store, tmp_path: Path, place: str) -> None:
    (tmp_path / "link").symlink_to(full.work / "artifacts")
    for path in (full.work / place, tmp_path / "link" / place):
        with fails("bad_value"):
            check_outside(path)
        with fails("bad_value"):
            open_store(str(path.with_suffix("")))
    check_outside(full.work)
    check_outside(tmp_path / "beside" / place)
    # Another program's file of that name.
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "store.json").write_text('{"name": "shop"}')
    check_outside(tmp_path / "shop" / place)
