"""`tercet search`: what it prints, what it refuses, and the neighbours that SQL finds."""

import json
import re
from pathlib import Path

import pytest
from commands_store import make_run, small_store
from failures import fails
from searched_store import Searched, searched
from typer.testing import CliRunner

import tercet
from tercet.flows.cli import app
from tercet.flows.commands.search import search_passages
from tercet.flows.results.search import FOUND, open_passages, search

__all__ = ["searched"]

DOCS = Path(__file__).parents[3] / "docs" / "sql.md"
QUERY = "open the old file"


def printed(*words: str) -> str:
    done = CliRunner().invoke(app, ["search", *words], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_ranks_stand_side_by_side_with_context_and_path(
    searched: Searched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    store = searched.store.location
    lines = printed(QUERY, "--store", store, "--count", "2").splitlines()
    assert lines[0].split()[:4] == ["both", "after", "before", "bm25"]
    first = search(open_passages(searched.store, None), QUERY, count=2).rows.to_pylist()[0]
    assert lines[2].split()[:3] == ["1", str(first["after"]), str(first["before"])]
    assert first["path"] in lines[2]
    assert searched.run in lines[-1]


def test_words_found_are_marked_on_a_terminal_alone(
    searched: Searched, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    search_passages(QUERY, 2, "both", "table", searched.store.location, None)
    piped = capsys.readouterr().out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    search_passages(QUERY, 2, "both", "table", searched.store.location, None)
    shown = capsys.readouterr().out
    assert "\x1b" not in piped
    marked = {word.lower() for word in re.findall(r"\x1b\[1m(\w+)\x1b\[0m", shown)}
    assert marked
    assert marked <= set(QUERY.split())
    assert "\x1b" not in "".join([*shown.splitlines()[:2], shown.splitlines()[-1]])


def test_json_and_python_have_whole_texts_and_scores(searched: Searched) -> None:
    store = searched.store.location
    rows = json.loads(printed(QUERY, "--store", store, "--count", "3", "--format", "json"))
    table = tercet.open(store).run(searched.run).search(QUERY, count=3)
    assert table.schema == FOUND
    assert [int(row["passage_id"]) for row in rows] == table["passage_id"].to_pylist()
    assert all(row["text"] in "\n".join(searched.texts) for row in rows)
    one = tercet.open(store).search(QUERY, count=1, by="bm25").to_pylist()
    assert [row["bm25"] for row in one] == [1]
    with fails("bad_value"):
        tercet.open(store).search(" ")


def test_what_a_run_does_not_have_yet_is_told_beside_what_it_has(
    searched: Searched, capfd: pytest.CaptureFixture[str]
) -> None:
    half = make_run(searched.store, "half", {"passages": ("aaaa", "made", {})}, state="failed")
    search_passages(QUERY, 2, None, "table", searched.store.location, half)
    out, err = capfd.readouterr()
    assert out.splitlines()[0].split()[:2] == ["bm25", "context"]
    assert len(err.splitlines()) == 2


def test_what_cannot_be_searched(searched: Searched, tmp_path: Path) -> None:
    store = searched.store.location
    with fails("bad_value"):
        search_passages("", 5, None, "table", store, None)
    other, run = small_store(tmp_path / "other")
    with fails("not_reached"):
        search_passages(QUERY, 5, None, "table", other.location, run)


def test_the_query_of_the_docs_finds_neighbours(searched: Searched) -> None:
    text = DOCS.read_text().partition("### Passages by their vectors")[2]
    nearest = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)[0]
    assert nearest.count("'%matrix%'") == 1
    nearest = nearest.replace("FLOAT[384]", "FLOAT[32]").replace("%matrix%", "%red%")
    rows = tercet.open(searched.store.location).sql(nearest).to_pylist()
    cosines = [row["cosine"] for row in rows]
    assert len(cosines) == 10
    assert cosines == sorted(cosines, reverse=True)
