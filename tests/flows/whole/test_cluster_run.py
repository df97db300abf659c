"""A whole run on a Ray cluster."""

from pathlib import Path

import pytest
from ray_cluster import Nodes
from tiny_run import Finished, records, states

from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.flows.running.runner import open_run, run_steps
from tercet.storage.store import open_store

pytestmark = pytest.mark.slow


def test_a_run_on_a_cluster_makes_the_same_files(
    finished: Finished, ray_nodes: Nodes, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    changed = ("run.workers=ray",)
    plan = prepare(RunArguments(str(finished.tiny.recipe), str(store), changed, until="select"))
    said: list[str] = []
    with open_run(plan, said.append) as run:
        run_steps(run)
    assert set(states(store).values()) == {"made"}
    assert not [line for line in said if " again: " in line]
    made = digests(store)
    assert {place.split("/")[1] for place in made} >= {"extract", "embed", "select"}
    assert made.items() <= digests(finished.store).items()


def digests(store: Path) -> dict[str, list[str]]:
    """The digests of every part's files, by artifact and index."""
    return {
        f"{artifact}/{record['index']}": [
            file["digest"] for files in record["tables"].values() for file in files
        ]
        for artifact, record in records(open_store(str(store)))
    }
