"""The flow against a real Prefect server, with steps that only pretend."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from faulty_server import until

from tercet.flows.results import verdict
from tercet.flows.running import runner
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.runner import StepResult
from tercet.flows.service import server
from tercet.storage.store import Store, open_store
from tercet.tasks.stage import RequirementNotMet

STEPS = ("first", "second.one", "second.two", "third")


@pytest.fixture(scope="module")
def store(prefect_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    place = open_store(str(tmp_path_factory.mktemp("flows") / "store"))
    shutil.copytree(prefect_folder, server.folder(place.work))
    with server.prefect_server(place.work, lambda text: None):
        yield place


@dataclass
class Pretended:
    """A pipeline whose steps are reused, once the first has failed so often."""

    faults: int = 0
    unmet: str | None = None
    end_info: dict[str, Any] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)

    @contextmanager
    def open_run(self, plan: Any, say: Any = None) -> Iterator[Any]:
        yield SimpleNamespace(plan=plan, run_id="run-1", end_info=self.end_info)

    def settle(self, handle: Any) -> None:
        if self.unmet is not None:
            raise RequirementNotMet("run-1", self.unmet)

    def run_step(self, handle: Any, step: Any, progress: Any) -> StepResult:
        self.ran.append(step.name)
        if len(self.ran) <= self.faults:
            raise ConnectionError("for a moment")
        return StepResult(step.name, "abc123", "reused", 0.5, {"rows": 3})


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> Pretended:
    pipeline = Pretended()
    monkeypatch.setattr(runner, "run_step", pipeline.run_step)
    monkeypatch.setattr(runner, "open_run", pipeline.open_run)
    monkeypatch.setattr(verdict, "judge", lambda handle: None)
    monkeypatch.setattr(verdict, "settle", pipeline.settle)
    return pipeline


def run(store: Store, retries: int = 0) -> str:
    from tercet.flows.service import pipeline_flow

    steps = tuple(SimpleNamespace(name=name, needs=STEPS[:i][-1:]) for i, name in enumerate(STEPS))
    settings = SimpleNamespace(retries=retries, workers=1)
    recipe = SimpleNamespace(name="pretended", run=settings, seeds=1)
    arguments = RunArguments("some/recipe.yaml", store.location, ("train.beta=2",), limit=5)
    plan: Any = SimpleNamespace(recipe=recipe, steps=steps, arguments=arguments)
    return pipeline_flow.run(plan)


def tasks_of(client: Any, flow_run: Any) -> dict[str, Any]:
    """The task runs of a flow run, by name."""
    from prefect.client.schemas.filters import TaskRunFilter, TaskRunFilterFlowRunId

    wanted = TaskRunFilter(flow_run_id=TaskRunFilterFlowRunId(any_=[flow_run.id]))
    return {t.name: t for t in client.read_task_runs(task_run_filter=wanted)}


def newest(store: Store, *names: str) -> tuple[Any, dict[str, Any]]:
    """The last flow run and its task runs, once the server has recorded the ends of these."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
    from prefect.client.schemas.sorting import FlowRunSort

    with get_client(sync_client=True) as client:
        flow_run = client.read_flow_runs(sort=FlowRunSort.START_TIME_DESC, limit=1)[0]
        tasks: dict[str, Any] = {}

        def recorded() -> bool:
            # Anew each time: a task has a name of Prefect's until its own arrives.
            tasks.clear()
            tasks.update(tasks_of(client, flow_run))
            ended = {name for name, t in tasks.items() if t.state and t.state.is_final()}
            return ended >= set(names)

        assert until(recorded), tasks
        runs = client.read_flow_runs(
            flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[flow_run.id]))
        )
    return runs[0], tasks


def test_retries_are_the_recipes(
    store: Store, pretended: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tercet.flows.service import pipeline_flow

    monkeypatch.setattr(pipeline_flow, "RETRY_SECONDS", 0)
    pretended.faults = 1
    run(store, retries=1)
    assert pretended.ran == ["first", *STEPS]


def test_the_state_tells_the_verdict_and_one_that_is_not_required_fails(
    store: Store, pretended: Pretended
) -> None:
    better = verdict.Verdict("better", "mine, nDCG@10", 5.0, 4.0, 6.0, 50, "queries")
    pretended.end_info = {"verdict": better.__dict__}
    assert run(store) == "run-1"
    flow_run, _ = newest(store)
    assert flow_run.state.is_completed()
    assert flow_run.state.message == better.sentence()
    pretended.unmet = "Verdict: worse."
    with pytest.raises(RequirementNotMet):
        run(store)
    flow_run, _ = newest(store)
    assert flow_run.state.is_failed()
    assert flow_run.state.message == "Verdict: worse."


SLEEPS = """
import sys, time
from contextlib import contextmanager
from types import SimpleNamespace
from tercet.flows.service import pipeline_flow
from tercet.flows.running import runner
from tercet.flows.running.arguments import RunArguments

@contextmanager
def open_run(plan, say=None):
    yield SimpleNamespace(plan=plan, run_id="run-2", end_info={})

def run_step(handle, step, progress):
    print("in the step", flush=True)
    time.sleep(3600)

runner.open_run, runner.run_step = open_run, run_step
recipe = SimpleNamespace(name="r", run=SimpleNamespace(retries=0, workers=1), seeds=1)
step = SimpleNamespace(name="sleeps", needs=())
arguments = RunArguments("sleeps", sys.argv[1])
pipeline_flow.run(SimpleNamespace(recipe=recipe, steps=(step,), arguments=arguments))
"""


def test_dead_runs_are_swept_and_live_ones_left(store: Store, tmp_path: Path) -> None:
    """A process killed in a step leaves its flow run RUNNING, with a task of it."""
    from tercet.flows.service import pipeline_flow

    program = tmp_path / "sleeps.py"
    program.write_text(SLEEPS)
    child = subprocess.Popen(
        [sys.executable, str(program), store.location],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "in the step\n"
    flow_run = _running(store, "sleeps")
    late = datetime.now(UTC) + timedelta(hours=1)
    assert pipeline_flow.sweep(store, late) == []
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert pipeline_flow.sweep(store) == [flow_run.name]
    flow_run, tasks = newest(store, "sleeps")
    assert flow_run.state.is_crashed()
    assert "gone" in flow_run.state.message
    assert {t.state.name for t in tasks.values()} == {"Crashed"}
    assert pipeline_flow.sweep(store, late) == []


def _running(store: Store, task: str) -> Any:
    """The one flow run that is running, once the server knows that this task of it is, too."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        (flow_run,) = [f for f in client.read_flow_runs() if f.state and f.state.is_running()]

        def is_known() -> bool:
            known = tasks_of(client, flow_run).get(task)
            return known is not None and known.state is not None and known.state.is_running()

        assert until(is_known)
    return flow_run


def test_a_parameter_that_holds_a_secret_is_refused_before_it_is_kept(store: Store) -> None:
    from prefect.client.orchestration import get_client
    from prefect.deployments.runner import EntrypointType
    from prefect.exceptions import PrefectHTTPStatusError

    from tercet.flows.service.pipeline_flow import pipeline

    deployment: Any = pipeline.to_deployment(
        name="kept",
        parameters={"recipe": "quickstart", "store": store.location},
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    identity = deployment.apply()
    with get_client(sync_client=True) as client:
        for held in (
            {"overrides": ["run.llm.endpoints=[http://me:planted-7f3a@host/v1]"]},
            {"until": "hf_" + 40 * "7"},
        ):
            with pytest.raises(PrefectHTTPStatusError, match="409"):
                client.create_flow_run_from_deployment(identity, parameters=held)
        plain = ["train.phases.0.epochs=2"]
        kept = client.create_flow_run_from_deployment(identity, parameters={"overrides": plain})
        assert kept.parameters["overrides"] == plain
        client.delete_deployment(identity)
    for path in server.folder(store.work).rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert b"planted-7f3a" not in content, path
        assert 40 * b"7" not in content, path
