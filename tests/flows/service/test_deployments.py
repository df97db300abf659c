"""A schedule for real: it fires by itself, a run fails in the middle, its retry resumes."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tercet.flows.running.arguments import RunArguments
from tercet.flows.service import deployments, server
from tercet.storage.store import open_store
from tercet.tasks.corpus.sources import files
from tercet.tasks.stage import BadInput

TERCET = [sys.executable, "-c", "from tercet.flows.cli import main; main()"]
SECONDS = 900


@pytest.fixture
def store(prefect_folder: Path, tmp_path: Path) -> Path:
    root = open_store(str(tmp_path / "store")).work
    shutil.copytree(prefect_folder, server.folder(root))
    return root


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    lines = [f"The {n} old ships of harbour {n * 7} carry grain to the mill." for n in range(400)]
    (tmp_path / "lines.txt").write_text("\n".join(lines))
    path = tmp_path / "ships.yaml"
    content = {
        "name": "ships",
        "backbone": "package:nothing/here",
        "corpora": [{"name": "ships", "source": str(tmp_path / "lines.txt")}],
        "train": {"phases": [{"rows": "anchors", "loss": "info_nce"}]},
    }
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture
def serving(recipe: Path, store: Path) -> Iterator[Callable[..., "subprocess.Popen[bytes]"]]:
    started: list[subprocess.Popen[bytes]] = []

    def serve(*options: str) -> "subprocess.Popen[bytes]":
        command = [*TERCET, "serve", str(recipe), "--store", str(store), *options]
        with (store.parent / "serve.log").open("wb") as log:
            started.append(subprocess.Popen(command, stdout=log, stderr=log))
        return started[-1]

    yield serve
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                process.kill()
    left = server.running(store)
    if left is not None:
        server._kill_holder(server.folder(store))


@pytest.mark.slow
def test_fires_fails_is_retried_and_resumes(
    serving: Callable[..., "subprocess.Popen[bytes]"],
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The second step cannot write: a file stands where its directory belongs.
    obstacle = store / "artifacts" / "sample"
    obstacle.parent.mkdir(parents=True, exist_ok=True)
    obstacle.write_text("in the way")
    process = serving("--interval", "5", "--until", "sample")
    deadline = time.monotonic() + SECONDS

    def wait_for(what: str, look: Callable[[], Any]) -> Any:
        while time.monotonic() < deadline:
            assert process.poll() is None, log()
            found = look()
            if found:
                return found
            time.sleep(0.3)
        raise AssertionError(f"waited in vain for {what}:\n{log()}")

    def log() -> str:
        return (store.parent / "serve.log").read_text()

    def answering() -> server.Server | None:
        live = server.running(store)
        return live if live is not None and server.healthy(live, 10.0) else None

    live = wait_for("the server", answering)
    monkeypatch.setenv("PREFECT_API_URL", live.api)
    with server.prefect_server(store, lambda text: None):
        from prefect.client.orchestration import get_client
        from prefect.client.schemas.filters import TaskRunFilter, TaskRunFilterFlowRunId
        from prefect.states import AwaitingRetry, Cancelled

        with get_client(sync_client=True) as client:
            failed = wait_for(
                "a scheduled run that failed",
                lambda: [r for r in client.read_flow_runs() if r.state and r.state.is_failed()],
            )[0]
            assert failed.auto_scheduled
            assert failed.deployment_id is not None
            for schedule in client.read_deployment_schedules(failed.deployment_id):
                client._client.patch(
                    f"/deployments/{failed.deployment_id}/schedules/{schedule.id}",
                    json={"active": False},
                )

            def states() -> dict[str, str]:
                wanted = TaskRunFilter(flow_run_id=TaskRunFilterFlowRunId(any_=[failed.id]))
                tasks = client.read_task_runs(task_run_filter=wanted)
                tasks.sort(key=lambda t: t.expected_start_time)
                return {t.name: t.state.name for t in tasks}

            told = {"ingest": "Completed", "sample": "Failed"}
            wait_for("the states of its tasks", lambda: states() == told)

            def nothing_else() -> bool:
                """Takes back what was scheduled meanwhile, and waits for what has begun."""
                others = [r for r in client.read_flow_runs() if r.state and not r.state.is_final()]
                for run in others:
                    if run.state is not None and run.state.is_scheduled():
                        client.set_flow_run_state(run.id, Cancelled(), force=True)
                return not others

            wait_for("the other runs to end", nothing_else)
            obstacle.unlink()
            client.set_flow_run_state(failed.id, AwaitingRetry(), force=True)
            retried = wait_for(
                "the retry",
                lambda: [r for r in [client.read_flow_run(failed.id)] if r.state.is_completed()],
            )[0]
            assert retried.run_count == 2
            told = {"ingest": "Cached", "sample": "Completed"}
            wait_for("the new states of its tasks", lambda: states() == told)
    process.send_signal(signal.SIGTERM)
    assert process.wait(300) == 0, log()
    assert "never awaited" not in log()
    assert server.running(store) is None


@pytest.mark.parametrize(
    ("cron", "interval", "said"),
    [
        ("0 3 * * *", 5, "exclude each other"),
        ("often", None, "not a schedule"),
        ("0 3 * * * *", None, "not a schedule"),
        (None, 0, "1 or more"),
    ],
)
def test_wrong_schedules(
    recipe: Path, tmp_path: Path, cron: str | None, interval: int | None, said: str
) -> None:
    arguments = RunArguments(str(recipe), str(tmp_path / "s"))
    with pytest.raises(BadInput, match=said):
        deployments.serve_recipe(arguments, cron, interval)
    assert not (tmp_path / "s").exists()


def test_parameters_can_be_used_elsewhere(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = RunArguments("ships.yaml", "./here", ("a.b=1",), "pydocs")
    assert deployments.portable(arguments) == {
        "recipe": str(recipe),
        "corpus": "pydocs",
        "overrides": ["a.b=1"],
        "retry_failed": False,
        "store": str(tmp_path / "here"),
    }


def test_folders_and_globs_among_the_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "set [1]"
    for name in ("quickstart", "pydocs", "data"):
        (home / name).mkdir(parents=True)
    (home / "data" / "a.txt").write_text("One line.")
    monkeypatch.chdir(home)
    found = deployments.portable(RunArguments("quickstart", corpus="pydocs"))
    assert (found["recipe"], found["corpus"]) == ("quickstart", "pydocs")
    pattern = deployments.portable(RunArguments("quickstart", corpus="data/*.txt"))["corpus"]
    monkeypatch.chdir(tmp_path)
    assert [path for _, path in files.files_of(pattern)] == [home / "data" / "a.txt"]
    for kept in ("hf:some/name", "absent.txt", "/somewhere/*.txt"):
        assert deployments.portable(RunArguments("quickstart", corpus=kept))["corpus"] == kept


def test_prefect_yaml_names_the_flow_and_its_parameters() -> None:
    from tercet.flows.service.pipeline_flow import pipeline

    content = yaml.safe_load((Path(__file__).parents[3] / "prefect.yaml").read_text())
    (deployment,) = content["deployments"]
    path, _, name = deployment["entrypoint"].partition(":")
    assert (Path(__file__).parents[3] / path).is_file()
    assert name == pipeline.fn.__name__
    assert set(deployment["parameters"]) <= set(pipeline.parameters.properties)
    assert {"recipe", "store"} <= set(deployment["parameters"])
