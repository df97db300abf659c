"""`tercet verify`: what it names, its exit codes, and stores of the version before."""

import tarfile
from pathlib import Path

import pytest
from commands_store import small_store
from s3_server import bucket, s3
from typer.testing import CliRunner, Result

from tercet.flows.cli import app
from tercet.storage.artifacts import all_artifacts
from tercet.storage.copying import copy
from tercet.storage.records import paths_of
from tercet.storage.store import Store, open_store

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
    done = verify(store)
    assert done.exit_code == 0
    assert done.stdout.endswith("All is as it was written.\n")
    what = spoil(store)
    done = verify(store)
    assert done.exit_code == 1
    assert f"{what} has changed" in done.stdout
    assert f"tercet verify --mend --store {store.location}" in done.stdout
    assert "tercet run " in done.stdout
    done = verify(store, "--mend")
    assert done.exit_code == 0
    assert "Discarded." in done.stdout
    assert verify(store).exit_code == 0


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
    assert f"{what} has changed" in done.stdout
    assert verify(store, "--mend").exit_code == 0
    assert verify(store).exit_code == 0
