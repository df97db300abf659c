"""`tercet gc`, `rm` and `du` as a person types them."""

import os
import time
from pathlib import Path

import duckdb
import pytest
from commands_store import make_run, small_store
from typer.testing import CliRunner

from tercet.flows.cli import app
from tercet.storage.catalog.views import write_catalog
from tercet.storage.store import Store, open_store


@pytest.fixture
def made(tmp_path: Path) -> tuple[Store, str]:
    return small_store(tmp_path / "store")


def said(*words: str) -> str:
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def aged(store: Store) -> None:
    then = time.time() - 2 * 86_400
    for path in store.work.rglob("*"):
        os.utime(path, (then, then))


def test_it_lists_first_and_deletes_when_asked(made: tuple[Store, str]) -> None:
    store, old = made
    newer = make_run(store, "birds", {"ingest": ("aaaa1111", "reused", {"sentences": 3})})
    write_catalog(store)
    aged(store)
    words = ("gc", "--store", store.location)
    assert said(*words) == (
        "There is nothing to delete.\nWhat 2 runs and the tags use stays: `tercet rm RUN` removes "
        "a run, `tercet gc --keep N` looks at the last N of each recipe alone.\n"
    )
    told = said(*words, "--keep", "1")
    lines = told.splitlines()
    assert lines[0].split() == ["step", "versions", "size"]
    assert lines[2].split()[:2] == ["train", "1"]
    assert f"No longer whole without it: {old}." in lines
    command = f"tercet gc --keep 1 --delete --store {store.location}"
    assert lines[-1].endswith(f" can go. To delete it: {command}")
    assert said(*words, "--keep", "1") == told
    before = sum(store.sizes("artifacts").values())
    deleted = said(*command.split()[1:])
    assert "Deleted: " in deleted
    assert sum(store.sizes("artifacts").values()) < before
    assert list(store.work.glob("artifacts/*")) == [store.work / "artifacts" / "ingest"]
    # The views for other clients name what is left.
    with duckdb.connect(str(store.work / "catalog.duckdb"), read_only=True) as client:
        assert client.execute("SELECT step FROM artifacts").fetchall() == [("ingest",)]
        assert client.execute("SELECT count(*) FROM sentences").fetchall() == [(3,)]
    assert "removed" in said("ls", "--run", old, "--store", store.location)
    assert newer in said("ls", "--store", store.location)


def test_what_is_young_is_said_to_stay(made: tuple[Store, str]) -> None:
    store, old = made
    assert (
        said("rm", old[:20], "--store", store.location).splitlines()[0] == f"Run {old} is removed."
    )
    told = said("gc", "--delete", "--store", store.location).splitlines()
    assert told[0] == "There is nothing to delete."
    assert told[1].endswith(" more are younger than a day, or in use: they stay.")
    aged(open_store(store.location))
    said("gc", "--delete", "--store", store.location)
    assert store.sizes("artifacts") == {}
