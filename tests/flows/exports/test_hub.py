"""A directory is uploaded to a stand-in for the hub."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from commands_store import names, tercet


class _Hub(BaseHTTPRequestHandler):
    """As much of the hub's interface as a small upload asks for."""

    heard: list[tuple[str, str, str, bytes]]
    status = 200
    private = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.heard.append((self.command, self.path, self.headers.get("Authorization", ""), body))
        address = f"http://{self.headers['Host']}"
        answer: dict[str, Any] = {}
        if self.path == "/api/repos/create":
            kind = json.loads(body).get("type", "model")
            folder = "datasets/" if kind == "dataset" else ""
            answer = {"url": f"{address}/{folder}ann/birds"}
        elif "/preupload/" in self.path:
            files = [file["path"] for file in json.loads(body)["files"]]
            modes = {"uploadMode": "regular", "shouldIgnore": False}
            answer = {"files": [{"path": path, **modes} for path in files]}
        elif "/commit/" in self.path:
            commit = f"{address}/ann/birds/commit/1"
            answer = {"commitUrl": commit, "commitOid": "1", "success": True}
        self._answer(answer)

    def do_GET(self) -> None:
        self.heard.append((self.command, self.path, self.headers.get("Authorization", ""), b""))
        self._answer({"id": "ann/birds", "private": self.private})

    def _answer(self, answer: dict[str, Any]) -> None:
        data = json.dumps(answer if self.status == 200 else {"error": "refused"}).encode()
        self.send_response(self.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.fixture
def hub() -> Iterator[tuple[str, type[_Hub]]]:
    """A stand-in for the hub on this machine: its address, and what it hears."""
    handler = type("Hub", (_Hub,), {"heard": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", handler
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(("ref", "kind"), [("train", "model"), ("sentences", "dataset")])
def test_push_uploads_the_finished_directory_to_a_stand_in_for_the_hub(
    store: str, tmp_path: Path, hub: tuple[str, type[_Hub]], ref: str, kind: str
) -> None:
    address, handler = hub
    target = tmp_path / "out"
    done = tercet(
        *("export", ref, str(target), "--store", store, "--push", "ann/birds"),
        **{"HF_ENDPOINT": address, "HF_TOKEN": "secret-token", "HF_HOME": str(tmp_path / "hf")},
    )
    assert done.returncode == 0, done.stderr
    assert "ann/birds (private)" in done.stdout
    assert "secret-token" not in done.stdout + done.stderr
    # What is asked about cards and clients in general comes without a token.
    of_the_repository = ("/api/repos/create", "/preupload/", "/commit/")
    tokens = [
        token for _, path, token, _ in handler.heard if any(p in path for p in of_the_repository)
    ]
    assert len(tokens) == 3
    assert set(tokens) == {"Bearer secret-token"}
    created = next(body for _, path, _, body in handler.heard if path == "/api/repos/create")
    asked = json.loads(created)
    assert asked.get("private") is True or asked.get("visibility") == "private"
    assert asked.get("type", "model") == kind
    commit = next(body for _, path, _, body in handler.heard if "/commit/" in path)
    lines = [json.loads(line) for line in commit.decode().splitlines()]
    uploaded = [line["value"]["path"] for line in lines if line["key"] == "file"]
    assert sorted(uploaded) == names(target)


def test_a_repository_that_is_public_gets_nothing_unless_that_is_said(
    store: str, tmp_path: Path, hub: tuple[str, type[_Hub]]
) -> None:
    address, handler = hub
    handler.private = False
    for place, options, code in (("a", [], 2), ("b", ["--public"], 0)):
        done = tercet(
            *("export", "train", str(tmp_path / place), "--store", store),
            *("--push", "ann/birds", *options),
            **{"HF_ENDPOINT": address, "HF_TOKEN": "secret", "HF_HOME": str(tmp_path / "hf")},
        )
        assert done.returncode == code, done.stderr
        assert ("--public" in done.stderr) == (code == 2)
        assert "(private)" not in done.stdout
        assert any("/commit/" in path for _, path, _, _ in handler.heard) == (code == 0)


def test_a_hub_that_refuses_leaves_the_directory_and_says_how_to_go_on(
    store: str, tmp_path: Path, hub: tuple[str, type[_Hub]]
) -> None:
    address, handler = hub
    handler.status = 403
    target = tmp_path / "out"
    done = tercet(
        *("export", "train", str(target), "--store", store, "--push", "ann/birds"),
        **{"HF_ENDPOINT": address, "HF_TOKEN": "secret-token", "HF_HOME": str(tmp_path / "hf")},
    )
    assert done.returncode == 1
    assert "[unreachable]" in done.stderr
    assert "ann/birds" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "secret-token" not in done.stderr
    assert (target / "README.md").is_file()


def test_without_a_token_or_a_network_nothing_is_begun(store: str, tmp_path: Path) -> None:
    words = ("export", "train", str(tmp_path / "out"), "--store", store, "--push", "ann/birds")
    for variables, name in (
        ({"HF_TOKEN": ""}, "HF_TOKEN"),
        ({"HF_TOKEN": "x", "HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE"),
    ):
        done = tercet(*words, **variables)
        assert done.returncode == 2
        assert name in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()
