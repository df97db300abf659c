"""What is said of a server that does not answer as Prefect's does."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from faulty_server import silent_port

from tercet.flows.service import server
from tercet.flows.service.server import answering
from tercet.tasks.stage import BadInput


class _Answers(BaseHTTPRequestHandler):
    """Answers everything alike: with the code and the body that its path begins with."""

    def do_GET(self) -> None:
        _, code, body, *_ = self.path.split("/")
        self.send_response(int(code))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *told: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://you:secret@127.0.0.1:{server.server_port}"
        server.shutdown()


def refused(folder: Path) -> str:
    with (
        server.prefect_server(folder, lambda text: None),
        pytest.raises(BadInput) as caught,
        answering(),
    ):
        pass
    assert "secret" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("401/{}", "PREFECT_API_AUTH_STRING"),
        ("403/{}", "PREFECT_API_AUTH_STRING"),
        ("404/{}", "PREFECT_API_URL"),
        ("200/page", "PREFECT_API_URL"),
    ],
)
def test_what_is_not_the_api(
    address: str, answer: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", f"{address}/{answer}")
    assert said in refused(tmp_path)


def test_nobody_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with silent_port() as port:
        monkeypatch.setenv("PREFECT_API_URL", f"http://you:secret@127.0.0.1:{port}/api")
        said = refused(tmp_path)
    assert f"//127.0.0.1:{port}/api" in said
    assert "PREFECT_API_URL" in said
