"""`tercet du`: every byte counts once by step, and what runs share is said."""

import json
from pathlib import Path

import pytest
from commands_store import SENTENCES, make_artifact, make_run, small_store
from typer.testing import CliRunner

from tercet.flows.cli import app
from tercet.flows.commands.du import show_room
from tercet.storage import tags
from tercet.tasks.stage import BadInput


def said(*words: str) -> str:
    done = CliRunner().invoke(app, ["du", *words], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_bytes_by_step_and_by_run(tmp_path: Path) -> None:
    store, first = small_store(tmp_path / "store")
    make_artifact(store, "ingest", "cccc3333", {"sentences": SENTENCES})
    make_artifact(store, "graph", "dddd4444", {"sentences": SENTENCES})
    second = make_run(store, "fish", {"ingest": ("aaaa1111", "reused", {"sentences": 3})})
    tags.set_tag(store, "good", "graph@dddd4444")
    (store.work / "responses").mkdir()
    (store.work / "responses" / "x").write_bytes(b"12345")
    sizes = store.sizes("")
    rows = json.loads(said("--store", store.location, "--format", "json"))
    found = {row["name"]: row for row in rows}

    def of(step: str) -> int:
        return sum(size for path, size in sizes.items() if path.startswith(f"artifacts/{step}/"))

    assert sum(row["bytes"] for row in rows if row["kind"] != "run") == sum(sizes.values())
    assert found["ingest"]["versions"] == 2
    assert found["ingest"]["bytes"] == of("ingest")
    assert found["ingest"]["alone"] == of("ingest/cccc3333")
    assert found["graph"]["alone"] == 0
    assert found["answers of language models"]["bytes"] == 5
    assert found[first]["bytes"] == of("ingest/aaaa1111") + of("train")
    assert found[first]["alone"] == of("train")
    assert (found[second]["bytes"], found[second]["alone"]) == (of("ingest/aaaa1111"), 0)
    tags.set_tag(store, "kept", first)
    told = said("--store", store.location)
    assert told.splitlines()[2].split() == ["step", "versions", "size", "unused"]
    (line,) = [line for line in told.splitlines() if line.startswith(first)]
    assert line.split()[1:3] == ["birds", "done"]
    assert line.endswith("kept")
    assert "A file that several runs share counts once by step" in told
    assert said("--store", store.location, "--format", "csv").startswith("kind,name")


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    store, _ = small_store(tmp_path / "store")
    with pytest.raises(BadInput, match="--format 'xml' must be one of table, csv, json"):
        show_room(store.location, "xml")
