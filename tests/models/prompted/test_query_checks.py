"""What a query to a passage may not be, and what only resembles a fault."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tercet.models.prompted.checks import faults

PASSAGE = (
    "Lake birds > Herons\nThe heron stands in shallow water all day and waits for a fish.\n"
    "According to Smith (1990), the report of 1980 was wrong."
)


def fault(text: str, kind: str = "question", source: str = PASSAGE, **columns: Any) -> str | None:
    """The reason why a query is refused."""
    row = {"text": text, "source": source, "prompt": "", "operation": kind, **columns}
    row = {**dict.fromkeys(("old", "new", "pool")), **row}
    table = pa.table({name: pa.array([value], pa.string()) for name, value in row.items()})
    for name, value in (("checks", ["query"]), ("shots", None)):
        table = table.append_column(name, pa.array([value], pa.list_(pa.string())))
    (found,) = faults(table, pa.chunked_array([[False]]), np.array([False]))
    assert found is None or all(found)
    return found and found[0]


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("What does a heron wait for?", "question", None),
        ("What does a heron wait for", "question", "no_question"),
        ("heron fishing", "keyword", None),
        ("Herons catch fish by waiting.", "claim", None),
        ("heron\nfish", "keyword", "several_lines"),
        ("What is this passage about?", "question", "speaks_of_text"),
        ("What does the passage say of herons?", "question", "speaks_of_text"),
        ("What is described above?", "question", "speaks_of_text"),
        ("Who does the author thank?", "question", "speaks_of_text"),
        ("Why was the report of herons wrong?", "question", None),
        ("What did herons do in 1980 according to Smith?", "question", None),
        ("What is this report about?", "question", "speaks_of_text"),
        ("Which heron stands in shallow water all day and waits?", "question", "copied_words"),
        ("Which stands in shallow water all day and?", "question", None),
        ("stands in shallow water", "keyword", "copied_words"),
        ("shallow water", "keyword", None),
        ("fish heron fish heron fish", "keyword", "repetition"),
        ("What do fish fear of the heron and the fish?", "question", None),
        ("wait " * 41, "keyword", "too_long"),
        ("Lake birds herons", "keyword", None),
        ("Question: What does a heron eat?", "question", "preamble"),
        ("Sure! Here is a question: What does it eat?", "question", "preamble"),
        ("Was frisst der Reiher, der den ganzen Tag im Wasser steht?", "question", None),
        ("Dove sono gli aironi della palude e delle rive?", "question", "wrong_language"),
        ("", "keyword", "empty"),
    ],
)
def test_queries(text: str, kind: str, reason: str | None) -> None:
    assert fault(text, kind) == reason


def test_a_word_of_the_passages_own_subject_is_no_fault() -> None:
    source = "The document element has a child. The text of a node is read by get_text."
    assert fault("How is the text of a node read?", source=source) is None
    assert fault("How is the text of a node read?") == "speaks_of_text"
    assert fault("What is in this document?", source=source) == "speaks_of_text"
