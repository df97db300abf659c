"""Exports a run's passages and questions as a folder in BEIR's layout."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import duckdb

from tercet.flows.exports.writing import BATCH_ROWS, whole_directory, write_rows
from tercet.flows.results.queries import connect, named_run, rows_of_stage
from tercet.storage import runs
from tercet.storage.rows import Rows
from tercet.storage.store import Store
from tercet.tasks.corpus import passages
from tercet.tasks.corpus.anchors import is_query
from tercet.tasks.evaluation import judgements
from tercet.tasks.stage import BadInput

PASSAGES, JUDGEMENTS = passages.STAGE.name, judgements.NAME
# The units of `judgements.unit`, which a document of the folder can be, with SQL for its id.
_IDS = {"passage": "passage_id::VARCHAR", "document": "path", "file": "source"}


@dataclass(frozen=True)
class Written:
    """The run, and counts of its rows. unit: what a document is. judged: queries by split."""

    run: runs.Run
    unit: str
    documents: int
    judged: Mapping[str, int]


def export_beir(store: Store, target: Path, run_ref: str | None) -> Written:
    """Writes `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv` to a new directory.

    A document is a passage; if questions name files or rows of a table, it is one of these. The
    splits test and dev have the recipe's own questions, train has the queries of triplets.
    run_ref: None means the newest run that has questions, else passages.
    Raises: BadInput for a run without passages or without a query, and for an existing target.
    """
    run = _run(store, run_ref)
    rows = {stage: rows_of_stage(store, run, stage) for stage in (PASSAGES, JUDGEMENTS)}
    with closing(connect(store, str(run["run_id"]))) as db, whole_directory(target) as folder:
        unit = _prepare(db, rows)
        counts = db.execute("SELECT split, count(DISTINCT query_id) FROM judged GROUP BY 1")
        judged = dict(counts.fetchall())
        if not judged:
            raise BadInput(
                "not_reached",
                f"{named_run(run)} has no questions: name a table of "
                "your own under evaluate.retrieval_sets, or another run with --run.",
            )
        titled = """SELECT _id, first(context ORDER BY n) AS title,
            string_agg(text, chr(10) ORDER BY n) AS text FROM documents"""
        documents = _write(folder / "corpus.jsonl", db.sql(f"{titled} GROUP BY 1 ORDER BY min(n)"))
        queries = "SELECT query_id::VARCHAR AS _id, any_value(query) AS text FROM judged"
        _write(folder / "queries.jsonl", db.sql(f"{queries} GROUP BY 1 ORDER BY min(n)"))
        (folder / "qrels").mkdir()
        for split in judged:
            grades = db.execute(
                """SELECT query_id, _id, max(grade) FROM judged JOIN documents USING (passage_id)
                WHERE split = ? GROUP BY query_id, _id ORDER BY min(judged.n), min(documents.n)""",
                [split],
            )
            lines = ("\t".join(map(str, row)) for row in grades.fetchall())
            text = "\n".join(["query-id\tcorpus-id\tscore", *lines]) + "\n"
            (folder / "qrels" / f"{split}.tsv").write_text(text, encoding="utf-8")
    return Written(run, unit, documents, judged)


def _run(store: Store, run_ref: str | None) -> runs.Run:
    """The run of this ref, or the newest with questions, else passages. Raises BadInput."""
    named = run_ref is not None
    listed = [runs.resolve_run(store, run_ref)] if named else runs.list_runs(store)
    for step in (JUDGEMENTS, PASSAGES):
        for run in listed:
            if any(entry["step"] == step for entry in run["steps"]):
                return run
    subject = f"Run {run_ref} has no" if named else "No run in this store has"
    raise BadInput(
        "not_reached", f"{subject} passages: run a recipe with `passages: {{}}` under its `ingest`."
    )


def _prepare(db: duckdb.DuckDBPyConnection, rows: Mapping[str, Rows]) -> str:
    """Makes the tables `documents` (a row per passage) and `judged`; returns what a document is."""
    judgements = rows[JUDGEMENTS].tables.get(JUDGEMENTS)
    units = set()
    judged = "SELECT NULL::UBIGINT, NULL, NULL, NULL, NULL WHERE FALSE"
    if judgements is not None:
        table = rows[JUDGEMENTS].sql(JUDGEMENTS)
        units = {unit for (unit,) in db.execute(f"SELECT DISTINCT unit FROM {table}").fetchall()}
        judged = f"SELECT query_id, query, split, passage_id, grade FROM {table}"
    # A question answered by a file has no passage, but a passage always has a file and a document.
    unit = next((one for one in ("file", "document") if one in units), "passage")
    read = rows[PASSAGES].sql(PASSAGES)
    corpora = db.execute(f"SELECT count(DISTINCT corpus) FROM {read}").fetchall()[0][0]
    key = f"corpus || '/' || {_IDS[unit]}" if unit != "passage" and corpora > 1 else _IDS[unit]
    db.execute(
        f"""CREATE TEMP TABLE documents AS SELECT row_number() OVER () AS n, passage_id, context,
            text, {key} AS _id FROM {read}"""
    )
    db.execute(
        f"""CREATE TEMP TABLE judged AS SELECT row_number() OVER () AS n, * FROM (
            {judged} UNION ALL
            SELECT md5_number_lower(anchor), anchor, 'train', sentence_id, 1 FROM triplets
            WHERE {is_query(rows[PASSAGES])} AND triplet_id NOT IN (
                SELECT row_id FROM rejects WHERE stage = 'guard' AND row_id IS NOT NULL)
        ) AS all_of_them (query_id, query, split, passage_id, grade)"""
    )
    return unit


def _write(path: Path, rows: duckdb.DuckDBPyRelation) -> int:
    """Writes the rows as JSON lines; returns how many."""
    reader = rows.to_arrow_reader(BATCH_ROWS)
    with path.open("wb") as file:
        return write_rows(reader.schema, reader, "jsonl", file)
