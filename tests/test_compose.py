"""docker-compose.yml: by its schema, by what it promises, and each start-up command for real.

There is no docker here. The commands are started as processes of this machine instead, with the
addresses of the containers replaced by loopback ones.
"""

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from faulty_server import silent_port, until
from postgres import postgres

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docker-compose.yml"
SECRETS = {"POSTGRES_PASSWORD": "ab12cd34", "TERCET_LLM_KEY": "ef56gh78"}
VARIABLE = re.compile(r"\$\{(\w+)(?::([?-])([^}]*))?\}")


def interpolated(value: Any, given: Mapping[str, str]) -> Any:
    """What compose makes of ${NAME:?message} and ${NAME:-default}."""

    def one(variable: re.Match[str]) -> str:
        name, mark, rest = variable.groups()
        if given.get(name):
            return given[name]
        if mark == "-":
            return str(rest)
        raise KeyError(f"{name}: {rest}")

    if isinstance(value, str):
        return VARIABLE.sub(one, value)
    if isinstance(value, list):
        return [interpolated(item, given) for item in value]
    if isinstance(value, dict):
        return {key: interpolated(item, given) for key, item in value.items()}
    return value


def services(given: Mapping[str, str] = SECRETS) -> dict[str, Any]:
    read = interpolated(yaml.safe_load(FILE.read_text()), given)["services"]
    assert isinstance(read, dict)
    return read


def test_it_keeps_the_schema_of_compose() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    subprocess.run([*command, str(FILE)], check=True, capture_output=True)


def test_ports_are_loopback_images_pinned_and_services_watched() -> None:
    composed = services()
    assert set(composed) == {"postgres", "server", "deploy", "worker", "gpu-worker", "vllm"}
    for name, service in composed.items():
        for port in service.get("ports", []):
            assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port), name
        assert re.search(r":v?\d+\.\d+", service["image"]), name
        assert ("healthcheck" in service) == (name != "deploy"), name
        assert "command" in service or name == "postgres", name
    for name, service in composed.items():
        assert service.get("profiles") == (["gpu"] if name in ("gpu-worker", "vllm") else None)
    assert re.search(r"^FROM python:3\.11\.\d+-", (ROOT / "Dockerfile").read_text(), re.MULTILINE)


def test_training_waits_for_a_worker_that_there_is() -> None:
    """Its pool is that of the GPU's worker, which the profile starts, only if asked for."""

    def pool(name: str, given: Mapping[str, str] = SECRETS) -> str:
        words = services(given)[name]["command"]
        return str(words[words.index("--pool") + 1])

    assert "--gpu-pool=" + pool("worker") in services()["deploy"]["command"]
    # And it looks at the recipe where that one does.
    assert services()["deploy"]["volumes"] == services()["worker"]["volumes"]
    asked = {**SECRETS, "TERCET_GPU_POOL": "gpu"}
    assert "--gpu-pool=" + pool("gpu-worker") in services(asked)["deploy"]["command"]


def test_nothing_starts_without_the_secrets_of_env() -> None:
    lines = (ROOT / ".env.example").read_text().splitlines()
    example = dict(line.split("=") for line in lines if line and not line.startswith("#"))
    assert example == dict.fromkeys(SECRETS, "")
    for name in SECRETS:
        with pytest.raises(KeyError, match=f"{name}: copy .env.example"):
            services({**SECRETS, name: ""})
    assert subprocess.run(
        ["git", "check-ignore", "--quiet", ".env"], cwd=ROOT, check=False
    ).returncode in (0, 128)


@pytest.mark.slow
def test_vllm_takes_the_options(vllm_python: str) -> None:
    """The image's `vllm serve` reads and checks them; what they do is tested with the engine."""
    code = """
import json, sys
from vllm.entrypoints.cli.serve import ServeSubcommand
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser, serve = FlexibleArgumentParser(), ServeSubcommand()
serve.subparser_init(parser.add_subparsers(dest="subparser"))
read = parser.parse_args(["serve", *sys.argv[1:]])
serve.validate(read)
print(json.dumps([read.model_tag, read.port, read.served_model_name, read.generation_config,
                  read.structured_outputs_config.disable_any_whitespace]))
"""
    command = services({**SECRETS, "TERCET_LLM": "some/model"})["vllm"]["command"]
    words = [vllm_python, "-c", code, *command]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    read = json.loads(done.stdout.splitlines()[-1])
    assert read == ["some/model", 8000, ["default"], "vllm", True]
    # It still takes `--model`, and says that it will not.
    assert "provide the model as a positional argument" not in done.stdout + done.stderr


@pytest.fixture
def ports() -> Iterator[dict[str, int]]:
    """Of the services, by their names; kept free for them."""
    with ExitStack() as stack:
        names = ("postgres", "server", "worker")
        yield {name: stack.enter_context(silent_port()) for name in names}


@dataclass
class Native:
    """The services as processes of this machine; `log` holds what all of them say."""

    folder: Path
    ports: dict[str, int]
    running: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def words(self, value: Any) -> Any:
        """The same with addresses and paths of this machine."""
        if isinstance(value, list):
            return [self.words(item) for item in value]
        text = str(value).replace("postgres:5432", f"127.0.0.1:{self.ports['postgres']}")
        text = text.replace("//server:", "//127.0.0.1:").replace("0.0.0.0", "127.0.0.1")
        text = text.replace("4200", str(self.ports["server"]))
        text = text.replace("8080", str(self.ports["worker"]))
        return text.replace("/tercet/tercet-store", str(self.folder / "store"))

    def environment(self, name: str) -> dict[str, str]:
        mine = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
        mine["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), mine["PATH"]])
        mine["PREFECT_HOME"] = str(self.folder / f"home-{name}")
        mine["DO_NOT_TRACK"] = "1"
        mine["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
        mine["NO_PROXY"] = mine["no_proxy"] = "127.0.0.1"
        given = services()[name].get("environment", {})
        return {**mine, **{key: self.words(value) for key, value in given.items()}}

    def start(self, name: str) -> "subprocess.Popen[bytes]":
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                self.words(services()[name]["command"]),
                env=self.environment(name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                start_new_session=True,
            )
        self.running.append(process)
        return process

    def healthy(self, name: str) -> bool:
        """What the service's own health check says."""
        kind, *command = self.words(services()[name]["healthcheck"]["test"])
        assert kind == "CMD"
        mine = self.environment(name)
        return subprocess.run(command, env=mine, capture_output=True, check=False).returncode == 0

    def run(self, *command: str) -> None:
        """A command inside the worker's container, as it were."""
        mine = self.environment("worker")
        done = subprocess.run(
            command, env=mine, capture_output=True, text=True, cwd=ROOT, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def states(self) -> list[str]:
        """Of all flow runs."""
        url = f"http://127.0.0.1:{self.ports['server']}/api/flow_runs/filter"
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(url, b"{}", headers)
        with urllib.request.urlopen(asked, timeout=120) as answer:
            return [str(run["state_type"]) for run in json.load(answer)]

    def stop(self) -> None:
        for process in reversed(self.running):
            process.terminate()
        for process in reversed(self.running):
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture
def database(
    ports: dict[str, int], postgres_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    given = services()["postgres"]["environment"]
    # For its health check.
    monkeypatch.setenv("PATH", str(postgres_folder), prepend=os.pathsep)
    monkeypatch.setenv("PGHOST", "127.0.0.1")
    monkeypatch.setenv("PGPORT", str(ports["postgres"]))
    names = [given[f"POSTGRES_{name}"] for name in ("USER", "PASSWORD", "DB")]
    with postgres(postgres_folder, ports["postgres"], *names):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("database")
def test_server_and_worker_on_postgres_run_a_recipe(ports: dict[str, int], tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"The red bird number {n} was seen in Berlin.\n" for n in range(40)))
    native = Native(tmp_path, ports)
    log = tmp_path / "log"
    try:
        assert until(lambda: native.healthy("postgres"), 600)
        assert not native.healthy("server")
        native.start("server")
        assert until(lambda: native.healthy("server"), 600), log.read_text()
        assert native.start("deploy").wait(600) == 0, log.read_text()
        assert not native.healthy("worker")
        native.start("worker")
        parameters = {"corpus": str(corpus), "store": str(tmp_path / "store"), "until": "ingest"}
        words = [f"--param={name}={value}" for name, value in parameters.items()]
        native.run("prefect", "deployment", "run", "tercet/quickstart-synthesise", *words)
        assert until(lambda: native.healthy("worker"), 600), log.read_text()
        ended = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
        assert until(lambda: bool(ended & set(native.states())), 600), log.read_text()
        assert set(native.states()) - {"SCHEDULED"} == {"COMPLETED"}, log.read_text()
    finally:
        native.stop()
    assert list((tmp_path / "store").glob("artifacts/ingest/*"))
