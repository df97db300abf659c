"""Separated files (.csv, .tsv, .txt as a table): finds each file's dialect and reads its records.

The dialect is the one by which most records at the file's beginning have as many fields as the
header. A record that cannot be read costs only its first line; the following lines are read again,
so that a stray quotation mark joins no rows.

DuckDB's sniffer cannot replace this: with one stray quotation mark in 300 rows it silently cuts all
texts at their commas, or rejects the file.
"""

import csv
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from tercet.models.text.words import fold
from tercet.tasks.corpus.sources.streams import (
    SHOWN,
    Line,
    RowFault,
    fault_of,
    format_of,
    lines,
)
from tercet.tasks.stage import Config

# Delimiters, the usual one of a .csv first.
_DELIMITERS = (",", ";", "\t", "|", "^", "~", "\x01", "\x1f", ":")
# The share of records with the header's number of fields from which a colon, or in a .tsv without
# tabs any other sign, is the delimiter.
_SURE = 0.95
# Quotation marks count as text if that raises the share of records with the header's number of
# fields by this much; otherwise stray quotation marks are faults.
_STRANGE = 0.05
# The first line by which Excel learns the delimiter.
_HINT = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
BAD = "bad_csv"
_BACKSLASH = "\\"
# The size of the beginning in which the dialect is sought.
_LINES, _CHARACTERS = 2000, 1_000_000
_NAMED = {"\t": "a tab", "\x01": "Ctrl-A", ",": "a comma", ";": "a semicolon", ":": "a colon"}


class Dialect(NamedTuple):
    """How a file's fields are written.

    delimiter: between fields. quote: around fields; empty: quotation marks are text. escape: before
    a quotation mark within a field; empty: it is doubled. spaced: whether spaces after the
    delimiter belong to it.
    """

    delimiter: str
    quote: str
    escape: str
    spaced: bool = False


class DialectSettings(Config):
    """The parts of a dialect that a recipe gives; all other parts are guessed from the file."""

    delimiter: str | None = Field(
        default=None,
        min_length=1,
        max_length=1,
        description="Between the fields of a `.csv` or `.tsv`",
    )
    quote: str | None = Field(
        default=None,
        max_length=1,
        description="Around a field; empty: quotation marks mean nothing",
    )
    escape: str | None = Field(
        default=None,
        max_length=1,
        description="Before a quotation mark within a field; empty: it is written twice",
    )


def dialect_of(path: Path, max_bytes: int, given: DialectSettings | None = None) -> Dialect:
    """The dialect of a file, found in its beginning except for the given parts."""
    settings = given or DialectSettings()
    quotes = ['"', "'", ""] if settings.quote is None else [settings.quote]
    escapes = ["", _BACKSLASH] if settings.escape is None else [settings.escape]
    sample: list[Line] = []
    held = 0
    for line in lines(path, max_bytes):
        sample.append(line)
        held += len(line.text)
        if len(sample) == _LINES or held > _CHARACTERS:
            break
    characters = set().union(*(line.text for line in sample))
    usual = "," if format_of(path)[0] == ".csv" else "\t"
    marks = [usual, *(mark for mark in _DELIMITERS if mark in characters and mark != usual)]
    if hint := sample and _HINT.fullmatch(sample[0].text):
        marks = [hint[1]]
    if settings.delimiter is not None:
        marks = [settings.delimiter]

    tried = [_tried(Dialect(mark, quotes[0], escapes[0]), sample, max_bytes) for mark in marks]
    best = tried[0]
    if usual == "," or best.fields < 2:
        certain = {":"} if usual == "," else set(marks)
        several = [
            one
            for one in tried
            if one.fields > 1 and (one.share >= _SURE or one.dialect.delimiter not in certain)
        ]
        best = max(several, key=lambda one: (round(one.share, 2), one.fields), default=best)
    if sample and quotes[0] and f"{best.dialect.delimiter} {quotes[0]}" in sample[0].text:
        best = _tried(best.dialect._replace(spaced=True), sample, max_bytes)
    for spaced, quote, escape in product((False, True), quotes, escapes):
        if best.share == 1.0:
            break
        dialect = best.dialect._replace(quote=quote, escape=escape, spaced=spaced)
        if {quote, escape, " " if spaced else ""} <= {"", *characters}:
            other = _tried(dialect, sample, max_bytes)
            better = other.share > best.share + (0.0 if quote else _STRANGE)
            best = other if better and other.fields >= best.fields else best
    return best.dialect


def unusual(dialect: Dialect, form: str) -> str | None:
    """A description of the dialect's differences from the usual one of such files, if any."""
    differences = []
    if dialect.delimiter != ("," if form == ".csv" else "\t") or dialect.spaced:
        name = _NAMED.get(dialect.delimiter, repr(dialect.delimiter))
        spaces = " and spaces" if dialect.spaced else ""
        differences.append(f"fields separated by {name}{spaces}")
    if dialect.quote != '"':
        quoted = f"fields quoted by {dialect.quote}" if dialect.quote else "no quoted fields"
        differences.append(quoted)
    if dialect.escape:
        differences.append(f"quotation marks escaped by {dialect.escape}")
    return ", ".join(differences) or None


def named(header: Sequence[str], fields: Sequence[str]) -> dict[str, str]:
    """A record's fields by column; different texts in columns of one name are joined."""
    values = dict(zip(header, fields, strict=False))
    if len(values) < min(len(header), len(fields)):
        for name in values:
            cells = [field for key, field in zip(header, fields, strict=False) if key == name]
            values[name] = "\n\n".join(dict.fromkeys(filter(str.strip, cells)))
    return values


def header_of(path: Path, max_bytes: int, dialect: Dialect) -> list[str]:
    """The stripped fields of the first record; none if it cannot be read."""
    _, header = next(records(path, max_bytes, dialect), (1, None))
    return [name.strip(" ") for name in header] if isinstance(header, list) else []


def repeated(header: Sequence[str]) -> list[str]:
    """Descriptions of the columns that `named` joins."""
    counts = Counter(header).items()
    return [f"{count} columns {name!r} read as one" for name, count in counts if count > 1]


def records(
    path: Path, max_bytes: int, dialect: Dialect
) -> Iterator[tuple[int, list[str] | RowFault]]:
    """(line number, fields or fault) of each record that is not blank, header first."""
    for number, read, _ in _records(lines(path, max_bytes), dialect, max_bytes):
        yield number, read


class _Tried(NamedTuple):
    """A dialect, the share of records that fit it, and the number of fields of the header."""

    dialect: Dialect
    share: float
    fields: int


def _tried(dialect: Dialect, sample: Sequence[Line], max_bytes: int) -> _Tried:
    records = _records(sample, dialect, max_bytes)
    _, header, _ = next(records, (0, None, False))
    if not isinstance(header, list):
        return _Tried(dialect, 0.0, 0)
    # Too long lines, and lines that are not UTF-8, are faults in any dialect.
    fits = [
        exact and len(record) == len(header)
        for _, record, exact in records
        if isinstance(record, list) or record[0] == BAD
    ]
    return _Tried(dialect, sum(fits) / len(fits) if fits else 1.0, len(header))


def _records(
    source: Iterable[Line], dialect: Dialect, max_bytes: int
) -> Iterator[tuple[int, list[str] | RowFault, bool]]:
    """(line number, fields or fault, whether it fits the dialect) of each record."""
    csv.field_size_limit(max(max_bytes, 1))
    form = csv.reader(
        (),
        delimiter=dialect.delimiter,
        quotechar=dialect.quote or None,
        escapechar=dialect.escape or None,
        skipinitialspace=dialect.spaced,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        strict=True,
    ).dialect
    # A backslash that escapes nothing is text; at a line's end it escapes the line break.
    followed = re.escape(dialect.quote + dialect.delimiter + dialect.escape)
    escape = re.escape(dialect.escape)
    escapes = re.compile(rf"{escape}([{followed}]|$)|{escape}") if escape else None
    ahead = (line for line in source if line.number > 1 or not _HINT.fullmatch(line.text))
    back: deque[Line] = deque()
    record: list[Line] = []

    def pulled() -> Iterator[str]:
        """The lines of one record; it ends after a too long line, whose end is unknown."""
        while line := back.popleft() if back else next(ahead, None):
            record.append(line)
            text = line.text
            if escapes is not None:
                text = escapes.sub(lambda it: 2 * it[0] if it[1] is None else it[0], text)
            yield text + "\n"
            if line.fault == "line_too_long":
                return

    width = 0  # the header's number of fields
    open_quote = False  # an earlier line has a quotation mark that nothing closed
    while True:
        record.clear()
        why = ""
        try:
            fields = next(csv.reader(pulled(), form), [])
        except csv.Error as error:
            fields, why = [], f"its quotation marks cannot be read ({error})"
        if not record:
            return
        first = record[0]
        odd = bool(dialect.quote) and first.text.count(dialect.quote) % 2 == 1
        faults = [line for line in record if line.fault]
        if not (why or faults) and len(record) > 1 and _wrong(fields, record, width, dialect):
            why = f"{len(fields)} fields in {len(record)} lines, the header has {width}"
        closes = len(fields) != width or (odd and len(record) == 1)
        rest = not why and open_quote and width > 1 and closes
        if why or rest:
            back.extendleft(reversed(record[1:]))
            literal = None if first.fault or rest else _literal(first.text, dialect, width)
            if literal is None:
                open_quote = odd != rest
                why = why or "the rest of a field whose beginning could not be read"
                fault = BAD, f"line {first.number}: {why}", first.text[:SHOWN]
                yield first.number, fault_of(first, max_bytes) if first.fault else fault, False
                continue
            fields = literal
        elif faults:
            for line in faults:
                yield line.number, fault_of(line, max_bytes), False
            continue
        if any(map(fold, fields)):
            open_quote = False
            width = width or len(fields)
            if not dialect.quote:
                fields = [_unquoted(field, '"') for field in fields]
            yield first.number, fields, not why


def _wrong(fields: Sequence[str], record: Sequence[Line], width: int, dialect: Dialect) -> bool:
    """Whether several lines are not one record: they have too few or too many fields, or in a .tsv
    each line has the fields of a record.
    """
    if not width:
        return False
    if len(fields) < width or any(field.strip() for field in fields[width:]):
        return True
    tabs = [line.text.count("\t") + 1 for line in record]
    return dialect.delimiter == "\t" and width > 1 and set(tabs) == {width}


def _literal(text: str, dialect: Dialect, width: int) -> list[str] | None:
    """The fields of a line in which quotation marks within fields are not doubled; None if it has
    not `width` fields.

    width: the header's number of fields, or 0 for the header itself.
    """
    mark = dialect.quote
    if not mark or (dialect.escape or _BACKSLASH) + mark in text:
        return None
    fields = text.split(dialect.delimiter) if width != 1 else [text]
    if (width and len(fields) != width) or any(field.count(mark) % 2 for field in fields):
        return None
    return [_unquoted(field, mark) for field in fields]


def _unquoted(field: str, mark: str) -> str:
    """A field without the quotation marks that enclose all of it, if there are any."""
    bare = field.strip()
    if len(bare) >= 2 and bare[0] == bare[-1] == mark:
        inner = bare[1:-1]
        single = inner.replace(2 * mark, "")
        opening = inner.find(mark)
        # A space precedes an inner quotation; otherwise the inner mark closes the first one.
        if mark not in single or (opening > 0 and inner[opening - 1].isspace()):
            return inner.replace(2 * mark, mark)
    return field
