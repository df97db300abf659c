"""How long and how much memory from plain lines to candidates, against reading them alone.

    python benchmarks/wiki_scale.py [--lines 50000 300000] [--recipe NAME] [--set KEY=VALUE …]

For each number of lines: `tercet run RECIPE --corpus … --limit N --until candidates --no-server`
in a fresh store, in its own process, with the WordNet lexicon. Wall time, processor time, and the
peak memory of the process and its children together (resident set, sampled every 0.1 s). The
baseline reads the same lines and hashes each of them in one process: where machines differ, the
ratio of the two processor times says more than seconds do. `load` and `load_after` are the
machine's load average before and after the run: where it exceeds the number of cores, others share
the wall time, and the processor time is the figure to read. Results: `results/wiki_scale.csv`.
"""

import argparse
import csv
import gzip
import hashlib
import itertools
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

HERE = Path(__file__).parent
POLL_SECONDS = 0.1
START = "from tercet.flows.cli import main; main()"


@dataclass(frozen=True)
class Measurement:
    """One run. Seconds of wall time and of processor time, MiB of memory."""

    lines: int
    seconds: float
    cpu_seconds: float
    peak_mib: float
    baseline_seconds: float
    ratio: float
    load: float
    load_after: float
    cores: int
    exit_code: int


def read_and_hash(path: Path, limit: int) -> float:
    """Processor seconds to read the first `limit` lines and to hash each."""
    began = time.process_time()
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        for line in itertools.islice(file, limit):
            hashlib.md5(line, usedforsecurity=False).digest()
    return time.process_time() - began


def children_seconds() -> float:
    """Processor seconds of all children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def watch(command: Sequence[str]) -> tuple[float, float, float, int]:
    """Runs a command: wall and processor seconds, peak MiB with its children, exit code."""
    began, used = time.perf_counter(), children_seconds()
    process = psutil.Popen(list(command))
    peak = 0
    while process.poll() is None:
        peak = max(peak, resident(process))
        time.sleep(POLL_SECONDS)
    wall = time.perf_counter() - began
    return wall, children_seconds() - used, peak / 2**20, process.returncode


def resident(process: psutil.Process) -> int:
    """Bytes that a process and its children hold."""
    total = 0
    try:
        for one in [process, *process.children(recursive=True)]:
            try:
                total += one.memory_info().rss
            except psutil.NoSuchProcess:
                continue
    except psutil.NoSuchProcess:
        pass
    return total


def measure(options: argparse.Namespace, lines: int) -> Measurement:
    """One run of the pipeline in a store of its own, and the baseline."""
    load = os.getloadavg()[0]
    baseline = min(read_and_hash(options.corpus, lines) for _ in range(3))
    with tempfile.TemporaryDirectory(prefix="tercet-bench-") as folder:
        command = [
            *(sys.executable, "-c", START, "run", options.recipe),
            *("--corpus", str(options.corpus), "--limit", str(lines)),
            *("--until", "candidates", "--no-server", "--store", str(Path(folder) / "store")),
        ]
        settings = [
            # Lines have no dev pairs to choose a checkpoint on, and nothing is trained here.
            "train.choose=null",
            *options.set,
            *([f"extract.lexicon={options.lexicon}"] if options.lexicon else []),
        ]
        for setting in settings:
            command += ["--set", setting]
        seconds, cpu, peak, code = watch(command)
    return Measurement(
        lines=lines,
        seconds=round(seconds, 2),
        cpu_seconds=round(cpu, 2),
        peak_mib=round(peak, 1),
        baseline_seconds=round(baseline, 3),
        ratio=round(cpu / baseline, 1),
        load=round(load, 1),
        load_after=round(os.getloadavg()[0], 1),
        cores=os.cpu_count() or 0,
        exit_code=code,
    )


def main() -> int:
    data = Path(os.environ.get("TERCET_DATA", HERE.parent.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, default=data / "corpora" / "wiki_300k.txt.gz")
    lexicon = data / "lexicon" / "oewn2024_definitions.tsv.gz"
    parser.add_argument("--lexicon", default=str(lexicon), help="'' takes the recipe's own")
    parser.add_argument("--lines", type=int, nargs="+", default=[50_000, 300_000])
    parser.add_argument("--recipe", default="gcse_rules")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "wiki_scale.csv")
    options = parser.parse_args()
    if not options.corpus.is_file():
        sys.exit(f"There is no corpus at {options.corpus}: set TERCET_DATA or --corpus.")
    found = []
    for lines in options.lines:
        found.append(measure(options, lines))
        one = found[-1]
        print(
            f"{one.lines:>9} lines {one.seconds:8.1f} s ({one.cpu_seconds:.1f} s of processor), "
            f"{one.peak_mib:.0f} MiB, reading and hashing {one.baseline_seconds:.2f} s: "
            f"{one.ratio:.0f} times, load {one.load:.1f} to {one.load_after:.1f} "
            f"(exit {one.exit_code})"
        )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(asdict(found[0])), lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(one) for one in found)
    return max(one.exit_code for one in found)


if __name__ == "__main__":
    sys.exit(main())
