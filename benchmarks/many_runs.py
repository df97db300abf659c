"""What a store of many runs costs in a bucket: requests and seconds of each command.

    python benchmarks/many_runs.py [--runs 105] [--delay 0.05] [--recipe quickstart]

Runs the recipe once on a disk until `parse`, copies that run's records until there are so many, and
copies all into a bucket of moto, a process of its own, behind a proxy that counts and delays each
request. Each command is started twice: on a machine that has seen nothing of the bucket, and again.
"""

import argparse
import json
import os
import sys
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import s3_server
from many_parts import shown, tercet

from tercet.storage.runs import list_runs
from tercet.storage.store import Store, is_store, json_bytes, open_store


def copy_runs(store: Store, count: int) -> None:
    """Copies the store's only run under earlier ids until there are so many."""
    (run,) = list_runs(store)
    first = f"runs/{run['run_id']}/"
    records = {path.removeprefix(first): store.get(path) for path in store.stats(first[:-1])}
    began = datetime.strptime(run["run_id"][:15], "%Y%m%dT%H%M%S")
    for number in range(1, count):
        moment = began - timedelta(days=number)
        run_id = f"{moment:%Y%m%dT%H%M%S}000000-{number:04x}"
        started = {"run_id": run_id, "started": f"{moment.isoformat()}.000+00:00"}
        for name, text in records.items():
            if name == "start.json":
                text = json_bytes(json.loads(text or b"") | started)
            store.create(f"runs/{run_id}/{name}", text or b"")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=105)
    parser.add_argument("--delay", type=float, default=0.05, help="seconds added to each request")
    parser.add_argument("--recipe", default="quickstart")
    parser.add_argument("--until", default="parse")
    parser.add_argument("--store", help="where to leave the store on a disk, and to find it made")
    parser.add_argument(
        "--show", action="store_true", help="print every request of the second time"
    )
    options = parser.parse_args()
    arguments = [options.recipe, "--until", options.until]
    commands = (
        ["ls"],
        ["sql", "SELECT 1"],
        ["sql", "SELECT count(*) FROM candidates"],
        ["plan", *arguments],
        ["du"],
        ["gc"],
        ["run", *arguments, "--no-server"],
    )
    with (
        tempfile.TemporaryDirectory() as scratch,
        s3_server.moto_server() as port,
        s3_server.proxy(port) as proxy,
    ):
        disk, place = options.store or f"{scratch}/disk", "s3://bucket/many"
        if not is_store(disk):
            tercet("run", *arguments, "--no-server", "--store", disk)
            copy_runs(open_store(disk), options.runs)
        listed = list_runs(open_store(disk))
        print(f"{len(listed)} runs, the newest of {len(listed[0]['steps'])} steps", flush=True)
        s3_server.make_bucket(port, "bucket")
        os.environ |= {**s3_server.ENVIRONMENT, "AWS_ENDPOINT_URL": proxy.endpoint}
        os.environ["TERCET_WORK"] = f"{scratch}/copying"
        tercet("copy", disk, place)
        proxy.delay = options.delay
        for number, words in enumerate(commands):
            os.environ["TERCET_WORK"] = f"{scratch}/work{number}"
            for state in ("first", "again"):
                proxy.counted()
                seconds = tercet(*words, "--store", place)
                asked_for = proxy.counted()
                print(
                    f"{shown(words)}, {state}: {len(asked_for)} requests, {seconds:.1f} s",
                    flush=True,
                )
                if options.show and state == "again":
                    print("\n".join(" ".join(one) for one in asked_for))


if __name__ == "__main__":
    main()
