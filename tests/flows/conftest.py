"""What the tests of `flows` share: tiny runs, a written store, a Prefect database."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from good_and_bad import place
from llm_recipe import recipe
from ray_cluster import ray_nodes
from report_store import written
from s3_server import bucket, s3
from stand_in_gpus import two_gpus
from tiny_run import finished, tiny

__all__ = [
    "bucket",
    "finished",
    "place",
    "ray_nodes",
    "recipe",
    "s3",
    "tiny",
    "two_gpus",
    "written",
]


@pytest.fixture(scope="session", autouse=True)
def patience() -> Iterator[None]:
    """On a slow machine a Prefect server, and its tables above all, take longer than they may."""
    from tercet.flows.service import server

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "START_SECONDS", 600.0)
        # Nor are tables cut to the terminal that the tests were started from.
        patch.delenv("COLUMNS", raising=False)
        yield


@pytest.fixture(scope="session")
def prefect_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a store keeps of its Prefect server, after a first start; to be copied."""
    from tercet.flows.service import server

    store = tmp_path_factory.mktemp("first")
    home = server.folder(store)
    home.mkdir()
    # A server that was killed while it made its tables leaves something like this.
    (home / "prefect.db").write_bytes(b"half a database")
    with server.prefect_server(store, lambda text: None):
        pass
    (home / "server.json").unlink()
    return Path(shutil.copytree(home, store / "kept"))
