"""Reads the user's own questions from a table, with what answers each.

One column holds the question. Further columns name the file that answers it, or a row by its id, or
quote the passage, and may grade the answer. A question may have several rows, and a row several
answers.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from tercet.models.text.words import fold
from tercet.tasks.corpus.sources import tables
from tercet.tasks.corpus.sources.columns import name_words
from tercet.tasks.corpus.sources.tables import Row, label_of, missing, text_fault
from tercet.tasks.evaluation.suites.layout import Split, locate
from tercet.tasks.evaluation.suites.own import SPLIT, SPLITS, RetrievalSource
from tercet.tasks.rejects import SHOWN
from tercet.tasks.stage import BadInput

# If a table also has files or quotes, only an id of these names is the answer's; any other id is
# the question's.
_IDS = ("doc_id", "docid", "document_id")
# Usual names of the columns, in lower case, with underscores for blanks and dashes.
NAMES: Mapping[str, Sequence[str]] = {
    "question": ("question", "query", "questions", "queries"),
    "file": ("file", "filename", "file_name", "path", "source", "document", "page", "url"),
    "id": (*_IDS, "id"),
    "quote": ("quote", "passage", "answer", "snippet"),
    "grade": ("relevance", "grade", "score", "label", "relevant", "judgement", "judgment"),
    SPLIT: (SPLIT,),
}
# Grades of judgements in words.
_GRADES = {
    "yes": 1, "y": 1, "true": 1, "relevant": 1, "positive": 1, "no": 0, "n": 0, "false": 0,
    "irrelevant": 0, "not relevant": 0, "not_relevant": 0, "negative": 0,
}  # fmt: skip
# Numbers at the end of several columns' names: `file2`, `file_2`, `File (2)`, `file.1`.
_NUMBER = re.compile(r"[\W_]*\d+\W*$")
# Words of longer names, such as `Source file` and `user_question`, and words that exclude a name.
_ABOUT = frozenset(("id", "type", "kind", "date", "number", "count", "language"))
_WORDS: Mapping[str, tuple[Set[str], Set[str]]] = {
    "question": ({"question", "query"}, _ABOUT),
    "file": (
        {"file", "filename", "path", "source", "document", "doc", "page", "url"},
        _ABOUT | {"title", "text"},
    ),
    "grade": ({"relevance", "relevant", "grade", "judgement", "judgment"}, _ABOUT),
    # An id, such as `Ticket-ID`, is read only if no file and no quote names the answer.
    "id": ({"id"}, {"question", "query"}),
}
_MAX_BYTES = 1 << 24
_MOST = 1 << 31  # a larger number is not a grade


class Question(NamedTuple):
    """A question and one answer.

    row: its number in the file. grade: how well it answers; 0 or less: not at all.
    """

    row: int
    text: str
    split: Split
    file: str | None
    id: str | None
    quote: str | None
    grade: int = 1


class Unusable(NamedTuple):
    """A row that is left out or noted, and why."""

    row: int
    reason: str
    detail: str
    text: str


@dataclass(frozen=True)
class Questions:
    """A table's rows of the splits dev and test.

    columns: from our names to the table's. unread: notes on columns that look as if they should be
    read, but are not.
    """

    columns: Mapping[str, Sequence[str]]
    rows: Sequence[Question]
    unusable: Sequence[Unusable]
    unread: Sequence[Unusable] = ()


def find_questions(source: str) -> Path:
    """The table. Raises BadInput if it does not exist."""
    return locate(source, "questions (evaluate.retrieval_sets)", "question, and file or id")


def read_questions(one: RetrievalSource) -> Questions:
    """The questions of a table.

    Raises: BadInput if it lacks a column of questions, or any column of answers.
    """
    path = find_questions(one.source)
    columns = _columns(path)
    (text_column,) = columns["question"]
    rows: list[Question] = []
    unusable: list[Unusable] = []
    read = list(tables.rows(path, _MAX_BYTES, [name for some in columns.values() for name in some]))
    unread = _unread_grade(columns, read)
    for row in read:
        text = row.values.get(text_column)
        fault = row.fault or text_fault(row.values, text_column)
        if fault or missing(text):
            reason, detail, shown = fault or ("missing_text", "the question stands for nothing", "")
            unusable.append(Unusable(row.number, reason, detail, shown[:SHOWN]))
            continue
        cells = {
            ours: [label for name in names for label in _labels(row.values.get(name))]
            for ours, names in columns.items()
        }
        split = SPLITS.get(next(iter(cells.get(SPLIT, [])), "test").lower())
        if split is not None:
            grades = next(iter(cells.get("grade", [])), None)
            grade = 1 if grades is None or unread else _grade(grades)
            assert grade is not None
            answers = _combine([cells.get(ours, []) for ours in ("file", "id", "quote")])
            question = fold(str(text))
            rows += [
                Question(row.number, question, split, file, own_id, quote, grade)
                for file, own_id, quote in answers
            ]
    if unread:
        del columns["grade"]
    unread += _unread_files(columns, tables.columns_of(path, _MAX_BYTES))
    if not rows:
        first = "".join(f" (row {one.row}: {one.detail})" for one in unusable[:1])
        raise BadInput(
            "no_rows",
            f"{path} holds no question of the splits dev and test{first}: give each row a "
            f"question, and leave the column `{SPLIT}` out or write dev or test into it.",
        )
    return Questions(columns, rows, unusable, unread)


def has_questions(path: Path) -> bool:
    """Whether a column has a name of questions. Raises BadInput for an unreadable table."""
    return _column("question", tables.columns_of(path, _MAX_BYTES)) is not None


def readings(name: str) -> list[str]:
    """The file names that a cell may mean: the cell itself, and the path of a web address."""
    path = re.split("[?#]", re.sub(r"^\w[\w+.-]*://[^/]*", "", name))[0]
    return list(dict.fromkeys((name, unquote(path).strip("/"))))


def _labels(cell: object) -> list[str]:
    """The entries of a cell, which may hold a list, also one written in Python or JSON."""
    if isinstance(cell, str) and cell.strip().startswith("[") and cell.strip().endswith("]"):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            listed = ast.literal_eval(cell.strip())
            cell = listed if isinstance(listed, list) else cell
    cells = cell if isinstance(cell, list) else [cell]
    texts = [one.splitlines() if isinstance(one, str) else [one] for one in cells]
    labels = ["\n".join(filter(None, map(label_of, lines))) for lines in texts]
    return [label for label in labels if label]


def _combine(cells: Sequence[list[str]]) -> Iterator[tuple[str | None, ...]]:
    """The answers of a row: lists of equal length are paired, other lists combined in every way."""
    columns: list[list[str | None]] = [[*some] or [None] for some in cells]
    most = max(map(len, columns))
    if {len(some) for some in columns} <= {1, most}:
        columns = [some * most if len(some) < most else some for some in columns]
        return zip(*columns, strict=True)
    return product(*columns)


def _grade(cell: str) -> int | None:
    try:
        number = float(cell)
    except ValueError:
        return _GRADES.get(cell.lower())
    return int(number) if number.is_integer() and abs(number) < _MOST else None


def _unread_grade(columns: Mapping[str, Sequence[str]], rows: Sequence[Row]) -> list[Unusable]:
    """A note on the column of grades if one of its values is not a grade."""
    for name in columns.get("grade", ()):
        for row in rows:
            label = label_of(row.values.get(name))
            if label is not None and _grade(label) is None:
                detail = f"the column {name!r} is not read: {label[:40]!r} is no whole number, nor "
                return [Unusable(row.number, "unread", detail + "yes or no", "")]
    return []


def _unread_files(columns: Mapping[str, Sequence[str]], header: Sequence[str]) -> list[Unusable]:
    """Notes on columns that may name files, but are not read."""
    used = {column for some in columns.values() for column in some}
    others = [column for column in _by_word("file", header) if column not in used]
    detail = "the column {!r} is not read: call it `file2` if it names files, too"
    return [
        Unusable(1, "unread", detail.format(column), "") for column in others if "file" in columns
    ]


def _columns(path: Path) -> dict[str, tuple[str, ...]]:
    """The columns of the table, from our names to the table's."""
    header = tables.columns_of(path, _MAX_BYTES)
    named = {ours: _column(ours, header) for ours in NAMES}
    columns: dict[str, tuple[str, ...]] = {
        ours: (column,) for ours, column in named.items() if column is not None
    }
    for ours in ("file", "id", "quote"):
        called = {_stem(column) for column in columns.get(ours, NAMES[ours])}
        several = [c for c in header if _stem(c) != _plain(c) and _stem(c) in called]
        if several:
            columns[ours] = tuple(dict.fromkeys((*columns.get(ours, ()), *several)))
    is_answer = _stem(columns.get("id", ("",))[0]) in _IDS
    if not columns.keys().isdisjoint({"file", "quote"}) and not is_answer:
        columns.pop("id", None)
    if "question" not in columns or columns.keys().isdisjoint({"file", "id", "quote"}):
        listed = ", ".join(map(repr, header)) or "none"
        raise BadInput(
            "missing_column",
            f"{path} needs a column `question`, and `file` (a document's path), `id` (that of a "
            f"table's row) or `quote` (words of the passage); its columns are {listed}: rename "
            "them.",
        )
    return columns


def _column(ours: str, header: Sequence[str]) -> str | None:
    """The column with one of the usual names, else the only one whose name has a usual word."""
    named = {_plain(column): column for column in header}
    for name in (*NAMES[ours], *(f"{name}s" for name in NAMES[ours])):
        if name in named:
            return named[name]
    columns = _by_word(ours, header)
    return columns[0] if len(columns) == 1 else None


def _by_word(ours: str, header: Sequence[str]) -> list[str]:
    words, others = _WORDS.get(ours, (set(), set()))
    return [c for c in header if name_words(c) & words and not name_words(c) & others]


def _plain(column: str) -> str:
    return fold(column).lower().replace(" ", "_").replace("-", "_")


def _stem(column: str) -> str:
    return _plain(_NUMBER.sub("", column))
