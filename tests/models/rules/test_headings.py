"""Titles and headings as queries: which passage each stands for, and where there is none."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from tercet.models.generation import MethodInput
from tercet.models.text.passages import as_typed
from tercet.tasks.synthesis.methods import method_of

PAGE = [
    ("Lake > Herons", "They stand."),
    ("Lake > Herons", "They fish."),
    ("Lake > Herons > Food", "Frogs."),
    ("Lake > Gulls > Food", "Bread."),
]


def queries(
    method: str,
    documents: Sequence[Sequence[tuple[str, str]]],
    asked: Sequence[int] | None = None,
    files: Sequence[str] = "abcdef",
) -> list[tuple[int, str]]:
    """(number of the passage, query) of these documents' passages."""
    rows = [(doc, *one) for doc, document in enumerate(documents) for one in document]
    docs, contexts, texts = zip(*rows, strict=True)
    table = pa.table(
        {
            "sentence_id": pa.array(range(len(rows)), pa.uint64()),
            "text": texts,
            "context": contexts,
            "source": [files[doc] for doc in docs],
            "doc_id": pa.array(docs, pa.uint64()),
        }
    )
    chosen, anchors = method_of(method), np.arange(len(rows)) if asked is None else np.array(asked)
    places = None if chosen.open_passages is None else chosen.open_passages(table.to_batches())
    given = MethodInput(table, anchors, places=places)
    made = chosen.generate(given, chosen.params(), 1).to_pylist()
    assert {row["detail"]["operation"] for row in made} <= {method}
    return [(row["sentence_id"], row["raw"]) for row in made]


def test_a_title_stands_for_the_first_passage_of_its_document() -> None:
    assert queries("title", [PAGE, PAGE]) == [(0, "Lake"), (4, "Lake")]


def test_a_heading_stands_for_the_first_passage_below_each_of_its_places() -> None:
    expected = [(0, "Herons"), (2, "Lake Herons Food"), (3, "Lake Gulls Food")]
    assert queries("heading", [PAGE]) == expected


def test_a_title_alone_is_no_heading_and_nothing_has_no_title() -> None:
    assert queries("heading", [[("Lake", "Water.")], [("", "Sand.")]]) == []
    assert queries("title", [[("", "Sand.")]]) == []


def test_what_is_not_asked_about_has_no_query_and_passes_it_to_no_other() -> None:
    assert queries("heading", [PAGE], asked=[1, 2]) == [(2, "Lake Herons Food")]


def test_a_long_file_of_several_documents_has_its_title_and_headings_once() -> None:
    other = [("Hill > Food", "Grass.")]
    made = queries("title", [PAGE[:3], PAGE[3:], other, PAGE[:1]], files="aaab")
    assert made == [(0, "Lake"), (4, "Hill"), (5, "Lake")]
    rows = [[("Lake", "Water.")], [("Lake", "Sand.")]]
    assert queries("title", rows, files="aa") == [(0, "Lake"), (1, "Lake")]
    assert queries("heading", [PAGE[:2], PAGE[1:]], files="aa") == [
        *((0, "Herons"), (3, "Lake Herons Food"), (4, "Lake Gulls Food")),
    ]


def test_as_it_is_typed_a_heading_of_several_places_stands_behind_its_page() -> None:
    pages = [
        [("1. Lake > 1.1. Herons", "They stand."), ("1. Lake > 1.2. Food", "Frogs.")],
        [
            ("Hill > Food", "Grass."),
            ("Hill > Hares > Young", "Few."),
            ("Hill > Mice > Young", "Ten."),
        ],
    ]
    assert queries("heading", pages) == [
        *((0, "Herons"), (1, "Lake Food"), (2, "Hill Food")),
        *((3, "Hill Hares Young"), (4, "Hill Mice Young")),
    ]
    assert queries("title", pages) == [(0, "Lake"), (2, "Hill")]


@pytest.mark.parametrize(
    ("heading", "typed"),
    [
        ("1. Introduction", "Introduction"),
        ("F.12. dict_int", "dict_int"),
        ("Chapter 8. Data Types", "Data Types"),
        ("3) Limits", "Limits"),
        ("4 Results", "Results"),
        ("§ 5.1 Costs", "Costs"),
        ("Examples {#examples}", "Examples"),
        ("Examples [¶](#examples)", "Examples"),
        ("Parameters:", "Parameters"),
        ("10 minutes to pandas", "10 minutes to pandas"),
        ("C#", "C#"),
        ("1.", "1"),
        ("...", "..."),
    ],
)
def test_a_heading_loses_its_number_and_marks_and_nothing_else(heading: str, typed: str) -> None:
    assert queries("title", [[(heading, "They stand.")]]) == [(0, typed)]


def test_marks_within_a_heading_take_no_time() -> None:
    for mark in (" ¶", "  #", " .", " {#a}"):
        heading = f"a{mark * 1_000} b"
        assert as_typed(heading) == heading
