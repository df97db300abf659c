"""The rows of a phase's part: from triplets, anchors, document pairs or a labelled corpus.

Triplets of queries to passages are a source of their own, and in no other one.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tercet.models.encoders.settings import FormSettings, Side
from tercet.models.losses.registry import TEACHER
from tercet.models.text.halves import LEAST, halves
from tercet.models.training.phase import Drawing, PartRows, Teacher
from tercet.storage.rows import quoted
from tercet.tasks.corpus.anchors import ANCHOR_COLUMNS, anchor_mask, is_query
from tercet.tasks.stage import BadInput, Work, connection
from tercet.tasks.training.phases import (
    OF_TRIPLETS,
    DrawConfig,
    PartConfig,
    PhaseConfig,
    RowsConfig,
)
from tercet.tasks.training.training_rows import drop_contaminated, shaped

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

# What a row shares with its sentence, passage or document, and what it is called there.
_OWNERS = {
    "sentences": ("sentence_id", "sentence_id"),
    "passages": ("sentence_id", "passage_id"),
    "documents": ("doc_id", "doc_id"),
}

_TOO_SHORT = f"only sentences of {2 * LEAST} words and more can be cut in two, and there are none"


def part_rows(
    work: Work, phase: str, part: PartConfig, form: FormSettings | None = None
) -> PartRows:
    """The part with its rows: row_id, the loss's texts and labels, perhaps group.

    form: in which the part's teacher is read, if it has one; None: its own.

    Raises: BadInput where there is none, or where the rows lack what the loss needs.
    """
    source, loss = part.rows.source, part.resolved()
    if source == "anchors":
        found = _anchors(work, part.rows)
    else:
        with connection(work) as db:
            found = db.sql(rows_sql(work, part)).to_arrow_table()
    if not found.num_rows:
        raise BadInput(
            "no_rows", f"train: phase {phase} has no rows to train on: {_remedy(part.rows)}."
        )
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
            raise BadInput(
                "no_rows", f"train: phase {phase} has no rows to train on: {_TOO_SHORT}."
            )
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
                "no_rows",
                f"train: phase {phase} draws generated texts, and no triplet has one that keeps "
                "the meaning: set draw.generated: 0, or loosen select's thresholds.",
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
    parts = {
        "positive": [part.name for part in phase.parts if part.rows.positive is None],
        "negative": [part.name for part in phase.parts if part.rows.source == "triplets"],
    }
    # What `select` adds itself (the anchor as its own positive) is not a candidate.
    candidates = " UNION ALL ".join(
        f"""SELECT part, epoch, "group" AS sentence_id, {role}_id AS candidate_id,
                {role}_method AS method
            FROM drawn JOIN {work.inputs["triplets"].sql("triplets")} ON row_id = triplet_id
            WHERE {role}_id IS NOT NULL
                AND list_contains([{", ".join(map(quoted, names))}]::VARCHAR[], part)"""
        for role, names in parts.items()
    )
    with connection(work) as db:
        db.register("drawn", drawn)
        found = db.sql(
            f"""SELECT {quoted(phase.name)} AS phase, {seed}::BIGINT AS seed, * FROM ({candidates})
                ORDER BY part, epoch, sentence_id, candidate_id"""
        ).to_arrow_table()
    return found.select(DRAWS.names).cast(DRAWS)


def rows_sql(work: Work, part: PartConfig) -> str:
    """SQL for the rows that a part can train on, of any source but anchors.

    row_id, anchor, positive and, where the source has them, negative, label, entries and group.
    """
    rows, source, texts = part.rows, part.rows.source, part.resolved().texts
    if source in (*OF_TRIPLETS, "queries"):
        table, owners = "triplets", "passages" if source == "queries" else "sentences"
        columns, where = "triplet_id AS row_id, anchor, positive", []
        if source == "triplets":
            columns += ", negative, negative_similarity AS label"
            # Those without one have the batch's other rows as negatives.
            where += ["negative IS NOT NULL"] if "negative" in texts else []
        if rows.one_per is not None:
            columns += ', sentence_id AS "group"'
        if "passages" in work.inputs:
            query = is_query(work.inputs["passages"])
            where.append(query if source == "queries" else f"NOT {query}")
        if rows.relation:
            where.append(f"relation IN ({', '.join(map(quoted, rows.relation))})")
    elif source == "document_pairs":
        table, owners, where = source, "documents", ["split = 'train'"]
        columns = "pair_id AS row_id, query AS anchor, answer AS positive"
    else:
        table, owners, where = "labelled", "", [f"corpus = {quoted(source)}"]
        columns = "* EXCLUDE (corpus, kind)"
        # A contradiction that no entailment took (kind entailment) has no positive.
        if "positive" in texts and rows.positive is None:
            where.append("positive IS NOT NULL")
    if rows.corpora:
        key, own = _OWNERS[owners]
        where.append(
            f"""{key} IN (SELECT {own} FROM {work.inputs[owners].sql(owners)}
                WHERE corpus IN ({", ".join(map(quoted, rows.corpora))}))"""
        )
    asked = f"SELECT {columns} FROM {work.inputs[table].sql(table)}"
    asked += f" WHERE {' AND '.join(where)}" if where else ""
    if rows.positive == "anchor":
        return f"SELECT * REPLACE (anchor AS positive) FROM ({asked})"
    return asked


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
        raise BadInput("no_rows", "train: no row has a mined negative: lower negatives.margin.")
    return made


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
