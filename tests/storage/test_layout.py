"""A store passes over what other programs leave in it."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from commands_store import make_artifact, small_store
from failures import fails
from strangers import own_folders, strew

from tercet.storage import artifacts, records, runs
from tercet.storage.answers import open_pool
from tercet.storage.catalog.snapshot import read_snapshot
from tercet.storage.store import Store, check_outside, open_store


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
