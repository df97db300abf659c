"""Rows of tables as documents: a row's text, or the two texts of its pair, and its label."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any, NamedTuple

from tercet.models.text.unicode import fold
from tercet.tasks.corpus.sources import hypertext, prose
from tercet.tasks.corpus.sources.corpora import CorpusConfig, Document, Fault, Heading, Reading
from tercet.tasks.corpus.sources.reader import Reader, Table
from tercet.tasks.corpus.sources.streams import SHOWN, RowFault
from tercet.tasks.corpus.sources.tables import (
    Row,
    first_rows,
    joined,
    label_of,
    missing,
    text_fault,
)
from tercet.tasks.corpus.sources.text_column import text_column
from tercet.tasks.stage import BadInput

# The column with a row's title, whatever its case and the objects that it lies in.
_TITLE = "title"
# The reason where a row's text stays and its pair does not.
INCOMPLETE = "incomplete_pair"


class Columns(NamedTuple):
    """The columns to read. text: None where only pairs are asked for."""

    text: str | None
    query: str | None
    answer: str | None
    labels: str | None

    def named(self) -> list[str]:
        """Those that there are."""
        return [column for column in self if column is not None]


def wanted_columns(corpus: CorpusConfig, table: Table, sample: Sequence[Row]) -> Columns:
    """The columns that the corpus is read from.

    Args:
        sample: the table's first rows; looked at only where nobody names a column.

    Raises:
        BadInput: a column that the recipe names is not there, or no column holds text, or several
            have its name.
    """
    where, columns = table.where or table.name, table.columns
    for key in Columns._fields:
        wanted = getattr(corpus, key)
        if wanted is not None and wanted not in columns:
            raise BadInput(
                f"{where} has no column {wanted!r} ({key} of corpus {corpus.name!r}); its columns "
                f"are {', '.join(map(repr, columns))}"
            )
    text = corpus.text
    if text is None and corpus.query is None:
        others = [column for column in columns if column != corpus.labels]
        text = table.text or text_column(where, others, sample)
    chosen = Columns(text, corpus.query, corpus.answer, corpus.labels)
    for name in chosen.named():
        if (count := columns.count(name)) > 1:
            raise BadInput(f"{where} has {count} columns {name!r}: rename all but one")
    return chosen


def check_tables(corpus: CorpusConfig, tables: Iterable[Table]) -> None:
    """See that the tables have the columns asked for, and a row.

    Raises:
        BadInput: they have not.
    """
    empty = True
    for table in tables:
        if sample := first_rows(table.all_rows):
            wanted_columns(corpus, table, sample)
            empty = False
    if empty:
        raise BadInput(f"{corpus.source}: the corpus {corpus.name!r} is empty; name one with rows")


def read_tables(corpus: CorpusConfig, tables: Iterable[Table]) -> Iterator[Reading]:
    """The rows of the tables as documents and faults."""
    for table in tables:
        sample = first_rows(table.all_rows)
        if table.columns and sample:
            chosen = wanted_columns(corpus, table, sample)
            title = _title_column(table.columns)
            named = chosen.named()
            if title is not None and title not in named:
                named.append(title)
            rows = table.rows(named)
            yield from _documents(corpus, table.name, chosen, title, rows, table.words_are_words)
        else:  # empty, or all its rows are at fault
            for row in sample and table.all_rows():
                if row.fault:
                    yield Fault(table.name, f"{table.name}:{row.number}", *row.fault)


def table_reader(
    name: str,
    form: str,
    digest: Callable[[CorpusConfig], str],
    tables: Callable[[CorpusConfig, int], Iterator[Table]],
    portable: Callable[[str], str],
) -> Reader:
    """A reader of sources that are tables alone: each row a document, at most `limit` of them."""

    def check(corpus: CorpusConfig, max_bytes: int) -> None:
        check_tables(corpus, tables(corpus, max_bytes))

    def read(corpus: CorpusConfig, max_bytes: int) -> Iterator[Reading]:
        return of_first_rows(corpus.limit, read_tables(corpus, tables(corpus, max_bytes)))

    return Reader(name, digest, read, form, check, tables, portable=portable)


def of_first_rows(limit: int | None, readings: Iterator[Reading]) -> Iterator[Reading]:
    """The readings of so many rows of the source. A row that loses its pair alone gives two."""
    for _, of_row in islice(groupby(readings, key=lambda reading: reading.path), limit):
        yield from of_row


def refuse_columns(corpus: CorpusConfig, what: str) -> None:
    """Refuse the recipe's columns for a source that has none.

    Raises:
        BadInput: the recipe names one.
    """
    for key in Columns._fields:
        if getattr(corpus, key) is not None:
            raise BadInput(
                f"{what} and no columns: leave out `{key}` of corpus {corpus.name!r}, or name a "
                ".jsonl, .json, .csv, .tsv or .parquet file"
            )


def _title_column(columns: Sequence[str]) -> str | None:
    found = [column for column in columns if column.strip().lower().rpartition(".")[2] == _TITLE]
    return found[0] if len(found) == 1 else None


def _documents(
    corpus: CorpusConfig,
    name: str,
    columns: Columns,
    titles: str | None,
    rows: Iterable[Row],
    words_are_words: bool,
) -> Iterator[Reading]:
    """A document or a fault for each row; both for one that lacks only a text of its pair."""
    text, query, answer, labels = columns
    split = corpus.prose is not False
    pair = [column for column in (query, answer) if column is not None]
    needed = [answer or ""] if text is None else [text]
    texts = [column for column in (text, query, answer, titles) if column is not None]
    for row in rows:
        where = f"{name}:{row.number}"
        as_texts = {column: joined(value) for column, value in row.values.items()}
        values, html = without_html(as_texts, texts)
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
        title = None
        if titles is not None and not text_fault(values, titles) and not missing(values[titles]):
            title = fold(str(values[titles]))
        # Where the title is one of the texts, it is their first paragraph.
        first = len(given) > 1 and given[0] == titles
        headings = (Heading(0, 1, title),) if first and title is not None else ()
        yield Document(name, where, paragraphs, pairs, (), label, title, headings, html)
        if lost:
            yield Fault(name, where, INCOMPLETE, lost[1], lost[2])


def without_html(values: dict[str, Any], columns: Iterable[str]) -> tuple[dict[str, Any], str]:
    """The values with these columns as plain text, and the beginning of one that was HTML."""
    html = ""
    for column in columns:
        value = values.get(column)
        if isinstance(value, str) and (text := hypertext.text_of(value)) != value:
            values = values | {column: text}
            html = html or value[:SHOWN]
    return values, html


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
