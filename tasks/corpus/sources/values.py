"""Rows of tables as documents: a row's text, or the two texts of its pair, and its label."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tercet.models.text.unicode import fold
from tercet.tasks.corpus.sources import prose
from tercet.tasks.corpus.sources.cells import label_of, missing, text_fault
from tercet.tasks.corpus.sources.corpora import CorpusConfig, Document, Fault, Reading
from tercet.tasks.corpus.sources.separated import RowFault
from tercet.tasks.corpus.sources.tables import Row
from tercet.tasks.corpus.sources.text_column import text_column
from tercet.tasks.stage import BadInput

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


def wanted_columns(
    corpus: CorpusConfig, where: str, columns: Sequence[str], sample: Iterable[Row]
) -> Columns:
    """The columns that the corpus is read from.

    Args:
        where: the table, as messages name it.
        sample: the table's first rows; looked at only where the recipe names no column.

    Raises:
        BadInput: a column that the recipe names is not there, or no column holds text, or several
            have its name.
    """
    chosen = _chosen(corpus, where, columns, sample)
    for name in chosen.named():
        if (count := list(columns).count(name)) > 1:
            raise BadInput(f"{where} has {count} columns {name!r}: rename all but one")
    return chosen


def _chosen(
    corpus: CorpusConfig, where: str, columns: Sequence[str], sample: Iterable[Row]
) -> Columns:
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
