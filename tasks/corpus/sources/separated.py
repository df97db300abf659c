"""Separated files (.csv, .tsv, .txt as a table): the dialect of each, and its records.

The dialect is found in the file's beginning: the one by which most records have as many fields as
the header. A record that cannot be read by it costs its first line alone; the lines behind that are
read anew, so that a stray quotation mark glues nothing together.
"""

import csv
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from pydantic import Field

from tercet.models.text.unicode import fold
from tercet.tasks.corpus.sources.streams import SHOWN, Line, format_of, lines
from tercet.tasks.stage import Config

RowFault: TypeAlias = tuple[str, str, str]  # reason, detail, text

_DELIMITERS = (",", ";", "\t", "|", "^", "\x01")  # of .csv, the usual one first
# Others, which texts have too: only where almost every record has as many fields as the header.
_RARE = (*_DELIMITERS, *"~:#¦§¬│\x02\x1c\x1d\x1e\x1f")
_SURE = 0.95
# The first line by which a spreadsheet is told what separates.
_HINT = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
BAD = "bad_csv"
_BACKSLASH = "\\"
# What of a file's beginning is looked at to find its dialect.
_LINES, _CHARACTERS = 2000, 1_000_000
_HEADER = 20  # lines in which the header ends
# So many records that cannot be read are a few stray quotation marks.
_FEW = 4
# Stands for a line that cannot be read; no text can hold it.
_MARK = "\ud800"
# The parser's errors by their first ten characters.
_BEHIND = "text stands behind a closing quotation mark"
_UNCLOSED = "a quotation mark is never closed"
_SAID = {"unexpected": _UNCLOSED, "field larg": "a field is longer than ingest.max_line_bytes"}
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


class _Record(NamedTuple):
    """A record, from line `number` on: its fields or its fault.

    exact: whether it is written as the dialect has it. quoted: whether one of its fields begins
    with a quotation mark. unclosed: whether the lines ended within a quoted field.
    """

    number: int
    read: list[str] | RowFault
    exact: bool
    quoted: bool
    unclosed: bool = False


def dialect_of(path: Path, max_bytes: int, given: DialectSettings | None = None) -> Dialect:
    """The dialect of a file, by its beginning, as far as it is not given."""
    settings = given or DialectSettings()
    sample: list[Line] = []
    held, cut = 0, False
    for line in lines(path, max_bytes):
        if len(sample) == _LINES or held > _CHARACTERS:
            cut = True
            break
        sample.append(line)
        held += len(line.text)
    tab_separated = format_of(path)[0] != ".csv"
    best = Dialect("\t" if tab_separated else ",", '"', "")
    hint = _HINT.fullmatch(sample[0].text) if sample else None
    if settings.delimiter is not None:
        best = best._replace(delimiter=settings.delimiter)
    elif hint:
        best = best._replace(delimiter=hint[1])
    else:
        best = _best_delimiter(best, sample, max_bytes, cut)
    quotes = ['"', "'", ""] if settings.quote is None else [settings.quote]
    escapes = ["", _BACKSLASH] if settings.escape is None else [settings.escape]
    best = best._replace(quote=quotes[0], escape=escapes[0])
    found = _tried(best, sample, max_bytes, cut)
    if _occurs(spaced := best._replace(spaced=True), sample):
        tried = _tried(spaced, sample, max_bytes, cut)
        first = all(_is_spaced(line.text, best.delimiter) for line in sample[:_HEADER])
        found = tried if tried.share > found.share or (first and tried.share) else found
        best = found.dialect
    for quote in quotes:
        for escape in escapes:
            other = best._replace(quote=quote, escape=escape)
            if other == found.dialect or not _occurs(other, sample):
                continue
            tried = _tried(other, sample, max_bytes, cut)
            if tried.share > found.share and (quote in (found.dialect.quote, "'") or found.strange):
                found = tried if not tried.strange else found
    return found.dialect


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
    """The fields of the first record; none where it cannot be read."""
    _, header = next(records(path, max_bytes, dialect), (1, None))
    return header if isinstance(header, list) else []


def repeated(header: Sequence[str]) -> list[str]:
    """The columns that `named` joins, in words."""
    counts = Counter(header).items()
    return [f"{count} columns {name!r} read as one" for name, count in counts if count > 1]


def records(
    path: Path, max_bytes: int, dialect: Dialect
) -> Iterator[tuple[int, list[str] | RowFault]]:
    """(line number, fields or fault) of each record that is not blank, the header first."""
    for record in _records(lines(path, max_bytes), dialect, max_bytes):
        yield record.number, record.read


class _Tried(NamedTuple):
    """A dialect, the share of records that are written in it, and whether quoting is strange to it:

    of the records with a quotation mark before a field, most cannot be read.
    """

    dialect: Dialect
    share: float
    strange: bool
    fields: int


def _best_delimiter(usual: Dialect, sample: Sequence[Line], max_bytes: int, cut: bool) -> Dialect:
    marks = _DELIMITERS if usual.delimiter == "," else (usual.delimiter,)
    beginning = "".join(line.text for line in sample[:_HEADER])
    for delimiters, least in ((marks, 0.0), (_RARE, _SURE)):
        others = (usual._replace(delimiter=mark) for mark in delimiters if mark in beginning)
        tried = [_tried(other, sample, max_bytes, cut) for other in others]
        several = [one for one in tried if one.fields > 1 and one.share >= least]
        if several:
            return max(several, key=lambda one: (round(one.share, 2), one.fields)).dialect
    return usual


def _occurs(dialect: Dialect, sample: Sequence[Line]) -> bool:
    """Whether a sample can be written in a dialect other than the usual one."""
    if dialect.spaced:
        return any(dialect.delimiter + " " in line.text for line in sample)
    if dialect.escape:
        marks = (dialect.escape + dialect.quote, dialect.escape + dialect.delimiter)
        ends = any(line.text.endswith(dialect.escape) for line in sample)
        return ends or any(mark in line.text for line in sample for mark in marks)
    return dialect.quote != "'" or any(_opens(line.text, dialect) for line in sample)


def _opens(text: str, dialect: Dialect) -> bool:
    """Whether a field of the line begins with a quotation mark."""
    mark = dialect.quote
    before = dialect.delimiter + " " * dialect.spaced
    return bool(mark) and (text.startswith(mark) or before + mark in text)


def _tried(dialect: Dialect, sample: Sequence[Line], max_bytes: int, cut: bool) -> _Tried:
    found = _records(sample, dialect, max_bytes)
    header = next(found, None)
    if header is None or not isinstance(header.read, list):
        return _Tried(dialect, 0.0, True, 0)
    exact = whole = quoted = quoted_exact = 0
    for record in found:
        if record.unclosed and cut:
            break
        if isinstance(record.read, tuple) and record.read[0] != BAD:
            continue  # no dialect can read it
        fits = record.exact and len(record.read) == len(header.read)
        whole += 1
        exact += fits
        quoted += record.quoted
        quoted_exact += fits and record.quoted
    share = exact / whole if whole else 1.0
    return _Tried(dialect, share, 2 * quoted_exact + _FEW < quoted, len(header.read))


def _is_spaced(text: str, delimiter: str) -> bool:
    """Whether a line has spaces behind its first separator and its last, or is blank."""
    behind = (text.partition(delimiter)[2], text.rpartition(delimiter)[2])
    return not text or all(part.startswith(" ") for part in behind)


class _Feed:
    """Lines as csv reads them. Those of a record can be given back, but for the first."""

    def __init__(self, source: Iterable[Line], dialect: Dialect) -> None:
        self._source = (
            line for line in source if line.number > 1 or not _HINT.fullmatch(line.text)
        )
        self._back: deque[Line] = deque()
        self._inside = False
        self._dialect = dialect
        # A backslash that escapes nothing is itself; at a line's end it escapes the line break.
        followed = re.escape(dialect.quote + dialect.delimiter + dialect.escape)
        escape = re.escape(dialect.escape)
        self._escapes = (
            re.compile(rf"{escape}([{followed}]|$)|{escape}") if dialect.escape else None
        )
        self.taken: list[Line] = []

    def __iter__(self) -> "_Feed":
        return self

    def __next__(self) -> str:
        line = self._back.popleft() if self._back else next(self._source)
        self.taken.append(line)
        text = line.text
        mark = self._dialect.quote
        odd = bool(mark) and (line.quotes if mark == '"' else text.count(mark)) % 2 == 1
        if line.fault:
            # The count of quotation marks stays odd or even, so that records end where they did.
            text = (
                ("" if self._inside or not odd else mark)
                + _MARK
                + (mark if self._inside and odd else "")
            )
        elif self._escapes is not None and self._dialect.escape in text:
            double = 2 * self._dialect.escape
            text = self._escapes.sub(lambda found: double if found[1] is None else found[0], text)
        self._inside ^= odd
        return text + "\n"

    def begin(self) -> None:
        """The lines behind are those of the next record."""
        self.taken = []
        self._inside = False

    def give_back(self) -> None:
        """All lines taken but the first are to be read again."""
        self._back.extendleft(reversed(self.taken[1:]))


def _records(source: Iterable[Line], dialect: Dialect, max_bytes: int) -> Iterator[_Record]:
    csv.field_size_limit(max(max_bytes, 1))
    feed = _Feed(source, dialect)
    parser = csv.reader(
        feed,
        delimiter=dialect.delimiter,
        quotechar=dialect.quote or None,
        escapechar=dialect.escape or None,
        skipinitialspace=dialect.spaced,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        strict=True,
    )
    width = 0  # fields of the header
    open_quote = False  # an earlier line opened a quotation that nothing closed
    while True:
        feed.begin()
        why = ""
        try:
            fields = next(parser)
        except StopIteration:
            return
        except csv.Error as error:
            fields, why = [], _SAID.get(str(error)[:10], _BEHIND)
        taken = feed.taken
        first = taken[0]
        quoted = _opens(first.text, dialect)
        odd = bool(dialect.quote) and first.text.count(dialect.quote) % 2 == 1
        faults = [line for line in taken if line.fault]
        if not (why or faults) and len(taken) > 1 and _wrong(fields, taken, width, dialect):
            why = f"{len(fields)} fields in {len(taken)} lines, the header has {width}"
        if not why and open_quote and width > 1 and (odd or len(fields) != width):
            why = "the rest of a field whose beginning could not be read"
            feed.give_back()
            open_quote = not odd
            yield _fault(first, why, quoted)
            continue
        if why:
            feed.give_back()
            literal = None if first.fault else _literal(first.text, dialect, width)
            if literal is None:
                open_quote = odd and not first.fault
                yield _fault(first, why, quoted, unclosed=why == _UNCLOSED)
                continue
            width = width or len(literal)
            open_quote = False
            yield _Record(first.number, literal, False, quoted)
            continue
        for line in faults:
            yield _fault(line, "", quoted)
        if faults or not any(map(fold, fields)):
            continue
        open_quote = False
        width = width or len(fields)
        if not dialect.quote:
            fields = [_unquoted(field, '"') for field in fields]
        yield _Record(first.number, fields, True, quoted)


def _fault(line: Line, why: str, quoted: bool, unclosed: bool = False) -> _Record:
    reason, text = line.fault or BAD, line.text[:SHOWN]
    if line.fault:
        why = "not UTF-8" if line.fault == "not_utf8" else "longer than ingest.max_line_bytes"
        detail = f"line {line.number} is {why}"
    else:
        detail = f"line {line.number}: {why}"
    return _Record(line.number, (reason, detail, text), False, quoted, unclosed)


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
