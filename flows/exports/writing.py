"""Writes files and directories that get their names once they are complete, and rows as CSV, JSON
or Parquet in batches, so that memory does not grow with their number.
"""

import json
import math
import os
import shutil
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from functools import partial
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tercet.flows.formatting import standard_output
from tercet.storage.store import check_outside, clear_errors
from tercet.tasks.stage import BadInput

FORMATS = ("csv", "json", "jsonl", "parquet")

# Rows in memory at once.
BATCH_ROWS = 16_384


def write_rows(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], format_: str, sink: IO[bytes]
) -> int:
    """Writes the rows; returns their number.

    csv: a header, nested values as JSON; quotes around values that need them, and around empty
    texts to tell them from NULL. json: an array with one row per line. jsonl: the rows alone.
    parquet: compressed with zstd. In JSON, NaN and infinity become null, ids (unsigned, of 64 bits)
    texts.
    """
    names = _distinct(schema.names)
    if format_ in ("json", "jsonl"):
        return _json(names, batches, sink, lines=format_ == "jsonl")
    # Intervals are the only type that Parquet lacks; all-null columns keep their types.
    lacking = _needs_text if format_ == "csv" else pa.types.is_interval
    types = [pa.string() if lacking(field.type) else field.type for field in schema]
    written = pa.schema(list(zip(names, types, strict=True)))
    writer_of = _Csv if format_ == "csv" else partial(pq.ParquetWriter, compression="zstd")
    count = 0
    with writer_of(sink, written) as writer:
        for batch in batches:
            columns = [_as_text(one) if lacking(one.type) else one for one in batch.columns]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=written))
            count += batch.num_rows
    return count


def print_rows(rows: pa.Table, format_: str) -> None:
    """Writes the rows to standard output."""
    write_rows(rows.schema, rows.to_batches(), format_, standard_output())
    sys.stdout.flush()


def _json(
    names: Sequence[str], batches: Iterable[pa.RecordBatch], sink: IO[bytes], lines: bool
) -> int:
    count = 0
    for batch in batches:
        columns = [_ids_as_text(column).to_pylist() for column in batch.columns]
        rows = [
            _dump(dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)
        ]
        between = "\n" if lines else ",\n"
        if rows:
            start = ("" if lines else "[\n") if count == 0 else between
            sink.write((start + between.join(rows)).encode("utf-8", "replace"))
        count += len(rows)
    if lines:
        sink.write(b"\n" if count else b"")
    else:
        sink.write(b"\n]\n" if count else b"[]\n")
    return count


def _ids_as_text(column: pa.Array) -> pa.Array:
    """Ids as texts: JavaScript and jq round numbers beyond 2^53."""
    if pa.types.is_uint64(column.type):
        return column.cast(pa.string())
    if pa.types.is_list(column.type) and pa.types.is_uint64(column.type.value_type):
        return column.cast(pa.list_(pa.string()))
    return column


def _dump(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain_value)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, default=_plain_value)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(member) for member in value]
    return value


def _plain_value(value: Any) -> Any:
    """Converts types that JSON lacks."""
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


class _Csv:
    """Writes batches as CSV. Arrow's own writer has quotes around every text, or around none."""

    def __init__(self, sink: IO[bytes], schema: pa.Schema) -> None:
        self._sink = sink
        self._line([pa.array([name]) for name in schema.names])

    def __enter__(self) -> "_Csv":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Writes the rows, a line each; a text may hold line breaks."""
        self._line(batch.columns)

    def _line(self, columns: Sequence[pa.Array]) -> None:
        cells = [_cells(column) for column in columns]
        lines = pc.binary_join_element_wise(*cells, ",").to_pylist()
        self._sink.write("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))


def _cells(column: pa.Array) -> pa.Array:
    texts = pc.cast(column, pa.string())
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        quoted = pc.binary_join_element_wise('"', pc.replace_substring(texts, '"', '""'), '"', "")
        needed = pc.match_substring_regex(texts, r'[",\r\n]|^$|^\s|\s$')
        texts = pc.if_else(needed, quoted, texts)
    return pc.fill_null(texts, "")


def _needs_text(kind: pa.DataType) -> bool:
    """Whether Arrow cannot write the type to CSV itself."""
    return (
        pa.types.is_nested(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_interval(kind)
        or pa.types.is_dictionary(kind)
        or isinstance(kind, pa.BaseExtensionType)
    )


def _as_text(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return pc.cast(column.dictionary_decode(), pa.string())
    if pa.types.is_nested(column.type):
        texts = [None if v is None else _dump(v) for v in column.to_pylist()]
    else:
        texts = [None if v is None else str(_plain_value(v)) for v in column.to_pylist()]
    return pa.array(texts, pa.string())


def _distinct(names: Sequence[str]) -> list[str]:
    """The names; repeated names are numbered: a, a_1, a_2."""
    distinct: list[str] = []
    for name in names:
        candidate, number = name, 0
        while candidate in distinct:
            number += 1
            candidate = f"{name}_{number}"
        distinct.append(candidate)
    return distinct


def check_file(path: Path, replaces: bool = False) -> None:
    """Raises BadInput if the path cannot be a file, or is a file that must not be replaced."""
    check_outside(path)
    if path.is_dir():
        raise BadInput("exists", f"{path} is a directory: name a file.")
    if not replaces and (path.exists() or path.is_symlink()):
        raise BadInput("exists", f"{path} exists and was not overwritten: name another file.")
    if not path.parent.is_dir():
        raise BadInput(
            "missing_file", f"There is no directory {path.parent}: make it, or name another file."
        )


@contextmanager
def whole_file(path: Path, replaces: bool = False) -> Iterator[IO[bytes]]:
    """A file that gets its name once it is complete.

    replaces: an existing file stays until then; otherwise it is refused.

    Raises: BadInput if the path cannot be a file, StoreError if the disk refuses it.
    """
    check_file(path, replaces)
    aside = path.parent / f".{path.name}-{uuid.uuid4().hex[:8]}.writing"
    try:
        with clear_errors(path):
            with aside.open("xb") as sink:
                yield sink
                sink.flush()
                os.fsync(sink.fileno())
            aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def check_free(target: Path) -> None:
    """Raises BadInput if the target exists, unless it is an empty directory, or is in a store."""
    check_outside(target)
    with clear_errors(target):
        if target.is_dir():
            if any(target.iterdir()):
                raise BadInput(
                    "exists", f"{target} exists and is not empty: name a directory that does not."
                )
        elif target.exists() or target.is_symlink():
            raise BadInput(
                "exists", f"{target} is a file: name a directory that does not exist yet."
            )


@contextmanager
def whole_directory(target: Path) -> Iterator[Path]:
    """A directory beside the target to write into; it becomes the target if the block succeeds.

    Raises: BadInput for an existing target, StoreError if the disk refuses it.
    """
    check_free(target)
    # The target is resolved first, since `.` and links have no usable directory beside them.
    place = target.resolve()
    aside = place.parent / f".{place.name}-{uuid.uuid4().hex[:8]}.writing"
    try:
        with clear_errors(target):
            place.parent.mkdir(parents=True, exist_ok=True)
            aside.mkdir()
            yield aside
            # Replaces an empty directory, and fails if it has been filled in the meantime.
            aside.rename(place)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
