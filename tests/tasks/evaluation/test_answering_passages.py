"""Which passages a file's name, an id or a quote means."""

from typing import Any

import pyarrow as pa
import pytest

from tercet.tasks.evaluation.answering_passages import (
    COLUMNS,
    NotFound,
    find_answers,
    index_passages,
    split_question,
)
from tercet.tasks.evaluation.suites.own_questions import Question

# Corpus, document, source, row or line, text.
PASSAGES = [
    ("c", 1, "guide/install.md", 1, "Fetch the tool. It needs Python's `pip`."),
    ("c", 1, "guide/install.md", 1, "Then run it – twice!\nIt says List<String>."),
    ("c", 2, "guide/install.md", 57, "An end."),
    ("c", 3, "blog/Größe.md", 1, "A post."),
    ("c", 4, "news/install.html", 1, "Old news."),
    ("c", 5, "tickets.csv", 2, "Cannot log in."),
    ("c", 6, "tickets.csv", 3, "Cannot log out."),
]
IDS = [("c", "tickets.csv:2", "T-7"), ("c", "tickets.csv:3", "T-8"), ("c", "gone.csv:1", "T-9")]


def question(**named: str) -> Question:
    return Question(2, "?", "test", *(named.get(one) for one in ("file", "id", "quote")))


def index(rows: list[Any], ids: Any = ()) -> Any:
    made = [
        (place, document, corpus, source, f"{source}:{line}", text)
        for place, (corpus, document, source, line, text) in enumerate(rows)
    ]
    table = pa.table(dict(zip(COLUMNS, map(list, zip(*made, strict=True)), strict=True)))
    return index_passages(table, ids)


def found(rows: list[Any], ids: Any = (), **named: str) -> Any:
    """The places of the passages, or the reason why there are none."""
    answer = find_answers(question(**named), index(rows, ids))
    return answer.reason if isinstance(answer, NotFound) else list(answer)


@pytest.mark.parametrize(
    ("file", "places"),
    [
        # By its path or a clear end of it.
        ("guide/install.md", [0, 1, 2]),
        ("./guide/install.md", [0, 1, 2]),
        ("install.md", [0, 1, 2]),
        ("guide/install", [0, 1, 2]),
        ("GUIDE/Install.MD", [0, 1, 2]),
        ("/home/me/docs/guide/install.md", [0, 1, 2]),
        ("guide/install.md#pip", [0, 1, 2]),
        ("/guide/install/?page=1#pip", [0, 1, 2]),
        ("https://example.org/docs/guide/install", [0, 1, 2]),
        ("guide%2Finstall.md", [0, 1, 2]),
        ("blog/größe", [3]),
        ("Gro\u0308ße.md", [3]),
        # Of its parts, one is named with its line.
        ("guide/install.md:57", [2]),
        ("install", "several_files"),
        ("all.md", "no_document"),
    ],
)
def test_a_file_is_found_by_its_path_or_a_clear_end_of_it(file: str, places: Any) -> None:
    assert found(PASSAGES, file=file) == places


def pages(*sources: str) -> list[Any]:
    """A page each; `corpus:source` names the corpus too."""
    return [
        (source.rpartition(":")[0], number, source.rpartition(":")[2], 1, "x")
        for number, source in enumerate(sources, 1)
    ]


HOME = pages("index.md", "guide/a.md", "guide/en/b.md")
BOTH = pages("wiki:a.md", "blog:a.md")


@pytest.mark.parametrize(
    ("rows", "named", "places"),
    [
        # The strictest form decides.
        (pages("a.md", "A.md", "b/a.md"), {"file": "a.md"}, [0]),
        # A page that is not there is not another of its name, but one may begin above the corpus.
        (HOME, {"file": "guide/index.md"}, "no_document"),
        (HOME, {"file": "C:\\docs\\Guide\\index.md"}, "no_document"),
        (HOME, {"file": "docs/guide/en/index.html"}, "no_document"),
        (HOME, {"file": "C:\\docs\\index.md"}, [0]),
        (HOME, {"file": "./index.md"}, [0]),
        # An address of a folder is its index page.
        (pages("index.md", "guide/index.md"), {"file": "https://example.org/guide/"}, [1]),
        (pages("index.md", "guide/index.md"), {"file": "guide"}, [1]),
        # Files of one name in two corpora, and rows of one number.
        (BOTH, {"file": "A"}, "several_files"),
        (BOTH, {"file": "blog/a.md"}, [1]),
        (BOTH, {"id": "1"}, "several_files"),
        (BOTH, {"file": "wiki/a.md", "id": "1"}, [0]),
    ],
)
def test_a_file_among_others_of_its_name(rows: list[Any], named: Any, places: Any) -> None:
    assert found(rows, **named) == places


def test_files_that_cannot_be_told_apart_are_named() -> None:
    for rows, name, paths in (
        (PASSAGES, "install", ["guide/install.md", "news/install.html"]),
        (BOTH, "A", ["wiki/a.md", "blog/a.md"]),
    ):
        answer = find_answers(question(file=name), index(rows))
        assert isinstance(answer, NotFound)
        assert [path for path in paths if path not in answer.detail] == []


@pytest.mark.parametrize(
    ("ids", "named", "places"),
    [
        ((), {"id": "3"}, [6]),
        ((), {"id": "3.0"}, [6]),
        ((), {"id": "tickets.csv:3"}, [6]),
        (IDS, {"id": "T-7"}, [5]),
        (IDS, {"id": "3"}, "no_document"),
        (IDS, {"id": "T-7", "file": "tickets.csv"}, [5]),
        (IDS, {"id": "T-7", "file": "blog/Größe.md"}, "no_document"),
    ],
)
def test_a_row_is_found_by_its_own_id_or_by_its_number(ids: Any, named: Any, places: Any) -> None:
    assert found(PASSAGES, ids, **named) == places


@pytest.mark.parametrize(
    ("quote", "places"),
    [
        ("it NEEDS python’s pip", [0]),
        ("**Fetch** the\n tool", [0]),
        ("Fetch the [tool](http://example.org/tool_(x))", [0]),
        ("<b>Fetch</b> the tool.<br>It", [0]),
        ("Fetch the tool &amp; It needs", [0]),
        ("It says List<String>", [1]),
        # In the middle of words.
        ("etch the", "no_passage"),
        ("it", [0, 1]),
        ("i", "no_passage"),
        # It goes from one passage on into the next.
        ("python's pip. Then run", [0, 1]),
        ("An end", [2]),
        ("Old news", "no_passage"),
        ("!!!", "no_passage"),
    ],
)
def test_a_quote_is_found_by_its_letters_and_digits(quote: str, places: Any) -> None:
    assert found(PASSAGES, file="guide/install.md", quote=quote) == places


def test_a_quote_alone_is_sought_everywhere_and_without_spaces_begins_anywhere() -> None:
    assert found(PASSAGES, quote="cannot log") == [5, 6]
    assert found(PASSAGES, quote="nowhere at all") == "no_passage"
    rows = [("c", 1, "a.md", 1, "锅炉需要维修"), ("c", 2, "b.md", 1, "हिन्दी में")]
    for quote, places in (("炉需要", [0]), ("में", [1]), ("न्दी", "no_passage")):
        assert found(rows, quote=quote) == places


@pytest.mark.parametrize(
    ("column", "cell", "answers"),
    [
        ("file", "blog/Größe.md; tickets.csv", ["blog/Größe.md", "tickets.csv"]),
        ("file", "blog/Größe.md, gone.md", ["blog/Größe.md", "gone.md"]),
        ("file", "a, b.md", ["a, b.md"]),
        ("id", "T-7|T-8", ["T-7", "T-8"]),
        ("quote", "An end | Old news", ["An end", "Old news"]),
        ("quote", "An end; Old news", ["An end; Old news"]),
    ],
)
def test_a_cell_that_names_several_is_taken_apart(
    column: str, cell: str, answers: list[str]
) -> None:
    apart = split_question(question(**{column: cell}), index(PASSAGES, IDS))
    assert [getattr(one, column) for one in apart] == answers
