"""Reads rows of tables as documents: a row's text, or the texts of its pair, and its label."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Any, NamedTuple

from tercet.models.text.words import UNSPACED, count_words, fold
from tercet.tasks.corpus.sources import hypertext
from tercet.tasks.corpus.sources.corpora import (
    CorpusConfig,
    Document,
    Fault,
    Heading,
    Reading,
    split_paragraphs,
)
from tercet.tasks.corpus.sources.hypertext import text_of
from tercet.tasks.corpus.sources.reader import Reader, Table
from tercet.tasks.corpus.sources.streams import SHOWN, RowFault
from tercet.tasks.corpus.sources.tables import (
    NO_ROWS,
    Row,
    first_rows,
    joined,
    label_of,
    missing,
    text_fault,
)
from tercet.tasks.stage import BadInput

# The name of the column with a row's title, in any case and within any objects.
_TITLE = "title"
# The reason of a row whose text is kept without its pair.
INCOMPLETE = "incomplete_pair"


class Columns(NamedTuple):
    """The columns to read. text: None if only pairs are read."""

    text: str | None
    query: str | None
    answer: str | None
    labels: str | None

    def named(self) -> list[str]:
        """The names of the columns that are set, which are not None."""
        return [column for column in self if column is not None]


def wanted_columns(corpus: CorpusConfig, table: Table, sample: Sequence[Row]) -> Columns:
    """The columns from which the corpus is read.

    Args:
        sample: the table's first rows, to guess the text's column if the recipe names none.

    Raises:
        BadInput: the recipe's column is missing, no column holds text, or several columns have the
            name.
    """
    where, columns = table.where or table.name, table.columns
    for key in Columns._fields:
        column = getattr(corpus, key)
        if column is not None and column not in columns:
            raise BadInput(
                "missing_column",
                f"{where} has no column {column!r} ({key} of corpus {corpus.name!r}); its columns "
                f"are {', '.join(map(repr, columns))}",
            )
    text = corpus.text
    if text is None and corpus.query is None:
        others = [column for column in columns if column != corpus.labels]
        text = table.text or text_column(where, others, sample)
    chosen = Columns(text, corpus.query, corpus.answer, corpus.labels)
    for name in chosen.named():
        if (count := columns.count(name)) > 1:
            raise BadInput("conflict", f"{where} has {count} columns {name!r}: rename all but one")
    return chosen


def check_tables(corpus: CorpusConfig, tables: Iterable[Table]) -> None:
    """Checks that the tables have the recipe's columns, and a row.

    Raises:
        BadInput: a column is missing, or there are no rows.
    """
    empty = True
    for table in tables:
        if sample := first_rows(table.all_rows):
            wanted_columns(corpus, table, sample)
            empty = False
    if empty:
        raise BadInput(
            "no_rows", f"{corpus.source}: the corpus {corpus.name!r} is empty; name one with rows"
        )


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
    """A reader of sources that consist of tables: each row is a document, at most `limit`."""

    def check(corpus: CorpusConfig, max_bytes: int) -> None:
        check_tables(corpus, tables(corpus, max_bytes))

    def read(corpus: CorpusConfig, max_bytes: int) -> Iterator[Reading]:
        return of_first_rows(corpus.limit, read_tables(corpus, tables(corpus, max_bytes)))

    return Reader(name, digest, read, form, check, tables, portable=portable)


def of_first_rows(limit: int | None, readings: Iterator[Reading]) -> Iterator[Reading]:
    """The readings of the source's first rows. A row gives two if it only loses its pair."""
    for _, of_row in islice(groupby(readings, key=lambda reading: reading.path), limit):
        yield from of_row


def refuse_columns(corpus: CorpusConfig, what: str) -> None:
    """Raises BadInput if the recipe names a column of a source without columns."""
    for key in Columns._fields:
        if getattr(corpus, key) is not None:
            raise BadInput(
                "missing_column",
                f"{what} and no columns: leave out `{key}` of corpus {corpus.name!r}, or name a "
                ".jsonl, .json, .csv, .tsv or .parquet file",
            )


def _title_column(columns: Sequence[str]) -> str | None:
    titles = [column for column in columns if column.strip().lower().rpartition(".")[2] == _TITLE]
    return titles[0] if len(titles) == 1 else None


def _documents(
    corpus: CorpusConfig,
    name: str,
    columns: Columns,
    titles: str | None,
    rows: Iterable[Row],
    words_are_words: bool,
) -> Iterator[Reading]:
    """A document or a fault for each row; both for a row that only lacks a text of its pair."""
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
        used = needed if text is not None or lost else pair
        paragraphs = [part for c in used for part in split_paragraphs(str(values[c]), split)]
        pairs = []
        if query is not None and answer is not None and not lost:
            pairs = [(fold(str(values[query])), fold(str(values[answer])))]
        label = None if labels is None else label_of(values.get(labels))
        title = None
        if titles is not None and not text_fault(values, titles) and not missing(values[titles]):
            title = fold(str(values[titles]))
        # A title that is one of the texts is their first paragraph.
        first = len(used) > 1 and used[0] == titles
        headings = (Heading(0, 1, title),) if first and title is not None else ()
        yield Document(name, where, paragraphs, pairs, (), label, title, headings, html)
        if lost:
            yield Fault(name, where, INCOMPLETE, lost[1], lost[2])


def without_html(values: dict[str, Any], columns: Iterable[str]) -> tuple[dict[str, Any], str]:
    """The values with HTML removed from these columns, and the beginning of the first in HTML."""
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
            cell = str(values[column]).strip()
            return "missing_text", f"column {column!r} holds {cell!r}, which stands for nothing", ""
    return None


# Usual names of columns of texts, the likeliest first.
NAMES = (
    "text", "content", "body", "sentence", "abstract", "article", "passage", "document", "review",
    "comment", "description", "message", "post", "tweet", "utterance", "paragraph", "caption",
    "summary", "answer", "response", "question", "query", "statement", "headline", "title",
)  # fmt: skip
# The least likeness to prose (`_likeness`) of a column with such a name: two words have it.
_LEAST = 1.0
# The weights of markup or code, and of prose in HTML, relative to prose.
_MARKUP = 0.1
_HTML = 0.24
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
# A word: letters, perhaps with an apostrophe or a hyphen within, and marks around them.
_WORD = re.compile(
    r"""[\W\d_]*[^\W\d_]+(?:['’.-][^\W\d_]+)*["'“”‘’.,;:!?…()\[\]，。、！？；：)]*"""
)
_LONGEST = 4000  # characters of a value that are looked at


def text_column(where: str, columns: Sequence[str], sample: Iterable[Row]) -> str:
    """The column with a usual name of texts, in any case, else the one most like prose.

    Each word of a longer name, such as `review_text`, counts. A column `text` is taken unless it is
    empty and another reads like prose; columns of other names must read a little like prose.

    columns: the candidates.

    Raises:
        BadInput: no column holds strings, or there is no row.
    """
    looked_at = list(sample)
    whole = [row for row in looked_at if row.fault is None]
    strings = {c: v for c in columns if (v := _strings(c, whole))}
    prose = {column: _likeness(values, len(whole)) for column, values in strings.items()}
    plain = [column for column in columns if column.strip().lower() == NAMES[0]]
    filled = [column for column in plain if column in strings]
    if filled or (plain and max(prose.values(), default=0.0) < _LEAST):
        return NAMES[0] if NAMES[0] in (filled or plain) else (filled or plain)[0]
    if not looked_at:
        raise BadInput("no_rows", f"{where} {NO_ROWS}; name a table with rows")
    if not strings:
        hint = f"its columns are {', '.join(map(repr, columns))}"
        faults = [row.fault for row in looked_at if row.fault is not None]
        if len(faults) == len(looked_at):
            hint = f"none of its first rows can be read ({faults[0][1]})"
        raise BadInput("missing_column", f"{where}: no column holds text; {hint}")
    named = [column for column in _by_name(strings) if prose[column] >= _LEAST]
    if named:
        return named[0]
    return max(strings, key=lambda column: (prose[column], sum(map(len, strings[column]))))


def _strings(column: str, rows: Sequence[Row]) -> list[str]:
    values = (joined(row.values.get(column)) for row in rows)
    texts = (value for value in values if isinstance(value, str) and not missing(value))
    return [value[:_LONGEST] for value in texts if fold(value)]


def _by_name(columns: Mapping[str, object]) -> list[str]:
    """The columns with a usual name, or one within a longer name, the likeliest first."""
    ranks = {}
    for column in columns:
        spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column)
        words = re.findall(r"[^\W_]+", spaced.lower())
        places = [NAMES.index(one) for w in words for one in {w, w.removesuffix("s")} & {*NAMES}]
        if places:
            ranks[column] = (len(words) > 1, min(places))
    return sorted(ranks, key=lambda column: ranks[column])


def _likeness(values: Sequence[str], rows: int) -> float:
    """How much a column reads like prose: the mean over rows of log2(1 + words) times the squared
    share of words among the pieces between spaces; less if values repeat.
    """
    total = sum(map(_like_prose, values)) / max(rows, 1)
    return total * (0.1 + 0.9 * len(set(values)) / len(values))


def _like_prose(value: str) -> float:
    plain = text_of(value)
    text = plain.strip()
    if not text:
        return 0.0
    pieces = UNSPACED.sub(" a ", text).split()
    share = sum(_WORD.fullmatch(piece) is not None for piece in pieces) / len(pieces)
    code = text[0] in "{[<" and text[-1] in "}]>"
    weight = _MARKUP if code or _TAG.search(text) else 1.0 if plain == value else _HTML
    return weight * share**2 * math.log2(1 + count_words(" ".join(text.split())))
