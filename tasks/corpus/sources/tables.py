"""Reads rows of tables in files (.jsonl, .json, .csv, .tsv, .parquet), and values of cells.

All formats but .json are streamed. A .txt is read as a .tsv, since many old data sets have tables
with a header in such files.
"""

import math
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import pyarrow as pa
import pyarrow.parquet as pq

from tercet.models.text.words import encodable, fold
from tercet.tasks.corpus.sources import json_rows, separated
from tercet.tasks.corpus.sources.separated import DialectSettings
from tercet.tasks.corpus.sources.streams import (
    CHUNK,
    JSON,
    SHOWN,
    RowFault,
    format_of,
    open_bytes,
    readable,
)
from tercet.tasks.stage import BadInput

SAMPLE_ROWS = 100
LOOKED_AT = 10_000  # rows among which one without a fault is sought
PARQUET_ROWS = 1024
NO_ROWS = "has a header and no rows"


class Row(NamedTuple):
    """One row: its number in the file (from 1), its values by column, its fault or None."""

    number: int
    values: dict[str, Any]
    fault: RowFault | None


def first_rows(read: Callable[[], Iterator[Row]]) -> list[Row]:
    """A table's first 100 rows; if all of these are faulty, the first rows without a fault. read:
    starts anew with each call.
    """
    sample = list(islice(read(), SAMPLE_ROWS))
    if sample and all(row.fault for row in sample):
        whole = (row for row in islice(read(), LOOKED_AT) if row.fault is None)
        sample = list(islice(whole, SAMPLE_ROWS)) or sample
    return sample


def bounded(number: int, values: dict[str, Any], max_bytes: int) -> Row:
    """The row, or the fault that one of its texts is longer than `max_bytes`."""
    for column, value in values.items():
        if isinstance(value, str) and len(value.encode("utf-8", "surrogatepass")) > max_bytes:
            return Row(number, {}, _too_long(column, value[:SHOWN], max_bytes))
    return Row(number, values, None)


def _too_long(column: str, shown: str, max_bytes: int) -> RowFault:
    return "line_too_long", f"column {column!r} is longer than {max_bytes} bytes", shown


def rows(
    path: Path,
    max_bytes: int,
    columns: Sequence[str] | None = None,
    header: Sequence[str] | None = None,
    dialect: DialectSettings | None = None,
) -> Iterator[Row]:
    """The rows of a table.

    Args:
        columns: columns to read. None: all, and damaged texts are missing values, not faults.
        header: the names of all columns, if the first line of a separated file is a row.
        dialect: known parts of the dialect of a .csv or .tsv.

    Raises:
        BadInput: the file is damaged, or not of the kind of its suffix; or a Parquet file has
            several columns with the name of one to read.
    """
    form, _ = format_of(path)
    if _is_empty(path):
        return iter(())
    if form in JSON:
        return _json_rows(path, max_bytes)
    if form == ".parquet":
        return _parquet_rows(path, max_bytes, columns)
    return _separated_rows(path, max_bytes, columns, header, dialect)


def columns_of(path: Path, max_bytes: int, dialect: DialectSettings | None = None) -> list[str]:
    """The names of the table's columns, with repetitions; for JSON, the keys of the first rows."""
    form, _ = format_of(path)
    if _is_empty(path):
        return []
    if form == ".parquet":
        with _parquet_bytes(path) as source:
            table = _flat(_parquet_file(path, source).schema_arrow.empty_table())
            return list(map(str, table.column_names))
    if form in JSON:
        sample = first_rows(partial(_json_rows, path, max_bytes))
        return list(dict.fromkeys(key for row in sample for key in row.values))
    return separated.header_of(path, max_bytes, separated.dialect_of(path, max_bytes, dialect))


def _is_empty(path: Path) -> bool:
    """Whether the file has no byte, as the first of several often has."""
    with readable(path), open_bytes(path) as content:
        return not content.read(1)


def _json_rows(path: Path, max_bytes: int) -> Iterator[Row]:
    form, _ = format_of(path)
    if form == ".jsonl":
        yield from (Row(*read) for read in json_rows.of_lines(path, max_bytes))
        return
    for number, values, fault in json_rows.of_list(path):
        yield Row(number, {}, fault) if fault else bounded(number, values, max_bytes)


def _separated_rows(
    path: Path,
    max_bytes: int,
    columns: Sequence[str] | None,
    header: Sequence[str] | None,
    settings: DialectSettings | None,
) -> Iterator[Row]:
    dialect = separated.dialect_of(path, max_bytes, settings)
    for number, record in separated.records(path, max_bytes, dialect):
        if header is None:
            if not isinstance(record, list):
                raise BadInput(
                    "unreadable", f"{path}: its header, line {number}, cannot be read: {record[1]}"
                )
            header = [name.strip(" ") for name in record]
        elif not isinstance(record, list):
            yield Row(number, {}, record)
        elif len(header) == 1:
            yield Row(number, {header[0]: dialect.delimiter.join(record)}, None)
        elif any(field.strip() for field in record[len(header) :]):
            detail = f"line {number} has {len(record)} fields, the header {len(header)}"
            yield Row(number, {}, ("bad_csv", detail, " ".join(record)[:SHOWN]))
        else:
            yield Row(number, separated.named(header, record), None)


def _parquet_bytes(path: Path) -> BinaryIO:
    """A seekable source: the file, or its decompressed content in a temporary file."""
    _, compression = format_of(path)
    if not compression:
        try:
            return path.open("rb")
        except OSError as error:
            raise BadInput(
                "unreadable", f"{path} cannot be read: {error.strerror or error}"
            ) from None
    whole = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115
    with open_bytes(path) as stream:
        shutil.copyfileobj(stream, whole, CHUNK)
    whole.seek(0)
    return whole


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Turns an error of reading the Parquet file into one sentence."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        first = str(error).splitlines()[0]
        raise BadInput(
            "unreadable", f"{path} is not a whole Parquet file ({first}); fetch it again"
        ) from None


def _parquet_file(path: Path, source: BinaryIO) -> pq.ParquetFile:
    with _whole(path):
        # A reader that reads ahead holds the whole file.
        return pq.ParquetFile(source, pre_buffer=False)


def parquet_rows(path: Path) -> int:
    """The number of rows in a Parquet file's metadata."""
    if _is_empty(path):
        return 0
    with _parquet_bytes(path) as source:
        return int(_parquet_file(path, source).metadata.num_rows)


def _parquet_rows(path: Path, max_bytes: int, columns: Sequence[str] | None) -> Iterator[Row]:
    with _parquet_bytes(path) as source:
        file = _parquet_file(path, source)
        counts = Counter(_flat(file.schema_arrow.empty_table()).column_names)
        for name in columns or ():
            if counts[name] > 1:
                raise BadInput(
                    "conflict", f"{path} has {counts[name]} columns {name!r}: rename all but one"
                )
        names = [n for n in counts if counts[n] == 1] if columns is None else list(columns)
        number = 0
        batches = file.iter_batches(PARQUET_ROWS, columns=names, use_threads=False)
        while True:
            with _whole(path):
                batch = next(batches, None)
            if batch is None:
                return
            table = _flat(pa.Table.from_batches([batch]))
            values_of = [_values(table.column(name)) for name in names]
            for cells in zip(*values_of, strict=True) if names else [()] * len(batch):
                number += 1
                values = {n: _decoded(n, v, max_bytes) for n, v in zip(names, cells, strict=True)}
                faults = {name: value for name, value in values.items() if isinstance(value, tuple)}
                if faults and columns is not None:
                    yield Row(number, {}, next(iter(faults.values())))
                else:  # without `columns`, damaged texts are missing values
                    yield Row(number, {n: v for n, v in values.items() if n not in faults}, None)


def _flat(table: pa.Table) -> pa.Table:
    """The table with members of structs as columns, named by their paths as in JSON."""
    for _ in range(json_rows.DEPTH):
        table = table.flatten()
    return table


def _values(column: pa.ChunkedArray) -> list[Any]:
    """The column's values; strings as bytes, since Parquet does not guarantee UTF-8.

    Decimals become floats. Nested columns other than lists of strings, and values that Python
    cannot represent, such as a date beyond the year 9999, are missing.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = kind.value_type
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return list(column.cast(pa.large_binary()).to_pylist())
    if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and (
        pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type)
    ):
        return list(column.cast(pa.large_list(pa.large_binary())).to_pylist())
    if pa.types.is_nested(kind):
        return [None] * len(column)
    try:
        return list(column.to_pylist())
    except (ArithmeticError, LookupError, ValueError):
        return [_value(scalar) for scalar in column]


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (ArithmeticError, LookupError, ValueError):
        return None


def _decoded(column: str, value: Any, max_bytes: int) -> Any:
    """The value with bytes decoded, also in lists, or the fault of a text."""
    if isinstance(value, list):
        decoded = [_decoded(column, one, max_bytes) for one in value]
        return next((one for one in decoded if isinstance(one, tuple)), decoded)
    if not isinstance(value, bytes):
        return value
    shown = value[: 4 * SHOWN].decode("utf-8", "replace")[:SHOWN]
    if len(value) > max_bytes:
        return _too_long(column, shown, max_bytes)
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return "not_utf8", f"column {column!r} is not UTF-8", shown


# Cells that pandas reads as missing: exactly these, and `_NOTHING_IN_ANY_CASE` in any case.
_NOTHING = frozenset(
    ("", "\\N", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN", "<NA>", "NA")
)
_NOTHING_IN_ANY_CASE = frozenset(("nan", "-nan", "null", "none", "n/a"))
_LONGEST = max(map(len, _NOTHING))


def missing(value: object) -> bool:
    """Whether a table's cell is missing: a null, NaN, blanks, or a word for it."""
    if isinstance(value, float):
        return math.isnan(value)
    if not isinstance(value, str):
        return value is None
    text = value.strip()
    return len(text) <= _LONGEST and (text in _NOTHING or text.lower() in _NOTHING_IN_ANY_CASE)


def joined(value: object) -> object:
    """A list of texts as one text with a paragraph each; other values unchanged."""
    if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        return "\n\n".join(value)
    return value


def label_of(value: object) -> str | None:
    """A label as text; None if the cell is missing or cannot be a label."""
    if missing(value):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a column of whole numbers with gaps
    plain = isinstance(value, str | int | float)
    return (fold(str(value)) or None) if plain and encodable(str(value)) else None


def text_fault(values: dict[str, object], column: str) -> RowFault | None:
    """The fault of a row's text in this column, or None."""
    value = values.get(column)
    if not isinstance(value, str):
        content = "nothing" if value is None else f"a value of type {type(value).__name__}"
        return "missing_text", f"column {column!r} holds {content}", ""
    if not encodable(value):
        shown = value[:SHOWN].encode("utf-8", "replace").decode("utf-8")
        return "not_utf8", f"column {column!r} is not valid Unicode", shown
    if not fold(value):
        return "missing_text", f"column {column!r} is blank", ""
    return None


# Bytes; more than any row has, such as a query with its candidates.
_LONGEST_ROW = 1 << 26


def checked_rows(
    path: Path, needed: Sequence[str] = (), optional: Sequence[str] = ()
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place for messages, values by column) of each row of a table.

    Raises: BadInput for a missing column, and for a row that cannot be read.
    """
    names = columns_of(path, _LONGEST_ROW) if needed else []
    missing = [column for column in needed if column not in names]
    if missing:
        raise BadInput(
            "missing_column", f"{path} has no column {missing[0]!r}: it needs {', '.join(needed)}."
        )
    columns = [*needed, *(column for column in optional if column in names)]
    for row in rows(path, _LONGEST_ROW, columns or None):
        where = f"{path}, line {row.number}"
        if row.fault is not None:
            raise BadInput("bad_row", f"{where}: {row.fault[1]}.")
        yield where, row.values
