"""`tercet serve` for real: one server and one schedule for all that is asked of them here."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from commands_store import lines_of

from tercet.flows.commands.browse import list_store
from tercet.flows.service import server
from tercet.storage import locks, runs
from tercet.storage.store import Store, open_store

TERCET = [sys.executable, "-c", "from tercet.flows.cli import main; main()"]
SECONDS = 900
LINES = [f"The {n} old ships of harbour {n * 7} carry grain to the mill." for n in range(400)]


@dataclass
class Served:
    """A recipe that is served every five seconds until `sample`, and its server."""

    store: Store
    corpus: Path
    process: "subprocess.Popen[bytes]"
    client: Any = None
    deployment: Any = None

    def log(self) -> str:
        return (self.corpus.parent / "serve.log").read_text()

    def wait_for(self, what: str, look: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log()
            if answer := look():
                return answer
            time.sleep(0.3)
        raise AssertionError(f"waited in vain for {what}:\n{self.log()}")

    def quiet(self) -> None:
        """Ends the schedule, and waits for what it has begun."""
        from prefect.states import Cancelled

        for schedule in self.client.read_deployment_schedules(self.deployment):
            self.client.update_deployment_schedule(self.deployment, schedule.id, active=False)

        def nothing_else() -> bool:
            others = [r for r in self.client.read_flow_runs() if not r.state.is_final()]
            for other in others:
                if other.state.is_scheduled():
                    self.client.set_flow_run_state(other.id, Cancelled(), force=True)
            return not others

        self.wait_for("the other runs to end", nothing_else)

    def started(self) -> Any:
        """A flow run that is asked for now."""
        return self.client.create_flow_run_from_deployment(self.deployment)

    def ended(self, flow_run: Any) -> Any:
        """The flow run once it has ended and `serve` has said so."""

        def look() -> Any:
            read = self.client.read_flow_run(flow_run.id)
            run_id = read.labels.get("tercet.run")
            ended = read.state.is_final() and run_id is not None and f"{run_id}: " in self.log()
            return read if ended else None

        return self.wait_for("the end of a run", look)

    def line(self, flow_run: Any) -> str:
        """What `serve` said about how a flow run ended, after the time."""
        run_id = flow_run.labels["tercet.run"]
        (line,) = re.findall(rf"^\d{{4}}-\d\d-\d\d [\d:]{{8}} (.*{run_id}: .*)$", self.log(), re.M)
        return str(line)


@pytest.fixture(scope="module")
def served(prefect_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("serving")
    store = open_store(str(folder / "store"))
    shutil.copytree(prefect_folder, server.folder(store.work))
    corpus = folder / "lines.txt"
    corpus.write_text("\n".join(LINES))
    content = {
        "name": "ships",
        "backbone": "package:nothing/here",
        "corpora": [{"name": "ships", "source": str(corpus)}],
        "train": {"phases": [{"rows": "anchors", "loss": "info_nce"}]},
    }
    recipe = folder / "nightly.yaml"
    recipe.write_text(yaml.safe_dump(content))
    options = ["--store", store.location, "--interval", "5", "--until", "sample"]
    # The second step cannot write: a file stands where its directory belongs.
    obstacle(store).parent.mkdir(parents=True, exist_ok=True)
    obstacle(store).write_text("in the way")
    with (folder / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            [*TERCET, "serve", str(recipe), *options], stdout=log, stderr=log
        )
    service = Served(store, corpus, process)

    def answering() -> bool:
        live = server.running(store.work)
        return live is not None and server.healthy(live) and "Serving" in service.log()

    try:
        service.wait_for("the server", answering)
        with server.prefect_server(store.work, lambda text: None):
            from prefect.client.orchestration import get_client

            with get_client(sync_client=True) as client:
                service.client = client
                service.deployment = client.read_deployment_by_name("tercet/ships").id
                yield service
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(SECONDS)


def obstacle(store: Store) -> Path:
    return store.local("artifacts/sample")


def unobstructed(served: Served) -> None:
    """Nothing runs, and nothing is in a step's way."""
    served.quiet()
    if obstacle(served.store).is_file():
        obstacle(served.store).unlink()


@pytest.mark.slow
def test_fires_fails_is_retried_and_resumes(served: Served) -> None:
    from prefect.client.schemas.filters import TaskRunFilter, TaskRunFilterFlowRunId
    from prefect.states import AwaitingRetry

    client = served.client
    failed = served.wait_for(
        "a scheduled run that failed",
        lambda: [r for r in client.read_flow_runs() if r.state and r.state.is_failed()],
    )[0]
    assert failed.auto_scheduled
    assert failed.deployment_id == served.deployment
    served.quiet()
    before = served.ended(failed)
    run = runs.get_run(served.store, before.labels["tercet.run"])
    assert run is not None
    assert run["state"] == "failed"
    assert served.line(before).startswith(f"ships {run['run_id']}: failed after ")
    assert served.line(before).endswith(run["end_info"]["error"])

    def states() -> dict[str, str]:
        wanted = TaskRunFilter(flow_run_id=TaskRunFilterFlowRunId(any_=[failed.id]))
        tasks = client.read_task_runs(task_run_filter=wanted)
        tasks.sort(key=lambda t: t.expected_start_time)
        return {t.name: t.state.name for t in tasks}

    expected = {"ingest": "Completed", "sample": "Failed"}
    served.wait_for("the states of its tasks", lambda: states() == expected)

    obstacle(served.store).unlink()
    client.set_flow_run_state(failed.id, AwaitingRetry(), force=True)
    retried = served.wait_for(
        "the retry",
        lambda: [r for r in [client.read_flow_run(failed.id)] if r.state.is_completed()],
    )[0]
    assert retried.run_count == 2
    expected = {"ingest": "Cached", "sample": "Completed"}
    served.wait_for("the new states of its tasks", lambda: states() == expected)
    assert served.line(served.ended(failed)).startswith("ships ")


@pytest.mark.slow
def test_a_run_without_its_corpus_stands_in_the_output_and_in_ls(
    served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    unobstructed(served)
    served.corpus.rename(served.corpus.with_suffix(".away"))
    try:
        failed = served.ended(served.started())
    finally:
        served.corpus.with_suffix(".away").rename(served.corpus)
    assert failed.state.is_failed()
    assert str(served.corpus) in failed.state.message
    run_id = failed.labels["tercet.run"]
    assert failed.name == f"ships {run_id}"
    line = served.line(failed)
    assert line.startswith(f"ships {run_id}: failed after ")
    assert line.endswith(failed.state.message)
    list_store(served.store.location, None)
    row = next(row for row in lines_of(capsys.readouterr().out) if row.startswith(run_id))
    assert " ships " in row
    assert " failed " in row
    assert failed.state.message in row


@contextmanager
def under_way(served: Served) -> Iterator[Any]:
    """A flow run in the middle of its second step, which waits for the end of the block."""
    unobstructed(served)
    done = [run for run in runs.list_runs(served.store) if run["state"] == "done"]
    if not done:
        served.ended(served.started())
        done = runs.list_runs(served.store)
    version = done[0]["steps"][-1]["version"]
    shutil.rmtree(obstacle(served.store) / version, ignore_errors=True)
    before = served.log().count("waits for")
    with locks.hold(served.store, f"artifact-sample-{version}", who="the test"):
        started = served.started()
        served.wait_for("a run that waits", lambda: served.log().count("waits for") > before)
        yield started


@pytest.mark.slow
def test_a_run_outlives_its_server_which_is_started_again(served: Served) -> None:
    with under_way(served) as started:
        live = server.running(served.store.work)
        assert live is not None
        os.kill(live.pid, signal.SIGKILL)
        served.wait_for("the server", lambda: "was started again" in served.log())
    ended = served.ended(started)
    assert ended.state.is_completed()
    assert ": done after " in served.line(ended)
    after = server.running(served.store.work)
    assert after is not None
    assert (after.api, after.pid != live.pid) == (live.api, True)
    assert "Traceback" not in served.log()


@pytest.mark.slow
def test_cancelled_in_prefect(served: Served) -> None:
    from prefect.states import Cancelling

    with under_way(served) as started:
        served.client.set_flow_run_state(started.id, Cancelling(), force=True)
        ended = served.ended(started)
    assert served.client.read_flow_run(started.id).state.is_cancelled()
    assert ": interrupted after " in served.line(ended)


@pytest.mark.slow
def test_stopped_in_the_middle_of_a_run(served: Served) -> None:
    with under_way(served) as started:
        children = psutil.Process(served.process.pid).children(recursive=True)
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(SECONDS) == 0, served.log()
    # Its server stays for this process, which uses it.
    left = [child for child in children if child.is_running()]
    assert [child for child in left if server.PROCESS not in child.cmdline()] == []
    flow_run = served.client.read_flow_run(started.id)
    assert flow_run.state.is_crashed()
    run = runs.get_run(served.store, flow_run.labels["tercet.run"])
    assert run is not None
    assert run["state"] == "interrupted"
    assert served.line(flow_run).startswith(f"ships {run['run_id']}: interrupted after ")
    for word in ("never awaited", "Traceback"):
        assert word not in served.log()
    assert served.client.read_deployment(served.deployment).paused
