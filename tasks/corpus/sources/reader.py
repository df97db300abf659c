"""`Reader`: the functions that read a kind of source."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tercet.tasks.corpus.sources.corpora import CorpusConfig, Reading
from tercet.tasks.corpus.sources.tables import Row


class Table(NamedTuple):
    """A table of a source. rows: gives its rows with some columns.

    where: its name in messages, if that differs.
    whole: gives its rows with all columns, in which a damaged text is a missing value, not a fault.
    text: the text's column if the recipe names none, without a look at the values.
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
        """The table's rows with all columns."""
        return self.rows(self.columns) if self.whole is None else self.whole()


@dataclass(frozen=True)
class Reader:
    """One way to read a corpus. Every function raises BadInput if the source cannot be read.

    name: the source's name, or its beginning up to a colon (`hf:`).
    digest: a digest of the corpus's content, the same on every machine.
    read: documents and faults in order; lines and values longer than the given bytes are faults.
    form: how the source is written, for messages (`hf:NAME`).
    check: checks, without reading everything, that there is text to read.
    tables: the source as tables, for labelled corpora.
    has_pairs: whether the documents have natural pairs of texts.
    portable: the source in a form for another working directory.
    module: for a reader of an installed package, the module of its entry point, whose code, with
        its imports from the package, is part of versions.
    """

    name: str
    digest: Callable[[CorpusConfig], str]
    read: Callable[[CorpusConfig, int], Iterator[Reading]]
    form: str = ""
    check: Callable[[CorpusConfig, int], None] = lambda corpus, max_bytes: None
    tables: Callable[[CorpusConfig, int], Iterator[Table]] = lambda corpus, max_bytes: iter(())
    has_pairs: Callable[[CorpusConfig], bool] = lambda corpus: corpus.query is not None
    portable: Callable[[str], str] = lambda source: source
    module: str = ""
