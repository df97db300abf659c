"""Describes a source by its beginning, so that a recipe can be fitted to it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from tercet.models.text.lengths import count_words, is_unspaced
from tercet.models.text.unicode import fold
from tercet.tasks.corpus.sources import files, prose, pydocs, separated, tables
from tercet.tasks.corpus.sources.cells import missing
from tercet.tasks.corpus.sources.columns import FilledPair, labels_of, pair_of, repeated_pair
from tercet.tasks.corpus.sources.corpora import CorpusConfig, Document, Fault, Reading
from tercet.tasks.corpus.sources.registry import reader_of
from tercet.tasks.corpus.sources.streams import (
    PLAIN,
    SEPARATED,
    conversion,
    decompressed,
    format_of,
    lines,
    readable,
    with_line_feeds,
)
from tercet.tasks.corpus.sources.tables import Row
from tercet.tasks.corpus.sources.text_column import text_column
from tercet.tasks.stage import BadInput

SAMPLE = 500  # rows looked at
# Rows, and characters of them, in which labels are looked for: a table may be ordered by them.
_LABELLED, _LABELLED_CHARACTERS = 20_000, 8_000_000
MAX_BYTES = 1_000_000
_COUNTED = 8_000_000  # bytes behind the sample that are read to see how rows are spread
PROSE_SENTENCES = 1.5  # sentences a line, on average, from which lines count as prose

Prose: TypeAlias = bool | Literal["lines"]


@dataclass(frozen=True)
class Description:
    """What the first rows of a source show.

    format: such as '.jsonl', 'pydocs' or 'hf'. compression: '', '.gz' or '.zst'.
    files: how many files the source means; None if it is not made of files.
    unit: what a row is: lines, rows, documents (of prose) or docstrings.
    columns: of a table, else (). text: the column found, or None.
    packages: for pydocs, those that are installed, else ().
    paired: whether the documents come with natural pairs of themselves.
    rows: how many units, estimated unless `exact`.
    mean_words: of a sentence. mean_sentences: of a row.
    prose: whether rows are texts of several sentences; `lines`: each line of a file is one.
    pair: the columns of a natural pair. labels: columns of few values, the likeliest first.
    dialect: how the fields of a separated file are written, if not as usual.
    unspaced: whether most texts are in a script that puts no spaces between words.
    not_utf8: how many of the rows looked at, `looked_at`, could not be decoded.
    left_out: of a folder, how many files of other kinds it holds.
    lengths: the words of each sentence looked at.
    repeated: columns that would be the pair if fewer of their questions were the same.
    """

    source: str
    format: str
    compression: str
    files: int | None
    unit: str
    columns: tuple[str, ...]
    text: str | None
    packages: tuple[str, ...]
    paired: bool
    rows: int
    exact: bool
    mean_words: float
    mean_sentences: float
    prose: Prose
    pair: tuple[str, str] | None = None
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    not_utf8: int = 0
    looked_at: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()
    repeated: FilledPair | None = None
    dialect: str | None = None
    unspaced: bool = False

    @property
    def counted(self) -> str:
        """The rows in words: `about 1,200 lines`."""
        unit = self.unit.removesuffix("s") if self.rows == 1 else self.unit
        return f"{'' if self.exact else 'about '}{self.rows:,} {unit}"

    @property
    def shape(self) -> Literal["pairs", "paragraphs", "sentences"]:
        """What a recipe has to know: what there is besides single sentences."""
        if self.paired or self.pair is not None:
            return "pairs"
        return "paragraphs" if self.prose else "sentences"


def describe(source: str, limit: int | None = None) -> Description:
    """Describe a source by its first rows and its size; limit: only so many rows are to be read.

    Raises:
        BadInput: no such source, an empty one, a kind that no reader knows, or no text in it.
    """
    own = {files.READER.name: _files, pydocs.READER.name: _pydocs}
    return own.get(reader_of(source).name, _sampled)(source, limit)


def _sampled(source: str, limit: int | None) -> Description:
    """By the first rows alone, for a source whose size is not known."""
    corpus = CorpusConfig(name="corpus", source=source)
    reader = reader_of(source)
    reader.check(corpus, MAX_BYTES)
    readings = list(islice(reader.read(corpus, MAX_BYTES), SAMPLE))
    seen = _Seen((), None, None, {})
    for table in islice(reader.tables(corpus, MAX_BYTES), 1):
        seen = _seen(source, table.columns, islice(table.rows(table.columns), limit))
    words, sentences = _means(readings)
    if not words:
        raise BadInput(f"{source}: none of its first rows holds text; name its column")
    return Description(
        source, source.partition(":")[0], "", None, "rows", seen.columns, seen.text, (),
        reader.has_pairs(corpus), len(readings), len(readings) < SAMPLE, words, sentences,
        sentences >= PROSE_SENTENCES, seen.pair, seen.labels, _not_utf8(readings), len(readings),
        lengths=_lengths(readings), repeated=seen.repeated, unspaced=_unspaced(readings),
    )  # fmt: skip


def _pydocs(source: str, limit: int | None) -> Description:
    corpus = CorpusConfig(name="docs", source=source)
    packages = pydocs.packages_of(corpus)
    count = sum(len(pydocs.source_files(package)) for package in packages)
    looked_at = CorpusConfig(name="docs", source=source, packages=packages, files=2)
    readings = list(pydocs.read(looked_at, MAX_BYTES))
    documents = sum(isinstance(reading, Document) for reading in readings)
    per_file = documents / (2 * len(packages))
    words, sentences = _means(readings)
    return Description(
        source, source, "", None, "docstrings", (), None, tuple(packages), True,
        round(per_file * count), False, words, sentences, True,
    )  # fmt: skip


def _files(source: str, limit: int | None) -> Description:
    named = files.files_of(source)
    first = _filled(named)
    form, compression = format_of(first)
    # Not validated: a file's name need not be UTF-8.
    corpus = CorpusConfig(name="corpus", source=source).model_copy(update={"source": str(first)})
    files.check(corpus, MAX_BYTES)
    seen = _Seen((), None, None, {})
    dialect = None
    is_prose: Prose = True
    if form == ".txt":
        is_prose = _prose_of(first)
    elif form not in PLAIN:
        columns = tables.columns_of(first, MAX_BYTES)
        seen = _seen(str(first), columns, islice(tables.rows(first, MAX_BYTES), limit))
        if form in SEPARATED:
            dialect = separated.unusual(separated.dialect_of(first, MAX_BYTES), form)
    # Prose is seen across files, which may be documents of one paragraph.
    several = form in PLAIN and is_prose is True
    where = source if several else corpus.source
    corpus = corpus.model_copy(update={"source": where, "prose": is_prose, "text": seen.text})
    readings = list(islice(files.read(corpus, MAX_BYTES), SAMPLE))
    words, sentences = _means(readings)
    if not words:
        hint = "look at its text"
        faults = [reading for reading in readings if isinstance(reading, Fault)]
        if _not_utf8(readings):
            hint = f"if it is Latin-1: {conversion(source)}"
        elif faults:
            hint = f"the first of them: {faults[0].detail}"
        raise BadInput(f"{first}: none of its first rows holds text; {hint}")
    if form not in PLAIN:
        is_prose = sentences >= PROSE_SENTENCES
    if several:
        unit = "documents"
        rows, exact = _documents(named, readings)
    else:
        unit = "lines" if form in PLAIN else "rows"
        rows, exact = _rows(named, first, form)
    return Description(
        source, form, compression, len(named), unit, seen.columns, seen.text, (), False, rows,
        exact, words, sentences, is_prose, seen.pair, seen.labels, _not_utf8(readings),
        len(readings), _left_out(Path(source)), _lengths(readings), seen.repeated, dialect,
        _unspaced(readings),
    )  # fmt: skip


def _filled(named: list[tuple[str, Path]]) -> Path:
    """The first file that holds a text; the first one where none does."""
    if len(named) > 1:
        for _, path in named:
            if _holds_text(path):
                return path
    return named[0][1]


def _holds_text(path: Path) -> bool:
    """Whether one of the file's first rows does."""
    form = format_of(path)[0]
    if form in PLAIN:
        return next(_row_lines(path, form), None) is not None
    sample = list(tables.first_rows(path, MAX_BYTES))
    try:
        text = text_column(str(path), tables.columns_of(path, MAX_BYTES), sample)
    except BadInput:
        return False
    values = (row.values.get(text) for row in sample)
    return any(isinstance(value, str) and fold(value) and not missing(value) for value in values)


def _left_out(folder: Path) -> dict[str, int]:
    """How many files of each kind but the most frequent one a folder holds."""
    kinds = files.kinds_of(folder) if folder.is_dir() else {}
    return {kind: len(named) for kind, named in list(kinds.items())[1:]}


@dataclass(frozen=True)
class _Seen:
    """What the first rows of a table show."""

    columns: tuple[str, ...]
    text: str | None
    pair: tuple[str, str] | None
    labels: Mapping[str, tuple[str, ...]]
    repeated: FilledPair | None = None


def _seen(where: str, columns: Sequence[str], rows: Iterator[Row]) -> _Seen:
    sample = []
    characters = 0
    for row in islice(rows, _LABELLED):
        sample.append(row)
        characters += sum(len(value) for value in row.values.values() if isinstance(value, str))
        if characters > _LABELLED_CHARACTERS:
            break
    first = sample[: tables.SAMPLE_ROWS]
    worded = [column for column in columns if not _numbers(column, sample)]
    if columns and not worded:
        named = ", ".join(map(repr, columns))
        raise BadInput(f"{where}: no column holds text; its columns, {named}, hold numbers alone")
    text = text_column(where, worded, first)
    pair = pair_of(columns, sample[:SAMPLE])
    repeated = None if pair else repeated_pair(columns, sample[:SAMPLE])
    labels = labels_of(columns, sample, (text, *(pair or ())))
    return _Seen(tuple(columns), text, pair, labels, repeated)


def _numbers(column: str, sample: Sequence[Row]) -> bool:
    """Whether all values of a column are numbers; those of separated files come as strings."""
    values = [row.values.get(column) for row in sample]
    there = [value for value in values if not missing(value)]
    return bool(there) and all(map(_number, there))


def _number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except OverflowError:
        return True
    except (TypeError, ValueError):
        return False
    return True


def _not_utf8(readings: Sequence[Reading]) -> int:
    return sum(isinstance(read, Fault) and read.reason == "not_utf8" for read in readings)


def _prose_of(path: Path) -> Prose:
    """Lines of several sentences, or lines that break off and go on, with blank ones between."""
    sample = [line.text.strip() for line in islice(lines(path, MAX_BYTES), SAMPLE)]
    filled = [folded for line in sample if (folded := fold(line))]
    if not filled:
        return False
    sentences = sum(len(prose.sentences(line)) for line in filled) / len(filled)
    blank = len(sample) - len(filled)
    broken = sum(line[-1] not in ".!?\"'”’)" for line in filled) / len(filled)
    continued = sum(line[0].islower() for line in filled) / len(filled)
    wrapped = blank > 0 and (broken > 0.5 or continued > 0.2)
    if sentences >= PROSE_SENTENCES and blank < len(filled) / 10 and not wrapped:
        return "lines"
    return sentences >= PROSE_SENTENCES or wrapped


def _means(readings: list[Reading]) -> tuple[float, float]:
    """Mean words of a sentence and mean sentences of a document; zeros where there is none."""
    lengths = _lengths(readings)
    if not lengths:
        return 0.0, 0.0
    documents = sum(isinstance(reading, Document) for reading in readings)
    return sum(lengths) / len(lengths), len(lengths) / documents


def _lengths(readings: Sequence[Reading]) -> tuple[int, ...]:
    """Words of each sentence."""
    documents = (reading for reading in readings if isinstance(reading, Document))
    texts = (text for read in documents for part in read.paragraphs for text in part)
    return tuple(count_words(text) for text in texts)


def _unspaced(readings: Sequence[Reading]) -> bool:
    """Whether most sentences are in a script without spaces."""
    documents = (reading for reading in readings if isinstance(reading, Document))
    texts = [text for read in documents for part in read.paragraphs for text in part]
    return 2 * sum(map(is_unspaced, texts)) > len(texts)


def _documents(named: list[tuple[str, Path]], readings: list[Reading]) -> tuple[int, bool]:
    """Documents of prose in all the files, and whether they were counted.

    readings: at most SAMPLE, in the files' order.
    """
    if len(readings) < SAMPLE:
        return sum(isinstance(reading, Document) for reading in readings), True
    last = readings[-1]
    whole = [reading for reading in readings if reading.source != last.source]
    if not whole:
        # It begins at the line that is the end of those before it.
        start = _start(dict(named)[last.source])
        by_bytes = int(last.path.rpartition(":")[2]) * start.size / max(start.breaks, 1)
        counted = len(readings)
    else:
        names = {reading.source for reading in whole}
        by_bytes = sum(path.stat().st_size for name, path in named if name in names)
        counted = len(whole)
    size = sum(path.stat().st_size for _, path in named)
    return max(round(counted * size / max(by_bytes, 1)), len(readings), len(named)), False


def _rows(named: list[tuple[str, Path]], first: Path, form: str) -> tuple[int, bool]:
    """Rows of all the files, and whether they were counted rather than estimated.

    first: the first that holds a row.
    """
    size = sum(path.stat().st_size for _, path in named)
    if form == ".parquet":
        count = sum(tables.parquet_rows(path) for _, path in named)
        return count, True
    start = _start(first)
    seen = takewhile(lambda line: start.whole or line <= start.breaks, _row_lines(first, form))
    counted = sum(1 for _ in seen)
    if start.whole and len(named) == 1:
        return max(counted, 1), True
    header = form in SEPARATED
    estimated = (counted + header) * size / max(start.size, 1) - header * len(named)
    return max(round(estimated), 1), False


class _Start(NamedTuple):
    """A file's beginning: its line breaks, its bytes as they lie on disk, whether it is all."""

    breaks: int
    size: int
    whole: bool


def _start(path: Path) -> _Start:
    breaks, done = 0, 0
    compression = format_of(path)[1]
    with readable(path), path.open("rb") as file, decompressed(file, compression) as stream:
        for chunk in with_line_feeds(stream):
            breaks += chunk.count(b"\n")
            done += len(chunk)
            if done >= _COUNTED:
                break
        whole = not stream.read(1)
        return _Start(breaks, file.tell(), whole)


def _row_lines(path: Path, form: str) -> Iterator[int]:
    """The number of the line in which each row begins, of the rows that are read."""
    if form in PLAIN:
        return (line.number for line in lines(path, MAX_BYTES) if fold(line.text))
    return (row.number for row in tables.rows(path, MAX_BYTES))
