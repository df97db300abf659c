"""The contract of a method: sentences and their knowledge in, generations out.

A module of methods has `METHODS`, a dict from the name of a method to its `Method`. The `generate`
of a rule writes the texts itself. The `generate` of a prompted method returns the variables of its
prompt, and a language model writes the texts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from tercet.models.config import Config
from tercet.models.runs import begins
from tercet.models.seeding import Ids, text_ids

Purpose: TypeAlias = Literal["positive", "negative"]
# How a text's meaning relates to its sentence: equal, one fact changed, only on the same topic, or
# unrelated.
Relation: TypeAlias = Literal["keeps", "alters", "topic", "other"]
Need: TypeAlias = Literal["mentions", "sentence_categories", "graph", "documents", "pool"]
# A prompted method asks about each anchor, or about each paragraph that has an anchor.
Unit: TypeAlias = Literal["sentence", "passage"]
# The table whose rows a method reads: sentences with their anchors, or passages.
Each: TypeAlias = Literal["sentences", "passages"]
# Checks of an answer in addition to the checks of every answer (`models/prompted/checks.py`).
Check: TypeAlias = Literal[
    "whole_source", "question", "query", "new_entity", "new_number", "new_record"
]

DETAIL = pa.struct(
    [
        ("operation", pa.string()),
        ("old", pa.string()),
        ("new", pa.string()),
        ("mention_id", pa.uint64()),
        ("node_id", pa.uint64()),
        ("pool", pa.string()),
    ]
)
"""Struct `detail`.

Columns:
    operation: `next_sentences`, `rest_of_paragraph`, `neighbour_paragraph`, `word_repetition`,
        `cutoff`, `telegram`, `word_shuffle`, `exchange_synonym`, `rewrite_number`, `swap_entity`,
        `change_quantity`, `exchange_antonym`, `insert_negation`, `remove_negation`, `random`,
        `mined`, `title` or `heading`; for a prompted method its request, such as `paraphrase`,
        `contradict` or `revise_entity`, and for a query its kind
    old: the replaced words, joined by `; `; NULL if no word was replaced
    new: the words in their place
    mention_id: → `mentions.mention_id` of the first changed mention; NULL if none was changed
    node_id: → `kg_nodes.node_id`: the new entity, or for a number the original quantity
    pool: for a changed entity: `T_p`, of the same type and with a neighbour in common (with
        `choice: nearest` a weighted cosine of neighbourhoods of at least 0.15), or `T_r`, of the
        same type
"""
GENERATED = pa.schema([("sentence_id", pa.uint64()), ("raw", pa.string()), ("detail", DETAIL)])
# Rows that a prompted method returns: `values` is a JSON object of the prompt's variables.
ASKED = pa.schema([("sentence_id", pa.uint64()), ("values", pa.string()), ("detail", DETAIL)])

GENERATIONS = pa.schema(
    [
        ("generation_id", pa.uint64()),
        ("purpose", pa.string()),
        ("relation", pa.string()),
        ("sentence_id", pa.uint64()),
        ("method", pa.string()),
        ("passage", pa.string()),
        ("as_anchor", pa.bool_()),
        ("prompt", pa.string()),
        ("shots", pa.list_(pa.string())),
        ("checks", pa.list_(pa.string())),
        ("model", pa.string()),
        ("sampling", pa.string()),
        ("request_digest", pa.string()),
        ("raw", pa.string()),
        ("finish_reason", pa.string()),
        ("n_tokens", pa.int32()),
        ("detail", DETAIL),
    ]
)
"""Table `generations`. One row per text that a method wrote, verbatim. Each method has its own
artifact; the table unites them. If a language model or a fitted generator wrote the text (a
prompted method), the row has the whole request, and `request_digest` leads to its cost.

Key: `generation_id`.

Columns:
    generation_id: id of method, sentence, number and words
    purpose: intended role: `positive` or `negative`
    relation: relation to the sentence's meaning: `keeps`, `alters`, `topic` (the same topic only)
        or `other` (unrelated); NULL for extractions
    sentence_id: → `sentences.sentence_id`, the anchor; for a query → `passages.passage_id`
    method: the method that wrote the text
    passage: the paragraph or passage in the request; NULL for a single sentence
    as_anchor: whether the text becomes the anchor, and its sentence or passage the positive; NULL
        for rules over sentences
    prompt: the prompt as sent, rendered for this row; the bare sentence for a generator; NULL for
        rules
    shots: the answers of the worked examples before the prompt; NULL without any
    checks: the method's checks by `parse`, in addition to those of every answer; NULL for rules
    model: the model that answered, a generator by its name in the recipe; NULL for rules
    sampling: the sampling of the answer, as JSON: `temperature`, `top_p`, `max_tokens`; for a
        generator also `backend`, `top_k`, `beams`, `no_repeat` and `max_new` (through vLLM the
        sampling is plain); NULL for rules
    request_digest: → `responses.request_digest`: id of prompt, shots, model, sampling, schema and
        the row's seed; for a generator also of backend, precision and the code that decodes; NULL
        for rules
    raw: the answer verbatim, before it is unwrapped and checked
    finish_reason: `stop`, or `length` if the length limit cut it off; always `stop` for rules
    n_tokens: tokens in the answer as the model's server counts them; for rules its words
    detail: what was changed, as in `candidates`
"""

JOINT = "; "


def purpose_of(relation: Relation) -> Purpose:
    """`positive` for texts that keep the meaning or the topic, else `negative`."""
    return "positive" if relation in ("keeps", "topic") else "negative"


class Several(Config):
    """Parameters of a method that can write several texts for one sentence."""

    per_sentence: int = Field(1, ge=1, le=16, description="generations of a sentence, at most")


class Prompted(Config):
    """Parameters of a method whose texts a language model or a fitted generator writes.

    If relation or checks is None, that of the method's declaration holds; if temperature, top_p or
    max_tokens is None, that of the model's settings.
    """

    per_unit: int = Field(1, ge=1, le=16, description="texts about a sentence or passage, at most")
    generator: str = Field("llm", description="who writes: llm, or a name under `generators`")
    prompt: str | None = Field(None, description="a prompt file (Jinja2) instead of ours")
    shots: str | None = Field(
        "builtin",
        description="a file of worked examples (JSON lines of variables and answer) that a "
        "language model is shown first; builtin: ours, with our own prompt; null: none",
    )
    relation: Relation | None = Field(
        None,
        description="effect of the answers on the sentence's meaning; keeps and topic give "
        "positives, the others negatives",
    )
    unit: Unit = Field(
        "sentence",
        description="passage: asks once about each paragraph that has an anchor; with relation: "
        "topic",
    )
    as_anchor: bool = Field(
        False,
        description="the answer becomes the anchor, and its sentence or passage the positive; with "
        "relation: topic",
    )
    checks: tuple[Check, ...] | None = Field(
        None, description="checks of an answer, in addition to those of every answer"
    )
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    max_tokens: int | None = Field(None, ge=1, le=32768)


@dataclass(frozen=True)
class Pool:
    """All anchors, as a hash ring.

    ring: sorted positions (`seeding.mix` of the sentence ids). sentence_ids, doc_ids: in the order
    of the ring. texts: returns the texts of some sentence ids, in the order of the ids.
    """

    ring: Ids
    sentence_ids: Ids
    doc_ids: Ids
    texts: Callable[[Ids], list[str]]


@dataclass(frozen=True)
class MethodInput:
    """Input of one call of a method.

    sentences: whole documents of the train split, rows in document order (sentence_id, text,
        doc_id, paragraph, n_words). A method over passages gets passages (sentence_id, which is
        the passage's id, text, context, source, doc_id).
    anchors: the rows of `sentences` to generate for, ascending.
    mentions: the mentions of these sentences, in any order; None if the method needs none.
    replacements: the result of the method's `open_graph` on the knowledge graph, or None.
    pool: all anchors, or None.
    categories: the categories of these sentences (sentence_id, category), or None.
    places: the result of the method's `open_passages` on all passages, or None.
    language: language of the pipeline that named the entities; None if an English lexicon did.
    """

    sentences: pa.Table
    anchors: npt.NDArray[np.int64]
    mentions: pa.Table | None = None
    replacements: Any | None = None
    pool: Pool | None = None
    categories: pa.Table | None = None
    places: Any | None = None
    language: str | None = None

    @property
    def english(self) -> bool:
        """Whether the rules of English grammar hold for the texts."""
        return self.language in (None, "en")

    def column(self, name: str) -> npt.NDArray[Any]:
        """A numeric column of the anchors' sentences."""
        return np.asarray(self.sentences[name].to_numpy()[self.anchors])

    def ids(self) -> Ids:
        """The anchors' sentence ids."""
        return np.asarray(self.column("sentence_id"), dtype=np.uint64)

    def texts(self) -> list[str]:
        """The anchors' texts."""
        return list(self.sentences["text"].take(pa.array(self.anchors)).to_pylist())

    def passages(self) -> Iterator[tuple[int, str]]:
        """The id of the first anchor and the text of each paragraph that has an anchor."""
        docs, paragraphs = (self.sentences[name].to_numpy() for name in ("doc_id", "paragraph"))
        bounds = np.append(np.flatnonzero(begins(docs, paragraphs)), len(docs))
        of = np.searchsorted(bounds, self.anchors, side="right") - 1
        ids = self.ids()
        for group, first in zip(*np.unique(of, return_index=True), strict=True):
            rows = self.sentences["text"].slice(bounds[group], bounds[group + 1] - bounds[group])
            yield int(ids[first]), " ".join(rows.to_pylist())

    def spans(self, *kinds: str) -> dict[int, list[tuple[int, int]]]:
        """(start, end) of the mentions of these kinds, by index into `anchors`."""
        spans: dict[int, list[tuple[int, int]]] = {}
        for kind in kinds:
            columns = self.located(kind).select(["row", "start", "end"]).columns
            for row, start, end in zip(*(c.to_pylist() for c in columns), strict=True):
                spans.setdefault(row, []).append((start, end))
        return spans

    def category(self) -> list[str]:
        """The category of each anchor, "" if it has none."""
        if self.categories is None:
            return [""] * len(self.anchors)
        columns = (column.to_pylist() for column in self.categories.columns)
        names = dict(zip(*columns, strict=True))
        return [names.get(row_id, "") for row_id in self.ids().tolist()]

    def located(self, kind: str) -> pa.Table:
        """The anchors' mentions of one kind, ordered by anchor and offset.

        The added column `row` (int64) is the index into `anchors`.
        Raises: ValueError if the method got no mentions.
        """
        if self.mentions is None:
            raise ValueError("this method needs mentions, and was given none")
        mentions = self.mentions.filter(pc.equal(self.mentions["kind"], kind))
        rows = pc.index_in(mentions["sentence_id"], value_set=pa.array(self.ids()))
        table = mentions.append_column("row", rows.cast(pa.int64())).filter(pc.is_valid(rows))
        return table.sort_by([("row", "ascending"), ("start", "ascending"), ("end", "ascending")])


Generate: TypeAlias = Callable[[MethodInput, Any, int], pa.Table]


@dataclass(frozen=True)
class Method:
    """A way to generate texts: its purpose, its inputs and its parameters.

    relation: how its texts relate to the sentence's meaning.
    generate: from (inputs, params, seed) to a table of `GENERATED`, or of `ASKED` for a prompted
        method. The rows of a sentence are adjacent, in the order of the anchors; a sentence to
        which the method does not apply has no row. Each draw about a row is a function of (seed,
        sentence id, purpose) alone.
    open_graph: makes `MethodInput.replacements` from kg_nodes and the batches of kg_edges, once
        per graph; only for a method that needs the graph.
    open_passages: makes `MethodInput.places` from the batches of all passages (source, context);
        only for a rule over passages.
    prompt: name of the built-in prompt file in `models/prompted/prompts`, if a prompted method has
        one; its `params` are `Prompted`. Its file in `shots` has the method's name.
    variables: keys of `values`, which a user's own prompt may name. optional: the variables that a
        worked example may leave out; they are then empty.
    checks: names of the checks of an answer.
    unit, as_anchor: as in `Prompted`. The text of a rule over passages is a query, the anchor.
    each: the table whose rows it reads. A method over passages writes queries: its text is the
        anchor, and the passage the positive (for a rule the passage without its context).
    languages: languages whose texts it can read, as "en"; empty: any. For a prompted method the
        model decides.
    module: for a method of an installed package, the module that the entry point names. Its code,
        with all that it imports from its package, is part of the versions that use the method.
    """

    name: str
    purpose: Purpose
    relation: Relation
    generate: Generate
    params: type[Config] = Config
    needs: Sequence[Need] = ()
    open_graph: Callable[[pa.Table, Iterable[pa.RecordBatch]], Any] | None = None
    open_passages: Callable[[Iterable[pa.RecordBatch]], Any] | None = None
    prompt: str | None = None
    variables: Sequence[str] = ()
    optional: Sequence[str] = ()
    checks: Sequence[Check] = ()
    module: str = ""
    unit: Unit = "sentence"
    as_anchor: bool = False
    each: Each = "sentences"
    languages: Sequence[str] = ("en",)

    def reads(self, language: str) -> bool:
        """Whether the method can read texts of this language."""
        return self.prompted or not self.languages or language in self.languages

    @property
    def prompted(self) -> bool:
        """Whether a model writes the texts."""
        return issubclass(self.params, Prompted)


@dataclass
class Output:
    """Collects generations; a text that a sentence already has is not added twice."""

    rows: list[tuple[int, str, str, str | None, str | None, int | None, int | None, str | None]] = (
        field(default_factory=list)
    )
    _sentence: int | None = None
    _texts: set[str] = field(default_factory=set)

    def add(
        self,
        sentence_id: int,
        raw: str,
        operation: str,
        old: str | None = None,
        new: str | None = None,
        mention_id: int | None = None,
        node_id: int | None = None,
        pool: str | None = None,
    ) -> bool:
        """Adds one generation; returns False if the sentence already has this text."""
        if sentence_id != self._sentence:
            self._sentence, self._texts = sentence_id, set()
        if raw in self._texts:
            return False
        self._texts.add(raw)
        self.rows.append((sentence_id, raw, operation, old, new, mention_id, node_id, pool))
        return True

    def table(self) -> pa.Table:
        """The generations, as a table of `GENERATED`."""
        columns: Sequence[Sequence[Any]] = list(zip(*self.rows, strict=True)) or [[]] * 8
        changes = [
            pa.array(c, kind.type) for c, kind in zip(columns[2:], DETAIL.fields, strict=True)
        ]
        detail = pa.StructArray.from_arrays(changes, fields=DETAIL.fields)
        ids, raws = pa.array(columns[0], pa.uint64()), pa.array(columns[1], pa.string())
        return pa.Table.from_arrays([ids, raws, detail], schema=GENERATED)


def numbered(sentence_ids: Ids) -> npt.NDArray[np.int64]:
    """The number of each row among the adjacent rows of its sentence, from 0."""
    rows = np.arange(len(sentence_ids))
    return np.asarray(rows - np.maximum.accumulate(np.where(begins(sentence_ids), rows, 0)))


def generation_ids(method: str, sentence_ids: Ids, raws: Sequence[str]) -> Ids:
    """Ids of generations, from method, sentence, the row's number in it, and the text."""
    numbers = map(str, numbered(sentence_ids).tolist())
    return text_ids([method] * len(raws), map(str, sentence_ids.tolist()), numbers, raws)


def methods(*listed: Method) -> Mapping[str, Method]:
    """The methods by name, for a module's `METHODS`."""
    return {method.name: method for method in listed}
