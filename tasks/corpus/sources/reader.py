"""What a reader of corpora is: the functions with which it reads a source."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tercet.tasks.corpus.sources.corpora import CorpusConfig, Reading
from tercet.tasks.corpus.sources.tables import Row


class Table(NamedTuple):
    """A table of a source: its name, its columns, and its rows with the columns wanted.

    where: the table as messages name it, if not by its name.
    whole: its rows with all columns, in which a value that is no text is no fault, but missing.
    text: the column of the text, where the recipe names none and values need not be looked at.
    words_are_words: whether a cell such as `null` is a text, as in a dictionary.
    """

    name: str
    columns: list[str]
    rows: Callable[[Sequence[str]], Iterator[Row]]
    where: str = ""
    whole: Callable[[], Iterator[Row]] | None = None
    text: str | None = None
    words_are_words: bool = False

    def all_rows(self) -> Iterator[Row]:
        """Its rows with all their columns."""
        return self.rows(self.columns) if self.whole is None else self.whole()


def no_check(corpus: CorpusConfig, max_bytes: int) -> None:
    """A reader that finds faults only when it reads."""


def no_tables(corpus: CorpusConfig, max_bytes: int) -> Iterator[Table]:
    """A reader of texts alone, which has no rows for labelled corpora."""
    return iter(())


def pairs_if_named(corpus: CorpusConfig) -> bool:
    """Documents have natural pairs where the recipe names the columns of a pair."""
    return corpus.query is not None


def same_anywhere(source: str) -> str:
    """A source that means the same in every working directory."""
    return source


@dataclass(frozen=True)
class Reader:
    """One way to read a corpus. Every function raises BadInput if the source cannot be read.

    name: the source's whole name, or its beginning up to a colon (`hf:`).
    digest: a digest of what the corpus holds: the same content has the same digest anywhere.
    read: documents and faults in order; a line or value longer than the given number of bytes is a
        fault.
    form: how the source is written, for messages (`hf:NAME`).
    check: sees, without reading everything, that `read` will find text.
    tables: the source as tables, for labelled corpora.
    has_pairs: whether the documents have natural pairs of texts.
    portable: the source as a process in another working directory would find it.
    module: of an installed package's: the module that its entry point names, whose code is part of
        the versions that use it, with all that it imports of its package.
    """

    name: str
    digest: Callable[[CorpusConfig], str]
    read: Callable[[CorpusConfig, int], Iterator[Reading]]
    form: str = ""
    check: Callable[[CorpusConfig, int], None] = no_check
    tables: Callable[[CorpusConfig, int], Iterator[Table]] = no_tables
    has_pairs: Callable[[CorpusConfig], bool] = pairs_if_named
    portable: Callable[[str], str] = same_anywhere
    module: str = ""
