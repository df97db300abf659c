"""What the tests run in processes of their own: ``python processes.py WHAT STORE …``."""

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from tercet.storage import locks
from tercet.storage.artifacts import Artifact, open_artifact
from tercet.storage.catalog.views import write_catalog
from tercet.storage.part_writer import PartWriter, StagedPart
from tercet.storage.store import FullDisk, Store, open_store

PARTS = 50
ROWS = 40
SCHEMAS = {
    "left": pa.schema([("part", pa.int32()), ("x", pa.int64())]),
    "right": pa.schema([("part", pa.int32()), ("text", pa.string())]),
    "rejects": pa.schema([("reason", pa.string())]),
}


def staged(artifact: Artifact, index: int, rows: int = ROWS, width: int = 1) -> StagedPart:
    """A part of two tables; the second has three rows for each of the first, in several files."""
    with PartWriter(artifact.scratch() / f"part-{index}", SCHEMAS, part_rows=ROWS) as writer:
        numbers = list(range(rows))
        writer.emit("left", pa.table({"part": [index] * rows, "x": numbers}))
        for copy in range(3):
            texts = [f"{index}-{copy}-{n}" * width for n in numbers]
            writer.emit("right", pa.table({"part": [index] * rows, "text": texts}))
        return writer.close()


def two_parts(store: Store) -> None:
    """Makes a finished artifact of `extract` with two parts."""
    artifact = open_artifact(store, "extract", "aaaa")
    artifact.adopt_plan([{}, {}])
    for index in range(2):
        artifact.commit(index, staged(artifact, index), f"k{index}", {})
    artifact.finish({"stage": "extract"})


def parts_in(store: Store) -> int:
    """How many parts the artifact has: each costs eight requests where it is not on a disk."""
    return PARTS if store.work == Path(store.location) else 12


def write(store: Store, everything: bool = False, most: int = PARTS) -> None:
    """Fills the artifact's missing parts (or makes them all, as a second run would).

    most: after so many it stands still until it is killed.
    """
    artifact = open_artifact(store, "extract", "aaaa")
    plan = artifact.adopt_plan([{"part": index} for index in range(parts_in(store))])
    print("ready", flush=True)
    made = 0
    for index in range(len(plan)):
        if everything or artifact.record(index) is None:
            if made == most:
                time.sleep(3600)
            made += 1
            artifact.commit(index, staged(artifact, index), f"key{index}", {"source": [str(index)]})
    if not everything:
        artifact.finish({"stage": "extract"})


def race(store: Store) -> None:
    """Tries to be first with each of fifty objects, and says with which it was."""
    print("ready", flush=True)
    sys.stdin.readline()
    data = f"{os.getpid()} ".encode() * 1000
    won = [key for key in range(50) if store.create(f"race/{key}", data)]
    print(json.dumps(won), flush=True)


def hold(store: Store) -> None:
    """Holds a lock until it is killed."""
    with locks.hold(store, "thing", who="the other run"):
        print("ready", flush=True)
        time.sleep(3600)


def fill(store: Store) -> None:
    """Commits parts until the disk is full, then frees a little and goes on."""
    ballast = store.work.parent / "ballast"
    ballast.write_bytes(b"x" * 150_000)
    artifact = open_artifact(store, "extract", "full")
    index = 0
    try:
        while index < 1000:
            artifact.commit(index, staged(artifact, index, ROWS, 100), f"full{index}", {})
            index += 1
    except FullDisk as error:
        print(error)
    else:
        raise SystemExit("the disk never filled up")
    records = artifact.records()
    wanted = {
        str(store.local(file["path"]))
        for record in records.values()
        for files in record["tables"].values()
        for file in files
    }
    there = {str(path) for path in (store.work / "artifacts").rglob("*/data/*/*")}
    assert there == wanted, there ^ wanted
    half = [path for path in store.work.rglob("*") if "#" in path.name or "writing" in path.name]
    assert not half, half
    assert sorted(records) == list(range(index)), sorted(records)
    # Room for the file of the catalog, but not for its views.
    rest = store.work.parent / "rest"
    with suppress(OSError), rest.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    os.truncate(ballast, ballast.stat().st_size - 16_384)
    try:
        write_catalog(store)
    except FullDisk as error:
        print(error)
    else:
        raise SystemExit("the catalog found room")
    ballast.unlink()
    artifact.commit(index, staged(artifact, index), f"full{index}", {})
    assert artifact.rows().count("right") == 3 * ROWS * (index + 1)
    print("went on")


def catalogs(store: Store) -> None:
    """Rewrites the catalog until it is killed."""
    print("ready", flush=True)
    while True:
        write_catalog(store)
        time.sleep(0.01)


if __name__ == "__main__":
    opened = open_store(sys.argv[2])
    what = sys.argv[1]
    if what == "write":
        more = sys.argv[3:]
        most = int(more[1]) if more[:1] == ["--most"] else PARTS
        write(opened, everything="--everything" in more, most=most)
    else:
        {"race": race, "hold": hold, "fill": fill, "catalogs": catalogs}[what](opened)
