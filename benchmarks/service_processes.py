"""A Prefect service of real processes for `service_faults.py`: PostgreSQL, a server, workers."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support")]
PYTHON = sys.executable

from postgres import postgres  # noqa: E402
from surroundings import part  # noqa: E402


@contextmanager
def prefect(folder: Path) -> Iterator[None]:
    """Prefect's server on a PostgreSQL, for this process and its children."""
    port, of_database = free_port(), free_port()
    os.environ |= {
        "PREFECT_HOME": str(folder / "home"),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        "OMP_NUM_THREADS": "1",
    }
    own = {
        "PREFECT_API_DATABASE_CONNECTION_URL": (
            f"postgresql+asyncpg://prefect:prefect@127.0.0.1:{of_database}/prefect"
        ),
        "PREFECT_UI_API_URL": os.environ["PREFECT_API_URL"],
    }
    words = [PYTHON, "-m", "prefect", "server", "start", "--port", str(port)]
    with postgres(part("postgres"), of_database, *["prefect"] * 3):
        with (folder / "server.log").open("wb") as log:
            process = subprocess.Popen(words, env={**os.environ, **own}, stdout=log, stderr=log)
        print(f"Prefect: http://127.0.0.1:{port}", flush=True)
        try:
            from prefect.client.orchestration import get_client

            def healthy() -> bool:
                with get_client(sync_client=True) as client:
                    return client.api_healthcheck() is None

            wait(healthy, 300)
            yield
        finally:
            process.terminate()
            process.wait(60)


class Service:
    """What a case does: deploy, start and kill workers, start runs and follow them."""

    def __init__(self, folder: Path, name: str) -> None:
        from prefect.client.orchestration import get_client

        self.name = name
        self.folder = folder / name
        self.folder.mkdir(exist_ok=True)
        self.client = get_client(sync_client=True)
        self.store = self.folder / "store"
        self.workers: list[subprocess.Popen[bytes]] = []

    def deploy(self, *options: str, steps: int = 10) -> None:
        """Writes and deploys the tiny recipe, with a training of so many steps."""
        import tiny_run
        import yaml

        corpus, recipe = self.folder / "prose.jsonl", self.folder / "recipe.yaml"
        if not recipe.exists():
            tiny_run.write_corpus(corpus, tiny_run.documents(80))
            tiny_run.write_recipe(recipe, corpus, self.folder.parent / "backbone")
            content = yaml.safe_load(recipe.read_text())
            content["name"] = self.name
            content["train"]["phases"][0]["max_steps"] = steps
            recipe.write_text(yaml.safe_dump(content, sort_keys=False))
        words = [PYTHON, "-c", "from tercet.flows.cli import main; main()", "deploy"]
        words += [str(recipe), "--store", str(self.store), "--pool", self.name, *options]
        subprocess.run(words, check=True, capture_output=True, cwd=self.folder)

    def worker(self) -> "subprocess.Popen[bytes]":
        """A worker as anybody starts one: no setting but the server's address."""
        words = [PYTHON, "-m", "prefect", "worker", "start", "--pool", self.name, "--limit", "1"]
        with (self.folder / "workers.log").open("ab") as log:
            started = subprocess.Popen(words, stdout=log, stderr=log, cwd=self.folder)
        self.workers.append(started)
        return started

    def start(self, half: str = "train", **parameters: Any) -> Any:
        found = self.client.read_deployment_by_name(f"tercet/{self.name}-{half}")
        return self.client.create_flow_run_from_deployment(found.id, parameters=parameters).id

    def state(self, run: Any) -> str:
        state = self.client.read_flow_run(run).state
        return f"{state.type.value}" if state else ""

    def states(self, run: Any) -> list[str]:
        return [state.name or "" for state in self.client.read_flow_run_states(run)]

    def until(self, run: Any, *wanted: str, seconds: float = 900) -> str:
        wait(lambda: self.state(run) in wanted, seconds)
        return self.state(run)

    def runs_of(self, half: str) -> list[Any]:
        found = self.client.read_deployment_by_name(f"tercet/{self.name}-{half}")
        return [run for run in self.client.read_flow_runs() if run.deployment_id == found.id]

    def training(self, run: Any) -> None:
        """Waits until the run trains."""
        from prefect.client.schemas.filters import TaskRunFilter, TaskRunFilterFlowRunId

        mine = TaskRunFilter(flow_run_id=TaskRunFilterFlowRunId(any_=[run]))

        def trains() -> bool:
            found = self.client.read_task_runs(task_run_filter=mine)
            return any(t.name == "train" and t.state and t.state.is_running() for t in found)

        wait(trains, 900)

    def kill(self, worker: "subprocess.Popen[bytes]", how: int = signal.SIGKILL) -> None:
        """The worker and every process that it has started."""
        for process in [*family(worker), psutil.Process(worker.pid)]:
            process.send_signal(how)
        if how == signal.SIGKILL:
            worker.wait()

    def end(self) -> None:
        for worker in self.workers:
            if worker.poll() is None:
                self.kill(worker)

    def parts(self) -> dict[str, int]:
        """Records of the store, and files that none names: parts made in vain."""
        paths = sorted(self.store.glob("artifacts/*/*/_parts/*.json"))
        records = [json.loads(path.read_text()) for path in paths]
        keys = Counter((path.parent, one["key"]) for path, one in zip(paths, records, strict=True))
        named = {f["path"] for one in records for files in one["tables"].values() for f in files}
        lying = {
            str(path.relative_to(self.store))
            for path in self.store.glob("artifacts/*/*/data/*/*.parquet")
        }
        return {
            "records": len(records),
            "committed_twice": sum(count > 1 for count in keys.values()),
            "files_that_no_record_names": len(lying - named),
        }


def family(worker: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    return psutil.Process(worker.pid).children(recursive=True)


def free_port() -> int:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        return int(holder.getsockname()[1])


def wait(true: Callable[[], object], seconds: float) -> float:
    """Seconds until it is true. Raises: TimeoutError."""
    began = time.monotonic()
    while True:
        try:
            if true():
                return time.monotonic() - began
        except Exception:
            if time.monotonic() - began > seconds:
                raise
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"not within {seconds:.0f} s")
        time.sleep(0.5)
