"""The line about a finished step."""

import os
import pty
from types import SimpleNamespace
from typing import Any

import pytest

from tercet.flows.running.runner import StepResult
from tercet.flows.terminal.lines import show_step, step_line


def test_rows_are_named_after_what_they_are() -> None:
    tables = {"sentences": 1200, "rejects": 0, "contamination": 3, "anchors": 2, "anchor_shares": 2}
    said = step_line(StepResult("sample", "abc", "made", 1.24, tables))
    assert said.startswith("sample  ")
    assert " made     in 1.2 s " in said
    rows = "1,200 sentences, 3 rows of contamination, 2 rules for anchors, 2 corpora with anchors"
    assert said.endswith(f" {rows}")


def test_a_table_of_counts_is_not_counted() -> None:
    tables = {"sentences": 1200, "corpus_outcomes": 17}
    said = step_line(StepResult("ingest", "abc", "made", 1.24, tables))
    assert said.endswith(" 1,200 sentences")


def test_one_row_is_told_in_the_singular() -> None:
    tables = ["documents", "entries", "contamination", "anchors", "anchor_shares"]
    said = step_line(StepResult("sample", "abc", "made", 1.24, dict.fromkeys(tables, 1)))
    rows = "1 document, 1 entry, 1 row of contamination, 1 rule for anchors, 1 corpus with anchors"
    assert said.endswith(f" {rows}")


def test_a_step_that_is_reused_took_no_time() -> None:
    said = step_line(StepResult("sample", "abc", "reused", 0.01, {"training_log": 5}))
    assert " in " not in said
    assert said.endswith(" 5 rows of training log")


def test_a_step_without_rows_says_so_and_no_line_ends_in_blanks() -> None:
    none = {"candidates": 0, "rejects": 0}
    assert step_line(StepResult("synthesise", "abc", "made", 0.0, none)).endswith(" no rows")
    assert step_line(StepResult("pretrain", "abc", "made", 0.0, {})).endswith(" in 0.0 s")
    assert step_line(StepResult("pretrain", "abc", "reused", 0.0, {})).endswith(" reused")


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
