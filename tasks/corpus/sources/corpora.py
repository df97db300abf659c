"""What a corpus is, and what every reader of one yields: documents and faults."""

from typing import Annotated, Literal, NamedTuple, TypeAlias

from pydantic import Field, model_validator

from tercet.tasks.stage import Config

CorpusRole: TypeAlias = Literal["domain", "general", "labelled"]
FileCount: TypeAlias = Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0.0, le=1.0)]

PYDOCS = "pydocs"
HUB_PREFIX = "hf:"
SHOWN = 200  # characters of a rejected row's text that are kept


class CorpusConfig(Config):
    """One corpus of a recipe.

    name: how phases and stages call it; unique in the recipe.
    source: a file, a glob, or `pydocs` (docstrings of installed packages).
    role, share: for sampling anchors; ingest itself does not look at them.
    text: column that holds the text (.jsonl, .csv, .tsv, .parquet); left out, it is found.
    query, answer: columns of a natural pair, which become `document_pairs`.
    prose: a value is a text of paragraphs and sentences, to be split; left out, true for all but
        `.txt`, whose lines are sentences. A `.txt` of prose has blank lines between paragraphs.
    packages: for `pydocs`, the distributions (or top modules) to read, in order.
    files: for `pydocs`, how many source files of each package, chosen by hash of their paths
        before any is read: a whole number, or a fraction.
    limit: read only the first so many rows (of lines or tables), or documents (of prose, pydocs).
    """

    name: str = Field(min_length=1)
    source: str = Field(min_length=1)
    role: CorpusRole = "domain"
    share: float = Field(default=1.0, gt=0.0)
    text: str | None = None
    query: str | None = None
    answer: str | None = None
    prose: bool | None = None
    packages: list[str] = Field(default_factory=list)
    files: FileCount | None = None
    limit: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _pair_columns_come_together(self) -> "CorpusConfig":
        if (self.query is None) != (self.answer is None):
            raise ValueError("query and answer name the two columns of a pair: give both or none")
        return self


class IngestSettings(Config):
    """Which texts come in.

    min_words, max_words: bounds of a sentence's length in white-space words, both included.
    max_line_bytes: a longer line (or value) is a reject; bounds the memory of reading.
    dev, test: expected fractions of documents, clusters of near-duplicates going whole.
    rare: a word 8-gram ties the first so many documents that hold it; 1 ties none.
    largest_cluster: a cluster of more than this fraction of the documents goes to train.
    """

    min_words: int = Field(default=4, ge=1)
    max_words: int = Field(default=100, ge=1)
    max_line_bytes: int = Field(default=1_000_000, ge=100)
    dev: float = Field(default=0.05, ge=0.0, lt=1.0)
    test: float = Field(default=0.05, ge=0.0, lt=1.0)
    rare: int = Field(default=5, ge=1)
    largest_cluster: float = Field(default=0.03, gt=0.0, le=1.0)

    @model_validator(mode="after")
    def _consistent(self) -> "IngestSettings":
        if self.min_words > self.max_words:
            raise ValueError("min_words is larger than max_words")
        if self.dev + self.test >= 1.0:
            raise ValueError("dev and test leave nothing to train on: their sum must be below 1")
        return self


class IngestConfig(IngestSettings):
    """The corpora, read in this order: of equal sentences the first stays."""

    corpora: list[CorpusConfig] = Field(min_length=1)

    @model_validator(mode="after")
    def _distinct(self) -> "IngestConfig":
        names = [corpus.name for corpus in self.corpora]
        if len(set(names)) < len(names):
            raise ValueError("two corpora have the same name")
        return self


class Document(NamedTuple):
    """One document as read: its sentences by paragraph, its natural pairs (query, answer)."""

    source: str
    path: str
    paragraphs: list[list[str]]
    pairs: list[tuple[str, str]]


class Fault(NamedTuple):
    """A row that could not be used: it becomes a reject, and the others go on."""

    source: str
    path: str
    reason: str
    detail: str
    text: str


Reading: TypeAlias = Document | Fault
