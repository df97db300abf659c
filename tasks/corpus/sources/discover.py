"""Describes a source by its beginning, to fit a recipe to it; and describes the guesses of reading
it: column, encoding and dialect.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from tercet.models.text.languages import share_of_english
from tercet.models.text.words import count_words, fold, is_unspaced
from tercet.tasks.corpus.sources import files, hub, pydocs, separated, tables
from tercet.tasks.corpus.sources.columns import (
    Column,
    FilledPair,
    is_number,
    labels_of,
    looks_of,
    pairs_of,
)
from tercet.tasks.corpus.sources.corpora import (
    CorpusConfig,
    Document,
    Fault,
    Reading,
    split_sentences,
)
from tercet.tasks.corpus.sources.registry import reader_of
from tercet.tasks.corpus.sources.streams import (
    PLAIN,
    SEPARATED,
    decompressed,
    encoding_in_words,
    format_of,
    lines,
    readable,
    with_line_feeds,
)
from tercet.tasks.corpus.sources.tables import Row, first_rows, joined, missing
from tercet.tasks.corpus.sources.values import text_column, wanted_columns
from tercet.tasks.stage import BadInput

SAMPLE = 500  # rows to look at
# Rows and characters to search for labels, since a table may be sorted by label.
_LABELLED, _LABELLED_CHARACTERS = 20_000, 8_000_000
MAX_BYTES = 1_000_000
_COUNTED = 8_000_000  # bytes that are read to estimate the number of rows
PROSE_SENTENCES = 1.5  # the least mean of sentences a line of prose

Prose: TypeAlias = bool | Literal["lines"]


@dataclass(frozen=True)
class Description:
    """A description of a source by its first rows.

    format: such as '.jsonl', '.html and .md', 'pydocs' or 'hf'. compression: '', '.gz' or '.zst'.
    files: number of files; None if the source is not made of files.
    unit: of rows: lines, rows, documents (of prose) or docstrings.
    columns: of a table, else (). looks: what the columns look like. text: the text's column, or
        None.
    packages: for pydocs, the installed ones, else ().
    paired: whether the reader finds natural pairs in documents by itself, without columns. titled:
    whether more than a
        tenth of them have a title or a heading.
    rows: number of units, estimated unless `exact`.
    mean_words: of a sentence. mean_sentences: of a row.
    prose: whether rows are texts of several sentences; `lines`: each line of a file is one.
    pair: the columns of a natural pair. labels: columns of few values, the likeliest first.
    dialect: description of a separated file's dialect, if it is unusual.
    read_as: descriptions of an encoding other than UTF-8, and of columns with equal names.
    unspaced: whether most texts are in a script without spaces.
    left_out: numbers of a folder's files of other readable kinds. unread: numbers of its unreadable
        and hidden files.
    english: the share of words that are among the commonest of English; None if there are few.
    lengths: numbers of words of the sentences looked at.
    pairs: columns that may be a pair, the likeliest first: `pair`, and pairs whose questions repeat
        or that only their values suggest.
    """

    source: str
    format: str
    unit: str
    rows: int
    exact: bool
    prose: Prose
    mean_words: float
    mean_sentences: float
    lengths: tuple[int, ...]
    unspaced: bool
    english: float | None
    compression: str = ""
    files: int | None = None
    columns: tuple[str, ...] = ()
    text: str | None = None
    packages: tuple[str, ...] = ()
    paired: bool = False
    titled: bool = False
    pair: tuple[str, str] | None = None
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)
    looks: tuple[Column, ...] = ()
    pairs: tuple[FilledPair, ...] = ()
    dialect: str | None = None
    read_as: Sequence[str] = ()

    @property
    def counted(self) -> str:
        """The rows in words: `about 1,200 lines`."""
        unit = self.unit.removesuffix("s") if self.rows == 1 else self.unit
        return f"{'' if self.exact else 'about '}{self.rows:,} {unit}"

    @property
    def shape(self) -> Literal["pairs", "paragraphs", "sentences"]:
        """The form of the texts, for a recipe."""
        if self.paired or self.pair is not None:
            return "pairs"
        return "paragraphs" if self.prose else "sentences"


def describe(source: str, limit: int | None = None) -> Description:
    """Describes a source by its first rows and its size. limit: most rows to read.

    Raises:
        BadInput: the source is missing, empty, unreadable or without text.
    """
    describers = {files.READER.name: _files, pydocs.READER.name: _pydocs}
    return describers.get(reader_of(source).name, _sampled)(source, limit)


def _sampled(source: str, limit: int | None) -> Description:
    """Describes a source of unknown size by its first rows alone."""
    corpus = CorpusConfig(name="corpus", source=source)
    reader = reader_of(source)
    reader.check(corpus, MAX_BYTES)
    readings = list(islice(reader.read(corpus, MAX_BYTES), SAMPLE))
    fields = {}
    for table in islice(reader.tables(corpus, MAX_BYTES), 1):
        fields = _seen(source, table.columns, islice(table.all_rows(), limit))
    read = _read(readings)
    if not read["lengths"]:
        raise BadInput(
            "missing_column", f"{source}: none of its first rows holds text; name its column"
        )
    return Description(
        source=source,
        format=source.partition(":")[0],
        unit="rows",
        rows=len(readings),
        exact=len(readings) < SAMPLE,
        prose=read["mean_sentences"] >= PROSE_SENTENCES,
        paired=reader.has_pairs(corpus),
        **fields,
        **read,
    )


def _pydocs(source: str, limit: int | None) -> Description:
    corpus = CorpusConfig(name="docs", source=source)
    packages = pydocs.packages_of(corpus)
    count = sum(len(pydocs.source_files(package)) for package in packages)
    looked_at = CorpusConfig(name="docs", source=source, packages=packages, files=2)
    readings = list(pydocs.read(looked_at, MAX_BYTES))
    per_file = len(_documents(readings)) / (2 * len(packages))
    return Description(
        source=source,
        format=source,
        unit="docstrings",
        rows=round(per_file * count),
        exact=False,
        prose=True,
        packages=tuple(packages),
        paired=True,
        **_read(readings),
    )


def _files(source: str, limit: int | None) -> Description:
    named = files.files_of(source)
    # The first file with text, else the first file.
    name, first = next((one for one in named if _holds_text(one[1])), named[0])
    form, compression = format_of(first)
    # Not validated, since a file's name need not be UTF-8.
    corpus = CorpusConfig(name="corpus", source=source).model_copy(update={"source": str(first)})
    files.check(corpus, MAX_BYTES)
    fields: dict[str, Any] = {}
    read_as = encoding_in_words(first)
    is_prose: Prose = True
    if form == ".txt":
        is_prose = _prose_of(first)
    elif form not in PLAIN:
        table = files.table_of(corpus, name, first, MAX_BYTES)
        fields = _seen(str(first), table.columns, islice(table.all_rows(), limit))
        corpus = corpus.model_copy(update={"text": fields["text"]})
        if form in SEPARATED:
            dialect = separated.dialect_of(first, MAX_BYTES)
            fields["dialect"] = separated.unusual(dialect, form)
            read_as += separated.repeated(separated.header_of(first, MAX_BYTES, dialect))
    # Prose is sampled across files, which may be documents of one paragraph.
    several = form in PLAIN and is_prose is True
    where = source if several else corpus.source
    corpus = corpus.model_copy(update={"source": where, "prose": is_prose})
    readings = list(islice(files.read(corpus, MAX_BYTES), SAMPLE))
    read = _read(readings)
    if not read["lengths"]:
        hint = "look at its text"
        faults = [reading for reading in readings if isinstance(reading, Fault)]
        if faults:
            hint = f"the first of them: {faults[0].detail}"
        raise BadInput("missing_column", f"{first}: none of its first rows holds text; {hint}")
    if form not in PLAIN:
        is_prose = read["mean_sentences"] >= PROSE_SENTENCES
    rows, exact = _count_documents(named, readings) if several else _count_rows(named, first, form)
    # A folder's files of all kinds but the most frequent one.
    folder = Path(source) if Path(source).is_dir() else None
    others = list(files.kinds_of(folder).items())[1:] if folder else []
    return Description(
        source=source,
        format=" and ".join(sorted({format_of(path)[0] for _, path in named})),
        compression=compression,
        files=len(named),
        unit="documents" if several else "lines" if form in PLAIN else "rows",
        rows=rows,
        exact=exact,
        prose=is_prose,
        read_as=read_as,
        left_out={kind: len(paths) for kind, paths in others},
        unread=files.unread(folder) if folder else {},
        **fields,
        **read,
    )


def _holds_text(path: Path) -> bool:
    """Whether one of the file's first rows holds text."""
    form = format_of(path)[0]
    if form in PLAIN:
        return next(_row_lines(path, form), None) is not None
    sample = tables.first_rows(partial(tables.rows, path, MAX_BYTES))
    try:
        text = text_column(str(path), tables.columns_of(path, MAX_BYTES), sample)
    except BadInput:
        return False
    values = (joined(row.values.get(text)) for row in sample)
    return any(isinstance(value, str) and fold(value) and not missing(value) for value in values)


def _seen(where: str, columns: Sequence[str], rows: Iterator[Row]) -> dict[str, Any]:
    """Fields of the description from a table's first rows."""
    sample = []
    characters = 0
    for row in islice(rows, _LABELLED):
        values = {column: joined(value) for column, value in row.values.items()}
        sample.append(row._replace(values=values))
        characters += sum(len(value) for value in values.values() if isinstance(value, str))
        if characters > _LABELLED_CHARACTERS:
            break
    first = sample[: tables.SAMPLE_ROWS]
    worded = [column for column in columns if not _numbers(column, sample)]
    if columns and not worded:
        named = ", ".join(map(repr, columns))
        raise BadInput(
            "missing_column",
            f"{where}: no column holds text; its columns, {named}, hold numbers alone",
        )
    text = text_column(where, worded, first)
    looks = looks_of(columns, sample, text)
    pairs = pairs_of(columns, sample, looks, text)
    pair = next(((p.query, p.answer) for p in pairs if p.sure and p.natural), None)
    return {
        "columns": tuple(columns),
        "text": text,
        "pair": pair,
        "labels": labels_of(columns, sample, (text, *(pair or ()))),
        "looks": looks,
        "pairs": tuple(pairs),
    }


def _numbers(column: str, sample: Sequence[Row]) -> bool:
    """Whether all values of a column are numbers."""
    values = [value for row in sample if not missing(value := row.values.get(column))]
    return bool(values) and all(map(is_number, values))


def _prose_of(path: Path) -> Prose:
    """`lines` for lines of several sentences; True for wrapped lines between blank lines."""
    sample = [line.text.strip() for line in islice(lines(path, MAX_BYTES), SAMPLE)]
    filled = [folded for line in sample if (folded := fold(line))]
    if not filled:
        return False
    sentences = sum(len(split_sentences(line)) for line in filled) / len(filled)
    blank = len(sample) - len(filled)
    broken = sum(line[-1] not in ".!?\"'”’)" for line in filled) / len(filled)
    continued = sum(line[0].islower() for line in filled) / len(filled)
    wrapped = blank > 0 and (broken > 0.5 or continued > 0.2)
    if sentences >= PROSE_SENTENCES and blank < len(filled) / 10 and not wrapped:
        return "lines"
    return sentences >= PROSE_SENTENCES or wrapped


def _documents(readings: Sequence[Reading]) -> list[Document]:
    return [reading for reading in readings if isinstance(reading, Document)]


def _read(readings: Sequence[Reading]) -> dict[str, Any]:
    """Fields of the description from documents; means are 0 without text."""
    documents = _documents(readings)
    parts = [part for d in documents for n, part in enumerate(d.paragraphs) if n not in d.code]
    texts = [text for part in parts for text in part]
    lengths = tuple(map(count_words, texts))
    return {
        "mean_words": sum(lengths) / max(len(lengths), 1),
        "mean_sentences": len(texts) / max(len(documents), 1),
        "lengths": lengths,
        "titled": 10 * sum(bool(d.title or d.headings) for d in documents) > len(documents),
        "unspaced": 2 * sum(map(is_unspaced, texts)) > len(texts),
        "english": share_of_english(texts),
    }


def _count_documents(named: list[tuple[str, Path]], readings: list[Reading]) -> tuple[int, bool]:
    """The number of documents of prose in all files, and whether it is exact.

    readings: the first SAMPLE.
    """
    if len(readings) < SAMPLE:
        return len(_documents(readings)), True
    last = readings[-1]
    names = {reading.source for reading in readings if reading.source != last.source}
    if names:
        by_bytes = sum(path.stat().st_size for name, path in named if name in names) * 1.0
        counted = sum(reading.source in names for reading in readings)
    else:
        # The last reading's line shows how much of the file was read; HTML has no lines.
        start = _start(dict(named)[last.source])
        line = last.path.rpartition(":")[2]
        share = int(line) / max(start.breaks, 1) if line.isdigit() else 1.0
        by_bytes = share * start.size
        counted = len(readings)
    size = sum(path.stat().st_size for _, path in named)
    return max(round(counted * size / max(by_bytes, 1)), len(readings), len(named)), False


def _count_rows(named: list[tuple[str, Path]], first: Path, form: str) -> tuple[int, bool]:
    """The number of rows of all files, and whether it is exact.

    first: the first file with a row.
    """
    size = sum(path.stat().st_size for _, path in named)
    if form == ".parquet":
        count = sum(tables.parquet_rows(path) for _, path in named)
        return count, True
    if form == ".json":  # rows are not lines
        return sum(1 for _, path in named for _ in tables.rows(path, MAX_BYTES)), True
    start = _start(first)
    lines = takewhile(lambda line: start.whole or line <= start.breaks, _row_lines(first, form))
    counted = sum(1 for _ in lines)
    if start.whole and len(named) == 1:
        return max(counted, 1), True
    header = form in SEPARATED
    estimated = (counted + header) * size / max(start.size, 1) - header * len(named)
    return max(round(estimated), 1), False


class _Start(NamedTuple):
    """A file's beginning: its line breaks, its bytes on disk, and whether it is the whole file."""

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
    """The line in which each row begins."""
    if form in PLAIN:
        return (n.number for n in files.text_lines(path, MAX_BYTES) if fold(n.text))
    return (row.number for row in tables.rows(path, MAX_BYTES))


def guesses(corpus: CorpusConfig, max_bytes: int) -> list[str]:
    """Descriptions of the text's column, and of unusual encodings and dialects, each once."""
    return list(dict.fromkeys(_guesses(corpus, max_bytes)))


def _guesses(corpus: CorpusConfig, max_bytes: int) -> Iterator[str]:
    reader = reader_of(corpus.source)
    tables = []
    if reader is files.READER:
        named = files.files_of(corpus.source)
        for _, path in named:
            yield from encoding_in_words(path)
        named = [each for each in named if format_of(each[1])[0] not in PLAIN]
        tables = [files.table_of(corpus, *each, max_bytes) for each in named]
    elif reader is hub.READER and corpus.text is None and corpus.query is None:
        tables = list(reader.tables(corpus, max_bytes))
    for table in tables:
        sample = first_rows(table.all_rows)
        if table.columns and sample and corpus.role != "labelled":
            text = wanted_columns(corpus, table, sample).text
            yield from [] if text is None else [f"text in column {text!r}"]
        path = Path(table.where)
        if sample and reader is files.READER and (form := format_of(path)[0]) in SEPARATED:
            dialect = separated.dialect_of(path, max_bytes, corpus.dialect)
            yield from filter(None, [separated.unusual(dialect, form)])
            yield from separated.repeated(separated.header_of(path, max_bytes, dialect))
