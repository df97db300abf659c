"""Configs of corpora, and the readings of a reader: documents, cut into sentences, and faults."""

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, NamedTuple, TypeAlias

from pydantic import Field, model_validator

from tercet.errors import InvalidSetting
from tercet.models.text.words import fold
from tercet.tasks.config import Need, Steers, Wired
from tercet.tasks.corpus.kind_registry import KINDS
from tercet.tasks.corpus.sources.separated import DialectSettings
from tercet.tasks.stage import Config

CorpusRole: TypeAlias = Literal["domain", "general", "labelled", "pretrain"]
FileCount: TypeAlias = Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0.0, le=1.0)]

_COLUMN_KEYS = ("text", "query", "answer", "labels")


class CorpusConfig(Config):
    """One corpus of a recipe."""

    name: str = Field(min_length=1, description="Its name in phases, tables and `rejects`")
    source: str = Field(
        min_length=1,
        description="A file, a folder, a glob, `package:PACKAGE/FILE` (a file inside an installed "
        "package), `pydocs`, `hf:NAME` or `lmf:FILE.xml`; a relative path starts at "
        "the directory in which `tercet` runs, not at the recipe's",
    )
    role: CorpusRole = Field(
        "domain",
        description="`domain` and `general` corpora give sentences; phases and methods can select "
        "by these roles. A `labelled` one gives rows to train on, and neither sentences nor "
        "anchors. A `pretrain` one is read by `pretrain` alone, "
        "in a step and a table of its own (`ingest.pretrain`, `pretrain_sentences`): "
        "it gives no anchors, no pairs and no knowledge",
    )
    share: float = Field(
        default=1.0,
        gt=0.0,
        description="Its weight among the anchors, if there are several corpora; not for labelled "
        "ones",
    )
    min_context_sentences: int | None = Field(
        default=None,
        ge=0,
        description="Minimum number of other training sentences in an anchor's document; 0 for "
        "single sentences beside a corpus of documents",
    )
    text: str | None = Field(
        None,
        description="The column with the text. `init` and `run` say which one was found: the one "
        "with a usual name (`text`, `content`, `body` and others, whatever their "
        "case, alone or within a longer name), if its values read like prose; else "
        "the one that reads most like it, which markup, addresses, keys and JSON do "
        "not",
    )
    query: str | None = Field(None, description="A column; with `answer` it makes `document_pairs`")
    answer: str | None = Field(None, description="The column that answers it; with `query`")
    labels: str | None = Field(
        None,
        description="A column such as stars or a category. It only measures: it enters no text "
        "and trains nothing",
    )
    prose: bool | Literal["lines"] | None = Field(
        None,
        description="True: the text is split into paragraphs and sentences; false: each value or "
        "line is one sentence; `lines`: each line of a `.txt` is a text of several "
        "sentences. True for all but `.txt`",
    )
    packages: list[str] = Field(
        default_factory=list,
        description="`pydocs` only: distributions or top-level modules, in order",
    )
    files: FileCount | None = Field(
        None,
        description="`pydocs` only: how many source files of each package, chosen by hash. `1` is "
        "one file, `1.0` all",
    )
    kind: str | None = Field(
        default=None,
        json_schema_extra={"enum": [*KINDS, None]},
        description="What the rows of a labelled corpus are; with `role: labelled`: `triplets`, "
        "`pairs`, `scored`, `definitions`, `entailment`",
    )
    columns: dict[str, str] = Field(
        default_factory=dict,
        description="Maps our column names to those of the source; with `role: labelled`",
    )
    held_out: float | None = Field(
        default=None,
        ge=0.0,
        le=0.5,
        description="The share of its definitions that is drawn to measure what definitions find; "
        "fewer are held out (Definitions)",
    )
    dialect: DialectSettings | None = Field(
        None, description="How a `.csv` or `.tsv` is written, as far as it need not be found"
    )
    limit: int | None = Field(
        default=None, ge=1, description="Only the first rows (for prose and `pydocs`, documents)"
    )

    @model_validator(mode="after")
    def _consistent(self) -> "CorpusConfig":
        if (self.query is None) != (self.answer is None):
            raise InvalidSetting(
                "missing_key", "query and answer name the two columns of a pair: give both or none"
            )
        if self.labels is not None and self.labels in (self.text, self.query, self.answer):
            raise InvalidSetting(
                "conflict", "labels and a text are the same column: labels never train"
            )
        if self.held_out is not None and self.kind != "definitions":
            raise InvalidSetting(
                "no_effect", "held_out is for labelled corpora of kind definitions: leave it out"
            )
        if self.role == "pretrain":
            self._refuse(("share", "min_context_sentences", "query", "answer", "labels"))
        if self.role == "labelled":
            self._check_labelled()
        elif self.kind is not None or self.columns:
            key = "columns" if self.kind is None else "kind"
            raise InvalidSetting(
                "no_effect",
                f"{key} is for labelled corpora: add role: labelled, or leave {key} out",
            )
        return self

    def _check_labelled(self) -> None:
        kinds = ", ".join(KINDS)
        if self.kind is None:
            raise ValueError(f"role: labelled needs a kind: {kinds}")
        if self.kind not in KINDS:
            raise ValueError(f"there is no kind {self.kind!r}; known: {kinds}")
        unlabelled = ("share", "min_context_sentences", *_COLUMN_KEYS, "prose", "packages", "files")
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


class PassagesConfig(Config):
    """How documents are cut into passages."""

    tokens: int = Field(
        default=200,
        ge=16,
        le=8192,
        description="Most tokens in a passage with its context, by the backbone's tokenizer, "
        "special ones aside; words in a recipe without a backbone",
    )
    corpora: Wired[list[CorpusConfig]] = Field(default_factory=list)
    max_line_bytes: Wired[int] = 1_000_000


class IngestConfig(Config):
    """Which texts come in, of corpora that are read in this order: of equal sentences the first
    stays. role: `pretrain` for the corpora of this role alone."""

    min_words: int = Field(
        default=4,
        ge=1,
        description="Fewest words in a sentence. Wherever words are counted, they are what stands "
        "between spaces; in scripts without spaces two letters of Chinese or Japanese "
        "count as a word, and four signs of Thai, Lao, Tibetan, Burmese or Khmer",
    )
    max_words: int = Field(default=100, ge=1, description="Most words in a sentence")
    max_line_bytes: int = Field(
        default=1_000_000, ge=100, description="Longer lines and values are rejects"
    )
    dev: float = Field(
        default=0.05,
        ge=0.0,
        lt=1.0,
        description="Share of the documents; together with `test` below 1",
    )
    test: float = Field(default=0.05, ge=0.0, lt=1.0, description="Share of the documents")
    max_shingle_frequency: int = Field(
        default=5,
        ge=1,
        description="Of the documents that share a run of eight words, the first this many are "
        "tied together and land in one split; each text is checked for "
        "near-duplicates against as many others. 1 ties none",
    )
    common: float = Field(
        default=0.01,
        gt=0.0,
        le=1.0,
        description="A run of eight words, or a whole sentence, in more than this share of the "
        "documents, and in more than 20 of them, is a set phrase (a letter's opening, "
        "a signature, a form's text): it neither ties documents nor keeps them out of "
        "train. 1: there are none",
    )
    largest_cluster: float = Field(
        default=0.03,
        gt=0.0,
        le=1.0,
        description="A cluster of tied documents larger than this share of all goes to train",
    )
    passages: Annotated[Steers[PassagesConfig | None], Need("sentences")] = Field(
        default=None,
        description="Makes the table `passages`; `{}` for the defaults, null: no passages",
    )
    keep: Steers[str | None] = Field(
        default=None,
        pattern=r"^(tag:|ingest@).+$",
        description="An earlier version, whose documents keep their splits; a new document that "
        "resembles one of them follows it: `tag:NAME`, of that version or of a run, or "
        "`ingest@VERSION`; null: splits are drawn from the corpora as they are",
    )
    corpora: Wired[list[CorpusConfig]] = Field(default_factory=list)
    role: Wired[Literal["pretrain"] | None] = None

    @model_validator(mode="after")
    def _consistent(self) -> "IngestConfig":
        if self.min_words > self.max_words:
            raise InvalidSetting("bad_value", "min_words is larger than max_words")
        if self.dev + self.test >= 1.0:
            raise InvalidSetting(
                "bad_value", "dev and test leave nothing to train on: their sum must be below 1"
            )
        return self


class Question(NamedTuple):
    """A pair for evaluation only.

    question: names the kind of pair, and the task. sentences: of its texts; must be held out.
    """

    question: str
    query: str
    answer: str
    sentences: list[str]


class Heading(NamedTuple):
    """A heading: its paragraph in its document, its level (1: the highest), its text.

    Headings from an earlier document of the file that still apply have the paragraph -1.
    """

    paragraph: int
    level: int
    text: str


class Document(NamedTuple):
    """One document: its sentences by paragraph, and its natural pairs (query, answer).

    label: its value in the corpus's column `labels`. title: of its file or row. headings: in order.
    html: the beginning of a text of it before HTML was removed.
    continued: whether it continues the previous document, in the same file.
    code: numbers of paragraphs that are lines of code, which passages contain and sentences do not.
    """

    source: str
    path: str
    paragraphs: list[list[str]]
    pairs: list[tuple[str, str]]
    questions: tuple[Question, ...] = ()
    label: str | None = None
    title: str | None = None
    headings: tuple[Heading, ...] = ()
    html: str = ""
    continued: bool = False
    code: frozenset[int] = frozenset()

    def text(self) -> str:
        """The document's whole text, pairs included; its digest is the document's id."""
        body = ["\n".join(sentences) for sentences in self.paragraphs]
        return "\n\n".join([*body, *(text for pair in self.pairs for text in pair)])


def open_headings(headings: Iterable[Heading]) -> list[Heading]:
    """The headings in force after all of these: a heading ends earlier headings of its level or
    below.
    """
    applying: list[Heading] = []
    for heading in headings:
        applying = [one for one in applying if one.level < heading.level]
        applying.append(heading)
    return applying


class Fault(NamedTuple):
    """A row that could not be used, which becomes a reject."""

    source: str
    path: str
    reason: str
    detail: str
    text: str


Reading: TypeAlias = Document | Fault


# Closing marks after the end of a sentence in Chinese or Japanese.
_CLOSING = re.compile("[”’」』）】》〉]+")
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n\s*")


def split_sentences(paragraph: str) -> list[str]:
    """The sentences of one folded paragraph (blingfire), none of them empty."""
    import blingfire

    if not paragraph:
        return []
    sentences: list[str] = []
    for piece in blingfire.text_to_sentences(paragraph).split("\n"):
        closing = _CLOSING.match(piece)
        if closing and sentences and sentences[-1][-1] in "。！？…":
            sentences[-1] += closing[0]
            piece = piece[closing.end() :]
        sentences += filter(None, [fold(piece)])
    return sentences


def split_paragraphs(text: str, split: bool) -> list[list[str]]:
    """Sentences by paragraph; without `split` the text is one sentence."""
    if not split:
        folded = fold(text)
        return [[folded]] if folded else []
    unified = text.replace("\r\n", "\n")
    paragraphs = (split_sentences(fold(piece)) for piece in _BLANK_LINE.split(unified))
    return [paragraph for paragraph in paragraphs if paragraph]
