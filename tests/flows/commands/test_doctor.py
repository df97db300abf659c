import json
import os
import stat
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import toy_objects
from commands_store import make_run

from tercet.flows.commands import doctor
from tercet.flows.commands.doctor import Finding, cluster, deployed, endpoints
from tercet.models.llm.errors import Unusable
from tercet.models.llm.vllm import build as vllm_build
from tercet.storage.store import SCHEMES, open_store

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what takes time or depends on the machine."""
    fine = [doctor.Finding("ok", "stub", "")]
    for name in ("prefect", "gpu", "minilm", "memory", "python", "libraries"):
        monkeypatch.setattr(doctor, name, lambda: fine)
    monkeypatch.setattr(doctor, "disk", lambda store: fine)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)


@pytest.mark.usefixtures("quick")
def test_a_machine_that_can_is_0_and_nothing_is_made(tmp_path: Path, capsys: Capture) -> None:
    assert doctor.examine(str(tmp_path / "new" / "store")) == 0
    assert not (tmp_path / "new").exists()
    assert "The quickstart can run here" in capsys.readouterr().out
    open_store(str(tmp_path / "there"))
    assert doctor.examine(str(tmp_path / "there")) == 0


def test_a_store_that_a_package_opens_is_asked_and_no_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SCHEMES, "toy", toy_objects.opened)
    (found,) = doctor.writable(f"toy://{tmp_path}/objects.db")
    assert (found.state, found.says[:3]) == ("ok", "toy")


@pytest.mark.usefixtures("quick")
def test_a_store_that_cannot_be_written_is_2(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").write_text("x")
    assert doctor.examine(str(tmp_path / "file")) == 2
    assert doctor.examine(str(tmp_path)) == 2
    assert doctor.examine("ftp://server") == 2
    assert doctor.examine("s3:/bucket/store") == 2
    shown = capsys.readouterr().out
    assert "is a file" in shown
    assert "is not a store" in shown
    if os.geteuid() != 0:
        locked = tmp_path / "locked"
        locked.mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
        assert doctor.examine(str(locked / "store")) == 2


@pytest.mark.usefixtures("quick")
def test_a_server_that_is_set_but_silent_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://me:secret@127.0.0.1:9/api")
    assert doctor.examine(str(tmp_path / "store")) == 1
    shown = capsys.readouterr().out
    assert "does not answer" in shown
    assert "secret" not in shown


def test_pins_are_compared_with_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    pins = ["numpy>=2.0", "duckdb<1", "no-such-package>=3", "nothing; extra == 'gpu'"]
    monkeypatch.setattr(metadata, "requires", lambda name: pins)
    found = doctor.libraries()
    assert [(finding.state, finding.what) for finding in found] == [
        ("missing", "duckdb"),
        ("missing", "no-such-package"),
        ("ok", "libraries"),
    ]
    assert "pip install 'duckdb<1'" in found[0].says


def test_weights_are_known_by_their_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.weights, "locate", lambda name: tmp_path)
    assert doctor.minilm()[0].state == "missing"
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    assert "unexpected weights" in doctor.minilm()[0].says


def test_the_rest_says_something_on_any_machine(tmp_path: Path) -> None:
    checks = (doctor.python, doctor.processor, doctor.memory, doctor.gpu, doctor.generator)
    for finding in [*(check()[0] for check in checks), *doctor.disk(str(tmp_path))]:
        assert finding.says
        assert finding.state in ("ok", "note", "missing")


def test_the_vllm_that_would_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vllm_python: str
) -> None:
    monkeypatch.chdir(tmp_path)
    # Else the one beside Tercet's own environment would be found.
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "none" / ".venv"))
    found = doctor.generator()[0]
    assert found.state == "note"
    assert f"no vLLM at {sys.executable}: " in found.says
    assert "make vllm" in found.says
    folder = tmp_path / ".venv-vllm" / "bin"
    folder.mkdir(parents=True)
    # As in an environment made by `make vllm`: an interpreter is known by its place.
    (folder.parent / "pyvenv.cfg").write_text(
        (Path(vllm_python).parents[1] / "pyvenv.cfg").read_text()
    )
    (folder.parent / "lib").symlink_to(Path(vllm_python).parents[1] / "lib")
    (folder / "python").symlink_to(Path(vllm_python).resolve())
    found = doctor.generator()[0]
    assert f"build), at {folder / 'python'}" in found.says
    (folder / "python").unlink()
    (folder / "python").write_text("no interpreter")
    assert "does not run" in doctor.generator()[0].says


def test_a_build_for_another_machine_is_told_with_a_pretended_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for cpu, gpus, state, hint in [
        (True, [], "ok", "CPU build"),
        (True, ["H200"], "note", "but there is a GPU"),
        (False, ["H200"], "ok", "GPU build"),
        (False, [], "note", "but there is no GPU: delete .venv-vllm and run `make vllm`"),
    ]:
        build = vllm_build.VllmBuild(Path("python"), "1.2.3", cpu, plugin="current")
        monkeypatch.setattr(doctor.vllm_build, "look", lambda python, build=build: build)
        monkeypatch.setattr(doctor, "_shown_gpus", lambda gpus=gpus: gpus)
        found = doctor.generator()[0]
        assert (found.state, hint in found.says) == (state, True)
    monkeypatch.setattr(doctor, "_shown_gpus", lambda: [])
    for plugin, said in [("missing", "no"), ("stale", "another version of the")]:
        build = vllm_build.VllmBuild(Path("python"), "1.2.3", cpu=True, plugin=plugin)
        monkeypatch.setattr(doctor.vllm_build, "look", lambda python, build=build: build)
        found = doctor.generator()[0]
        assert found.state == "note"
        assert f"has {said} plugin that serves VAEGPT: run `make vllm`" in found.says
        assert "python -m pip install --no-deps" in found.says


def test_what_packages_add_is_listed_and_a_broken_one_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert doctor.plugins() == []
    point = EntryPoint("margin", "tercet.models.losses.pairwise_logistic:LOSS", "tercet.losses")
    monkeypatch.setattr(doctor, "installed", lambda group: (point,) * (group == "tercet.losses"))
    monkeypatch.setattr(doctor, "package", lambda point: "toys 0.1")
    assert doctor.plugins() == [Finding("ok", "plugins", "toys 0.1: loss pairwise_logistic")]

    def broken() -> None:
        raise Unusable("'margin' of toys 0.1 cannot be loaded: mend that package")

    monkeypatch.setattr("tercet.tasks.stages.stages", broken)
    (finding,) = doctor.plugins()
    assert finding.state == "missing"
    assert finding.says.endswith("mend that package")


DEPLOYED = [
    {"name": "news-synthesise", "work_pool_name": "my cpus"},
    {"name": "news-train", "work_pool_name": "gpu"},
    # Of `tercet serve`.
    {"name": "ships", "work_pool_name": None},
]
START = "prefect worker start --pool 'my cpus' --limit 1"
ONLINE = [{"name": "w1", "status": "ONLINE"}, {"name": "w0", "status": "OFFLINE"}]
WATCH = [
    *({"name": f"tercet news: {what}", "enabled": True} for what in ("1", "2", "3", "4", "5")),
    {"name": "tercet other: no heartbeat is silence", "enabled": False},
]


class Answers(ThreadingHTTPServer):
    """A server that answers by path; what it does not know is 404, what is None is 401."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pages: dict[str, Any] = {}
        self.logins: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/api"


class _Handler(BaseHTTPRequestHandler):
    server: Answers

    def do_GET(self) -> None:
        self.server.logins.append(self.headers["Authorization"])
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "{}")
        path = self.path.removeprefix("/api/")
        page = self.server.pages.get(path)
        if "offset" in asked and page is not None:
            # Two at once.
            page = page[asked["offset"] :][:2]
        body = json.dumps(page).encode()
        status = 200 if page is not None else 401 if path in self.server.pages else 404
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    with Answers() as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.05,))
        thread.start()
        monkeypatch.setenv("PREFECT_API_URL", found.url)
        found.pages = {
            "deployments/filter": DEPLOYED,
            "automations/filter": WATCH,
            **{f"work_pools/{pool}": {"is_paused": False} for pool in ("my%20cpus", "gpu")},
            **{f"work_pools/{pool}/workers/filter": ONLINE for pool in ("my%20cpus", "gpu")},
        }
        yield found
        found.shutdown()
        thread.join()


def said(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.state, finding.says) for finding in findings]


def test_workers_and_automations_of_what_is_deployed(server: Answers) -> None:
    assert said(deployed()) == [
        ("ok", "1 is online in the pool 'my cpus'"),
        ("ok", "1 is online in the pool 'gpu'"),
        ("ok", "automations that watch over news: 5"),
    ]


def test_each_fault_has_its_remedy(server: Answers) -> None:
    server.pages["work_pools/my%20cpus/workers/filter"] = []
    server.pages["work_pools/gpu"] = {"is_paused": True}
    server.pages["automations/filter"] = [WATCH[0] | {"enabled": False}, *WATCH[1:]]
    assert said(deployed()) == [
        ("note", f"none is online in the pool 'my cpus': {START}"),
        ("note", "the pool 'gpu' is paused: prefect work-pool resume gpu"),
        (
            "note",
            "tercet news: 1: switched off, switch on under Automations in Prefect's pages",
        ),
    ]
    told = {"name": "tercet news: failed for good tells a person", "enabled": True}
    server.pages["automations/filter"] = [*WATCH[2:], told]
    gone = "2 of 5 automations that watch over news are gone: tercet deploy its recipe again"
    assert said(deployed())[-1] == ("note", gone)
    server.pages["deployments/filter"] = []
    assert "tercet deploy RECIPE" in deployed()[0].says


def test_a_server_with_a_login_gets_it(server: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "me:secret")
    assert deployed()[0].state == "ok"
    assert set(server.logins) == {"Basic bWU6c2VjcmV0"}
    server.pages["deployments/filter"] = None
    (finding,) = deployed()
    assert "HTTP 401" in finding.says
    assert "secret" not in finding.says


def test_without_a_shared_server_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    assert deployed() == []


def test_a_cluster_that_cannot_be_had_is_a_note(
    ray_package: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert cluster() == []
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    (finding,) = cluster()
    assert finding.state == "note"
    assert "start it there, by `ray job submit`" in finding.says


def test_endpoints_of_the_newest_run(
    server: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert endpoints(str(tmp_path / "none")) == []
    store = open_store(str(tmp_path / "store"))
    make_run(store, "rules", {})
    assert endpoints(store.location) == []
    urls = [server.url, "http://me:secret@127.0.0.1:9/v1"]
    run = make_run(store, "asks", {}, {"name": "asks", "run": {"llm": {"endpoints": urls}}})
    monkeypatch.setenv("TERCET_LLM_KEY", "a key")
    server.pages["models"] = {"data": []}
    fine, silent = endpoints(store.location)
    assert (fine.state, fine.says) == ("ok", f"{server.url} answers")
    assert server.logins == ["Bearer a key"]
    start = "start it, or correct its address"
    assert silent.says.startswith(f"http://127.0.0.1:9/v1 of run {run} does not answer (")
    assert silent.says.endswith(start)
    server.pages["models"] = None
    assert endpoints(store.location)[0].says.endswith("put its key into TERCET_LLM_KEY")
    del server.pages["models"]
    assert endpoints(store.location)[0].says.endswith("or name its model as llm.name")


def test_an_endpoint_that_needs_neither_key_nor_list(
    server: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TERCET_LLM_KEY", raising=False)
    store = open_store(str(tmp_path / "store"))
    llm = {"llm": {"name": "capitals"}, "run": {"llm": {"endpoints": [server.url]}}}
    make_run(store, "asks", {}, {"name": "asks", **llm})
    assert said(endpoints(store.location)) == [("ok", f"{server.url} answers, and lists no models")]
    assert server.logins == [None]
