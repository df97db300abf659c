"""A whole run over another executor, on a Ray cluster, and in a bucket: the same rows."""

import hashlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from ray_cluster import Nodes
from s3_server import Proxy
from tiny_run import Finished, digest_of, records, states
from toy_executor import Backwards

from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.flows.running.runner import open_run, run_steps
from tercet.storage.catalog import views as catalog
from tercet.storage.runs import get_run
from tercet.storage.store import Store, open_store

OF_A_PART = re.compile(r"/_parts/\d|/data/|/files/|/keys/\w+/\w")


def test_a_run_over_another_executor_makes_the_same_rows(
    finished: Finished, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    executor = Backwards()
    with open_run(
        prepare(RunArguments(str(finished.tiny.recipe), str(store))), executor=executor
    ) as run:
        run_steps(run)
    assert set(states(store).values()) == {"made"}
    expected = digest_of(finished.store, "triplets", "triplet_id")
    assert digest_of(store, "triplets", "triplet_id") == expected
    # No process of it lives while the encoder is trained, nor after the end.
    assert executor.said[executor.said.index("train") - 1] == "close"
    assert executor.said[-1] == "close"


@pytest.mark.slow
def test_a_run_on_a_cluster_makes_the_same_files(
    finished: Finished, ray_nodes: Nodes, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    changed = ("run.workers=ray",)
    plan = prepare(RunArguments(str(finished.tiny.recipe), str(store), changed, until="select"))
    with open_run(plan) as run:
        run_steps(run)
    assert set(states(store).values()) == {"made"}
    digests = dict(all_records(open_store(str(store))))
    assert {place.split("/")[1] for place in digests} >= {"extract", "embed", "select"}
    assert digests.items() <= dict(all_records(open_store(str(finished.store)))).items()


def test_a_run_in_a_store_elsewhere_makes_the_same_rows(
    finished: Finished, tmp_path: Path, bucket: Proxy
) -> None:
    location = "s3://bucket/tiny"
    # As in the process of the other run: torch adds numbers up in another order in more threads.
    torch.set_num_threads(1)
    arguments = RunArguments(str(finished.tiny.recipe), location)

    def run() -> dict[str, str]:
        with open_run(prepare(arguments), executor=Backwards()) as handle:
            run_steps(handle)
            steps = get_run(handle.store, handle.run_id)["steps"]
        return {step["step"]: step["state"] for step in steps}

    assert set(run().values()) == {"made"}
    store = open_store(location)
    parts = len(list(records(store)))
    of_parts = [path for _, path in bucket.counted() if OF_A_PART.search(path)]
    assert len(of_parts) <= 8 * parts, (len(of_parts), parts)
    digests = dict(all_records(open_store(str(finished.store))))
    assert dict(all_records(store)) == digests
    with catalog.connect(store) as connection:
        query = "SELECT * FROM triplets ORDER BY triplet_id"
        rows = connection.execute(query).fetchall()
    digest = hashlib.sha256(repr(rows).encode()).hexdigest()
    assert digest == digest_of(finished.store, "triplets", "triplet_id")
    # Another machine has nothing but the objects.
    shutil.rmtree(store.work)
    bucket.counted()
    reused = run()
    assert set(reused.values()) == {"reused"}
    assert len(bucket.counted()) <= 10 * len(reused)
    assert {path.name for path in tmp_path.iterdir()} == {"work"}
    # What only this machine needs is none of them.
    folders = {path.partition("/")[0] for path, _ in store.objects.stats("")}
    assert folders == {"store.json", "artifacts", "keys", "runs", "schemas"}


def all_records(store: Store) -> Iterator[tuple[str, list[str]]]:
    """The digests of every part's files, by artifact and index."""
    for artifact, record in records(store):
        tables = [file for files in record["tables"].values() for file in files]
        digests = [file["digest"] for file in [*tables, *record["files"]]]
        # A training's numbers differ in their last digits from process to process.
        if not artifact.startswith(("artifacts/train/", "artifacts/evaluate.encoder/")):
            yield f"{artifact}/{record['index']}", digests
