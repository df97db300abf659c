"""Separated files (.csv, .tsv, .txt as a table): the dialect of each, and its records.

The dialect is found in the file's beginning: the one by which most records have as many fields as
the header. A record that cannot be read by it costs its first line alone; the lines behind that are
read anew, so that a stray quotation mark glues nothing together.
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

# Between fields, the usual one of a .csv first.
_DELIMITERS = (",", ";", "\t", "|", "^", "~", "\x01", "\x1f", ":")
# A colon, or in a .tsv without tabs any other sign, separates if so many records have as many
# fields as the header.
_SURE = 0.95
# Quotation marks mean nothing where so many more records have the header's fields for it: a few
# stray ones are faults.
_STRANGE = 0.05
# The first line by which a spreadsheet is told what separates.
_HINT = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
BAD = "bad_csv"
_BACKSLASH = "\\"
# What of a file's beginning is looked at to find its dialect.
_LINES, _CHARACTERS = 2000, 1_000_000
_NAMED = {"\t": "a tab", "\x01": "Ctrl-A", ",": "a comma", ";": "a semicolon", ":": "a colon"}


class Dialect(NamedTuple):
    """How a file's fields are written.

    delimiter: between fields. quote: around them, or empty where quotation marks mean nothing.
    escape: in front of a quotation mark within a field, or empty where it stands twice.
    spaced: whether spaces behind the delimiter belong to it.
    """

    delimiter: str
    quote: str
    escape: str
    spaced: bool = False


class DialectSettings(Config):
    """The parts of a dialect that a recipe gives; the others are found."""

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
    """The dialect of a file, by its beginning, as far as it is not given: that by which most
    records have as many fields as the header.
    """
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
    there = set().union(*(line.text for line in sample))
    usual = "," if format_of(path)[0] == ".csv" else "\t"
    marks = [usual, *(mark for mark in _DELIMITERS if mark in there and mark != usual)]
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
        other = best.dialect._replace(quote=quote, escape=escape, spaced=spaced)
        if {quote, escape, " " if spaced else ""} <= {"", *there}:
            found = _tried(other, sample, max_bytes)
            more = found.share > best.share + (0.0 if quote else _STRANGE)
            best = found if more and found.fields >= best.fields else best
    return best.dialect


def unusual(dialect: Dialect, form: str) -> str | None:
    """The dialect in words, if it is not the usual one of such files."""
    said = []
    if dialect.delimiter != ("," if form == ".csv" else "\t") or dialect.spaced:
        name = _NAMED.get(dialect.delimiter, repr(dialect.delimiter))
        said.append(f"fields separated by {name}" + (" and spaces" if dialect.spaced else ""))
    if dialect.quote != '"':
        said.append(f"fields quoted by {dialect.quote}" if dialect.quote else "no quoted fields")
    if dialect.escape:
        said.append(f"quotation marks escaped by {dialect.escape}")
    return ", ".join(said) or None


def named(header: Sequence[str], fields: Sequence[str]) -> dict[str, str]:
    """A record's fields by column. Of columns with one name, the texts that differ are joined."""
    values = dict(zip(header, fields, strict=False))
    if len(values) < min(len(header), len(fields)):
        for name in values:
            cells = [field for key, field in zip(header, fields, strict=False) if key == name]
            values[name] = "\n\n".join(dict.fromkeys(filter(str.strip, cells)))
    return values


def header_of(path: Path, max_bytes: int, dialect: Dialect) -> list[str]:
    """The fields of the first record without spaces around; none where it cannot be read."""
    _, header = next(records(path, max_bytes, dialect), (1, None))
    return [name.strip(" ") for name in header] if isinstance(header, list) else []


def repeated(header: Sequence[str]) -> list[str]:
    """The columns that `named` joins, in words."""
    counts = Counter(header).items()
    return [f"{count} columns {name!r} read as one" for name, count in counts if count > 1]


def records(
    path: Path, max_bytes: int, dialect: Dialect
) -> Iterator[tuple[int, list[str] | RowFault]]:
    """(line number, fields or fault) of each record that is not blank, the header first."""
    for number, read, _ in _records(lines(path, max_bytes), dialect, max_bytes):
        yield number, read


class _Tried(NamedTuple):
    """A dialect, the share of records that are written in it, and the header's fields."""

    dialect: Dialect
    share: float
    fields: int


def _tried(dialect: Dialect, sample: Sequence[Line], max_bytes: int) -> _Tried:
    found = _records(sample, dialect, max_bytes)
    _, header, _ = next(found, (0, None, False))
    if not isinstance(header, list):
        return _Tried(dialect, 0.0, 0)
    # A line that is too long, or not UTF-8, is a fault in any dialect.
    fits = [
        exact and len(read) == len(header)
        for _, read, exact in found
        if isinstance(read, list) or read[0] == BAD
    ]
    return _Tried(dialect, sum(fits) / len(fits) if fits else 1.0, len(header))


def _records(
    source: Iterable[Line], dialect: Dialect, max_bytes: int
) -> Iterator[tuple[int, list[str] | RowFault, bool]]:
    """(line number, fields or fault, whether it is written in the dialect) of each record."""
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
    # A backslash that escapes nothing is itself; at a line's end it escapes the line break.
    followed = re.escape(dialect.quote + dialect.delimiter + dialect.escape)
    escape = re.escape(dialect.escape)
    escapes = re.compile(rf"{escape}([{followed}]|$)|{escape}") if escape else None
    ahead = (line for line in source if line.number > 1 or not _HINT.fullmatch(line.text))
    back: deque[Line] = deque()
    taken: list[Line] = []

    def pulled() -> Iterator[str]:
        """The lines of one record; none behind one of which only the beginning is known."""
        while line := back.popleft() if back else next(ahead, None):
            taken.append(line)
            text = line.text
            if escapes is not None:
                text = escapes.sub(lambda it: 2 * it[0] if it[1] is None else it[0], text)
            yield text + "\n"
            if line.fault == "line_too_long":
                return

    width = 0  # fields of the header
    open_quote = False  # an earlier line opened a quotation that nothing closed
    while True:
        taken.clear()
        why = ""
        try:
            fields = next(csv.reader(pulled(), form), [])
        except csv.Error as error:
            fields, why = [], f"its quotation marks cannot be read ({error})"
        if not taken:
            return
        first = taken[0]
        odd = bool(dialect.quote) and first.text.count(dialect.quote) % 2 == 1
        faults = [line for line in taken if line.fault]
        if not (why or faults) and len(taken) > 1 and _wrong(fields, taken, width, dialect):
            why = f"{len(fields)} fields in {len(taken)} lines, the header has {width}"
        closes = len(fields) != width or (odd and len(taken) == 1)
        rest = not why and open_quote and width > 1 and closes
        if why or rest:
            back.extendleft(reversed(taken[1:]))
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


def _wrong(fields: Sequence[str], taken: Sequence[Line], width: int, dialect: Dialect) -> bool:
    """Whether a record of several lines is none: too few fields or too many.

    Nor where each line alone has as many tabs as a record has, which texts hardly hold.
    """
    if not width:
        return False
    if len(fields) < width or any(field.strip() for field in fields[width:]):
        return True
    tabs = [line.text.count("\t") + 1 for line in taken]
    return dialect.delimiter == "\t" and width > 1 and set(tabs) == {width}


def _literal(text: str, dialect: Dialect, width: int) -> list[str] | None:
    """A line as people write it who do not double quotation marks; None if it is not of the width.

    width: fields of the header, or 0 for the header itself.
    """
    mark = dialect.quote
    if not mark or (dialect.escape or _BACKSLASH) + mark in text:
        return None
    fields = text.split(dialect.delimiter) if width != 1 else [text]
    if (width and len(fields) != width) or any(field.count(mark) % 2 for field in fields):
        return None
    return [_unquoted(field, mark) for field in fields]


def _unquoted(field: str, mark: str) -> str:
    """A field as it is, or without the quotation marks that enclose all of it."""
    bare = field.strip()
    if len(bare) >= 2 and bare[0] == bare[-1] == mark:
        inner = bare[1:-1]
        single = inner.replace(2 * mark, "")
        opening = inner.find(mark)
        # In front of a quotation within is a space; else the first mark is closed by this one.
        if mark not in single or (opening > 0 and inner[opening - 1].isspace()):
            return inner.replace(2 * mark, mark)
    return field
