"""Rows of tables in files (.jsonl, .csv, .tsv, .parquet), streamed, each with its fault if any.

A .txt is read as a .tsv: many old data sets call a table with a header so.
"""

import csv
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias, cast

import pyarrow as pa
import pyarrow.parquet as pq

from tercet.tasks.corpus.sources.streams import (
    CHUNK,
    SHOWN,
    conversion,
    format_of,
    lines,
    open_bytes,
)
from tercet.tasks.stage import BadInput

SAMPLE_ROWS = 100
LOOKED_AT = 10_000  # rows among which a whole one is looked for
USUAL_TEXT = "text"
PARQUET_ROWS = 1024
NO_ROWS = "has a header and no rows"
_DELIMITERS = (",", ";", "\t")  # of .csv

RowFault: TypeAlias = tuple[str, str, str]  # reason, detail, text


class Row(NamedTuple):
    """One row: its number in the file (from 1), its values by column, its fault or None."""

    number: int
    values: dict[str, Any]
    fault: RowFault | None


def first_rows(path: Path, max_bytes: int) -> Iterator[Row]:
    """The table's first 100 rows, read on demand; where none is whole, whole ones further on."""
    sample = list(islice(rows(path, max_bytes), SAMPLE_ROWS))
    if sample and all(row.fault for row in sample):
        beyond = islice(rows(path, max_bytes), LOOKED_AT)
        sample = list(islice((row for row in beyond if row.fault is None), SAMPLE_ROWS)) or sample
    yield from sample


def rows(
    path: Path,
    max_bytes: int,
    columns: Sequence[str] | None = None,
    header: Sequence[str] | None = None,
) -> Iterator[Row]:
    """The rows of a table; `columns` are the ones wanted (a Parquet file reads no others).

    header: the names of all columns, where the first line of a separated file is a row.

    Raises:
        BadInput: the file is damaged, or not of the kind that its name says.
    """
    form, _ = format_of(path)
    if form == ".jsonl":
        return _json_rows(path, max_bytes)
    if form == ".parquet":
        return _parquet_rows(path, max_bytes, columns)
    return _separated_rows(path, max_bytes, header)


def columns_of(path: Path, max_bytes: int) -> list[str]:
    """The names of the table's columns; for .jsonl, the keys of its first rows."""
    form, _ = format_of(path)
    if form == ".parquet":
        with _parquet_bytes(path) as source:
            return list(_parquet_file(path, source).schema_arrow.names)
    if form == ".jsonl":
        sample = first_rows(path, max_bytes)
        return list(dict.fromkeys(key for row in sample for key in row.values))
    return _header(path, max_bytes, _delimiter(path, max_bytes))


def text_column(where: str, columns: Sequence[str], sample: Iterable[Row]) -> str:
    """The column called `text`, else the one with the longest strings among the sample's rows.

    columns: those that may be it.

    Raises:
        BadInput: no column holds strings, or there is no row.
    """
    if USUAL_TEXT in columns:
        return USUAL_TEXT
    looked_at = list(sample)
    if not looked_at:
        raise BadInput(f"{where} {NO_ROWS}; name a table with rows")
    means = {name: mean for name, mean in string_lengths(looked_at).items() if name in columns}
    if not means:
        hint = f"its columns are {', '.join(map(repr, columns))}"
        faults = [row.fault for row in looked_at if row.fault is not None]
        if any(fault[0] == "not_utf8" for fault in faults):
            hint = f"if it is Latin-1: {conversion(where)}"
        elif len(faults) == len(looked_at):
            hint = f"none of its first rows can be read ({faults[0][1]})"
        raise BadInput(f"{where}: no column holds text; {hint}")
    return max(means, key=lambda column: means[column])


def string_lengths(sample: Iterable[Row]) -> dict[str, float]:
    """Mean length in characters of each column that holds strings."""
    whole = [row for row in sample if row.fault is None]
    lengths: dict[str, int] = {}
    for row in whole:
        for column, value in row.values.items():
            if isinstance(value, str):
                lengths[column] = lengths.get(column, 0) + len(value)
    return {column: total / len(whole) for column, total in lengths.items()}


def _json_rows(path: Path, max_bytes: int) -> Iterator[Row]:
    for line in lines(path, max_bytes):
        shown = line.text[:SHOWN]
        if line.fault == "line_too_long":
            detail = f"the line is longer than {max_bytes} bytes"
            yield Row(line.number, {}, (line.fault, detail, shown))
        elif line.fault:
            yield Row(line.number, {}, (line.fault, "the line is not UTF-8", shown))
        elif line.text.strip():
            try:
                value = json.loads(line.text)
            except (ValueError, RecursionError) as error:
                yield Row(line.number, {}, ("bad_json", str(error)[:SHOWN], shown))
                continue
            if isinstance(value, dict):
                yield Row(line.number, value, None)
            else:
                detail = f"the line holds a {type(value).__name__}, not an object"
                yield Row(line.number, {}, ("bad_json", detail, shown))


def _delimiter(path: Path, max_bytes: int) -> str:
    """What stands between fields: in .csv what the header says, else a tab.

    Semicolons or tabs (as Excel writes them) do so only where commas give a single column.
    """
    if format_of(path)[0] != ".csv":
        return "\t"
    columns = {mark: len(_header(path, max_bytes, mark)) for mark in _DELIMITERS}
    return "," if columns[","] > 1 else max(columns, key=lambda mark: columns[mark])


def _header(path: Path, max_bytes: int, delimiter: str) -> list[str]:
    """The fields of the first record; none where it cannot be read."""
    _, header = next(_records(path, max_bytes, delimiter), (1, None))
    return header if isinstance(header, list) else []


def _separated_rows(
    path: Path, max_bytes: int, header: Sequence[str] | None = None
) -> Iterator[Row]:
    delimiter = _delimiter(path, max_bytes)
    for number, record in _records(path, max_bytes, delimiter):
        if header is None:
            if not isinstance(record, list):
                hint = f"; if it is Latin-1: {conversion(str(path))}"
                raise BadInput(
                    f"{path}: its header, line {number}, cannot be read: {record[1]}"
                    + (hint if record[0] == "not_utf8" else "")
                )
            header = record
        elif not isinstance(record, list):
            yield Row(number, {}, record)
        elif len(header) == 1:
            yield Row(number, {header[0]: delimiter.join(record)}, None)
        elif any(field.strip() for field in record[len(header) :]):
            detail = f"line {number} has {len(record)} fields, the header {len(header)}"
            yield Row(number, {}, ("bad_csv", detail, " ".join(record)[:SHOWN]))
        else:
            yield Row(number, dict(zip(header, record, strict=False)), None)


def _records(
    path: Path, max_bytes: int, delimiter: str
) -> Iterator[tuple[int, list[str] | RowFault]]:
    """(line number, fields or fault) of each record that is not blank.

    A line that is too long or not UTF-8 is given to the parser as a mark that no text can hold;
    the record in which the mark comes out is at fault. The mark keeps the count of quotation
    marks odd or even as it was, so that records behind it are cut where they were.
    """
    quoted = format_of(path)[0] == ".csv"
    faults: dict[int, RowFault] = {}
    last = 0
    inside = ended = False

    def feed() -> Iterator[str]:
        nonlocal last, inside, ended
        for line in lines(path, max_bytes):
            last = line.number
            odd = line.quotes % 2 == 1 and quoted
            text = line.text + "\n"
            if line.fault:
                why = "not UTF-8" if line.fault == "not_utf8" else f"over {max_bytes} bytes"
                detail = f"line {line.number} is {why}"
                faults[line.number] = (line.fault, detail, line.text[:SHOWN])
                text = ("" if inside or not odd else '"') + _MARK + ('"' if inside and odd else "")
                text += "\n"
            inside ^= odd
            yield text
        ended = True

    csv.field_size_limit(max(max_bytes, 1))
    if quoted:
        parser = csv.reader(feed(), delimiter=delimiter)
    else:
        parser = csv.reader(feed(), delimiter=delimiter, quoting=csv.QUOTE_NONE)
    while True:
        start = last + 1
        try:
            fields = next(parser)
        except StopIteration:
            return
        except csv.Error as error:
            inside = False
            fields = []
            yield start, ("bad_csv", f"lines {start} to {last}: {error}", "")
        if ended and inside and last > start and fields:
            # The rest of the file is no text of the record in which the mark stands.
            detail = f"lines {start} to {last}: a quotation mark is never closed"
            faults[start] = ("bad_csv", detail, " ".join(fields)[:SHOWN])
        inside = False
        if faults:
            known, faults = faults, {}
            yield from known.items()
        elif any(fields):
            yield start, fields if quoted else [_unquoted(field) for field in fields]


_MARK = "\ud800"


def _unquoted(field: str) -> str:
    """A tab-separated field as it is, or without the quotation marks that enclose all of it."""
    if len(field) >= 2 and field[0] == field[-1] == '"':
        inner = field[1:-1]
        if '"' not in inner.replace('""', ""):
            return inner.replace('""', '"')
    return field


def _parquet_bytes(path: Path) -> BinaryIO:
    """A seekable source: the file, or what its compression holds, in a temporary file."""
    _, compression = format_of(path)
    if not compression:
        try:
            return path.open("rb")
        except OSError as error:
            raise BadInput(f"{path} cannot be read: {error.strerror or error}") from None
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
        raise BadInput(f"{path} is not a whole Parquet file ({first}); fetch it again") from None


def _parquet_file(path: Path, source: BinaryIO) -> pq.ParquetFile:
    with _whole(path):
        return pq.ParquetFile(source)


def parquet_rows(path: Path) -> int:
    """The number of rows in a Parquet file's metadata."""
    with _parquet_bytes(path) as source:
        return int(_parquet_file(path, source).metadata.num_rows)


def _parquet_rows(path: Path, max_bytes: int, columns: Sequence[str] | None) -> Iterator[Row]:
    with _parquet_bytes(path) as source:
        file = _parquet_file(path, source)
        there = Counter(file.schema_arrow.names)
        names = list(there) if columns is None else list(columns)
        if twice := [name for name in names if there[name] > 1]:
            raise BadInput(f"{path} has {there[twice[0]]} columns {twice[0]!r}: rename all but one")
        number = 0
        batches = file.iter_batches(PARQUET_ROWS, columns=names, use_threads=False)
        while True:
            with _whole(path):
                batch = next(batches, None)
            if batch is None:
                return
            held = [_values(batch.column(name)) for name in names]
            for values in zip(*held, strict=True):
                number += 1
                yield _parquet_row(number, dict(zip(names, values, strict=True)), max_bytes)


def _values(column: pa.Array) -> list[Any]:
    """The column's values, strings as bytes: Parquet does not promise that they are UTF-8.

    Of nested columns, only lists of strings are read. A value that Python cannot hold, such as a
    date beyond the year 9999, is read as missing.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = kind.value_type
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


def _parquet_row(number: int, values: dict[str, Any], max_bytes: int) -> Row:
    for column, value in values.items():
        listed = isinstance(value, list)
        read = []
        for one in value if listed else [value]:
            if not isinstance(one, bytes):
                read.append(one)
                continue
            if len(one) > max_bytes:
                shown = one[: 4 * SHOWN].decode("utf-8", "replace")[:SHOWN]
                detail = f"column {column!r} is longer than {max_bytes} bytes"
                return Row(number, {}, ("line_too_long", detail, shown))
            try:
                read.append(one.decode("utf-8"))
            except UnicodeDecodeError:
                shown = one[: 4 * SHOWN].decode("utf-8", "replace")[:SHOWN]
                return Row(number, {}, ("not_utf8", f"column {column!r} is not UTF-8", shown))
        values[column] = read if listed else read[0]
    return Row(number, values, None)
