"""Which passages a file's name, an id or a quote means."""

import pyarrow as pa
import pytest

from tercet.tasks.evaluation.answering_passages import (
    COLUMNS,
    NotFound,
    find_answers,
    index_passages,
    take_apart,
)
from tercet.tasks.evaluation.suites.own_questions import Question

# Document, source, row or line, text.
PASSAGES = [
    (1, "guide/install.md", 1, "Fetch the tool. It needs Python's `pip`."),
    (1, "guide/install.md", 1, "Then run it – twice!\nIt says List<String>."),
    (2, "guide/install.md", 57, "An end."),
    (3, "blog/Größe.md", 1, "A post."),
    (4, "news/install.html", 1, "Old news."),
    (5, "tickets.csv", 2, "Cannot log in."),
    (6, "tickets.csv", 3, "Cannot log out."),
]
IDS = [("c", "tickets.csv:2", "T-7"), ("c", "tickets.csv:3", "T-8"), ("c", "gone.csv:1", "T-9")]


def index(ids: bool = False, rows: list[tuple[int, str, int, str]] = PASSAGES) -> object:
    made = [
        (place, document, "c", source, f"{source}:{line}", text)
        for place, (document, source, line, text) in enumerate(rows)
    ]
    table = pa.table(dict(zip(COLUMNS, map(list, zip(*made, strict=True)), strict=True)))
    return index_passages(table, IDS if ids else ())


def found(ids: bool = False, **said: str) -> list[int] | NotFound:
    question = Question(2, "?", "test", said.get("file"), said.get("id"), said.get("quote"))
    places = find_answers(question, index(ids))  # type: ignore[arg-type]
    return places if isinstance(places, NotFound) else list(places)


@pytest.mark.parametrize(
    "name",
    [
        "guide/install.md",
        "./guide/install.md",
        "install.md",
        "guide/install",
        "GUIDE/Install.MD",
        "/home/me/docs/guide/install.md",
        "guide/install.md#pip",
        "/guide/install/?page=1#pip",
        "https://example.org/docs/guide/install",
        "guide%2Finstall.md",
    ],
)
def test_a_file_is_found_by_its_path_or_a_clear_end_of_it(name: str) -> None:
    assert found(file=name) == [0, 1, 2]


def test_the_strictest_form_decides() -> None:
    assert found(file="blog/größe") == [3]
    assert found(file="Gro\u0308ße.md") == [3]
    # Of its parts, one is named with its line.
    assert found(file="guide/install.md:57") == [2]
    both = found(file="install")
    assert isinstance(both, NotFound)
    assert both.reason == "several_files"
    assert both.detail.endswith("guide/install.md, news/install.html")
    lost = found(file="all.md")
    assert isinstance(lost, NotFound)
    assert lost.reason == "no_document"
    rows = [(1, "a.md", 1, "x"), (2, "A.md", 1, "y"), (3, "b/a.md", 1, "z")]
    question = Question(2, "?", "test", "a.md", None, None)
    assert find_answers(question, index(rows=rows)) == [0]  # type: ignore[arg-type]


def test_a_page_that_is_not_there_is_not_another_of_its_name() -> None:
    rows = [(1, "index.md", 1, "x"), (2, "guide/a.md", 1, "y"), (3, "guide/en/b.md", 1, "z")]

    def places(file: str) -> object:
        question = Question(2, "?", "test", file, None, None)
        return find_answers(question, index(rows=rows))  # type: ignore[arg-type]

    for name in ("guide/index.md", "C:\\docs\\Guide\\index.md", "docs/guide/en/index.html"):
        assert isinstance(places(name), NotFound)
    # It may begin above the corpus.
    assert places("C:\\docs\\index.md") == places("./index.md") == [0]


def test_files_of_one_name_in_two_corpora_are_told_apart() -> None:
    names = ["passage_id", "doc_id", "corpus", "source", "path", "text"]
    rows = [(0, 1, "wiki", "a.md", "a.md:1", "x"), (1, 2, "blog", "a.md", "a.md:1", "y")]
    passages = index_passages(pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))), ())

    def places(file: str | None, own: str | None = None) -> object:
        return find_answers(Question(2, "?", "test", file, own, None), passages)

    both = NotFound("several_files", "'A' is the end of 2 paths: wiki/a.md, blog/a.md")
    assert places("A") == both
    assert places("blog/a.md") == [1]
    # So are rows of one number.
    assert places(None, "1") == NotFound("several_files", "'1' is in 2 paths: wiki/a.md, blog/a.md")
    assert places("wiki/a.md", "1") == [0]


def test_a_row_is_found_by_its_own_id_or_by_its_number() -> None:
    assert found(id="3") == [6]
    assert found(id="3.0") == [6]
    assert found(id="tickets.csv:3") == [6]
    assert found(True, id="T-7") == [5]
    assert found(True, id="3") == NotFound("no_document", "no document has the id '3'")
    assert found(True, id="T-7", file="tickets.csv") == [5]
    assert isinstance(found(True, id="T-7", file="blog/Größe.md"), NotFound)


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
        ("etch the", NotFound),
        ("it", [0, 1]),
        ("i", NotFound),
        # It goes from one passage on into the next.
        ("python's pip. Then run", [0, 1]),
        ("An end", [2]),
        ("Old news", NotFound),
        ("!!!", NotFound),
    ],
)
def test_a_quote_is_found_by_its_letters_and_digits(
    quote: str, places: list[int] | type[NotFound]
) -> None:
    answer = found(file="guide/install.md", quote=quote)
    if places is NotFound:
        assert isinstance(answer, NotFound)
        assert answer.reason == "no_passage"
    else:
        assert answer == places


def test_without_spaces_a_quote_may_begin_anywhere() -> None:
    rows = [(1, "a.md", 1, "锅炉需要维修"), (2, "b.md", 1, "हिन्दी में")]
    for quote, place in (("炉需要", [0]), ("में", [1])):
        question = Question(2, "?", "test", None, None, quote)
        assert find_answers(question, index(rows=rows)) == place  # type: ignore[arg-type]
    assert isinstance(find_answers(question._replace(quote="न्दी"), index(rows=rows)), NotFound)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "answers"),
    [
        ({"file": "blog/Größe.md; tickets.csv"}, ["blog/Größe.md", "tickets.csv"]),
        ({"file": "blog/Größe.md, gone.md"}, ["blog/Größe.md", "gone.md"]),
        ({"file": "a, b.md"}, ["a, b.md"]),
        ({"id": "T-7|T-8"}, ["T-7", "T-8"]),
        ({"quote": "An end | Old news"}, ["An end", "Old news"]),
        ({"quote": "An end; Old news"}, ["An end; Old news"]),
    ],
)
def test_a_cell_that_names_several_is_taken_apart(said: dict[str, str], answers: object) -> None:
    (column,) = said
    question = Question(2, "?", "test", *(said.get(one) for one in ("file", "id", "quote")))
    found = take_apart(question, index(ids=True))  # type: ignore[arg-type]
    assert [getattr(one, column) for one in found] == answers


def test_an_address_of_a_folder_is_its_index_page() -> None:
    rows = [(1, "index.md", 1, "x"), (2, "guide/index.md", 1, "y")]
    for name, place in (("https://example.org/guide/", [1]), ("guide", [1])):
        question = Question(2, "?", "test", name, None, None)
        assert find_answers(question, index(rows=rows)) == place  # type: ignore[arg-type]


def test_a_quote_alone_is_sought_everywhere() -> None:
    assert found(quote="cannot log") == [5, 6]
    assert found(quote="nowhere at all") == NotFound(
        "no_passage", "no passage holds 'nowhere at all'"
    )
