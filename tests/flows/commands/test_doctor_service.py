"""What `tercet doctor` says of workers, automations and endpoints, of servers that say so."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from commands_store import make_run

from tercet.flows.commands.doctor_service import Finding, cluster, deployed, endpoints
from tercet.storage.store import open_store

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
