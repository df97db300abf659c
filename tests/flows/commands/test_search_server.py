"""`tercet search --http` with a real process and real requests."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
from searched_store import Searched, searched

from tercet.flows.results.search import open_passages, search

__all__ = ["searched"]
QUERY = "open the old file"


@pytest.fixture
def address(searched: Searched) -> Iterator[str]:
    command = [sys.executable, "-m", "tercet.flows.cli", "search", "--http", "0"]
    with subprocess.Popen(
        [*command, "--store", searched.store.location], stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        line = next(line for line in server.stderr if "http://" in line)
        yield re.findall(r"http://\S+", line)[0]
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 130


def fetched(address: str, **headers: str) -> Any:
    with urlopen(Request(address, headers=headers), timeout=30) as response:
        return json.loads(response.read())


def refused(address: str, **headers: str) -> tuple[int, str]:
    with pytest.raises(HTTPError) as error:
        fetched(address, **headers)
    return error.value.code, json.loads(error.value.read())["error"]


def test_queries_are_answered_side_by_side_and_faults_are_sentences(
    searched: Searched, address: str
) -> None:
    asked = f"{address}search?count=3&by=both&q={quote(QUERY)}"
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(fetched, [asked] * 4))
    expected = search(open_passages(searched.store, None), QUERY, 3, "both")
    texts = expected.rows["text"].to_pylist()
    for answer in answers:
        assert [row["text"] for row in answer["rows"]] == texts
        assert (answer["passages"], answer["missing"]) == (60, {})
    assert refused(f"{address}search?q=")[0] == 400
    assert refused(f"{address}search?q=x&count=many")[0] == 400
    assert refused(f"{address}search?q=x&by=tfidf")[0] == 400
    assert refused(asked, Host="[::1")[0] == 400
    assert len(fetched(f"{address}search?count=1000000000&by=after&q={quote(QUERY)}")["rows"]) == 60
    assert refused(f"{address}elsewhere")[0] == 404
    # A name that another site has pointed at this machine.
    assert refused(asked, Host="evil.example")[0] == 403
    with urlopen(address, timeout=30) as page:
        assert "<form>" in page.read().decode()
    assert fetched(asked)["rows"]


def test_the_page_finds_passages_and_other_sites_read_none(
    chromium: Path, searched: Searched, address: str, tmp_path: Path
) -> None:
    from playwright.sync_api import Error, sync_playwright

    expected = search(open_passages(searched.store, None), QUERY, 10, "both").rows
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch_persistent_context(
            tmp_path / "chromium",
            executable_path=chromium,
            args=["--no-sandbox", "--disable-gpu"],
            headless=True,
            timeout=600_000,
        )
        page = browser.new_page()
        page.goto(address)
        page.get_by_placeholder("What to find").fill(QUERY)
        page.keyboard.press("Enter")
        page.wait_for_selector("main p")
        assert page.locator("main p").all_inner_texts() == expected["text"].to_pylist()
        page.get_by_placeholder("What to find").fill(" ")
        page.keyboard.press("Enter")
        page.get_by_text("The query is empty").wait_for()
        page.goto("about:blank")
        with pytest.raises(Error, match="Failed to fetch"):
            page.evaluate("address => fetch(address)", f"{address}search?q=file")
        browser.close()


def test_queries_from_a_pipe_are_answered_one_after_the_other(searched: Searched) -> None:
    store = searched.store.location
    command = f"search --store {store} --format json --count 1 --by after".split()
    done = subprocess.run(
        [sys.executable, "-m", "tercet.flows.cli", *command],
        input=f"{QUERY}\n\ncaf\udce9\ntwo red columns\n".encode("utf-8", "surrogateescape"),
        capture_output=True,
        check=True,
    )
    passages = open_passages(searched.store, None)
    lines = done.stdout.decode().splitlines()
    rows = [json.loads(line.rstrip(",")) for line in lines if line[0] == "{"]
    texts = [
        search(passages, query, 1, "after").rows["text"][0].as_py()
        for query in (QUERY, "caf\ufffd", "two red columns")
    ]
    assert [row["text"] for row in rows] == texts
