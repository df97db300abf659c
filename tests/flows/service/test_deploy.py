"""What `tercet deploy` makes on a real Prefect server, and what it refuses."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from failures import fails
from faulty_server import until
from good_and_bad import Place, sentence
from prefect.states import AwaitingRetry, Crashed, Running

from tercet.flows.running.arguments import RunArguments
from tercet.flows.service import deploy, server
from tercet.flows.service.deploy import deploy_recipe, next_time, zone_of
from tercet.storage import locks
from tercet.storage.store import Store, open_store
from tercet.tasks.corpus.sources import files


@pytest.fixture(scope="module")
def store(prefect_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store whose server is deployed to."""
    place = open_store(str(tmp_path_factory.mktemp("deployed") / "store"))
    shutil.copytree(prefect_folder, server.folder(place.work))
    with server.prefect_server(place.work, lambda text: None):
        yield place


@pytest.fixture
def client(store: Store) -> Iterator[Any]:
    """A client of that server."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as connected:
        yield connected
        for one in connected.read_deployments():
            connected.delete_deployment(one.id)


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that synthesises, in the current directory."""
    monkeypatch.chdir(tmp_path)
    lines = [f"The {n} old ships of harbour {n * 7} carry grain to the mill." for n in range(40)]
    (tmp_path / "lines.txt").write_text("\n".join(lines))
    content = {
        "name": "ships",
        "backbone": "nobody/nothing",
        "corpora": [{"name": "ships", "source": "lines.txt"}],
        "synthesise": {"word_repetition": None, "negation": None},
        "evaluator": {"model": "nobody/nothing"},
        "train": {},
    }
    path = tmp_path / "ships.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def named(objects: list[Any]) -> dict[str, Any]:
    """The ids by the names, those of the recipe `ships` alone."""
    return {one.name: one.id for one in objects if "ships" in one.name}


def deployed(client: Any, name: str) -> Any:
    return client.read_deployment_by_name(f"tercet/ships-{name}")


def test_two_deployments_that_are_watched(client: Any, recipe: Path) -> None:
    from prefect.exceptions import PrefectHTTPStatusError

    arguments = RunArguments("ships.yaml", "the-store", ("seed=3",), limit=20)
    deploy_recipe(arguments, "rules", "cards", "0 3 * * *", "Europe/Berlin")
    first, second = deployed(client, "synthesise"), deployed(client, "train")
    common = {
        "recipe": str(recipe),
        "store": str(recipe.parent / "the-store"),
        "overrides": ["seed=3"],
        "limit": 20,
    }
    assert first.parameters == {**common, "until": "parse"}
    assert second.parameters == common
    assert not (recipe.parent / "the-store").exists()
    assert (first.work_pool_name, second.work_pool_name) == ("rules", "cards")
    (schedule,) = client.read_deployment_schedules(first.id)
    assert (schedule.schedule.cron, schedule.schedule.timezone) == ("0 3 * * *", "Europe/Berlin")
    assert client.read_deployment_schedules(second.id) == []
    for one in (first, second):
        assert one.job_variables == {"env": {"PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30"}}
        assert one.concurrency_limit is None
        (step,) = one.pull_steps
        assert list(step.values()) == [{"directory": str(recipe.parent)}]
    automations = named(client.read_automations())
    assert len(automations) == 5

    # What the flow does not take would crash it before anybody could say why.
    with pytest.raises(PrefectHTTPStatusError, match="409"):
        client.create_flow_run_from_deployment(first.id, parameters={"nonsense": 1})

    # Typed again: nothing twice, what is no longer said is gone, and what stays keeps counting.
    deploy_recipe(arguments, "rules")
    assert named(client.read_automations()) == automations
    again = deployed(client, "synthesise")
    assert again.id == first.id
    assert client.read_deployment_schedules(first.id) == []
    assert deployed(client, "train").work_pool_name == "rules"


def test_a_block_is_told_until_it_is_no_longer_named(client: Any, recipe: Path) -> None:
    from prefect.blocks.notifications import CustomWebhookNotificationBlock

    block = CustomWebhookNotificationBlock(name="n", url="http://127.0.0.1:9/", json_data={})
    block.save("people", overwrite=True)
    arguments = RunArguments("ships.yaml", "the-store")
    deploy_recipe(arguments, "rules", notify="custom-webhook/people")
    notices = [name for name in named(client.read_automations()) if "tells a person" in name]
    assert len(notices) == 1
    deploy_recipe(arguments, "rules")
    assert notices[0] not in named(client.read_automations())
    with fails("bad_value", "0 3 31 2"):
        deploy_recipe(arguments, "rules", cron="0 3 31 2 *", timezone="UTC")
    for name in ("custom-webhook/nobody", "people", "secret/people"):
        with fails("unknown_name", name):
            deploy_recipe(arguments, "rules", notify=name)


def test_another_store_has_no_share_in_them(client: Any, recipe: Path) -> None:
    deploy_recipe(RunArguments("ships.yaml", "the-store"), "rules")
    # One that was made when the recipe did not synthesise.
    client.delete_deployment(deployed(client, "synthesise").id)
    with fails("exists", "tercet/ships-train", recipe.parent / "the-store"):
        deploy_recipe(RunArguments("ships.yaml", "another"), "rules")
    assert list(named(client.read_deployments())) == ["ships-train"]
    deploy_recipe(RunArguments("ships.yaml", "the-store"), "rules")
    for name in ("synthesise", "train"):
        assert deployed(client, name).parameters["store"] == str(recipe.parent / "the-store")
        client.delete_deployment(deployed(client, name).id)
    deploy_recipe(RunArguments("ships.yaml", "another"), "rules")


def test_a_recipe_without_synthesis_is_one_deployment(client: Any, recipe: Path) -> None:
    content = yaml.safe_load(recipe.read_text())
    content["name"] = "boats"
    recipe.write_text(yaml.safe_dump(content))
    deploy_recipe(RunArguments("ships.yaml", "the-store"), "rules", cron="0 3 * * *")
    del content["synthesise"], content["evaluator"]
    content["train"] = {"phases": [{"rows": "anchors", "loss": "info_nce"}]}
    recipe.write_text(yaml.safe_dump(content))
    deploy_recipe(RunArguments("ships.yaml", "the-store"), "rules", cron="0 3 * * *")
    names = [one.name for one in client.read_deployments() if one.name.startswith("boats")]
    assert names == ["boats-train"]
    train = client.read_deployment_by_name("tercet/boats-train")
    assert len(client.read_deployment_schedules(train.id)) == 1
    assert sum("tercet boats:" in one.name for one in client.read_automations()) == 4


def test_a_pools_runs_are_the_automations(client: Any, recipe: Path, store: Store) -> None:
    """The sweep spares them, and they end by themselves, but not where somebody retries them."""
    from tercet.flows.service import automations, pipeline_flow

    deploy_recipe(RunArguments("ships.yaml", store.location), "rules")
    run = client.create_flow_run_from_deployment(deployed(client, "train").id)

    def goes_through(*states: Any) -> None:
        for state in states:
            client.set_flow_run_state(run.id, state, force=True)

    goes_through(Running())
    assert pipeline_flow.sweep(store, datetime.now(UTC) + timedelta(hours=1)) == []
    dies = [Running(), Crashed(), AwaitingRetry(message=automations.RESCHEDULED)]
    goes_through(*dies * 3)
    pipeline_flow._check_reschedules(store, run)
    goes_through(*dies)
    # The process that was taken for dead lives.
    with locks.hold(store, f"flow-{run.id}"):
        pipeline_flow._check_reschedules(store, run)
    with fails("lost"):
        pipeline_flow._check_reschedules(store, run)
    goes_through(AwaitingRetry(message="by hand"))
    pipeline_flow._check_reschedules(store, run)
    client.delete_flow_run(run.id)


def test_of_missed_runs_the_newest_stands_for_all(client: Any, recipe: Path, store: Store) -> None:
    from tercet.flows.service.pipeline_flow import MISSED, is_missed

    deploy_recipe(RunArguments("ships.yaml", store.location), "rules", None, "* * * * *", "UTC")
    synthesise = deployed(client, "synthesise").id

    def scheduled() -> list[Any]:
        later = datetime.now(UTC) + timedelta(days=1)
        return list(client.get_scheduled_flow_runs_for_deployments([synthesise], later))

    assert until(lambda: len(scheduled()) > 3)
    first, *others, last = scheduled()[:5]
    now = last.expected_start_time
    assert is_missed(first, now)
    for one in others:
        state = client.read_flow_run(one.id).state
        assert (state.name, state.message) == ("Cancelled", MISSED)
    assert not is_missed(last, now)
    assert client.read_flow_run(last.id).state.is_scheduled()


def test_a_run_that_lives_says_so_to_a_server_that_was_away(
    client: Any, recipe: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.states import Completed, Paused

    from tercet.flows.service import automations, pipeline_flow

    monkeypatch.setattr(pipeline_flow, "LOOK_SECONDS", 0.2)
    deploy_recipe(RunArguments("ships.yaml", store.location), "rules")
    run = client.create_flow_run_from_deployment(deployed(client, "train").id)
    client.set_flow_run_state(run.id, Running(), force=True)
    silent = Paused(name=automations.SILENT_NAME)
    with pipeline_flow.speaking_up(run):
        client.set_flow_run_state(run.id, silent)
        assert until(lambda: client.read_flow_run(run.id).state.name == "Running")
    # One that has ended stays so.
    client.set_flow_run_state(run.id, Completed())
    client.set_flow_run_state(run.id, silent)
    assert client.read_flow_run(run.id).state.name == "Completed"
    client.delete_flow_run(run.id)


def test_a_run_that_died_with_its_worker_is_rescheduled_and_ends(
    client: Any, recipe: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`benchmarks/service_faults.py` has more such cases, and the real waiting time."""
    from tercet.flows.service import automations

    monkeypatch.setattr(automations, "SILENT", timedelta(seconds=35))
    monkeypatch.setattr(automations, "ASKED", timedelta(seconds=15))
    deploy_recipe(RunArguments("ships.yaml", store.location), "dying")
    train = deployed(client, "train").id
    run = client.create_flow_run_from_deployment(train, parameters={"until": "ingest"}).id
    words = [sys.executable, "-m", "prefect", "worker", "start", "--pool", "dying"]

    def state() -> Any:
        return client.read_flow_run(run).state

    log = recipe.parent / "log"
    with log.open("wb") as output:
        first = subprocess.Popen(words, stdout=output, stderr=output)
        try:
            assert until(lambda: state().is_running()), log.read_text()
        finally:
            _kill(first)
        second = subprocess.Popen(words, stdout=output, stderr=output)
        try:
            assert until(lambda: state().is_completed() or state().is_failed()), log.read_text()
        finally:
            _kill(second)
    names = [one.name for one in client.read_flow_run_states(run)]
    assert names[-1] == "Completed", state().message
    crashed = names.index("Crashed")
    assert names[crashed - 1] == automations.SILENT_NAME
    assert names[crashed + 1] == "AwaitingRetry"
    ended = client.read_flow_run(run)
    assert ended.name == f"ships {ended.labels['tercet.run']}"
    (artifact,) = [one for one in client.read_artifacts() if one.key == "runs-of-ships"]
    assert artifact.flow_run_id == run
    assert artifact.description == f"Run {ended.labels['tercet.run']} done"
    assert "| ingest | " in artifact.data
    assert f"tercet report {ended.labels['tercet.run']}" in artifact.data


def _kill(worker: "subprocess.Popen[bytes]") -> None:
    """The worker and what it has started, at once."""
    for process in [*psutil.Process(worker.pid).children(recursive=True), worker]:
        process.kill()
    worker.wait()


@pytest.mark.parametrize(
    ("given", "kind", "name"),
    [
        ({}, "missing_key", "PREFECT_API_URL"),
        ({"cron": "often"}, "bad_value", "often"),
        ({"cron": "0 3 * * * *"}, "bad_value", "0 3 * * * *"),
        *[({"pool": pool}, "bad_value", pool) for pool in ("", "a/b", "..", "Prefect-mine", "p?x")],
        ({"arguments": RunArguments("absent.yaml")}, "unknown_name", "absent.yaml"),
    ],
)
def test_what_is_refused(
    recipe: Path, monkeypatch: pytest.MonkeyPatch, given: Any, kind: Any, name: str
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    with fails(kind, name):
        deploy_recipe(**{"arguments": RunArguments("ships.yaml", "s"), "pool": "rules"} | given)
    assert not (recipe.parent / "s").exists()


@pytest.mark.parametrize(
    ("cron", "interval", "kind"), [("0 3 * * *", 5, "conflict"), (None, 0, "bad_value")]
)
def test_what_is_not_served(
    recipe: Path, cron: str | None, interval: int | None, kind: Any
) -> None:
    with fails(kind, "--interval"):
        deploy.serve_recipe(RunArguments("ships.yaml", "s"), cron, interval)
    assert not (recipe.parent / "s").exists()
    # Nor is what is served already.
    store = open_store("s")
    with locks.hold(store, "serve-ships", who="tercet serve"), fails("busy", "ships"):
        deploy.serve_recipe(RunArguments("ships.yaml", store.location, until="sample"))


def test_parameters_can_be_used_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "set [1]"
    for name in ("quickstart", "pydocs", "data"):
        (home / name).mkdir(parents=True)
    (home / "data" / "a.txt").write_text("One line.")
    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", str(home))
    given = deploy.portable(RunArguments("quickstart", "~/s", ("a.b=1",), "pydocs"))
    assert given == {
        "recipe": "quickstart",
        "corpus": "pydocs",
        "overrides": ["a.b=1"],
        "retry_failed": False,
        "store": str(home / "s"),
    }
    pattern = deploy.portable(RunArguments("quickstart", corpus="data/*.txt"))["corpus"]
    monkeypatch.chdir(tmp_path)
    assert [path for _, path in files.files_of(pattern)] == [home / "data" / "a.txt"]
    for kept in ("hf:some/name", "absent.txt", "/somewhere/*.txt"):
        assert deploy.portable(RunArguments("quickstart", corpus=kept))["corpus"] == kept


# Schedules: the time zone is found by its name, or asked for, and is never UTC in silence.
RULES = ["CET-1CEST,M3.5.0,M10.5.0/3", "<+0545>-5:45", "Europe/Berlni", ":Nowhere/Land",
         "/nowhere/at/all", "../../etc/passwd", "localtime", "Europe"]  # fmt: skip


@pytest.mark.parametrize("name", ["Europe/Berlin", ":Europe/Berlin", "UTC", "Etc/GMT+5"])
def test_a_name_is_a_zone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("TZ", name)
    assert zone_of(None) == name.removeprefix(":")


@pytest.mark.parametrize("name", RULES)
def test_what_has_no_name_is_asked_for(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("TZ", name)
    with fails("missing_key", "--timezone", "Europe/Berlin"):
        zone_of(None)


def test_the_command_line_asks_before_anything_is_served(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["serve", "good.yaml", "--store", str(place.store), "--cron", "0 3 * * *"]
    monkeypatch.setenv("TZ", RULES[0])
    assert "--timezone" in sentence(place.types(*words), 2)
    assert "[unknown_name]" in sentence(place.types(*words, "--timezone", "CET-1CEST"), 2)


def test_the_next_firing_is_in_the_zone() -> None:
    firing = next_time("30 3 * * *", "Asia/Tokyo")
    assert (firing.hour, firing.minute) == (3, 30)
    assert firing.utcoffset() == timedelta(hours=9)
