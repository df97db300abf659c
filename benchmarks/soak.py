"""A quarter of an hour in which everything happens to a service: nothing is lost, nothing is left.

    python benchmarks/soak.py FOLDER [--minutes 15] [--until parse] [--seed 1]

`tercet serve` runs a little recipe one time after another over a corpus that grows. At random
moments a run is killed, its language model is gone, or the disk is full; once everything is killed,
`serve` and its Prefect server too. After each run every record must be what it was, and every file
what a record says. In the end a fresh store that nothing happened to must have the same rows, what
lies among the artifacts must be what the newest run's records name, byte for byte, no process may
be left, and memory and disk must not have grown. The rule by which `tercet gc` spares what is
younger than a day is off.

It needs Linux, for a disk of its own (a tmpfs) and a name space of processes of its own, in which
none is overlooked. FOLDER keeps the logs.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml
from gc_beside_runs import marked
from service_processes import PYTHON, free_port, wait

from tercet.flows.service import server
from tercet.storage import garbage
from tercet.storage.runs import list_runs
from tercet.storage.store import open_store

DISK = "192m"
TERCET = [PYTHON, "-c", "from tercet.flows.cli import main; main()"]
FLOW = "tercet.flows.service.flow_process"
FATES = ("killed", "killed", "killed", "no model", "disk full")
# Rows that a run has open at most: so many may be asked about again when it is killed.
OPEN = 8
# Without figures: vectors that were found differ in the last digit from those made anew.
ROWS = {
    "sentences": "*",
    "anchors": "*",
    "kg_nodes": "*",
    "generations": "*",
    "candidates": "*",
    "triplets": "triplet_id, anchor, positive, negative",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--until")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    disk = asked.folder.resolve() / "disk"
    # Elsewhere, killing everything would be just that.
    if os.getpid() != 1 or not disk.is_mount():
        disk.mkdir(parents=True, exist_ok=True)
        own = ["unshare", "-rmpf", "--mount-proc", "--kill-child", "sh", "-c"]
        script = f'mount -t tmpfs -o size={DISK} tmpfs "$0" && exec "$@"'
        os.execvp(own[0], [*own, script, str(disk), PYTHON, *sys.argv])
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "NO_PROXY": "127.0.0.1"}
    garbage.YOUNG_SECONDS = 0.0
    from faulty_server import FaultyServer

    with FaultyServer(port=free_port()) as model:
        soak = Soak(disk.parent, asked.until, model, random.Random(asked.seed))
        print(json.dumps(soak.endure(asked.minutes * 60), indent=1))


class Soak:
    """The service, what happens to it, and what is seen of it.

    model: the endpoint that it asks. happened: runs by what befell them and how they ended. memory:
    MiB of `serve` and of its Prefect server, after each run since they were started. disk: bytes by
    folder of the store, after each collection.
    """

    def __init__(self, folder: Path, until: str | None, model: Any, draw: random.Random) -> None:
        import tiny_models
        import tiny_run
        from watched import Watched

        self.folder, self.model, self.draw = folder, model, draw
        self.store, self.log = folder / "disk" / "store", folder / "serve.log"
        self.corpus, self.recipe = folder / "prose.jsonl", folder / "tiny.yaml"
        self.until = ["--until", until] if until else []
        self.happened: Counter[str] = Counter()
        self.memory: list[tuple[float, float]] = []
        self.disk: list[Counter[str]] = []
        self.documents = 60
        self.took = 10.0
        self.watched = Watched(self.store)
        if not (folder / "backbone").exists():
            tiny_models.write_backbone(folder / "backbone")
        tiny_run.write_recipe(self.recipe, self.corpus, folder / "backbone")
        content = yaml.safe_load(self.recipe.read_text())
        content["llm"] = {"name": "capitals", "api": "completions"}
        prompt = folder / "sentence.jinja"
        prompt.write_text("{{ sentence }}")
        del content["select"]["methods"]
        content["synthesise"] = {
            "next_sentences": None,
            "entity_swap": None,
            "rewrite": {"prompt": str(prompt), "weight": 0.5},
        }
        # A run without its model ends soon.
        asked = {"endpoints": [model.url], "concurrency": OPEN, "patience": 3}
        content["run"]["llm"] = asked
        self.recipe.write_text(yaml.safe_dump(content, sort_keys=False))
        self.grow()
        self.log.touch()
        if (folder / "prefect").exists():
            home = server.folder(open_store(str(self.store)).work)
            shutil.copytree(folder / "prefect", home)

    def endure(self, seconds: float) -> dict[str, Any]:
        """Each fate once, and on for so long; then looks at what is left.

        Raises: AssertionError.
        """
        from watched import leftovers

        began = time.monotonic()
        self.serve()
        self.befall()
        while time.monotonic() - began < seconds:
            if not self.happened["everything killed"]:
                self.restart()
            self.befall()
        assert self.run("undisturbed") == "done", self.log.read_text()
        self.process.terminate()
        assert self.process.wait(300) == 0, self.log.read_text()
        wait(lambda: not others(), 300)
        self.collect()
        left = leftovers(self.store)
        assert left == [], left
        asked = self.model.times_asked()
        return {
            "minutes": round((time.monotonic() - began) / 60, 1),
            "runs": dict(sorted(self.happened.items())),
            "rows as without all this": self.compare(),
            "questions": len(asked),
            "asked again": asked.total() - len(asked),
            "MiB of serve and of its server, by quarters": self.quarters(),
            "bytes on disk, first and last": [self.disk[0], self.disk[-1]],
        }

    def befall(self) -> None:
        """A run for each of the fates."""
        for fate in self.draw.sample(FATES, len(FATES)):
            self.run(fate)

    def restart(self) -> None:
        """Everything but this process is killed during a run, and served again."""
        self.start()
        time.sleep(self.draw.uniform(0.1, 0.7) * self.took)
        os.kill(-1, signal.SIGKILL)
        self.process.wait()
        self.happened["everything killed"] += 1
        self.serve()

    def quarters(self) -> list[list[float]]:
        """The most memory in each quarter of the runs: in the last hardly more than before."""
        count = len(self.memory)
        parts = [self.memory[n * count // 4 : (n + 1) * count // 4] for n in range(4)]
        most = [[max(column) for column in zip(*part, strict=True)] for part in parts]
        for first, last in zip(most[0], most[-1], strict=True):
            assert last < 1.25 * first, most
        return most

    def serve(self) -> None:
        """Starts `tercet serve` and waits until it serves."""
        before = self.log.read_text().count("Serving")
        words = [*TERCET, "serve", str(self.recipe), "--store", str(self.store), *self.until]
        with self.log.open("ab") as file:
            self.process = subprocess.Popen(words, stdout=file, stderr=file, cwd=self.folder)
        self.memory.clear()

        def serves() -> bool:
            return self.log.read_text().count("Serving") > before

        wait(lambda: serves() or self.process.poll() is not None, 600)
        assert serves(), self.log.read_text()
        self.prefect = server.running(self.store)
        assert self.prefect is not None
        self.api = httpx.Client(base_url=f"{self.prefect.api}/", trust_env=False, timeout=60)
        self.deployment = self.ask("GET", "deployments/name/tercet/tiny")["id"]

    def ask(self, verb: str, path: str) -> Any:
        """What Prefect's API answers, once it does: a busy machine or a full disk delays it."""
        answers: list[Any] = []

        def answered() -> bool:
            content = {} if verb == "POST" else None
            answer = self.api.request(verb, path, json=content)
            answers.append(answer.raise_for_status().json())
            return True

        wait(answered, 300)
        return answers[0]

    def start(self) -> tuple[str, psutil.Process]:
        """Starts a run that has more to read. Returns the flow run's id and its process."""
        self.grow()
        flow_run = self.ask("POST", f"deployments/{self.deployment}/create_flow_run")["id"]
        found: list[psutil.Process] = []
        wait(lambda: found.extend(one for one in others() if FLOW in one.cmdline()) or found, 300)
        return flow_run, found[0]

    def run(self, fate: str) -> str:
        """One run, with what befalls it at a random moment. Returns how it ended."""
        flow_run, process = self.start()
        began = time.monotonic()
        if fate == "no model":
            # It is asked early in a run.
            self.model.kill()
        elif fate != "undisturbed":
            time.sleep(self.draw.uniform(0.1, 0.7) * self.took)
            if not process.is_running():
                fate = "undisturbed"
        if fate == "killed":
            os.killpg(process.pid, signal.SIGKILL)
        elif fate == "disk full":
            fill(self.store.parent, self.draw.uniform(1, 5))
        ends = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
        wait(lambda: self.ask("GET", f"flow_runs/{flow_run}")["state"]["type"] in ends, 900)
        wait(lambda: not process.is_running(), 60)
        if fate == "no model":
            self.model.start()
        state = str(list_runs(open_store(str(self.store)))[0]["state"])
        if state == "done":
            self.took = time.monotonic() - began
        self.happened[f"{fate}: {state}"] += 1
        self.look()
        return state

    def grow(self) -> None:
        """Two documents more in the corpus."""
        from tiny_run import documents, write_corpus

        self.documents += 2
        write_corpus(self.corpus, documents(self.documents))

    def look(self) -> None:
        """All records and files are what they were; at every fifth look garbage is collected."""
        self.watched.look()
        assert self.watched.faults == []
        serve, prefect = psutil.Process(self.process.pid), psutil.Process(self.prefect.pid)
        self.memory.append((mib(serve), mib(prefect)))
        if self.happened.total() % 5 == 0:
            self.collect()

    def collect(self) -> None:
        """Deletes all but what the last run that was done uses, and looks at what lies there."""
        from watched import Watched

        store = open_store(str(self.store))
        garbage.collect(store, 1, delete=True)
        # What goes by a collection is not lost.
        self.watched = Watched(self.store)
        sizes: Counter[str] = Counter()
        for path in self.store.rglob("*"):
            if path.is_file():
                sizes[path.relative_to(self.store).parts[0]] += path.stat().st_size
        self.disk.append(sizes)
        if list_runs(store)[0]["state"] == "done":
            assert store.sizes("artifacts") == marked(store)

    def compare(self) -> dict[str, int]:
        """The rows of a store to which nothing happened, which are those of this one, by table."""
        from tiny_run import query

        fresh = self.folder / "undisturbed"
        words = [*TERCET, "run", str(self.recipe), "--store", str(fresh), "--no-server"]
        subprocess.run([*words, *self.until], check=True, capture_output=True)
        made = {table for (table,) in query(fresh, "SELECT view_name FROM duckdb_views()")}
        count = {}
        for table, columns in ROWS.items():
            if table not in made:
                continue
            asked = f"SELECT {columns} FROM {table} ORDER BY ALL"
            rows = query(fresh, asked)
            assert query(self.store, asked) == rows, table
            count[table] = len(rows)
        return count


def others() -> list[psutil.Process]:
    """The processes beside this one: all are the service's."""
    found = [one for one in psutil.process_iter() if one.pid != os.getpid()]
    return [one for one in found if one.status() != psutil.STATUS_ZOMBIE]


def fill(disk: Path, seconds: float) -> None:
    """No byte is free for so long."""
    filler = disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(65_536))
    time.sleep(seconds)
    filler.unlink()


def mib(process: psutil.Process) -> float:
    return round(float(process.memory_info().rss / 2**20), 1)


if __name__ == "__main__":
    main()
