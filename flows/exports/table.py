"""Exports a table as a directory that `datasets` can load."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tercet.flows.cards.data_card import DataFiles, data_card
from tercet.flows.cards.facts import find_run
from tercet.flows.exports.writing import BATCH_ROWS, whole_directory
from tercet.flows.results.queries import check_finished, connect
from tercet.flows.results.subject import Subject
from tercet.flows.terminal.progress import reporter
from tercet.storage import runs
from tercet.storage.artifacts import Artifact
from tercet.storage.catalog.snapshot import METADATA, read_snapshot
from tercet.storage.store import Store
from tercet.tasks.stage import BadInput
from tercet.tasks.stages import known_schemas

# Approximate size of a Parquet file: small enough to fetch alone, large enough to be worth it.
SHARD_BYTES = 256 << 20


@dataclass(frozen=True)
class _Chosen:
    """The rows that a ref names. artifact: None: the rows are the run's table."""

    table: str
    run: runs.Run | None
    artifact: Artifact | None
    versions: tuple[str, ...]


def is_table(store: Store, ref: str) -> bool:
    """Whether the ref names a table, not an encoder or a step."""
    name = ref.partition("@")[0]
    if runs.get_tag(store, ref) is not None:
        return False
    if name in known_schemas() or name in METADATA:
        return True
    return any(name in entry.totals for entry in read_snapshot(store).entries)


def export_table(store: Store, ref: str, target: Path, run_ref: str | None) -> int:
    """Writes the table's rows and its data card to a new directory; returns the number of rows.

    Works in batches, so memory does not grow with the number of rows.
    Raises: BadInput for a table without rows and for an existing target.
    """
    chosen = _choose(store, ref, run_ref)
    run_id = None if chosen.run is None else chosen.run["run_id"]
    with closing(connect(store, run_id)) as connection, whole_directory(target) as folder:
        try:
            schema, batches = _rows(connection, chosen)
            with reporter(f"export {chosen.table}", sys.stderr.isatty()) as progress:
                written = write_shards(
                    schema, batches, folder / "data", lambda rows: progress(rows, None, "rows")
                )
        except (duckdb.Error, pa.ArrowException) as error:
            message = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
            raise BadInput(
                "bad_query", f"The table {chosen.table} cannot be read: {message}."
            ) from error
        if not written.rows:
            raise BadInput(
                "no_rows",
                f"The table {chosen.table} has no rows in this run, so there is nothing to export: "
                "name another run with --run.",
            )
        run = chosen.run
        subject = None if run is None else Subject(store, run, "run", connection)
        card = data_card(chosen.table, written, subject, chosen.versions)
        (folder / "README.md").write_text(card, encoding="utf-8")
    return written.rows


def write_shards(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    folder: Path,
    progress: Callable[[int], None] = lambda rows: None,
    shard_bytes: int = SHARD_BYTES,
) -> DataFiles:
    """Writes `train-00000-of-00002.parquet` and so on, starting a new file at that many bytes."""
    folder.mkdir(parents=True)
    # Each name contains the number of files, which is known only at the end.
    files: list[Path] = []
    rows = memory = 0
    writer: pq.ParquetWriter | None = None
    sink: pa.NativeFile | None = None
    try:
        for batch in batches:
            if writer is None or sink is None:
                files.append(folder / f"{len(files):05d}.writing")
                sink = pa.OSFile(str(files[-1]), "wb")
                writer = pq.ParquetWriter(sink, schema, compression="zstd")
            # Each batch becomes a row group: `write_batch` would hold back a million rows.
            writer.write_table(pa.Table.from_batches([batch]))
            rows += batch.num_rows
            memory += batch.nbytes
            progress(rows)
            if sink.tell() >= shard_bytes:
                writer.close()
                sink.close()
                writer = sink = None
    finally:
        if writer is not None and sink is not None:
            writer.close()
            sink.close()
    for index, file in enumerate(files):
        file.rename(folder / f"train-{index:05d}-of-{len(files):05d}.parquet")
    size = sum(file.stat().st_size for file in folder.iterdir())
    return DataFiles(schema, rows, size, memory)


def _choose(store: Store, ref: str, run_ref: str | None) -> _Chosen:
    table, _, version = ref.partition("@")
    if version:
        artifact = runs.resolve_ref(store, ref)
        check_finished(artifact)
        if table not in artifact.rows().tables:
            raise BadInput("unknown_name", f"{artifact.name} has no table {table}.")
        run = find_run(store, artifact, run_ref)
        return _Chosen(table, run, artifact, (artifact.name,))
    snapshot = read_snapshot(store)
    if table in METADATA:
        return _Chosen(table, None, None, ())
    candidates = snapshot.runs if run_ref is None else (runs.resolve_run(store, run_ref),)
    for run in candidates:
        entries = [entry for entry in snapshot.of_run(run) if table in entry.totals]
        if entries:
            names = tuple(e.name for e in entries)
            return _Chosen(table, run, None, names)
    subject = "No run has" if run_ref is None else f"The run {candidates[0]['run_id']} has not"
    raise BadInput("not_reached", f"{subject} reached the table {table}.")


def _rows(
    connection: duckdb.DuckDBPyConnection, chosen: _Chosen
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    if chosen.artifact is not None:
        rows = chosen.artifact.rows()
        return rows.schema(chosen.table), rows.batches(chosen.table, rows=BATCH_ROWS)
    relation = connection.sql(f'SELECT * FROM "{chosen.table}"')
    reader = relation.to_arrow_reader(BATCH_ROWS)
    return reader.schema, (batch for batch in reader if batch.num_rows)
