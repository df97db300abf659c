"""`tercet search`: the passages of a run that a query finds, with their ranks."""

import json
import sys
import threading
from collections.abc import Iterator, Set
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any
from urllib.parse import parse_qs, urlsplit

import typer

from tercet.flows.exports.writing import print_rows, write_rows
from tercet.flows.formatting import printable, shorten
from tercet.flows.results.search import (
    DEPTH,
    WAYS,
    Answer,
    Passages,
    check_options,
    open_passages,
    search,
)
from tercet.flows.terminal import text_table
from tercet.models.retrieval.bm25 import snippet, word_places, words_of
from tercet.storage.store import open_store
from tercet.tasks.stage import BadInput

# Characters of a passage and of its context that are shown.
_TEXT, _CONTEXT = 240, 80
_MEANT = {
    "both": "by the trained encoder and the words in common, together",
    "after": "by the trained encoder",
    "before": "by the untouched encoder",
    "bm25": "by the words in common",
}


def search_passages(
    query: str | None,
    count: int,
    by: str | None,
    format_: str,
    store: str,
    run_ref: str | None,
    http: int | None = None,
) -> None:
    """Prints the best passages with their ranks; csv and json give them whole, with scores.

    query: None reads queries from a terminal or a pipe, one per line.
    http: the port on which to answer queries instead.
    Raises: as `open_passages`, `search` and `serve_search`, and BadInput for an unknown format.
    """
    if query is not None and not query.strip():
        raise BadInput("bad_value", "The query is empty: give a few words, in quotation marks.")
    if query is not None and http is not None:
        raise BadInput(
            "no_effect", "--http answers queries that are sent to it: leave this one out."
        )
    check_options(count, by)
    passages = open_passages(open_store(store, create=False), run_ref)
    if http is not None:
        serve_search(passages, http)
        return
    for reason in dict.fromkeys(passages.missing.values()):
        typer.echo(reason, err=True)
    for line in _typed() if query is None else [query]:
        answer = search(passages, line, count, by)
        if format_ == "table":
            english = passages.index.english
            (sought,) = map(frozenset, words_of([line], english))
            *table, meant = map(printable, _lines(answer, sought, english))
            if sys.stdout.isatty():
                table[2:] = [_marked(row, sought, english) for row in table[2:]]
            print("\n".join([*table, meant]), flush=True)
        else:
            print_rows(answer.rows, format_)


def _typed() -> Iterator[str]:
    prompt = "Search: " if sys.stdin.isatty() else ""
    with suppress(EOFError):
        while True:
            # Bytes that are not UTF-8 arrive as surrogates, which no tokenizer accepts.
            line = input(prompt).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            if line := line.strip():
                yield line


def _marked(line: str, sought: Set[str], english: bool) -> str:
    """The line with the words found in bold."""
    for begin, end, _ in reversed(list(word_places(line, sought, english))):
        line = line[:begin] + typer.style(line[begin:end], bold=True) + line[end:]
    return line


def _lines(answer: Answer, sought: Set[str], english: bool) -> list[str]:
    """The passages as a table around the words found, best first, and what the ranks mean."""
    ways = [way for way in WAYS if way not in answer.missing]
    rows = answer.rows.to_pylist()
    of = f"the {answer.passages:,} passages of run {answer.run['run_id']}"
    if not rows:
        return [f"None of {of} has a word of the query."]
    texts = [
        (
            shorten(row["context"], _CONTEXT),
            snippet(" ".join(row["text"].split()), sought, english, _TEXT),
        )
        for row in rows
    ]
    headed = any(context for context, _ in texts)
    cells = [
        [*(row[way] for way in ways), *([context] if headed else []), text, row["path"]]
        for row, (context, text) in zip(rows, texts, strict=True)
    ]
    heads = [*ways, *(["context"] if headed else []), "passage", "path"]
    right = [head in WAYS for head in heads]
    shown, _ = text_table.render(heads, cells, text_table.terminal_width(), right)
    meant = ", ".join(f"{way}: {_MEANT[way]}" for way in ways)
    lacking = any(row[way] is None for row in rows for way in ways)
    behind = f"; {text_table.NULL}: not found among the first {DEPTH:,}" if lacking else ""
    return [*shown, f"Ranks among {of} of {answer.run['recipe_name']}. {meant}{behind}."]


HOST = "127.0.0.1"
# The page sends requests only to its own server, and shows passages as text, not as HTML.
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
                    raise BadInput("bad_value", f"count {count!r} must be a number.")
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
        raise BadInput("busy", f"--http {port}: {error}: choose another port.") from None
    with server:
        typer.echo(f"Search on http://{HOST}:{server.server_port}/ until Ctrl-C.", err=True)
        server.serve_forever()
