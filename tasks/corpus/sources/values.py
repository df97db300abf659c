"""Rows of tables as documents: a row's text, or the two texts of its pair, and its label."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tercet.models.text.unicode import encodable, fold
from tercet.tasks.corpus.sources import prose
from tercet.tasks.corpus.sources.corpora import CorpusConfig, Document, Fault, Reading
from tercet.tasks.corpus.sources.streams import SHOWN
from tercet.tasks.corpus.sources.tables import Row, RowFault, text_column
from tercet.tasks.stage import BadInput

# The reason where a row's text stays and its pair does not.
INCOMPLETE = "incomplete_pair"
# Cells that hold nothing, as pandas reads them; those below whatever their case.
_NOTHING = frozenset(
    ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN", "<NA>", "NA")
)
_NOTHING_IN_ANY_CASE = frozenset(("nan", "-nan", "null", "none", "n/a"))
_LONGEST = max(map(len, _NOTHING))


class Columns(NamedTuple):
    """The columns to read. text: None where only pairs are asked for."""

    text: str | None
    query: str | None
    answer: str | None
    labels: str | None

    def named(self) -> list[str]:
        """Those that there are."""
        return [column for column in self if column is not None]


def wanted_columns(
    corpus: CorpusConfig, where: str, columns: Sequence[str], sample: Iterable[Row]
) -> Columns:
    """The columns that the corpus is read from.

    Args:
        where: the table, as messages name it.
        sample: the table's first rows; looked at only where the recipe names no column.

    Raises:
        BadInput: a column that the recipe names is not there, or no column holds text.
    """
    for key in Columns._fields:
        wanted = getattr(corpus, key)
        if wanted is not None and wanted not in columns:
            raise BadInput(
                f"{where} has no column {wanted!r} ({key} of corpus {corpus.name!r}); its columns "
                f"are {', '.join(map(repr, columns))}"
            )
    if corpus.text is not None or corpus.query is not None:
        return Columns(corpus.text, corpus.query, corpus.answer, corpus.labels)
    others = [column for column in columns if column != corpus.labels]
    return Columns(text_column(where, others, sample), None, None, corpus.labels)


def refuse_columns(corpus: CorpusConfig, what: str) -> None:
    """Refuse the recipe's columns for a source that has none.

    Raises:
        BadInput: the recipe names one.
    """
    for key in Columns._fields:
        if getattr(corpus, key) is not None:
            raise BadInput(
                f"{what} and no columns: leave out `{key}` of corpus {corpus.name!r}, or name a "
                ".jsonl, .csv, .tsv or .parquet file"
            )


def documents(
    corpus: CorpusConfig,
    name: str,
    columns: Columns,
    rows: Iterable[Row],
    words_are_words: bool = False,
) -> Iterator[Reading]:
    """A document or a fault for each row; both for one that lacks nothing but a text of its pair.

    Args:
        columns: as `wanted_columns` found them.
        words_are_words: whether a cell such as `null` is a text, as in a dictionary.
    """
    text, query, answer, labels = columns
    split = corpus.prose is not False
    pair = [column for column in (query, answer) if column is not None]
    needed = [answer or ""] if text is None else [text]
    for row in rows:
        where = f"{name}:{row.number}"
        values = row.values
        fault = row.fault or _first_fault(values, needed, words_are_words)
        if fault:
            yield Fault(name, where, *fault)
            continue
        lost = _first_fault(values, pair, words_are_words)
        given = needed if text is not None or lost else pair
        paragraphs = [part for c in given for part in prose.paragraphs(str(values[c]), split)]
        pairs = []
        if query is not None and answer is not None and not lost:
            pairs = [(fold(str(values[query])), fold(str(values[answer])))]
        label = None if labels is None else label_of(values.get(labels))
        yield Document(name, where, paragraphs, pairs, label=label)
        if lost:
            yield Fault(name, where, INCOMPLETE, lost[1], lost[2])


def _first_fault(
    values: dict[str, object], columns: Sequence[str], words_are_words: bool
) -> RowFault | None:
    for column in columns:
        if fault := text_fault(values, column):
            return fault
        if not words_are_words and missing(values[column]):
            said = str(values[column]).strip()
            return "missing_text", f"column {column!r} holds {said!r}, which stands for nothing", ""
    return None


def missing(value: object) -> bool:
    """Whether a table's cell holds nothing: a null, NaN, blanks, or a word that stands for it."""
    if isinstance(value, float):
        return math.isnan(value)
    if not isinstance(value, str):
        return value is None
    said = value.strip()
    return len(said) <= _LONGEST and (said in _NOTHING or said.lower() in _NOTHING_IN_ANY_CASE)


def label_of(value: object) -> str | None:
    """A label as text; None where the row has none."""
    if missing(value):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a column of whole numbers with gaps
    plain = isinstance(value, str | int | float)
    return (fold(str(value)) or None) if plain and encodable(str(value)) else None


def text_fault(values: dict[str, object], column: str) -> RowFault | None:
    """Why the column's value in a row is not a usable text, or None if it is."""
    value = values.get(column)
    if not isinstance(value, str):
        found = "nothing" if value is None else f"a value of type {type(value).__name__}"
        return "missing_text", f"column {column!r} holds {found}", ""
    if not encodable(value):
        shown = value[:SHOWN].encode("utf-8", "replace").decode("utf-8")
        return "not_utf8", f"column {column!r} is not valid Unicode", shown
    if not fold(value):
        return "missing_text", f"column {column!r} is blank", ""
    return None
