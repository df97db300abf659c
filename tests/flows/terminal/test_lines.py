"""The line about a finished step."""

import os
import pty
from types import SimpleNamespace
from typing import Any

import pytest

from tercet.flows.running.runner import StepResult
from tercet.flows.terminal.progress import show_step, step_line


@pytest.mark.parametrize(
    ("state", "tables", "end"),
    [
        ("made", {"sentences": 1200, "rejects": 0, "contamination": 3}, "3 rows of contamination"),
        ("made", {"sentences": 1200, "corpus_outcomes": 17}, " 1,200 sentences"),
        ("made", dict.fromkeys(["documents", "entries"], 1), " 1 document, 1 entry"),
        ("made", {"candidates": 0, "rejects": 0}, " no rows"),
        ("made", {}, " in 1.2 s"),
        ("reused", {"training_log": 5}, " 5 rows of training log"),
        ("reused", {}, " reused"),
    ],
)
def test_a_line_has_the_state_the_time_if_any_and_the_rows(
    state: str, tables: dict[str, int], end: str
) -> None:
    line = step_line(StepResult("sample", "abc", state, 1.24, tables))
    assert line.startswith("sample  ")
    assert line.endswith(end)
    assert (" in 1.2 s" in line) == (state == "made")


@pytest.mark.parametrize("width", [60, 80])
def test_a_terminals_width_breaks_no_word(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {"sentences": 123_456, "documents": 12_345, "rejects": 9_876, "document_pairs": 456}
    result = StepResult("passage_vectors.encoder", "abc", "resumed", 123.4, tables)
    step: Any = SimpleNamespace(name=result.step)
    ours, theirs = pty.openpty()
    monkeypatch.setenv("COLUMNS", str(width))
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        show_step(step, lambda progress: result)
        shown = os.read(ours, 4096).decode().splitlines()
    os.close(ours)
    assert len(shown) > 1
    assert all(len(line) <= width for line in shown)
    assert " ".join(shown).split() == step_line(result).split()
