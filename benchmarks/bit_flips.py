"""Single bits of a store are flipped: whether that is seen, and made good to the same bytes.

    python benchmarks/bit_flips.py [--flips 60]

A run of the quickstart's recipe over this tree's documentation, with three steps of training. In
each of four tables so many bits are flipped, one at a time, and a third as many in the weights of
the encoder. Of each flip it counts what reads other rows than before: pyarrow as stages do it, and
DuckDB, which compares no checksums; and whether `tercet verify` names the file. Then they are
flipped by the dozen, `tercet verify --mend` discards them, and after the next run each file of the
store must be what it was, byte for byte. In the end it prints what comparing takes.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import pyarrow as pa

from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.flows.running.runner import open_run, run_steps
from tercet.storage import records
from tercet.storage.artifacts import Artifact, all_artifacts
from tercet.storage.rows import read_parquet_sql, rows_of
from tercet.storage.store import Damaged, Store, open_store
from tercet.storage.verifying import compare, discard, faults_of
from tercet.tasks.stages import known_schemas

PAGES = Path(__file__).parents[1] / "docs"
TABLES = {
    "parse": "candidates",
    "embed": "embeddings",
    "score.evaluator": "scores",
    "extract": "mentions",
}
AT_ONCE = 12


def run(store: Path) -> float:
    """Runs the recipe; the seconds."""
    overrides = ("run.part_rows=300", "train.phases.0.max_steps=3", "run.workers=1")
    began = time.monotonic()
    plan = prepare(
        RunArguments(
            "quickstart", str(store), overrides, str(store.parent / "pages"), "train", None, 1
        )
    )
    with open_run(plan) as handle:
        run_steps(handle)
    return time.monotonic() - began


def contents(store: Path) -> dict[str, bytes]:
    """The files that records name."""
    opened = open_store(str(store))
    named = {
        p for one in all_artifacts(opened) for r in one.records().values() for p in named_by(r)
    }
    return {path: (store / path).read_bytes() for path in named}


def named_by(record: records.Record) -> list[str]:
    return [
        file["path"]
        for file in (
            *record["files"],
            *(one for files in record["tables"].values() for one in files),
        )
    ]


def by_content(files: dict[str, bytes]) -> dict[tuple[str, str], list[bytes]]:
    """What each step has of each table or model; names of files are drawn anew.

    Without what a training says of its own speed.
    """
    found: dict[tuple[str, str], list[bytes]] = {}
    for path, data in files.items():
        _, step, version, *rest = path.split("/")
        if rest[:2] != ["data", "training_log"]:
            table = rest[1] if rest[0] == "data" else ""
            found.setdefault((f"{step}@{version}", table), []).append(data)
    return {key: sorted(values) for key, values in found.items()}


def flip(path: Path, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def with_arrow(path: Path, table: str) -> pa.Table:
    return rows_of({table: [path]}).table(table)


def with_duckdb(path: Path) -> pa.Table:
    return duckdb.sql(f"FROM {read_parquet_sql([str(path)])}").to_arrow_table()


def seen(path: Path, table: str, before: pa.Table, after_duckdb: pa.Table) -> tuple[str, str]:
    """How pyarrow and DuckDB read the file: error, other rows, or the same."""
    try:
        arrow = "same" if with_arrow(path, table).equals(before) else "other rows"
    except Damaged:
        arrow = "error"
    try:
        other = "same" if with_duckdb(path).equals(after_duckdb) else "other rows"
    except duckdb.Error:
        other = "error"
    return arrow, other


def artifact_of(store: Store, step: str) -> Artifact:
    return next(one for one in all_artifacts(store) if one.step == step)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=60)
    asked = parser.parse_args()
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "store")
        # This tree may change meanwhile.
        shutil.copytree(PAGES, Path(folder, "pages"))
        print(f"first run: {run(place):.1f} s", flush=True)
        print(f"all reused: {run(place):.1f} s", flush=True)
        whole = contents(place)
        store = open_store(str(place))
        records._digest.cache_clear()
        began = time.monotonic()
        found = compare(store)
        took = time.monotonic() - began
        print(f"verify: {found.files} files, {found.bytes:,} bytes, {took:.2f} s", flush=True)
        assert not found.artifacts, found
        targets: list[Path] = []
        for step, table in TABLES.items():
            artifact = artifact_of(store, step)
            files = [Path(file) for file in artifact.rows().files(table)]
            counted: dict[str, int] = {}
            for _ in range(asked.flips):
                file = draw.choice(files)
                data, before, other = file.read_bytes(), with_arrow(file, table), with_duckdb(file)
                flip(file, draw)
                how = seen(file, table, before, other)
                named = any(path.endswith(file.name) for path in faults_of(artifact))
                for key in (f"pyarrow {how[0]}", f"DuckDB {how[1]}", f"verify {named}"):
                    counted[key] = counted.get(key, 0) + 1
                file.write_bytes(data)
                targets.append(file)
            print(step, dict(sorted(counted.items())), flush=True)
        trained = next(one for one in all_artifacts(store) if one.step.startswith("train"))
        folder_ = trained.model_dir()
        assert folder_ is not None
        (weights,) = folder_.rglob("model.safetensors")
        data = weights.read_bytes()
        records._digest.cache_clear()
        began = time.monotonic()
        assert not records.faults(open_store(str(place)), [*trained.records().values()], False)
        print(f"weights: {len(data):,} bytes compared in {time.monotonic() - began:.2f} s")
        named = 0
        for _ in range(asked.flips // 3):
            flip(weights, draw)
            named += bool(faults_of(trained, tables=False))
            weights.write_bytes(data)
        print(f"weights: {named} of {asked.flips // 3} found", flush=True)
        rounds = [targets[at : at + AT_ONCE] for at in range(0, len(targets), AT_ONCE)]
        mend(place, whole, rounds, weights, draw)


def mend(
    place: Path,
    whole: dict[str, bytes],
    rounds: list[list[Path]],
    weights: Path,
    draw: random.Random,
) -> None:
    """Each round flips a bit in several files; the next run must make the same bytes again."""
    expected, seconds = by_content(whole), []
    for number, files in enumerate([*rounds, *[[weights]] * 4]):
        there = contents(place)
        # Names are drawn anew by each run: the same content lies elsewhere now.
        by_data = {data: path for path, data in there.items()}
        names = {by_data[whole[file.relative_to(place).as_posix()]] for file in files}
        for name in names:
            flip(place / name, draw)
        store = open_store(str(place))
        found = compare(store)
        wrong = [path for faults in found.artifacts.values() for path in faults]
        assert names <= {*wrong}, (number, names)
        discard(store, found, known_schemas().values())
        seconds.append(run(place))
        assert by_content(contents(place)) == expected, (number, names)
    print(
        f"mended: {len(rounds)} rounds of up to {AT_ONCE} files and 4 of the weights, the same "
        f"bytes after each; a run took {sum(seconds) / len(seconds):.1f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
