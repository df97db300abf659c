"""Stage `awareness`: pairs that show whether an encoder notices entities and quantities (GCSE).

The paper rewrites STS-B's dev set by its own methods, and two supervised models score how similar
the texts are. Here rules rewrite the run's own dev sentences, and the model that the recipe names
scores them. `evaluate` correlates an encoder's cosines with these scores.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field

from tercet.models import seeding
from tercet.models.encoders.settings import FormSettings
from tercet.models.generation import Method, MethodInput
from tercet.models.seeding import sample
from tercet.storage.fingerprint import tree_digest
from tercet.tasks.encoders import load_encoder
from tercet.tasks.rejects import isolated, refused, rejects
from tercet.tasks.stage import BadInput, Kind, Stage, Work, connection

NAME = "awareness"
AWARENESS_PAIRS = pa.schema(
    [
        ("pair_id", pa.uint64()),
        ("sentence_id", pa.uint64()),
        ("kind", pa.string()),
        ("role", pa.string()),
        ("method", pa.string()),
        ("anchor", pa.string()),
        ("text", pa.string()),
        ("old", pa.string()),
        ("new", pa.string()),
        ("teacher", pa.string()),
        ("teacher_similarity", pa.float64()),
    ]
)
"""Table `awareness_pairs`. If the recipe names a teacher: pairs made from dev sentences, with the
teacher's similarity. Each anchor has, for each kind, one negative, in which an entity or number
is changed, and one positive, which keeps it. `evaluate` correlates an encoder's cosines with the
teacher's (suite `awareness`). Only sentences of `dev` are used, and no pair's text is a sentence
of `train` or `test`; the new entity is a node of `kg_nodes`, which covers all sentences that were
extracted from (those of all splits; with a language model, the anchors).

Key: `pair_id`.

Columns:
    pair_id: id of kind, role, method and both texts
    sentence_id: → `sentences.sentence_id`, the anchor, of split `dev`
    kind: what the pair is about: `entity` or `quantity`
    role: `negative` or `positive`
    method: `entity_swap`, `quantity_change`; for positives `number_form`, `synonym` or
        `word_repetition`
    anchor: the dev sentence
    text: the method's version of it
    old: the words replaced, joined by `; `; NULL for `word_repetition`
    new: the words in their place
    teacher: digest of the teacher's weights
    teacher_similarity: the teacher's cosine between the two texts
"""
KINDS: tuple[Kind, ...] = ("entity", "quantity")
# A correlation over fewer pairs means nothing.
LEAST_PAIRS = 30
# Cosines of one pair of texts, made in two batches, differ by less.
_TIE = 1e-6

# Parameters other than a method's defaults: odd pairs do no harm, since a teacher scores them.
_PARAMS: Mapping[str, Mapping[str, Any]] = {"entity_swap": {"one_kind": False}}
# Methods that change an entity or quantity, and methods that keep it. Other sentences of the
# paragraph are not positives here, since they mention other entities.
_NEGATIVE: Mapping[Kind, str] = {"entity": "entity_swap", "quantity": "quantity_change"}
_FIRST_POSITIVE: Mapping[Kind, str | None] = {"entity": None, "quantity": "number_form"}
_POSITIVES = ("synonym", "word_repetition")


class AwarenessConfig(FormSettings):
    """How many pairs are made, and the teacher that scores them."""

    teacher: str = Field(description="directory, package:PACKAGE/FOLDER or hub name")
    rows: int = Field(
        default=1_000, ge=1, le=1_000_000, description="dev sentences of each kind, drawn by seed"
    )
    max_length: int | None = Field(
        default=None, ge=4, le=8192, description="longest input in tokens; null: the teacher's own"
    )


# A row of the table before the teacher has scored it.
_Pair: TypeAlias = dict[str, Any]


def run(work: Work) -> None:
    """Emits `awareness_pairs`, by kind and anchor: a negative and a positive of each anchor.

    Slots: sentences; graph; mentions, if rules extracted them (a language model reads only the
    training sentences, so the built-in rules read the sentences of dev).
    Raises BadInput if the teacher cannot be loaded, or gives no pair a finite cosine.
    """
    sentences = _dev_sentences(work)
    mentions = _mentions(work, sentences)
    pairs: list[_Pair] = []
    for kind in KINDS:
        drawn = _draw(work, kind, sentences, mentions)
        complete = _held_out_only(work, _make_pairs(work, kind, drawn))
        if len(complete) < LEAST_PAIRS:
            _too_few(work, kind, len(complete))
        else:
            pairs += complete
    if pairs:
        _judge(work, pairs)


def methods() -> dict[str, Method]:
    """The methods by name; imported here, so that the stage's version covers only their code."""
    from tercet.models.rules import (
        entity_swap,
        noise,
        number_form,
        quantity_change,
        word_exchange,
    )

    methods_by_name: dict[str, Method] = {}
    for module in (entity_swap, noise, number_form, quantity_change, word_exchange):
        methods_by_name |= module.METHODS
    return methods_by_name


def _dev_sentences(work: Work) -> pa.Table:
    """(sentence_id, text) of split dev, by id."""
    files, dev = work.inputs["sentences"].files("sentences"), pc.field("split") == "dev"
    table = pq.read_table(files, columns=["sentence_id", "text"], filters=dev, partitioning=None)
    return table.sort_by("sentence_id").combine_chunks()


def _mentions(work: Work, sentences: pa.Table) -> pa.Table:
    """The mentions of these sentences, by id."""
    if "mentions" in work.inputs:
        of_sentences = pc.field("sentence_id").isin(sentences["sentence_id"].combine_chunks())
        files = work.inputs["mentions"].files("mentions")
        table = pq.read_table(files, filters=of_sentences, partitioning=None)
        return table.sort_by("mention_id").combine_chunks()
    from tercet.models.knowledge.extraction import extract as read
    from tercet.tasks.knowledge import extract

    ids, texts = sentences["sentence_id"].to_numpy(), sentences["text"].to_pylist()
    extracted = read(texts, extract.lexicon_of("builtin", "extract"))
    return extract.mentions(extracted, ids).sort_by("mention_id")


def _draw(work: Work, kind: Kind, sentences: pa.Table, mentions: pa.Table) -> MethodInput:
    """A seeded sample of the sentences that mention something of the kind, as a method's input."""
    config: AwarenessConfig = work.config
    named = mentions.filter(pc.equal(mentions["kind"], kind))["sentence_id"]
    rows = sentences.filter(pc.is_in(sentences["sentence_id"], named))
    rows = sample(rows, "sentence_id", config.rows, work.seed, NAME).combine_chunks()
    of_rows = mentions.filter(pc.is_in(mentions["sentence_id"], rows["sentence_id"]))
    replacements = None
    open_graph = methods()[_NEGATIVE[kind]].open_graph
    if open_graph is not None:
        graph = work.inputs["graph"]
        replacements = open_graph(graph.table("kg_nodes"), graph.batches("kg_edges"))
    return MethodInput(rows, np.arange(len(rows)), of_rows, replacements)


def _make_pairs(work: Work, kind: Kind, method_input: MethodInput) -> list[_Pair]:
    """A negative and a positive pair for each anchor; an anchor without both is a reject."""
    negatives = _versions(work, _NEGATIVE[kind], method_input)
    first = _FIRST_POSITIVE[kind]
    preferred = {} if first is None else _versions(work, first, method_input)
    positives = [_versions(work, name, method_input) for name in _POSITIVES]
    pairs: list[_Pair] = []
    columns = (method_input.sentences[name].to_pylist() for name in ("sentence_id", "text"))
    for row_id, anchor in zip(*columns, strict=True):
        negative = negatives.get(row_id)
        if negative is None:
            why = f"{kind}: {_NEGATIVE[kind]} finds nothing to change"
            _reject(work, row_id, "no_negative", why, anchor)
            continue
        options = {by_id[row_id]["method"]: by_id[row_id] for by_id in positives if row_id in by_id}
        chosen = preferred.get(row_id)
        if chosen is None and options:
            purpose = f"{NAME}.positive.{kind}"
            chosen = options[seeding.choice(list(options), work.seed, purpose, row_id)]
        if chosen is None or chosen["text"] == negative["text"]:
            _reject(work, row_id, "no_positive", f"{kind}: nothing keeps the meaning", anchor)
            continue
        for role, version in (("negative", negative), ("positive", chosen)):
            names = (kind, role, version["method"], anchor, version["text"])
            ids = {"pair_id": seeding.text_id(*names), "sentence_id": row_id, "kind": kind}
            pairs.append({**ids, "role": role, "anchor": anchor, **version})
    return pairs


def _versions(work: Work, name: str, method_input: MethodInput) -> dict[int, _Pair]:
    """A method's versions of the anchors with the words changed, by sentence id."""
    method = methods()[name]
    params = method.params(**_PARAMS.get(name, {}))

    def generate(some: npt.NDArray[Any]) -> pa.Table:
        return method.generate(replace(method_input, anchors=some), params, work.seed)

    def refuse(row: Any, error: Exception) -> None:
        anchor = method_input.sentences.slice(int(row), 1).to_pylist()[0]
        work.emit("rejects", refused(NAME, anchor["sentence_id"], error, anchor["text"], name))

    versions: dict[int, _Pair] = {}
    for table in isolated(method_input.anchors, generate, refuse):
        for row in table.to_pylist():
            changed = {key: row["detail"][key] for key in ("old", "new")}
            version = {"method": name, "text": row["raw"], **changed}
            versions.setdefault(row["sentence_id"], version)
    return versions


def _held_out_only(work: Work, pairs: list[_Pair]) -> list[_Pair]:
    """The pairs of anchors from which no rule made a sentence that occurs in train or test."""
    if not pairs:
        return pairs
    place = np.arange(len(pairs))
    texts = pa.table(
        {"place": place, "text": pa.array([pair["text"] for pair in pairs], pa.string())}
    )
    with connection(work) as db:
        db.register("made", texts)
        others = db.sql(
            f"""SELECT place, min(split) FROM made
                JOIN {work.inputs["sentences"].sql("sentences")} s
                    ON lower(trim(made.text)) = lower(trim(s.text))
                WHERE split <> 'dev' GROUP BY place ORDER BY place"""
        ).fetchall()
    for at, split in others:
        pair = pairs[at]
        why = f"{pair['kind']}: the text by {pair['method']} is a sentence of {split}"
        _reject(work, pair["sentence_id"], f"{split}_text", why, pair["text"])
    gone = {pairs[at]["sentence_id"] for at, _ in others}
    return [pair for pair in pairs if pair["sentence_id"] not in gone]


def _judge(work: Work, pairs: list[_Pair]) -> None:
    """Emits the pairs with the teacher's cosines."""
    cosines = _cosines(work, pairs)
    if not np.isfinite(cosines).any():
        raise BadInput(
            "damaged",
            f"The teacher at {work.models['teacher']} gives no finite cosine for any of "
            f"{len(pairs)} pairs: its weights are damaged; name another one under "
            "awareness.teacher.",
        )
    teacher = tree_digest(work.models["teacher"])
    for kind in KINDS:
        rows = []
        for pair, cosine in zip(pairs, cosines.tolist(), strict=True):
            if pair["kind"] != kind:
                continue
            if not np.isfinite(cosine):
                why = f"{kind}: the teacher's cosine with the anchor is not a number"
                _reject(work, pair["sentence_id"], "nan_score", why, pair["text"])
                continue
            rows.append({**pair, "teacher": teacher, "teacher_similarity": cosine})
        if not rows:
            continue
        scores = [row["teacher_similarity"] for row in rows]
        if len(rows) < LEAST_PAIRS:
            _too_few(work, kind, len(rows))
        elif max(scores) - min(scores) <= _TIE:
            why = f"{kind}: the teacher gives all {len(rows)} pairs one cosine: not measured"
            _reject(work, None, "constant", why, None)
        else:
            work.emit("awareness_pairs", pa.Table.from_pylist(rows, schema=AWARENESS_PAIRS))


def _cosines(work: Work, pairs: list[_Pair]) -> npt.NDArray[np.float64]:
    """The teacher's cosine of each pair, NaN for a vector of length 0."""
    from tercet.models.encoders.encoder import encode

    texts = sorted({text for pair in pairs for text in (pair["anchor"], pair["text"])})
    model = load_encoder(work, "teacher", key="awareness.teacher")
    vectors = encode(
        model,
        texts,
        work.resources.batch_size,
        progress=lambda done: work.resources.progress(done, len(texts), "texts"),
    ).astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = np.divide(vectors, lengths, out=np.full_like(vectors, np.nan), where=lengths > 0)
    rows = {text: row for row, text in enumerate(texts)}
    first = vectors[[rows[pair["anchor"]] for pair in pairs]]
    second = vectors[[rows[pair["text"]] for pair in pairs]]
    return np.asarray(np.clip(np.einsum("nd,nd->n", first, second), -1.0, 1.0))


def _too_few(work: Work, kind: Kind, count: int) -> None:
    why = f"{kind}: {count} pairs, fewer than the {LEAST_PAIRS} needed: not measured"
    _reject(work, None, "too_few", why, None)


def _reject(work: Work, row_id: int | None, reason: str, detail: str, text: str | None) -> None:
    work.emit("rejects", rejects(NAME, [row_id], reason, detail, text))


STAGE = Stage(
    name=NAME,
    config=AwarenessConfig,
    tables={"awareness_pairs": AWARENESS_PAIRS},
    run=run,
    libraries=("torch", "transformers", "sentence-transformers"),
    # The teacher is identified by its weights, wherever they are.
    locations=("teacher",),
)
