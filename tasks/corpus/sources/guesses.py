"""What is read of a corpus's tables and how, in words: what a recipe leaves to be found."""

from collections.abc import Iterator
from pathlib import Path

from tercet.tasks.corpus.sources import files, hub, separated
from tercet.tasks.corpus.sources.corpora import CorpusConfig
from tercet.tasks.corpus.sources.registry import reader_of
from tercet.tasks.corpus.sources.streams import PLAIN, SEPARATED, encoding_in_words, format_of
from tercet.tasks.corpus.sources.tables import first_rows
from tercet.tasks.corpus.sources.values import wanted_columns


def guesses(corpus: CorpusConfig, max_bytes: int) -> list[str]:
    """The column of the text, and each encoding and dialect that is not the usual one, once for all
    files.
    """
    return list(dict.fromkeys(_guesses(corpus, max_bytes)))


def _guesses(corpus: CorpusConfig, max_bytes: int) -> Iterator[str]:
    reader = reader_of(corpus.source)
    tables = []
    if reader is files.READER:
        named = files.files_of(corpus.source)
        for _, path in named:
            yield from encoding_in_words(path)
        named = [each for each in named if format_of(each[1])[0] not in PLAIN]
        tables = [files.table_of(corpus, *each, max_bytes) for each in named]
    elif reader is hub.READER and corpus.text is None and corpus.query is None:
        tables = list(reader.tables(corpus, max_bytes))
    for table in tables:
        sample = first_rows(table.all_rows)
        if table.columns and sample and corpus.role != "labelled":
            text = wanted_columns(corpus, table, sample).text
            yield from [] if text is None else [f"text in column {text!r}"]
        path = Path(table.where)
        if sample and reader is files.READER and (form := format_of(path)[0]) in SEPARATED:
            dialect = separated.dialect_of(path, max_bytes, corpus.dialect)
            yield from filter(None, [separated.unusual(dialect, form)])
            yield from separated.repeated(separated.header_of(path, max_bytes, dialect))
