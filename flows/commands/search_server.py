"""Search over HTTP on this machine: JSON for programs, and a page to type into."""

import json
import threading
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any
from urllib.parse import parse_qs, urlsplit

import typer

from tercet.flows.exports.rows import write_rows
from tercet.flows.results.search import Passages, search
from tercet.tasks.stage import BadInput

HOST = "127.0.0.1"
# The page asks its own server alone; texts of passages are shown as texts.
_PAGE = """<!doctype html><meta charset="utf-8"><title>Search</title>
<style>body{font:16px sans-serif;max-width:50em;margin:2em auto;padding:0 1em}
input{font:inherit;width:100%;box-sizing:border-box;padding:.4em}
small{color:#666}p{white-space:pre-wrap;margin:.2em 0 1.2em}</style>
<form><input name="q" autofocus placeholder="What to find"></form><main></main>
<script>
document.querySelector("form").onsubmit = async event => {
  event.preventDefault();
  const main = document.querySelector("main"), query = new FormData(event.target).get("q");
  const response = await fetch("/search?by=both&count=10&q=" + encodeURIComponent(query));
  const answer = await response.json();
  main.replaceChildren();
  const add = (name, text) => {
    main.appendChild(document.createElement(name)).textContent = text;
  };
  if (answer.error) return add("p", answer.error);
  for (const row of answer.rows) {
    add("small", [row.both + ".", row.context, row.path].filter(Boolean).join("  "));
    add("p", row.text);
  }
};
</script>
"""


def serve_search(passages: Passages, port: int) -> None:
    """Answers until it is interrupted: `/search?q=…&count=5&by=both` with JSON, `/` with a page.

    Only this machine is answered, and only where it is called by its own name: a page of another
    site cannot read the passages. port: 0 takes a free one. Raises: BadInput for one in use.
    """
    # One query at a time: a tokenizer cannot be shared by threads.
    asking = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                name = urlsplit(f"//{self.headers.get('Host', '')}").hostname
                address = urlsplit(self.path)
            except ValueError as error:
                return self._send(HTTPStatus.BAD_REQUEST, {"error": str(error)})
            if name not in (HOST, "localhost"):
                return self._send(HTTPStatus.FORBIDDEN, {"error": f"{name} is not this machine."})
            if address.path == "/":
                return self._send(HTTPStatus.OK, _PAGE)
            if address.path != "/search":
                return self._send(HTTPStatus.NOT_FOUND, {"error": "Ask /search?q=WORDS."})
            options = {key: values[-1] for key, values in parse_qs(address.query).items()}
            try:
                if not (count := options.get("count", "5")).isdecimal():
                    raise BadInput(f"count {count!r} must be a number.")
                with asking:
                    answer = search(
                        passages, options.get("q", ""), int(count), options.get("by") or None
                    )
            except BadInput as error:
                return self._send(HTTPStatus.BAD_REQUEST, {"error": str(error)})
            rows = BytesIO()
            write_rows(answer.rows.schema, answer.rows.to_batches(), "json", rows)
            content = {"passages": answer.passages, "rows": json.loads(rows.getvalue())}
            return self._send(HTTPStatus.OK, content | {"missing": dict(answer.missing)})

        def _send(self, status: HTTPStatus, content: Any) -> None:
            text = content if isinstance(content, str) else json.dumps(content)
            data = text.encode()
            with suppress(ConnectionError):  # whoever asked has left
                self._answer(status, data, isinstance(content, str))

        def _answer(self, status: HTTPStatus, data: bytes, page: bool) -> None:
            self.send_response(status)
            kind = "text/html" if page else "application/json"
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Queries stay unlogged."""

    try:
        server = ThreadingHTTPServer((HOST, port), Handler)
    except (OSError, OverflowError) as error:
        raise BadInput(f"--http {port}: {error}: choose another port.") from None
    with server:
        typer.echo(f"Search on http://{HOST}:{server.server_port}/ until Ctrl-C.", err=True)
        server.serve_forever()
