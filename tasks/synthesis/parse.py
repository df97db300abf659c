"""Stage `parse`: generations become candidates, or rejects with a reason.

The generations themselves are kept, so this cheap stage can change and run again.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from tercet.errors import InvalidSetting
from tercet.models import seeding
from tercet.models.generation import DETAIL
from tercet.models.prompted.checks import faults, unwrapped
from tercet.models.text.words import words_sql
from tercet.storage.rows import Rows, read_parquet_sql
from tercet.tasks.rejects import rejects
from tercet.tasks.stage import Config, EachPart, Stage, Work, connection

CANDIDATES = pa.schema(
    [
        ("candidate_id", pa.uint64()),
        ("generation_id", pa.uint64()),
        ("sentence_id", pa.uint64()),
        ("role", pa.string()),
        ("relation", pa.string()),
        ("method", pa.string()),
        ("anchor", pa.string()),
        ("text", pa.string()),
        ("detail", DETAIL),
    ]
)
"""Table `candidates`. One row per generation that passed `parse`, and one per text that `mine`
found. Where `random` runs, it gives each anchor one sentence from another document.

Key: `candidate_id`.

Columns:
    candidate_id: id of sentence, method, role and what the method wrote
    generation_id: → `generations.generation_id`; NULL for `mined`
    sentence_id: → `sentences.sentence_id`, the anchor; of a query → `passages.passage_id`
    role: `positive` or `negative`
    relation: what the text does to the meaning: `keeps`, `alters`, `topic` (only about the same
        thing) or `other` (unrelated)
    method: the method that made it
    anchor: its own anchor, where that is another than the sentence: an answer, or a passage
        (`unit`, `as_anchor` of a method); of a method over passages the query
    text: the candidate; of a query its passage
    detail: what was changed; its fields are below
"""

_COLUMNS = [
    *("generation_id", "purpose", "relation", "sentence_id", "method", "passage"),
    *("as_anchor", "prompt", "shots"),
    *("checks", "model", "raw", "finish_reason", "detail"),
]
# A text's digest, ignoring letter case and spacing. The slower expression runs only for texts with
# odd spaces.
_DIGEST = r"""md5_number_lower(lower(CASE WHEN regexp_matches({0}, '\s\s|[\t\n\r]')
    THEN regexp_replace(trim({0}), '\s+', ' ', 'g') ELSE trim({0}) END))"""
_SWAP = "swap_entity"


class ParseConfig(Config):
    """Conditions for a generation to become a candidate."""

    min_words: int = Field(1, ge=1, description="Fewest words in a candidate")
    max_words: int = Field(512, ge=1, description="Most words in a candidate")
    source_min_words: int | None = Field(
        None, ge=1, description="Fewest words of a sentence whose texts become candidates."
    )
    refuse_contained: bool = Field(
        False,
        description="Refuse texts that keep or alter the meaning if they stand within their "
        "sentence but for the last character, or their sentence within them.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> "ParseConfig":
        if self.min_words > self.max_words:
            raise InvalidSetting("bad_value", "min_words is larger than max_words")
        return self


def run(work: Work) -> None:
    """Emit `candidates` of one part of the generations, and rejects.

    Reasons: cut_off (the length limit ended it, or its thoughts were never closed), empty,
    same_as_source (except for letter case and spacing), too_short, too_long, short_source,
    contained (`refuse_contained`; or a rule's query that its passage has word for word),
    unchanged_entity (it has the old entity, not the new one), duplicate (of the same sentence and
    role, in the same part); for a language model's answers also those of `checks.faults`. Thoughts,
    code fences, quotation marks and special tokens around an answer are removed first.
    """
    config: ParseConfig = work.config
    generations = work.inputs["generations"].table("generations", _COLUMNS)
    if not generations.num_rows:
        return
    # Parts of the same sentences follow each other, so `once` reads these files once.
    ids, digests = work.once(_source_digests, tuple(work.inputs["sentences"].files("sentences")))
    sentence_ids = generations["sentence_id"].to_numpy()
    at = np.searchsorted(ids, sentence_ids).clip(max=max(len(ids) - 1, 0))
    is_sentence = ids[at] == sentence_ids if len(ids) else np.zeros(len(sentence_ids), dtype=bool)
    source = digests[at] if len(ids) else sentence_ids
    source_digests = pa.array(source, mask=~is_sentence)
    texts, answer_fault = _texts(generations, work.inputs["sentences"])
    judged = _judge(generations, texts, answer_fault, source_digests, config, work)
    good = pc.is_null(judged["reason"])
    anchors, texts = _anchors_and_texts(generations, texts, work.inputs["sentences"])
    chosen, accepted = generations.filter(good), judged.filter(good)
    candidates = {
        "candidate_id": accepted["candidate_id"],
        "generation_id": chosen["generation_id"],
        "sentence_id": chosen["sentence_id"],
        "role": chosen["purpose"],
        "relation": chosen["relation"],
        "method": chosen["method"],
        "anchor": anchors.filter(good),
        "text": texts.filter(good),
        "detail": chosen["detail"],
    }
    work.emit("candidates", pa.table(candidates).cast(CANDIDATES))
    if accepted.num_rows < len(sentence_ids):
        bad = pc.invert(good)
        chosen, refused = generations.filter(bad), judged.filter(bad)
        ids, reasons, because = chosen["generation_id"], refused["reason"], refused["because"]
        work.emit("rejects", rejects("parse", ids, reasons, because, chosen["raw"]))
    work.resources.progress(len(sentence_ids), len(sentence_ids), "generations")


def _texts(generations: pa.Table, sentences: Rows) -> tuple[pa.ChunkedArray, pa.Table]:
    """The text of each generation that is judged, and the faults of a model's answers.

    Columns of the table: answer_fault (a reason) and answer_detail, null without a fault.
    """
    raws = pc.fill_null(generations["raw"], "")
    rows = np.flatnonzero(pc.is_valid(generations["model"]).to_numpy())
    names = ["answer_fault", "answer_detail"]
    if not len(rows):
        nothing = pa.nulls(len(raws), pa.string())
        return pc.utf8_trim_whitespace(raws), pa.table([nothing, nothing], names)
    chosen = generations if len(rows) == len(raws) else generations.take(pa.array(rows))
    table = sentences.table("sentences", ["sentence_id", "text"])
    sources = table["text"].take(pc.index_in(chosen["sentence_id"], table["sentence_id"]))
    sources = pc.coalesce(chosen["passage"], sources)
    answers, unclosed, damaged = unwrapped(chosen["raw"], sources)
    detail = chosen["detail"].combine_chunks()
    columns = {"text": answers, "source": sources}
    columns |= {name: chosen[name] for name in ("prompt", "shots", "checks")}
    columns |= {name: pc.struct_field(detail, name) for name in ("operation", "old", "new", "pool")}
    answer_faults = faults(pa.table(columns), unclosed, damaged)
    answer_fault = [
        pa.array([one and one[part] for one in answer_faults], pa.string()) for part in (0, 1)
    ]
    if len(rows) < len(raws):
        place = np.full(len(raws), -1)
        place[rows] = np.arange(len(rows))
        at = pa.array(place, mask=place < 0)
        answers = pc.coalesce(answers.take(at), pc.utf8_trim_whitespace(raws))
        answer_fault = [column.take(at) for column in answer_fault]
    return answers, pa.table(answer_fault, names)


def _anchors_and_texts(
    generations: pa.Table, answers: pa.ChunkedArray, sentences: Rows
) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The anchor of each candidate (null: its sentence) and its text.

    If an answer becomes the anchor, the text is the sentence or passage that was asked about.
    """
    swapped = pc.fill_null(generations["as_anchor"], False)
    passages = generations["passage"]
    if not pc.any(swapped).as_py():
        return passages, answers
    table = sentences.table("sentences", ["sentence_id", "text"])
    anchors = table["text"].take(pc.index_in(generations["sentence_id"], table["sentence_id"]))
    sources = pc.coalesce(passages, anchors)
    return pc.if_else(swapped, answers, passages), pc.if_else(swapped, sources, answers)


def _judge(
    generations: pa.Table,
    texts: pa.ChunkedArray,
    answer_fault: pa.Table,
    source: pa.Array,
    config: ParseConfig,
    work: Work,
) -> pa.Table:
    """For each generation, in order: candidate_id, and reason (null for a candidate) with its
    explanation. source: digests of the generations' sentences; answer_fault: from `_texts`."""
    detail = generations["detail"].combine_chunks()
    columns = generations.select(
        [
            *("generation_id", "purpose", "relation", "sentence_id", "method", "passage"),
            *("as_anchor", "model", "finish_reason"),
        ]
    )
    columns = columns.append_column("text", texts)
    for name in ("operation", "old", "new"):
        columns = columns.append_column(name, pc.struct_field(detail, name))
    columns = columns.append_column("source", source)
    for name in answer_fault.column_names:
        columns = columns.append_column(name, answer_fault[name])
    columns = columns.append_column("place", pa.array(np.arange(len(columns))))
    columns = columns.append_column("source_text", _source_texts(generations, config, work))
    with connection(work, threads=1) as db:
        db.register("generations", columns)
        names = ("min_words", "max_words", "source_min_words", "refuse_contained")
        parameters = {name: getattr(config, name) for name in names}
        return db.sql(_JUDGED, params=parameters).to_arrow_table()


def _source_texts(generations: pa.Table, config: ParseConfig, work: Work) -> pa.Array:
    """The text of each generation's sentence if the config needs it; else null."""
    if config.source_min_words is None and not config.refuse_contained:
        return pa.nulls(len(generations), pa.string())
    table = work.inputs["sentences"].table("sentences", ["sentence_id", "text"])
    at = pc.index_in(generations["sentence_id"], table["sentence_id"])
    return pc.coalesce(
        generations["passage"].combine_chunks(), table["text"].take(at).combine_chunks()
    )


_JUDGED = rf"""
    WITH worded AS (
        SELECT * REPLACE (CASE WHEN passage IS NULL THEN source ELSE
                {_DIGEST.format("passage")} END AS source), {_DIGEST.format("text")} AS digest,
            {words_sql("text")} AS words, {words_sql("source_text")} AS source_words,
            lower(text) AS lower_text, lower(trim(source_text)) AS lower_source
        FROM generations
    ), reasoned AS (
        SELECT *, CASE
            WHEN finish_reason = 'length' THEN 'cut_off'
            WHEN answer_fault = 'cut_off' THEN answer_fault
            WHEN text = '' THEN 'empty'
            WHEN digest = source THEN 'same_as_source'
            WHEN answer_fault IS NOT NULL THEN answer_fault
            WHEN words < $min_words THEN 'too_short'
            WHEN words > $max_words THEN 'too_long'
            WHEN source_words < $source_min_words THEN 'short_source'
            WHEN $refuse_contained AND relation IN ('keeps', 'alters')
                AND (contains(lower_source, left(lower_text, -1))
                    OR contains(lower_text, left(lower_source, -1)))
                THEN 'contained'
            WHEN as_anchor AND model IS NULL AND contains(lower(passage), lower(text))
                THEN 'contained'
            WHEN operation = '{_SWAP}' AND contains(lower(text), lower(old))
                AND NOT contains(lower(text), lower(new)) THEN 'unchanged_entity'
            END AS fault
        FROM worded
    ), judged AS (
        SELECT *, coalesce(fault, CASE WHEN row_number() OVER (
                PARTITION BY sentence_id, purpose, digest, fault IS NULL ORDER BY generation_id
            ) > 1 THEN 'duplicate' END) AS reason
        FROM reasoned
    )
    SELECT reason,
        md5_number_lower(
            concat_ws(chr(31), sentence_id::VARCHAR, method, purpose, text)) AS candidate_id,
        CASE WHEN reason = answer_fault AND digest IS DISTINCT FROM source
            THEN answer_detail ELSE CASE reason
            WHEN 'cut_off' THEN 'the length limit ended it'
            WHEN 'too_short' THEN words || ' words, fewer than ' || $min_words
            WHEN 'too_long' THEN words || ' words, more than ' || $max_words
            WHEN 'short_source' THEN 'its sentence has ' || source_words
                || ' words, fewer than ' || $source_min_words
            WHEN 'contained' THEN CASE WHEN as_anchor AND model IS NULL
                THEN 'the passage has it, word for word'
                ELSE 'one of the text and its sentence stands within the other' END
            WHEN 'unchanged_entity' THEN old || ' was not replaced by ' || new
            ELSE method END END AS because
    FROM judged ORDER BY place"""


def _source_digests(work: Work, files: tuple[str, ...]) -> tuple[seeding.Ids, seeding.Ids]:
    """Sorted sentence ids and the digests of their texts, 16 bytes a sentence."""
    with connection(work, threads=1) as db:
        query = f"""
            SELECT sentence_id, {_DIGEST.format("text")} AS digest
            FROM {read_parquet_sql(files)} ORDER BY sentence_id"""
        rows = db.sql(query).to_arrow_table()
    return rows["sentence_id"].to_numpy(), rows["digest"].to_numpy()


STAGE = Stage(
    name="parse",
    config=ParseConfig,
    tables={"candidates": CANDIDATES},
    run=run,
    cut=EachPart("generations", aligned=("sentences",)),
    seeded=False,
    libraries=("lemminflect",),
)
