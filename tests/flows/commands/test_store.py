"""`tercet rm`, `gc`, `verify` and `du`."""

import json
import os
import tarfile
import time
from pathlib import Path

import duckdb
import pytest
from commands_store import SENTENCES, make_artifact, make_run, small_store
from failures import fails
from s3_server import bucket, s3
from typer.testing import CliRunner, Result

from tercet.errors import ErrorKind
from tercet.flows.cli import app
from tercet.flows.commands.store import remove_runs
from tercet.storage import runs
from tercet.storage.artifacts import all_artifacts
from tercet.storage.catalog.views import write_catalog
from tercet.storage.copying import copy
from tercet.storage.records import paths_of
from tercet.storage.store import Store, open_store

REFUSED: list[tuple[str, ErrorKind, str]] = [
    ("good", "bad_value", "good"),
    ("tag:good", "bad_value", "tag:good"),
    ("", "conflict", "'good'"),
    ("20200101", "unknown_name", "20200101"),
]


def test_runs_go_by_their_ids_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, first = small_store(tmp_path / "store")
    second, third = (make_run(store, "fish", {}) for _ in range(2))
    with fails("bad_value", "'birds'", first):
        remove_runs(["birds"], store.location)
    runs.set_tag(store, "good", first)
    for ref, kind, name in REFUSED:
        with fails(kind, name):
            remove_runs([ref or first], store.location)
    assert len(runs.list_runs(store)) == 3
    remove_runs([second, third], store.location)
    assert [run["run_id"] for run in runs.list_runs(store)] == [first]
    assert "tercet gc" in capsys.readouterr().out


@pytest.fixture
def made(tmp_path: Path) -> tuple[Store, str]:
    return small_store(tmp_path / "store")


def printed(*words: str) -> str:
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
    shown = printed(*words, "--keep", "1")
    assert old in shown
    command = f"tercet gc --keep 1 --delete --store {store.location}"
    assert shown.rstrip().endswith(command)
    assert printed(*words, "--keep", "1") == shown
    before = sum(store.sizes("artifacts").values())
    printed(*command.split()[1:])
    assert sum(store.sizes("artifacts").values()) < before
    assert list(store.work.glob("artifacts/*")) == [store.work / "artifacts" / "ingest"]
    # The views for other clients name what is left.
    with duckdb.connect(str(store.work / "catalog.duckdb"), read_only=True) as client:
        assert client.execute("SELECT step FROM artifacts").fetchall() == [("ingest",)]
        assert client.execute("SELECT count(*) FROM sentences").fetchall() == [(3,)]
    assert "removed" in printed("ls", "--run", old, "--store", store.location)
    assert newer in printed("ls", "--store", store.location)


def test_what_is_young_is_said_to_stay(made: tuple[Store, str]) -> None:
    store, old = made
    printed("rm", old[:20], "--store", store.location)
    before = store.sizes("artifacts")
    printed("gc", "--delete", "--store", store.location)
    assert store.sizes("artifacts") == before
    aged(open_store(store.location))
    printed("gc", "--delete", "--store", store.location)
    assert store.sizes("artifacts") == {}


__all__ = ["bucket", "s3"]
FROZEN = sorted((Path(__file__).parents[2] / "data").glob("store-*.tar.xz"))


def verify(store: Store, *more: str) -> Result:
    words = ["verify", "--store", store.location, *more]
    return CliRunner().invoke(app, words, catch_exceptions=False)


def spoil(store: Store) -> str:
    """Changes a data file of some artifact; `step@version: path`."""
    for artifact in all_artifacts(store):
        for record in artifact.records().values():
            for path in paths_of(record):
                if "/data/" in path:
                    data = store.get(path) or b""
                    store.replace(path, data[:20] + bytes([data[20] ^ 1]) + data[21:])
                    return f"{artifact.name}: {path}"
    raise AssertionError


def test_it_names_the_step_and_what_to_type(tmp_path: Path) -> None:
    store, _ = small_store(tmp_path / "store")
    what = spoil(store)
    done = verify(store)
    assert done.exit_code == 1
    assert what in done.stdout
    assert f"tercet verify --mend --store {store.location}" in done.stdout
    assert "tercet run " in done.stdout


@pytest.mark.parametrize("place", ["directory", "bucket"])
@pytest.mark.parametrize("frozen", FROZEN, ids=lambda path: path.name)
def test_a_store_of_the_version_before(
    frozen: Path, place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with tarfile.open(frozen) as archive:
        archive.extractall(tmp_path, filter="data")
    store = open_store(str(tmp_path / "tercet-store"))
    if place == "bucket":
        request.getfixturevalue("bucket")
        there = open_store("s3://bucket/frozen")
        copy(store, there)
        store = there
    assert verify(store).exit_code == 0
    what = spoil(store)
    done = verify(store)
    assert done.exit_code == 1
    assert what in done.stdout
    assert verify(store, "--mend").exit_code == 0
    assert verify(store).exit_code == 0


def test_bytes_by_step_and_by_run(tmp_path: Path) -> None:
    store, first = small_store(tmp_path / "store")
    make_artifact(store, "ingest", "cccc3333", {"sentences": SENTENCES})
    make_artifact(store, "graph", "dddd4444", {"sentences": SENTENCES})
    second = make_run(store, "fish", {"ingest": ("aaaa1111", "reused", {"sentences": 3})})
    runs.set_tag(store, "good", "graph@dddd4444")
    (store.work / "responses").mkdir()
    (store.work / "responses" / "x").write_bytes(b"12345")
    sizes, of_store = store.sizes(""), ("--store", store.location)
    rows = json.loads(printed("du", *of_store, "--format", "json"))
    sizes_of = {row["name"]: row for row in rows}

    def of(step: str) -> int:
        return sum(size for path, size in sizes.items() if path.startswith(f"artifacts/{step}/"))

    assert sum(row["bytes"] for row in rows if row["kind"] != "run") == sum(sizes.values())
    assert sizes_of["ingest"]["versions"] == 2
    assert sizes_of["ingest"]["bytes"] == of("ingest")
    assert sizes_of["ingest"]["alone"] == of("ingest/cccc3333")
    assert sizes_of["graph"]["alone"] == 0
    assert sizes_of["answers of language models"]["bytes"] == 5
    assert sizes_of[first]["bytes"] == of("ingest/aaaa1111") + of("train")
    assert sizes_of[first]["alone"] == of("train")
    assert (sizes_of[second]["bytes"], sizes_of[second]["alone"]) == (of("ingest/aaaa1111"), 0)
    runs.set_tag(store, "kept", first)
    (line,) = [row for row in printed("du", *of_store).splitlines() if row.startswith(first)]
    assert line.endswith("kept")
