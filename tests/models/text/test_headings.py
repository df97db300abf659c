"""Headings as somebody types them, and what a context says beside a query."""

import pytest

from tercet.models.text.headings import as_typed, without_query


@pytest.mark.parametrize(
    ("heading", "typed"),
    [
        ("1. Introduction", "Introduction"),
        ("2.3 Joins", "Joins"),
        ("F.12. dict_int", "dict_int"),
        ("Chapter 8. Data Types", "Data Types"),
        ("Part II. SQL", "SQL"),
        ("3) Limits", "Limits"),
        ("4 Results", "Results"),
        ("§ 5.1 Costs", "Costs"),
        ("## Usage ##", "Usage"),
        ("Examples {#examples}", "Examples"),
        ("Examples¶", "Examples"),
        ("Examples [¶](#examples)", "Examples"),
        ("Parameters:", "Parameters"),
        ("10 minutes to pandas", "10 minutes to pandas"),
        ("3D plots", "3D plots"),
        ("C#", "C#"),
        ("2.0", "2.0"),
        ("Why?", "Why?"),
        ("1.", "1"),
        ("...", "..."),
    ],
)
def test_a_heading_loses_its_number_and_marks_and_nothing_else(heading: str, typed: str) -> None:
    assert as_typed(heading) == typed


@pytest.mark.parametrize(
    ("context", "query", "left"),
    [
        ("mod_proxy > 2. Examples", "mod_proxy Examples", ""),
        ("mod_proxy > 2. Examples", "Examples", "mod_proxy"),
        ("Lake > Herons of the lake > Food", "Lake", "Food"),
        ("Lake > Herons", "Gulls", "Lake > Herons"),
        ("", "Gulls", ""),
    ],
)
def test_a_context_loses_the_names_in_the_query(context: str, query: str, left: str) -> None:
    assert without_query(context, query) == left
