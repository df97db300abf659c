"""Keeps documents in the files of the previous version, so that a growing corpus remakes few parts.

The rows of a table depend only on the corpora; their places in files also depend on the previous
version. Old documents keep their places, and new documents follow them.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tercet.models.runs import begins, pieces
from tercet.storage.rows import quoted
from tercet.tasks.stage import Work, connection

_BATCH = 8_192
_NEW = -1


@contextmanager
def former_parts(work: Work, schemas: Mapping[str, pa.Schema]) -> Iterator[Work]:
    """The work, which emits the rows of these tables at the end, in the files of the previous
    version (slot `known`). Without that slot, the work itself.

    schemas: of tables with `doc_id`; a document's rows must be emitted one after another.
    """
    if "known" not in work.inputs:
        yield work
        return
    paths = {name: work.scratch / f"former-{name}.parquet" for name in schemas}
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(pq.ParquetWriter(path, schemas[name], compression="lz4"))
            for name, path in paths.items()
        }

        def emit(table: str, rows: pa.Table) -> None:
            if table in writers:
                writers[table].write_table(rows)
            else:
                work.emit(table, rows)

        yield replace(work, emit=emit)
    for name, path in paths.items():
        _emit(work, name, path)
        path.unlink()


def _emit(work: Work, table: str, path: Path) -> None:
    """Emits the rows at `path`: the rows of a former file at once, so that it ends as before, and
    new documents in pieces of about `part_rows`, cut between documents."""
    size = work.resources.part_rows
    for file, grouped in groupby(_in_order(work, table, path), key=itemgetter(0)):
        held: list[pa.Table] = []
        for _, rows in grouped:
            held.append(rows)
            if file == _NEW and sum(map(len, held)) >= size:
                *whole, last = _by_document(pa.concat_tables(held), size)
                for piece in whole:
                    work.emit(table, piece)
                held = [last]
        left = pa.concat_tables(held)
        for piece in _by_document(left, size) if file == _NEW else [left]:
            work.emit(table, piece)


def _by_document(rows: pa.Table, size: int) -> list[pa.Table]:
    """Pieces of whole documents, of at most `size` rows or of one document."""
    starts = np.flatnonzero(begins(rows["doc_id"].to_numpy()))
    ends = np.append(starts[1:], len(rows))
    cut = pieces(ends - starts, size)
    return [rows.slice(starts[of.start], ends[of.stop - 1] - starts[of.start]) for of in cut]


def _in_order(work: Work, table: str, path: Path) -> Iterator[tuple[int, pa.Table]]:
    """(number of the former file, rows), in the former order; new documents last, as read."""
    ids, files = [], []
    for number, name in enumerate(work.inputs["known"].files(table)):
        column = pq.read_table(name, columns=["doc_id"])["doc_id"].to_numpy()
        ids.append(column[begins(column)])
        files.append(np.full(len(ids[-1]), number))
    # A document that spans several files belongs to the first.
    doc_ids, first = np.unique(np.concatenate(ids), return_index=True)
    before = pa.table({"doc_id": doc_ids, "file": np.concatenate(files)[first], "place": first})
    with connection(work) as db:
        db.register("former", before)
        reader = db.sql(
            f"""SELECT made.* EXCLUDE (file_row_number), coalesce(file, {_NEW}) AS file
                FROM read_parquet({quoted(str(path))}, file_row_number = true,
                    hive_partitioning = false) made
                LEFT JOIN former USING (doc_id) ORDER BY place NULLS LAST, file_row_number"""
        ).to_arrow_reader(_BATCH)
        for batch in reader:
            rows = pa.Table.from_batches([batch])
            numbers = rows["file"].to_numpy()
            for start, stop in pairwise([*np.flatnonzero(begins(numbers)).tolist(), len(rows)]):
                piece = rows.slice(start, stop - start).drop_columns("file")
                yield int(numbers[start]), piece
