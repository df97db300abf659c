"""Texts of dev or test are kept out of the rows."""

from collections import Counter
from pathlib import Path

import pytest
from selection import Row, selected

from tercet.tasks.corpus import held_out as held_out_texts
from tercet.tasks.scoring import held_out as candidates


def test_a_join_that_says_what_a_held_out_document_says_is_refused(tmp_path: Path) -> None:
    before, middle, after = "It reads the file", "(see above)", "and then it closes the file again"
    rows: list[Row] = [
        (middle, "positive", "rest", f"{before} {after}", 0.95),
        (middle, "positive", "rest", f"{after}. {before}", 0.95),
        (middle, "negative", "random", "other", 0.1),
    ]
    # Neither of the joined sentences is held out, but eight words over the seam are.
    held_out = ["Mind that IT  reads the file,", "And then it closes a socket."]
    result = selected(tmp_path, rows, held_out=held_out)
    assert result.reasons() == {f"{before} {after}": "held_out_text"}
    (reject,) = result.rejects
    assert reject["detail"] == "also in dev or test: it reads the file and then it closes"
    assert result.texts() == [(middle, f"{after}. {before}", "other")]


def test_eight_words_over_the_end_of_a_batch_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_out_texts, "BATCH_ROWS", 2)
    monkeypatch.setattr(candidates, "_ROWS", 2)
    held_out = [f"u{i} v{i} w{i}" for i in range(9)]
    rows: list[Row] = [
        (f"x{i}", "positive", "m", " ".join(held_out[i : i + 3]), 0.95) for i in range(7)
    ]
    rows.append(("x0", "positive", "m", f"{held_out[3]} {held_out[5]} {held_out[7]}", 0.95))
    reasons = selected(tmp_path, rows, held_out=held_out).reasons()
    assert Counter(reasons.values()) == {"held_out_text": 7, "no_pair": 1}


def test_a_held_out_text_in_other_case_and_spacing_is_refused(tmp_path: Path) -> None:
    rows: list[Row] = [
        ("x", "positive", "half", "Returns   NONE!", 0.95),
        ("x", "positive", "half", "Returns none today.", 0.95),
        ("x", "negative", "swap", "the Answer is here", 0.5),
        ("x", "negative", "swap", "the question was here", 0.5),
        ("x", "negative", "random", "a query", 0.1),
    ]
    pairs = [("the question?", "The answer: is here.")]
    result = selected(tmp_path, rows, held_out=["Returns none."], pairs=pairs)
    assert result.texts() == [("x", "Returns none today.", "the question was here")]
    assert result.reasons() == {
        "Returns   NONE!": "held_out_text",
        "the Answer is here": "held_out_text",
        "a query": "unused_fallback",
    }
