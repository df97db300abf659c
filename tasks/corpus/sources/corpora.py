"""What a corpus is, and what its reader yields: documents and faults."""

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple, TypeAlias

from pydantic import Field, model_validator

from tercet.tasks.corpus.kinds.registry import KINDS
from tercet.tasks.corpus.sources.separated import DialectSettings
from tercet.tasks.stage import Config

CorpusRole: TypeAlias = Literal["domain", "general", "labelled", "pretrain"]
FileCount: TypeAlias = Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0.0, le=1.0)]

_COLUMN_KEYS = ("text", "query", "answer", "labels")


class CorpusConfig(Config):
    """One corpus of a recipe.

    name: how phases and stages call it; unique in the recipe.
    source: a file, a folder, a glob, `package:PACKAGE/FILE` (a file inside an installed package),
        `pydocs` (docstrings of installed packages), `hf:NAME` (a data set) or `lmf:FILE.xml` (a
        wordnet).
    role: `domain` and `general` corpora give sentences, and rows are chosen by these two names;
        `labelled` ones give rows to train on and no sentences; `pretrain` ones are read by the
        stage `pretrain` alone.
    share: the corpus's weight among the anchors.
    company: other training sentences that an anchor's document must have; left out, as `sample`
        says. 0 for a corpus of single sentences beside one of documents.
    text: column that holds the text (.jsonl, .csv, .tsv, .parquet, data sets); left out, it is
        found.
    query, answer: columns of a natural pair, which become `document_pairs`.
    labels: column of few values (stars, a category) that says something of each row. Labels only
        measure: they enter no text and train nothing.
    prose: a value is a text of paragraphs and sentences, to be split; left out, true for all but
        `.txt`, whose lines are sentences. A `.txt` of prose has blank lines between paragraphs;
        `lines` means that each of its lines is a text of several sentences.
    packages: for `pydocs`, the distributions (or top modules) to read, in order.
    files: for `pydocs`, how many source files of each package, chosen by hash of their paths
        before any is read: a whole number, or a fraction.
    kind: what the rows of a labelled corpus are.
    columns: of a labelled corpus, our name of a column to the source's; left out, they are found.
    held_out: of kind definitions, the share that nothing trains on, to measure how well definitions
        find their entries; left out, 0.02.
    dialect: of .csv and .tsv files, what need not be found in each of them.
    limit: read only the first so many rows (of lines or tables), or documents (of prose, pydocs).
    """

    name: str = Field(min_length=1)
    source: str = Field(min_length=1)
    role: CorpusRole = "domain"
    share: float = Field(default=1.0, gt=0.0)
    company: int | None = Field(default=None, ge=0)
    text: str | None = None
    query: str | None = None
    answer: str | None = None
    labels: str | None = None
    prose: bool | Literal["lines"] | None = None
    packages: list[str] = Field(default_factory=list)
    files: FileCount | None = None
    kind: str | None = Field(default=None, json_schema_extra={"enum": [*KINDS, None]})
    columns: dict[str, str] = Field(default_factory=dict)
    held_out: float | None = Field(default=None, ge=0.0, le=0.5)
    dialect: DialectSettings | None = None
    limit: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _consistent(self) -> "CorpusConfig":
        if (self.query is None) != (self.answer is None):
            raise ValueError("query and answer name the two columns of a pair: give both or none")
        if self.labels is not None and self.labels in (self.text, self.query, self.answer):
            raise ValueError("labels and a text are the same column: labels never train")
        if self.held_out is not None and self.kind != "definitions":
            raise ValueError("held_out is for labelled corpora of kind definitions: leave it out")
        if self.role == "pretrain":
            self._refuse(("share", "company", "query", "answer", "labels"))
        if self.role == "labelled":
            self._check_labelled()
        elif self.kind is not None or self.columns:
            key = "columns" if self.kind is None else "kind"
            raise ValueError(
                f"{key} is for labelled corpora: add role: labelled, or leave {key} out"
            )
        return self

    def _check_labelled(self) -> None:
        known = ", ".join(KINDS)
        if self.kind is None:
            raise ValueError(f"role: labelled needs a kind: {known}")
        if self.kind not in KINDS:
            raise ValueError(f"there is no kind {self.kind!r}; known: {known}")
        unlabelled = (
            "share", "company", "text", "query", "answer", "labels", "prose", "packages", "files",
        )  # fmt: skip
        self._refuse(unlabelled)

    def _refuse(self, keys: Sequence[str]) -> None:
        for key in keys:
            if getattr(self, key) != type(self).model_fields[key].get_default(
                call_default_factory=True
            ):
                instead = ""
                if self.role == "labelled" and key in _COLUMN_KEYS:
                    instead = "; name its columns under `columns`"
                raise ValueError(f"{key} is not for {self.role} corpora{instead}")


class IngestSettings(Config):
    """Which texts come in.

    min_words, max_words: bounds of a sentence's length in words, both included, as
        `models/text/lengths` counts them.
    max_line_bytes: a longer line (or value) is a reject; bounds the memory of reading.
    dev, test: expected fractions of documents, clusters of near-duplicates going whole.
    rare: a word 8-gram ties the first so many documents that hold it; 1 ties none.
    common: a word 8-gram, or a whole sentence, in more than this fraction of the documents (and in
        more than 20) is a set phrase, which neither ties documents nor keeps them out of train;
        1 for none.
    largest_cluster: a cluster of more than this fraction of the documents goes to train.
    """

    min_words: int = Field(default=4, ge=1)
    max_words: int = Field(default=100, ge=1)
    max_line_bytes: int = Field(default=1_000_000, ge=100)
    dev: float = Field(default=0.05, ge=0.0, lt=1.0)
    test: float = Field(default=0.05, ge=0.0, lt=1.0)
    rare: int = Field(default=5, ge=1)
    common: float = Field(default=0.01, gt=0.0, le=1.0)
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


class PretrainIngestConfig(IngestConfig):
    """The corpora of role pretrain; the same files may give sentences elsewhere."""

    role: Literal["pretrain"] = "pretrain"


class Question(NamedTuple):
    """A pair that is only measured, never trained on.

    question: what is asked, the same for all pairs of the kind; becomes the task's name.
    sentences: those that its texts are made of; they must be held out.
    """

    question: str
    query: str
    answer: str
    sentences: list[str]


class Document(NamedTuple):
    """One document as read: its sentences by paragraph, its natural pairs (query, answer).

    label: what the corpus's column `labels` says of it, if anything.
    """

    source: str
    path: str
    paragraphs: list[list[str]]
    pairs: list[tuple[str, str]]
    questions: tuple[Question, ...] = ()
    label: str | None = None


class Fault(NamedTuple):
    """A row that could not be used: it becomes a reject, and the others go on."""

    source: str
    path: str
    reason: str
    detail: str
    text: str


Reading: TypeAlias = Document | Fault
