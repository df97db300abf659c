"""Rows as CSV, JSON or Parquet, batch by batch: memory does not grow with their number."""

import json
import math
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from tercet.storage.store import clear_errors
from tercet.tasks.stage import BadInput

FORMATS = ("csv", "json", "jsonl", "parquet")

# Rows that are in memory at once.
BATCH_ROWS = 16_384


def write_rows(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], format_: str, sink: IO[bytes]
) -> int:
    """Writes the rows; returns how many there were.

    csv: a header, nested values as JSON. json: an array with one row a line. jsonl: the rows
    alone. parquet: compressed with zstd. NaN and infinity have no form in JSON and become null.
    """
    names = _distinct(schema.names)
    if format_ == "csv":
        return _csv(schema, names, batches, sink)
    if format_ == "parquet":
        return _parquet(schema, names, batches, sink)
    return _json(names, batches, sink, lines=format_ == "jsonl")


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes its name once it is written whole; what stood there stays until then.

    Raises: BadInput for a place that can hold no file, StoreError for a disk that takes none.
    """
    if path.is_dir():
        raise BadInput(f"{path} is a directory: name a file.")
    if not path.parent.is_dir():
        raise BadInput(f"There is no directory {path.parent}: make it, or name another file.")
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


def _csv(
    schema: pa.Schema, names: Sequence[str], batches: Iterable[pa.RecordBatch], sink: IO[bytes]
) -> int:
    types = [field.type if _plain(field.type) else pa.string() for field in schema]
    flat = pa.schema(list(zip(names, types, strict=True)))
    count = 0
    with pa_csv.CSVWriter(sink, flat) as writer:
        for batch in batches:
            columns = [
                column if _plain(column.type) else _as_text(column) for column in batch.columns
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=flat))
            count += batch.num_rows
    return count


def _parquet(
    schema: pa.Schema, names: Sequence[str], batches: Iterable[pa.RecordBatch], sink: IO[bytes]
) -> int:
    # Parquet has no type for these: nulls alone keep theirs, intervals become text.
    types = [pa.string() if pa.types.is_interval(field.type) else field.type for field in schema]
    whole = pa.schema(list(zip(names, types, strict=True)))
    count = 0
    with pq.ParquetWriter(sink, whole, compression="zstd") as writer:
        for batch in batches:
            columns = [
                _as_text(column) if pa.types.is_interval(column.type) else column
                for column in batch.columns
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=whole))
            count += batch.num_rows
    return count


def _json(
    names: Sequence[str], batches: Iterable[pa.RecordBatch], sink: IO[bytes], lines: bool
) -> int:
    count = 0
    for batch in batches:
        columns = [column.to_pylist() for column in batch.columns]
        rows = [
            _dumped(dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)
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


def _dumped(row: dict[str, Any]) -> str:
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False, default=_foreign)
    except ValueError:
        return json.dumps(_finite(row), ensure_ascii=False, default=_foreign)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(member) for member in value]
    return value


def _foreign(value: Any) -> Any:
    """What JSON has no type for."""
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def _plain(kind: pa.DataType) -> bool:
    """Whether Arrow writes the type to CSV by itself."""
    return not (
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
        texts = [None if v is None else _dumped_value(v) for v in column.to_pylist()]
    else:
        texts = [None if v is None else str(_foreign(v)) for v in column.to_pylist()]
    return pa.array(texts, pa.string())


def _dumped_value(value: Any) -> str:
    return json.dumps(_finite(value), ensure_ascii=False, default=_foreign)


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, repeated ones numbered: a, a_1, a_2."""
    found: list[str] = []
    for name in names:
        candidate, number = name, 0
        while candidate in found:
            number += 1
            candidate = f"{name}_{number}"
        found.append(candidate)
    return found
