"""The rows of a phase's part: from triplets, anchors, document pairs or a labelled corpus.

Triplets of queries to passages are a source of their own, and in no other one.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tercet.models.encoders.pooling import FormSettings
from tercet.models.encoders.prompts import Side
from tercet.models.losses.gaussian_decay import TEACHER
from tercet.models.text.halves import LEAST, halves
from tercet.models.training.drawing import Drawing
from tercet.models.training.phase import PartRows, Teacher
from tercet.storage.rows import quoted
from tercet.tasks.connections import connection
from tercet.tasks.corpus.anchors import ANCHOR_COLUMNS, anchor_mask
from tercet.tasks.corpus.queries import is_query
from tercet.tasks.guarding.removal import drop_contaminated
from tercet.tasks.stage import BadInput, Work
from tercet.tasks.training.loss_rows import shaped
from tercet.tasks.training.phases import (
    OF_TRIPLETS,
    SOURCES,
    DrawConfig,
    PartConfig,
    PhaseConfig,
    RowsConfig,
)

DRAWS = pa.schema(
    [
        ("phase", pa.string()),
        ("part", pa.string()),
        ("seed", pa.int64()),
        ("epoch", pa.int32()),
        ("sentence_id", pa.uint64()),
        ("candidate_id", pa.uint64()),
        ("method", pa.string()),
    ]
)
"""Table `draws`. What a phase with `one_per: sentence` drew: for each part, sentence and epoch one
row for the positive and, with `triplets`, one for the negative. An anchor that is its own
positive is not a candidate and has no row.

Columns:
    phase: the phase's name
    part: the part's
    seed: the seed of this training, one of several over the same triplets
    epoch: from 0; a part that starts over within an epoch of the phase counts its own epochs
    sentence_id: the sentence
    candidate_id: the candidate, a row of `candidates`
    method: the method that made it
"""

DRAWN_PAIRS = pa.schema(
    [
        ("phase", pa.string()),
        ("part", pa.string()),
        ("seed", pa.int64()),
        ("epoch", pa.int32()),
        ("sentence_id", pa.uint64()),
        ("operation", pa.string()),
        ("text", pa.string()),
        ("candidate_id", pa.uint64()),
    ]
)
"""Table `drawn_pairs`. What rows with `draw` trained on: one positive per sentence and epoch.
Training draws from (seed, sentence, epoch) alone, so this is the same however often it was
interrupted. The run's summary and the report say what share of them is `generated` beside the
share that the recipe means, and for which reasons the other texts were refused.

Columns:
    phase: the phase's name
    part: the part's
    seed: the seed of this training, one of several over the same sentences
    epoch: from 0; a part that starts over within an epoch of the phase counts its own epochs
    sentence_id: → `sentences.sentence_id`
    operation: `word_shuffle`, `cutoff`, `word_repetition`, `generated`, or `none`: nothing
        fitted, and the sentence is its own positive
    text: the positive
    candidate_id: for `generated` → `candidates.candidate_id`; else NULL
"""

_GENERATED = {"row_id": pa.uint64(), "candidate_id": pa.uint64(), "text": pa.string()}

# Slot of what the guard has found among the rows of a source; of labelled corpora the last one.
_GUARDED = {
    "triplets": "guarded_triplets",
    "pairs": "guarded_triplets",
    "queries": "guarded_triplets",
    "anchors": "guarded_sentences",
    "document_pairs": "guarded_document_pairs",
}
_GUARDED_LABELLED, _GUARDED_NEGATIVES = "guarded_labelled", "guarded_negatives"

_TOO_SHORT = f"only sentences of {2 * LEAST} words and more can be cut in two, and there are none"


def part_rows(
    work: Work, phase: str, part: PartConfig, form: FormSettings | None = None
) -> PartRows:
    """The part with its rows: row_id, the loss's texts and labels, perhaps group.

    form: in which the part's teacher is read, if it has one; None: its own.

    Raises: BadInput where there is none, or where the rows lack what the loss needs.
    """
    source, loss = part.rows.source, part.resolved()
    found = _read(work, part.rows)
    if part.rows.positive == "anchor" and "positive" in found.column_names:
        place = found.column_names.index("positive")
        found = found.set_column(place, "positive", found["anchor"])
    if source == "triplets" and "negative" in loss.texts:
        # Those without one have the batch's other rows as negatives, which this loss does not use.
        found = found.filter(pc.is_valid(found["negative"]))
    if "positive" in loss.texts and source not in SOURCES:
        # A contradiction that no entailment took (kind entailment) has no positive.
        found = found.filter(pc.is_valid(found["positive"]))
    if not found.num_rows:
        raise BadInput(f"train: phase {phase} has no rows to train on: {_remedy(part.rows)}.")
    slot = _GUARDED.get(source, _GUARDED_LABELLED)
    found = drop_contaminated(work, found, slot, f"train: phase {phase}")
    if part.rows.negatives is not None:
        found = _with_negatives(work, found, part.rows.negatives)
        if "negative" in loss.texts:
            found = found.filter(pc.is_valid(found["negative"]))
    if part.rows.positive == "half":
        # After the guard, which knows whole sentences.
        found = _cut_in_two(found)
        if not found.num_rows:
            raise BadInput(f"train: phase {phase} has no rows to train on: {_TOO_SHORT}.")
    rows = shaped(found, loss, part.rows.max_rows, work.seed)
    read = [name for name in (*loss.slots, *loss.may_read) if name in part.models]
    slots = {name: work.models[f"{part.name}.{name}"] for name in read}
    teacher = None
    if TEACHER in slots:
        form = FormSettings() if form is None else form
        teacher = Teacher(slots[TEACHER], form.pooling, form.prompt)
    return PartRows(
        part.name,
        rows,
        part.loss["name"],
        part.params(),
        part.weight,
        part.share,
        slots,
        None if part.rows.draw is None else _drawing(work, part.rows.draw, phase),
        teacher,
        sides_of(part.rows),
    )


def sides_of(rows: RowsConfig) -> dict[str, Side]:
    """The side of a search that each column of these rows is on; empty where they have none."""
    if rows.source not in ("document_pairs", "queries") and rows.negatives is None:
        return {}
    sides: dict[str, Side] = {"anchor": "query"}
    sides["positive"] = "query" if rows.positive == "anchor" else "document"
    return sides if rows.negatives is None else {**sides, "negative": "document"}


def _drawing(work: Work, draw: DrawConfig, phase: str) -> Drawing:
    """The shares, and the positives of triplets that keep the meaning."""
    generated = pa.table({name: pa.array([], kind) for name, kind in _GENERATED.items()})
    if draw.generated:
        with connection(work) as db:
            # A positive that stands against an altered text keeps the meaning too.
            found = db.sql(
                f"""SELECT sentence_id AS row_id, positive_id AS candidate_id,
                        any_value(positive) AS positive
                    FROM {work.inputs["triplets"].sql("triplets")}
                    WHERE relation IN ('keeps', 'alters') AND positive_id IS NOT NULL
                    GROUP BY ALL ORDER BY row_id, candidate_id"""
            ).to_arrow_table()
        if not found.num_rows:
            raise BadInput(
                f"train: phase {phase} draws generated texts, and no triplet has one that keeps "
                "the meaning: set draw.generated: 0, or loosen select's thresholds."
            )
        slot = _GUARDED["triplets"]
        kept = drop_contaminated(work, found, slot, f"train: phase {phase}")
        generated = kept.rename_columns(list(_GENERATED)).combine_chunks()
    return Drawing(draw.model_dump(), generated)


def drawn_table(phase: str, seed: int, drawn: pa.Table) -> pa.Table:
    """Rows of `drawn_pairs`. drawn: as `Trained` has it."""
    columns = {"phase": pa.repeat(phase, drawn.num_rows)}
    columns |= {"seed": pa.repeat(pa.scalar(seed, pa.int64()), drawn.num_rows)}
    columns |= {name: drawn[name] for name in drawn.column_names if name != "row_id"}
    return pa.table({**columns, "sentence_id": drawn["row_id"]}).select(DRAWN_PAIRS.names)


def draws_table(work: Work, phase: PhaseConfig, seed: int, drawn: pa.Table) -> pa.Table:
    """Rows of `draws`: the candidates of each triplet that was drawn; of a pair, its positive.

    drawn: epoch, part, group (sentence_id) and row_id (triplet_id).
    """
    columns = ["triplet_id"]
    columns += [f"{role}_{end}" for role in ("positive", "negative") for end in ("id", "method")]
    triplets = work.inputs["triplets"].table("triplets", columns)
    place = pc.index_in(drawn["row_id"], triplets["triplet_id"].combine_chunks())
    chosen = triplets.take(place.combine_chunks())
    chosen_rows = {
        role: pa.table(
            {
                "phase": pa.repeat(phase.name, drawn.num_rows),
                "part": drawn["part"],
                "seed": pa.repeat(pa.scalar(seed, pa.int64()), drawn.num_rows),
                "epoch": drawn["epoch"],
                "sentence_id": drawn["group"],
                "candidate_id": chosen[f"{role}_id"],
                "method": chosen[f"{role}_method"],
            }
        )
        for role in ("positive", "negative")
    }
    triples = pa.array([part.name for part in phase.parts if part.rows.source == "triplets"])
    with_negative = pc.is_in(drawn["part"], value_set=triples.cast(pa.string()))
    negatives = chosen_rows["negative"].filter(with_negative)
    own = pa.array([part.name for part in phase.parts if part.rows.positive is None])
    with_positive = pc.is_in(drawn["part"], value_set=own.cast(pa.string()))
    table = pa.concat_tables([chosen_rows["positive"].filter(with_positive), negatives])
    # What `select` adds itself (the anchor as its own positive) is not a candidate.
    table = table.filter(pc.is_valid(table["candidate_id"]))
    order = [(name, "ascending") for name in ("part", "epoch", "sentence_id", "candidate_id")]
    return table.sort_by(order)


def _read(work: Work, rows: RowsConfig) -> pa.Table:
    """row_id, anchor, positive and, where the source has them, negative, label, entries, group."""
    if rows.source in OF_TRIPLETS:
        return _triplets(work, rows)
    if rows.source == "anchors":
        return _anchors(work, rows)
    if rows.source == "document_pairs":
        return _document_pairs(work, rows)
    if rows.source == "queries":
        return _queries(work, rows)
    table = work.inputs["labelled"].table("labelled")
    return table.filter(pc.equal(table["corpus"], rows.source)).drop_columns(["corpus", "kind"])


def _triplets(work: Work, rows: RowsConfig) -> pa.Table:
    named = {"triplet_id": "row_id", "anchor": "anchor", "positive": "positive"}
    if rows.source == "triplets":
        named |= {"negative": "negative", "negative_similarity": "label"}
    if rows.one_per is not None:
        named["sentence_id"] = "group"
    columns = [*named, "relation"]
    conditions = [f"NOT {is_query(work.inputs['passages'])}"] if "passages" in work.inputs else []
    table = _where(work, "triplets", columns, [*conditions, *_of_corpora(work, rows, "sentences")])
    if rows.relation:
        table = table.filter(pc.is_in(table["relation"], pa.array(rows.relation)))
    return table.drop_columns(["relation"]).rename_columns([named[name] for name in named])


def _anchors(work: Work, rows: RowsConfig) -> pa.Table:
    """The sampled sentences, each its own positive."""
    shares = work.inputs["anchors"].table("anchors")
    found = []
    for file in work.inputs["sentences"].files("sentences"):
        table = pq.read_table(file, columns=[*ANCHOR_COLUMNS, "text"])
        chosen = anchor_mask(table, shares, work.seed)
        if rows.corpora:
            chosen &= np.isin(table["corpus"].to_pylist(), rows.corpora)
        found.append(table.filter(pa.array(chosen)).select(["sentence_id", "text"]))
    anchors = pa.concat_tables(found).rename_columns(["row_id", "anchor"])
    return anchors.append_column("positive", anchors["anchor"])


def _cut_in_two(anchors: pa.Table) -> pa.Table:
    """Each sentence's first half with its second; without those too short to be cut."""
    cut = [halves([text], 2 * LEAST) for text in anchors["anchor"].to_pylist()]
    pairs = [both for both in cut if both is not None]
    rows = anchors.select(["row_id"]).filter(pa.array([both is not None for both in cut]))
    rows = rows.append_column("anchor", pa.array([first for first, _ in pairs], pa.string()))
    return rows.append_column("positive", pa.array([second for _, second in pairs], pa.string()))


def _document_pairs(work: Work, rows: RowsConfig) -> pa.Table:
    """The natural pairs of the train split."""
    columns = ["pair_id", "query", "answer", "split"]
    table = _where(work, "document_pairs", columns, _of_corpora(work, rows, "documents"))
    table = table.filter(pc.equal(table["split"], "train")).drop_columns(["split"])
    return table.rename_columns(["row_id", "anchor", "positive"])


def _queries(work: Work, rows: RowsConfig) -> pa.Table:
    """Queries with their passages, of the triplets that have them."""
    conditions = [is_query(work.inputs["passages"]), *_of_corpora(work, rows, "passages")]
    table = _where(work, "triplets", ["triplet_id", "anchor", "positive"], conditions)
    return table.rename_columns(["row_id", "anchor", "positive"])


def _with_negatives(work: Work, rows: pa.Table, count: int) -> pa.Table:
    """The rows with the first of their mined negatives, each in a column; null where there are
    fewer. One of a row's own comes last, and none is a text that the guard has found.

    Raises BadInput where no row has any.
    """
    own = f"negative_{count + 1}"
    names = [own if name == "negative" else name for name in rows.column_names]
    columns = ["negative", *(f"negative_{rank}" for rank in range(2, count + 1))]
    chosen = ", ".join(
        f"any_value(text) FILTER (rank = {rank}) AS {name}" for rank, name in enumerate(columns, 1)
    )
    clean = ""
    if _GUARDED_NEGATIVES in work.inputs:
        found = work.inputs[_GUARDED_NEGATIVES].sql("contamination")
        clean = f"AND text NOT IN (SELECT text FROM {found} WHERE removed)"
    with connection(work) as db:
        db.register("rows", rows.rename_columns(names))
        made = db.sql(
            f"""SELECT rows.*, {", ".join(columns)} FROM rows LEFT JOIN (
                    SELECT triplet_id, {chosen} FROM {work.inputs["negatives"].sql("negatives")}
                    WHERE rank <= {count} {clean} GROUP BY triplet_id
                ) ON triplet_id = row_id"""
        ).to_arrow_table()
    if made["negative"].null_count == made.num_rows:
        raise BadInput(
            "train: no row has a mined negative: lower negatives.margin or negatives.skip, or "
            "raise negatives.depth."
        )
    return made


def _where(work: Work, name: str, columns: list[str], conditions: Sequence[str]) -> pa.Table:
    """Columns of the table's rows that meet all conditions."""
    if not conditions:
        return work.inputs[name].table(name, columns)
    with connection(work) as db:
        return db.sql(
            f"""SELECT {", ".join(columns)} FROM {work.inputs[name].sql(name)}
                WHERE {" AND ".join(conditions)}"""
        ).to_arrow_table()


# What a row shares with its sentence, passage or document, and what it is called there.
_OWNERS = {
    "sentences": ("sentence_id", "sentence_id"),
    "passages": ("sentence_id", "passage_id"),
    "documents": ("doc_id", "doc_id"),
}


def _of_corpora(work: Work, rows: RowsConfig, owners: str) -> list[str]:
    """The condition that a row's owner is of the corpora that are asked for, if any are."""
    if not rows.corpora:
        return []
    key, own = _OWNERS[owners]
    return [
        f"""{key} IN (SELECT {own} FROM {work.inputs[owners].sql(owners)}
            WHERE corpus IN ({", ".join(map(quoted, rows.corpora))}))"""
    ]


def _remedy(rows: RowsConfig) -> str:
    """What to do if a source has no rows."""
    source = rows.source
    if source in OF_TRIPLETS and rows.relation:
        return (
            "name another relation, or loosen select's thresholds: "
            "SELECT relation, count(*) FROM triplets GROUP BY relation shows what there is"
        )
    if source in OF_TRIPLETS:
        return (
            "loosen select's thresholds, or look at why candidates were refused: "
            "SELECT reason, count(*) FROM rejects GROUP BY reason"
        )
    if source == "queries":
        return (
            "loosen select's thresholds, or look at why queries were refused: "
            "SELECT stage, reason, count(*) FROM rejects GROUP BY ALL"
        )
    if source == "anchors":
        return "check the corpora that it names, and what ingest refused"
    if source == "document_pairs":
        return "name the columns query and answer of a corpus, or take other rows"
    return f"look at why rows of {source} were refused: SELECT reason, count(*) FROM rejects"
