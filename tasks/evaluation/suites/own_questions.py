"""Questions of one's own in a table, and what of the corpora's documents answers each.

A column holds the question, another names the file that answers it, or the row by its id, and one
may quote the passage. A question may have several rows: each adds what answers it.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tercet.models.text.unicode import fold
from tercet.tasks.corpus.sources import tables
from tercet.tasks.corpus.sources.cells import label_of, missing, text_fault
from tercet.tasks.corpus.sources.looks import name_words
from tercet.tasks.evaluation.suites.layout import Split, locate
from tercet.tasks.evaluation.suites.own import SPLIT, SPLITS, RetrievalSource
from tercet.tasks.rejects import SHOWN
from tercet.tasks.stage import BadInput

# Beside a file or a quote any other id is that of the question.
_IDS = ("doc_id", "docid", "document_id")
# How people call the columns, whatever the case, blanks and dashes being underscores.
NAMES: Mapping[str, Sequence[str]] = {
    "question": ("question", "query", "questions", "queries"),
    "file": ("file", "filename", "file_name", "path", "source", "document", "page"),
    "id": (*_IDS, "id"),
    "quote": ("quote", "passage", "answer", "snippet"),
    SPLIT: (SPLIT,),
}
# Words of longer names, such as `Source file` and `user_question`, and what may not stand beside.
_ABOUT = frozenset(("id", "type", "kind", "date", "number", "count", "language"))
_WORDS: Mapping[str, tuple[Set[str], Set[str]]] = {
    "question": ({"question", "query"}, _ABOUT),
    "file": (
        {"file", "filename", "path", "source", "document", "doc", "page"},
        _ABOUT | {"title", "url", "text"},
    ),
    # Where neither file nor quote says what answers: `Ticket-ID`.
    "id": ({"id"}, {"question", "query"}),
}
_MAX_BYTES = 1 << 24


class Question(NamedTuple):
    """One row: a question, and what answers it. row: its number in the file."""

    row: int
    text: str
    split: Split
    file: str | None
    id: str | None
    quote: str | None


class Unusable(NamedTuple):
    """A row that is left out, and why."""

    row: int
    reason: str
    detail: str
    text: str


@dataclass(frozen=True)
class Questions:
    """A table's rows of the splits dev and test.

    columns: ours to the table's.
    """

    columns: Mapping[str, str]
    rows: Sequence[Question]
    unusable: Sequence[Unusable]


def find_questions(source: str) -> Path:
    """The table. Raises BadInput if it does not exist."""
    return locate(source, "questions (evaluate.retrieval_sets)", "question, and file or id")


def read_questions(one: RetrievalSource) -> Questions:
    """The questions of a table.

    Raises: BadInput where it lacks a column of questions, or any that says what answers them.
    """
    path = find_questions(one.source)
    columns = _columns(path)
    rows: list[Question] = []
    unusable: list[Unusable] = []
    for row in tables.rows(path, _MAX_BYTES, list(columns.values())):
        values = {ours: row.values.get(theirs) for ours, theirs in columns.items()}
        text = values["question"]
        fault = row.fault or text_fault(row.values, columns["question"])
        if fault or missing(text):
            reason, detail, shown = fault or ("missing_text", "the question stands for nothing", "")
            unusable.append(Unusable(row.number, reason, detail, shown[:SHOWN]))
            continue
        split = SPLITS.get((label_of(values.get(SPLIT)) or "test").lower())
        if split is not None:
            said = {ours: label_of(values.get(ours)) for ours in ("file", "id", "quote")}
            rows.append(Question(row.number, fold(str(text)), split, **said))
    if not rows:
        first = "".join(f" (row {one.row}: {one.detail})" for one in unusable[:1])
        raise BadInput(
            f"{path} holds no question of the splits dev and test{first}: give each row a "
            f"question, and leave the column `{SPLIT}` out or write dev or test into it."
        )
    return Questions(columns, rows, unusable)


def has_questions(path: Path) -> bool:
    """Whether a column is called as one of questions. Raises BadInput for an unreadable table."""
    return _column("question", tables.columns_of(path, _MAX_BYTES)) is not None


def _columns(path: Path) -> dict[str, str]:
    """The columns that are there, ours to the table's."""
    header = tables.columns_of(path, _MAX_BYTES)
    named = {ours: _column(ours, header) for ours in NAMES}
    found = {ours: column for ours, column in named.items() if column is not None}
    if not found.keys().isdisjoint({"file", "quote"}) and _plain(found.get("id", "")) not in _IDS:
        found.pop("id", None)
    if "question" not in found or found.keys().isdisjoint({"file", "id", "quote"}):
        listed = ", ".join(map(repr, header)) or "none"
        raise BadInput(
            f"{path} needs a column `question`, and `file` (a document's path), `id` (that of a "
            f"table's row) or `quote` (words of the passage); its columns are {listed}: rename "
            "them."
        )
    return found


def _column(ours: str, header: Sequence[str]) -> str | None:
    """The column by one of the names, else the only one by a word of its name."""
    named = {_plain(column): column for column in header}
    for name in NAMES[ours]:
        if name in named:
            return named[name]
    words, others = _WORDS.get(ours, (set(), set()))
    said = {column: name_words(column) for column in header}
    found = [c for c in header if said[c] & words and not said[c] & others]
    return found[0] if len(found) == 1 else None


def _plain(column: str) -> str:
    return fold(column).lower().replace(" ", "_").replace("-", "_")
