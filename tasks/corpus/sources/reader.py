"""The functions that every reader of a corpus has; a reader is a module."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, cast

from tercet.tasks.corpus.sources.corpora import CorpusConfig, Reading
from tercet.tasks.corpus.sources.registry import module_of
from tercet.tasks.corpus.sources.tables import Row


class Table(NamedTuple):
    """A table of a source: its name, its columns, and its rows with the columns wanted."""

    name: str
    columns: list[str]
    rows: Callable[[Sequence[str]], Iterator[Row]]


class Reader(Protocol):
    """One way to read a corpus. Every function raises BadInput if the source cannot be read."""

    def digest(self, corpus: CorpusConfig) -> str:
        """A digest of what the corpus holds: the same content has the same digest anywhere."""

    def check(self, corpus: CorpusConfig, max_bytes: int) -> None:
        """See, without reading everything, that `read` will find text."""

    def read(self, corpus: CorpusConfig, max_bytes: int) -> Iterator[Reading]:
        """Documents and faults in order; a line or value longer than `max_bytes` is a fault."""

    def tables(self, corpus: CorpusConfig, max_bytes: int) -> Iterator[Table]:
        """The source as tables, for labelled corpora."""

    def has_pairs(self, corpus: CorpusConfig) -> bool:
        """Whether the documents have natural pairs of texts."""

    def portable(self, source: str) -> str:
        """The source as a process in another working directory would find it."""


def reader_of(source: str) -> Reader:
    """The reader of the source."""
    return cast(Reader, importlib.import_module(module_of(source)))
