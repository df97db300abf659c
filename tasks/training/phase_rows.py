"""The rows of a phase's part, from triplets, anchors, document pairs or a labelled corpus.

Triplets of queries to passages belong only to the source `queries`.
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
"""Table `draws`. The draws of a phase with `one_per: sentence`: for each part, sentence and epoch
one row for the positive and, with `triplets`, one for the negative. An anchor that is its own
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
"""Table `drawn_pairs`. The positives of rows with `draw`: one per sentence and epoch. Draws depend
only on seed, sentence and epoch, so an interruption does not change them. The run's summary and the
report compare the share of `generated` with the recipe's, and give the reasons for which other
generated texts were refused.

Columns:
    phase: the phase's name
    part: the part's
    seed: the seed of this training, one of several over the same sentences
    epoch: from 0; a part that starts over within an epoch of the phase counts its own epochs
    sentence_id: → `sentences.sentence_id`
    operation: `word_shuffle`, `cutoff`, `word_repetition`, `generated`, or `none`: no operation
        fitted, and the sentence is its own positive
    text: the positive
    candidate_id: for `generated` → `candidates.candidate_id`; else NULL
"""

_GENERATED = {"row_id": pa.uint64(), "candidate_id": pa.uint64(), "text": pa.string()}

# The slot with the guard's findings, by source; labelled corpora have `_GUARDED_LABELLED`.
_GUARDED = {
    "triplets": "guarded_triplets",
    "pairs": "guarded_triplets",
    "queries": "guarded_triplets",
    "anchors": "guarded_sentences",
    "document_pairs": "guarded_document_pairs",
}
_GUARDED_LABELLED, _GUARDED_NEGATIVES = "guarded_labelled", "guarded_negatives"

# The table that has the corpus of a row: the row's key, and the key's name there.
_OWNERS = {
    "sentences": ("sentence_id", "sentence_id"),
    "passages": ("sentence_id", "passage_id"),
    "documents": ("doc_id", "doc_id"),
}

_TOO_SHORT = f"only sentences of {2 * LEAST} words and more can be cut in two, and there are none"


def part_rows(
    work: Work, phase: str, part: PartConfig, form: FormSettings | None = None
) -> PartRows:
    """The part with its rows: row_id, the loss's texts and labels, optionally group.

    form: of the part's teacher; None: its own.

    Raises: BadInput without rows, or if the rows lack a column that the loss needs.
    """
    source, loss = part.rows.source, part.resolved()
    if source == "anchors":
        rows = _anchors(work, part.rows)
    else:
        with connection(work) as db:
            rows = db.sql(rows_sql(work, part)).to_arrow_table()
    if not rows.num_rows:
        raise BadInput(
            "no_rows", f"train: phase {phase} has no rows to train on: {_remedy(part.rows)}."
        )
    slot = _GUARDED.get(source, _GUARDED_LABELLED)
    rows = drop_contaminated(work, rows, slot, f"train: phase {phase}")
    if part.rows.negatives is not None:
        rows = _with_negatives(work, rows, part.rows.negatives)
        if "negative" in loss.texts:
            rows = rows.filter(pc.is_valid(rows["negative"]))
    if part.rows.positive == "half":
        # After the guard, which has compared whole sentences.
        rows = _cut_in_two(rows)
        if not rows.num_rows:
            raise BadInput(
                "no_rows", f"train: phase {phase} has no rows to train on: {_TOO_SHORT}."
            )
    rows = shaped(rows, loss, part.rows.max_rows, work.seed)
    models = [name for name in (*loss.slots, *loss.may_read) if name in part.models]
    slots = {name: work.models[f"{part.name}.{name}"] for name in models}
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
    """The side (query or document) of each column of these rows; empty if they have no sides."""
    if rows.source not in ("document_pairs", "queries") and rows.negatives is None:
        return {}
    sides: dict[str, Side] = {"anchor": "query"}
    sides["positive"] = "query" if rows.positive == "anchor" else "document"
    return sides if rows.negatives is None else {**sides, "negative": "document"}


def _drawing(work: Work, draw: DrawConfig, phase: str) -> Drawing:
    """The drawing's shares, and the generated positives that keep the meaning."""
    generated = pa.table({name: pa.array([], kind) for name, kind in _GENERATED.items()})
    if draw.generated:
        with connection(work) as db:
            # A positive beside an altered negative keeps the meaning too.
            positives = db.sql(
                f"""SELECT sentence_id AS row_id, positive_id AS candidate_id,
                        any_value(positive) AS positive
                    FROM {work.inputs["triplets"].sql("triplets")}
                    WHERE relation IN ('keeps', 'alters') AND positive_id IS NOT NULL
                    GROUP BY ALL ORDER BY row_id, candidate_id"""
            ).to_arrow_table()
        if not positives.num_rows:
            raise BadInput(
                "no_rows",
                f"train: phase {phase} draws generated texts, and no triplet has one that keeps "
                "the meaning: set draw.generated: 0, or loosen select's thresholds.",
            )
        slot = _GUARDED["triplets"]
        kept = drop_contaminated(work, positives, slot, f"train: phase {phase}")
        generated = kept.rename_columns(list(_GENERATED)).combine_chunks()
    return Drawing(draw.model_dump(), generated)


def drawn_table(phase: str, seed: int, drawn: pa.Table) -> pa.Table:
    """Rows of `drawn_pairs`. drawn: a piece of `Trained.drawn`."""
    columns = {"phase": pa.repeat(phase, drawn.num_rows)}
    columns |= {"seed": pa.repeat(pa.scalar(seed, pa.int64()), drawn.num_rows)}
    columns |= {name: drawn[name] for name in drawn.column_names if name != "row_id"}
    return pa.table({**columns, "sentence_id": drawn["row_id"]}).select(DRAWN_PAIRS.names)


def draws_table(work: Work, phase: PhaseConfig, seed: int, drawn: pa.Table) -> pa.Table:
    """Rows of `draws`: the candidates of each drawn triplet; of a pair, its positive.

    drawn: epoch, part, group (sentence_id) and row_id (triplet_id).
    """
    parts = {
        "positive": [part.name for part in phase.parts if part.rows.positive is None],
        "negative": [part.name for part in phase.parts if part.rows.source == "triplets"],
    }
    # An anchor that `select` made its own positive is not a candidate.
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
        draws = db.sql(
            f"""SELECT {quoted(phase.name)} AS phase, {seed}::BIGINT AS seed, * FROM ({candidates})
                ORDER BY part, epoch, sentence_id, candidate_id"""
        ).to_arrow_table()
    return draws.select(DRAWS.names).cast(DRAWS)


def rows_sql(work: Work, part: PartConfig) -> str:
    """SQL for the rows that a part can train on, from any source but anchors.

    Columns: row_id, anchor, positive and, if the source has them, negative, label, entries, group.
    """
    rows, source, texts = part.rows, part.rows.source, part.resolved().texts
    if source in (*OF_TRIPLETS, "queries"):
        table, owners = "triplets", "passages" if source == "queries" else "sentences"
        columns, where = "triplet_id AS row_id, anchor, positive", []
        if source == "triplets":
            columns += ", negative, negative_similarity AS label"
            # For other losses, rows without a negative have the batch's other rows.
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
        # In kind entailment, a contradiction without an entailment has no positive.
        if "positive" in texts and rows.positive is None:
            where.append("positive IS NOT NULL")
    if rows.corpora:
        key, owner_key = _OWNERS[owners]
        where.append(
            f"""{key} IN (SELECT {owner_key} FROM {work.inputs[owners].sql(owners)}
                WHERE corpus IN ({", ".join(map(quoted, rows.corpora))}))"""
        )
    query = f"SELECT {columns} FROM {work.inputs[table].sql(table)}"
    query += f" WHERE {' AND '.join(where)}" if where else ""
    if rows.positive == "anchor":
        return f"SELECT * REPLACE (anchor AS positive) FROM ({query})"
    return query


def _anchors(work: Work, rows: RowsConfig) -> pa.Table:
    """The sampled sentences, each its own positive."""
    shares = work.inputs["anchors"].table("anchors")
    tables = []
    for file in work.inputs["sentences"].files("sentences"):
        table = pq.read_table(file, columns=[*ANCHOR_COLUMNS, "text"])
        chosen = anchor_mask(table, shares, work.seed)
        if rows.corpora:
            chosen &= np.isin(table["corpus"].to_pylist(), rows.corpora)
        tables.append(table.filter(pa.array(chosen)).select(["sentence_id", "text"]))
    anchors = pa.concat_tables(tables).rename_columns(["row_id", "anchor"])
    return anchors.append_column("positive", anchors["anchor"])


def _cut_in_two(anchors: pa.Table) -> pa.Table:
    """Each sentence's halves as anchor and positive; without sentences that are too short."""
    cut = [halves([text], 2 * LEAST) for text in anchors["anchor"].to_pylist()]
    rows = anchors.select(["row_id"]).filter(pa.array([both is not None for both in cut]))
    for place, name in enumerate(("anchor", "positive")):
        texts = [both[place] for both in cut if both is not None]
        rows = rows.append_column(name, pa.array(texts, pa.string()))
    return rows


def _with_negatives(work: Work, rows: pa.Table, count: int) -> pa.Table:
    """The rows with their first `count` mined negatives, a column each, null if there are fewer. A
    negative that the row had comes last. Negatives that the guard has found are left out.

    Raises BadInput if no row has a mined negative.
    """
    last = f"negative_{count + 1}"
    names = [last if name == "negative" else name for name in rows.column_names]
    columns = ["negative", *(f"negative_{rank}" for rank in range(2, count + 1))]
    chosen = ", ".join(
        f"any_value(text) FILTER (rank = {rank}) AS {name}" for rank, name in enumerate(columns, 1)
    )
    clean = ""
    if _GUARDED_NEGATIVES in work.inputs:
        contamination = work.inputs[_GUARDED_NEGATIVES].sql("contamination")
        clean = f"AND text NOT IN (SELECT text FROM {contamination} WHERE removed)"
    with connection(work) as db:
        db.register("rows", rows.rename_columns(names))
        with_negatives = db.sql(
            f"""SELECT rows.*, {", ".join(columns)} FROM rows LEFT JOIN (
                    SELECT triplet_id, {chosen} FROM {work.inputs["negatives"].sql("negatives")}
                    WHERE rank <= {count} {clean} GROUP BY triplet_id
                ) ON triplet_id = row_id"""
        ).to_arrow_table()
    if with_negatives["negative"].null_count == rows.num_rows:
        raise BadInput("no_rows", "train: no row has a mined negative: lower negatives.margin.")
    return with_negatives


def _remedy(rows: RowsConfig) -> str:
    """The advice for a source without rows."""
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
