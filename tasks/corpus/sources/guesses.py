"""What is read of a corpus's tables and how, in words: what a recipe leaves to be found."""

from collections.abc import Iterator
from itertools import islice

from tercet.tasks.corpus.sources import files, separated
from tercet.tasks.corpus.sources.corpora import CorpusConfig
from tercet.tasks.corpus.sources.registry import reader_of
from tercet.tasks.corpus.sources.streams import PLAIN, SEPARATED, format_of
from tercet.tasks.corpus.sources.tables import SAMPLE_ROWS, columns_of, first_rows
from tercet.tasks.corpus.sources.values import wanted_columns


def guesses(corpus: CorpusConfig, max_bytes: int) -> list[str]:
    """The column of the text and each dialect that is not the usual one, once for all files."""
    of_files = reader_of(corpus.source) is files.READER
    found = _of_files(corpus, max_bytes) if of_files else _of_set(corpus)
    return list(dict.fromkeys(found))


def _of_files(corpus: CorpusConfig, max_bytes: int) -> Iterator[str]:
    for _, path in files.files_of(corpus.source):
        form = format_of(path)[0]
        if form in PLAIN:
            continue
        columns = columns_of(path, max_bytes, corpus.dialect)
        sample = list(first_rows(path, max_bytes, corpus.dialect))
        if columns and sample and corpus.role != "labelled":
            chosen = wanted_columns(corpus, str(path), columns, sample)
            yield from _text(chosen.text)
        if sample and form in SEPARATED:
            dialect = separated.dialect_of(path, max_bytes, corpus.dialect)
            yield from filter(None, [separated.unusual(dialect, form)])


def _of_set(corpus: CorpusConfig) -> Iterator[str]:
    if corpus.text is not None or corpus.query is not None or not corpus.source.startswith("hf:"):
        return
    for table in reader_of(corpus.source).tables(corpus, 1_000_000):
        rows = islice(table.rows(table.columns), SAMPLE_ROWS)
        yield from _text(wanted_columns(corpus, corpus.source, table.columns, rows).text)


def _text(column: str | None) -> Iterator[str]:
    if column is not None:
        yield f"text in column {column!r}"
