"""Kills runs on a bucket at random moments; each goes on from a new work directory.

    python benchmarks/bucket_kills.py RECIPE [--kills 10] [--seed 1]

The bucket is moto's, a process of its own. RECIPE is run once on a disk, then killed with -9 so
often in the bucket and run to its end there, then by two processes at once in another prefix. Rows
of the triplets, and digests of all files that come before the training, must be the same there.
"""

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import s3_server

from tercet.storage.artifacts import all_artifacts
from tercet.storage.catalog.views import connect
from tercet.storage.store import Store, is_store, open_store

# A killed holder's lease is waited for, which is not what is measured; and no kill is ten minutes
# after the last.
PROGRAM = """
from tercet.flows.running import bucket_checkpoints
from tercet.storage import leases
leases.SECONDS = 6.0
bucket_checkpoints.SECONDS = 30.0
from tercet.flows.cli import main
main()
"""


def start(recipe: str, store: str, work: Path) -> subprocess.Popen[bytes]:
    """A run in a process group of its own."""
    words = ["run", recipe, "--no-server", "--store", store]
    environment = {**os.environ, "TERCET_WORK": str(work)}
    with (work.parent / f"{work.name}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words],
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )


def finish(recipe: str, store: str, work: Path) -> float:
    """Runs it to its end; the seconds that it took."""
    began = time.monotonic()
    child = start(recipe, store, work)
    if child.wait():
        sys.exit((work.parent / f"{work.name}.log").read_text()[-2000:])
    return time.monotonic() - began


def contents(store: Store) -> tuple[dict[str, list[str]], str]:
    """Digests of the files of each part of a table, and of the triplets' rows."""
    files = {}
    for artifact in all_artifacts(store):
        # What a training gives differs in the last digits, on one disk too.
        if artifact.step in ("train", "evaluate.encoder"):
            continue
        for index, record in artifact.records().items():
            tables = record["tables"].values()
            files[f"{artifact.path}/{index}"] = [f["digest"] for fs in tables for f in fs]
    with connect(store) as connection:
        rows = connection.execute("SELECT * FROM triplets ORDER BY triplet_id").fetchall()
    return files, hashlib.sha256(repr(rows).encode()).hexdigest()


def tell(found: tuple[dict[str, list[str]], str], wanted: tuple[dict[str, list[str]], str]) -> None:
    """Says whether it is the same as on the disk, and which artifacts' files are not."""
    steps = {path.split("/")[1] for path in wanted[0] if found[0].get(path) != wanted[0][path]}
    print(f"the same triplets: {found[1] == wanted[1]}; other files: {sorted(steps)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--disk", help="where the run on a disk is left, and found made")
    asked = parser.parse_args()
    moments = random.Random(asked.seed)
    with (
        tempfile.TemporaryDirectory() as scratch,
        s3_server.moto_server() as port,
        s3_server.proxy(port) as proxy,
    ):
        folder = Path(scratch)
        s3_server.make_bucket(port, "bucket")
        os.environ |= {**s3_server.ENVIRONMENT, "AWS_ENDPOINT_URL": proxy.endpoint}
        disk = asked.disk or str(folder / "disk")
        seconds = finish(asked.recipe, disk, folder / "none")
        print(f"on a disk: {seconds:.0f} s", flush=True)
        wanted = contents(open_store(disk))
        took = sum(artifact.manifest()["seconds"] for artifact in all_artifacts(open_store(disk)))
        kills, place = 0, "s3://bucket/killed"
        while kills < asked.kills:
            child = start(asked.recipe, place, folder / f"{uuid.uuid4().hex}")
            # Killed so often on its way, however long that is.
            wait = moments.uniform(5, max(40, 3 * took / asked.kills))
            time.sleep(wait)
            if child.poll() is not None:
                # The next one begins anew.
                tell(contents(open_store(place)), wanted)
                place = f"s3://bucket/{uuid.uuid4().hex}"
                continue
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            kills += 1
            if not is_store(place):
                continue
            made = all_artifacts(open_store(place))
            parts = sum(len(artifact.whole_parts()) for artifact in made)
            records = sum(len(artifact.records()) for artifact in made)
            print(f"killed after {wait:.0f} s: {parts} of {records} parts whole", flush=True)
            if parts != records:
                sys.exit("a record names files that are not there")
        print(f"to its end: {finish(asked.recipe, place, folder / 'last'):.0f} s")
        tell(contents(open_store(place)), wanted)
        proxy.counted()
        two = [start(asked.recipe, "s3://bucket/two", folder / name) for name in ("one", "other")]
        print("two at once:", [child.wait() for child in two], len(proxy.counted()), "requests")
        tell(contents(open_store("s3://bucket/two")), wanted)


if __name__ == "__main__":
    main()
