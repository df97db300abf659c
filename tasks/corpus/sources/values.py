"""Rows of tables as documents: a row's text, or the two texts of its pair, and its label."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tercet.models.text.unicode import encodable, fold
from tercet.tasks.corpus.sources import prose
from tercet.tasks.corpus.sources.corpora import CorpusConfig, Document, Fault, Reading
from tercet.tasks.corpus.sources.streams import SHOWN
from tercet.tasks.corpus.sources.tables import Row, RowFault, text_column
from tercet.tasks.stage import BadInput


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


def documents(
    corpus: CorpusConfig,
    name: str,
    columns: Columns,
    rows: Iterable[Row],
) -> Iterator[Reading]:
    """A document or a fault for each row. columns: as `wanted_columns` found them."""
    text, query, answer, labels = columns
    split = corpus.prose is not False
    wanted = [column for column in (text, query, answer) if column is not None]
    for row in rows:
        where = f"{name}:{row.number}"
        values = row.values
        fault = row.fault or next(filter(None, (text_fault(values, c) for c in wanted)), None)
        if fault:
            yield Fault(name, where, *fault)
            continue
        if text is not None:
            paragraphs = prose.paragraphs(str(values[text]), split)
        else:
            both = (str(values[query or ""]), str(values[answer or ""]))
            paragraphs = [part for value in both for part in prose.paragraphs(value, split)]
        pairs = []
        if query is not None and answer is not None:
            pairs = [(fold(str(values[query])), fold(str(values[answer])))]
        label = None if labels is None else label_of(values.get(labels))
        yield Document(name, where, paragraphs, pairs, label=label)


def label_of(value: object) -> str | None:
    """A label as text; None where the row has none."""
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
