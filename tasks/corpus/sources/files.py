"""Corpora in files: which files a source means, their digest, and their documents."""

import glob
import hashlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tercet.tasks.corpus.sources import prose
from tercet.tasks.corpus.sources.corpora import (
    HUB_PREFIX,
    PYDOCS,
    SHOWN,
    CorpusConfig,
    Document,
    Fault,
    Reading,
)
from tercet.tasks.corpus.sources.streams import Line, format_of, lines
from tercet.tasks.corpus.sources.tables import Row, columns_of, rows, text_column
from tercet.tasks.stage import BadInput

PARAGRAPHS_PER_DOCUMENT = 20


def files_of(source: str) -> list[tuple[str, Path]]:
    """(relative name, path) of each file that a source means, in the order of the names.

    Names are relative to the folder in front of the glob's first wild card, so that they do not
    depend on where the corpus lies.

    Raises:
        BadInput: no such file, no match, a folder, or a kind of file that no reader knows.
    """
    if source.startswith(HUB_PREFIX):
        raise BadInput(
            f"{source}: reading from a hub is not built yet; save the data set as .parquet or "
            ".jsonl and name that file"
        )
    if glob.has_magic(source) and not Path(source).exists():
        matches = sorted(map(Path, glob.iglob(source, recursive=True)))  # noqa: PTH207
        found = [path for path in matches if path.is_file()]
        if not found:
            raise BadInput(f"{source}: no file matches; check the pattern and the folder")
        base = _fixed_part(source)
        named = [(path.relative_to(base).as_posix(), path) for path in found]
    else:
        path = Path(source)
        if path.is_dir():
            raise BadInput(f"{source} is a folder: name its files, such as '{source}/*.txt'")
        if not path.exists():
            raise BadInput(f"{source}: no such file; give a file, a glob, or {PYDOCS}")
        named = [(path.name, path)]
    for _, path in named:
        format_of(path)
    return sorted(named)


def _fixed_part(pattern: str) -> Path:
    parts: list[str] = []
    for part in Path(pattern).parts[:-1]:
        if glob.has_magic(part):
            break
        parts.append(part)
    return Path(*parts)


def digest(corpus: CorpusConfig) -> str:
    """SHA-256, in hex, over the names and contents of the corpus's files."""
    whole = hashlib.sha256()
    for name, path in files_of(corpus.source):
        try:
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise BadInput(f"{path} cannot be read: {error.strerror or error}") from None
        whole.update(f"{name}\0{content}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def check(corpus: CorpusConfig, max_bytes: int) -> None:
    """See that the files are there, hold at least one row, and have the columns asked for.

    Only the beginning of each file is read.

    Raises:
        BadInput: they do not.
    """
    empty = True
    for _, path in files_of(corpus.source):
        form, _ = format_of(path)
        if form == ".txt":
            empty = empty and not any(line.text.strip() for line in lines(path, max_bytes))
            continue
        columns = columns_of(path, max_bytes)
        if columns:
            wanted_columns(corpus, path, columns, max_bytes)
        empty = empty and next(rows(path, max_bytes), None) is None
    if empty:
        raise BadInput(
            f"{corpus.source}: the corpus {corpus.name!r} is empty; name files with text"
        )


def wanted_columns(
    corpus: CorpusConfig, path: Path, columns: list[str], max_bytes: int
) -> tuple[str | None, str | None, str | None]:
    """(text, query, answer): the columns to read; text is None where only pairs are asked for.

    Raises:
        BadInput: a column that the recipe names is not there, or no column holds text.
    """
    for key in ("text", "query", "answer"):
        wanted = getattr(corpus, key)
        if wanted is not None and wanted not in columns:
            raise BadInput(
                f"{path} has no column {wanted!r} ({key} of corpus {corpus.name!r}); its columns "
                f"are {', '.join(map(repr, columns))}"
            )
    if corpus.text is not None or corpus.query is not None:
        return corpus.text, corpus.query, corpus.answer
    return text_column(path, columns, max_bytes), None, None


def read(corpus: CorpusConfig, max_bytes: int) -> Iterator[Reading]:
    """The corpus's documents and faults in order: at most `limit` rows of the source."""
    readings = _readings(corpus, max_bytes)
    return readings if corpus.limit is None else islice(readings, corpus.limit)


def _readings(corpus: CorpusConfig, max_bytes: int) -> Iterator[Reading]:
    for name, path in files_of(corpus.source):
        if format_of(path)[0] != ".txt":
            yield from _values(corpus, name, path, max_bytes)
        elif corpus.prose:
            yield from _prose(name, path, max_bytes)
        else:
            yield from _lines(name, path, max_bytes)


def _lines(name: str, path: Path, max_bytes: int) -> Iterator[Reading]:
    """Each line a document of one sentence."""
    for line in lines(path, max_bytes):
        if line.fault:
            yield line_fault(name, line, max_bytes)
        elif text := prose.fold(line.text):
            yield Document(name, f"{name}:{line.number}", [[text]], [])


def _prose(name: str, path: Path, max_bytes: int) -> Iterator[Reading]:
    """A document is a file, or every 20 paragraphs of a longer one, so that a book can be split."""
    gathered: list[list[str]] = []
    start = 1
    open_lines: list[str] = []
    held = 0

    def close_paragraph() -> None:
        nonlocal held
        sentences = prose.sentences(prose.fold(" ".join(open_lines)))
        open_lines.clear()
        held = 0
        if sentences:
            gathered.append(sentences)

    for line in lines(path, max_bytes):
        if line.fault:
            yield line_fault(name, line, max_bytes)
            continue
        if line.text.strip():
            open_lines.append(line.text)
            held += len(line.text)
            if held <= max_bytes:
                continue
        close_paragraph()
        if len(gathered) == PARAGRAPHS_PER_DOCUMENT:
            yield Document(name, f"{name}:{start}", gathered, [])
            gathered, start = [], line.number + 1
    close_paragraph()
    if gathered:
        yield Document(name, f"{name}:{start}", gathered, [])


def line_fault(name: str, line: Line, max_bytes: int) -> Fault:
    detail = {
        "not_utf8": "the line is not UTF-8",
        "line_too_long": f"the line is longer than {max_bytes} bytes",
    }[line.fault]
    return Fault(name, f"{name}:{line.number}", line.fault, detail, line.text[:SHOWN])


def _values(corpus: CorpusConfig, name: str, path: Path, max_bytes: int) -> Iterator[Reading]:
    """Each row of a table a document: its text, or its pair's two texts."""
    columns = columns_of(path, max_bytes)
    if not columns:
        return
    text, query, answer = wanted_columns(corpus, path, columns, max_bytes)
    split = corpus.prose is not False
    wanted = [column for column in (text, query, answer) if column is not None]
    for row in rows(path, max_bytes, wanted):
        where = f"{name}:{row.number}"
        fault = row.fault or _missing(row, wanted)
        if fault:
            yield Fault(name, where, *fault)
            continue
        values = row.values
        if text is not None:
            paragraphs = prose.paragraphs(str(values[text]), split)
        else:
            both = (str(values[query or ""]), str(values[answer or ""]))
            paragraphs = [part for value in both for part in prose.paragraphs(value, split)]
        pairs = []
        if query is not None and answer is not None:
            pairs = [(prose.fold(str(values[query])), prose.fold(str(values[answer])))]
        yield Document(name, where, paragraphs, pairs)


def _missing(row: Row, wanted: list[str]) -> tuple[str, str, str] | None:
    """The fault of a row that lacks one of its texts."""
    for column in wanted:
        value = row.values.get(column)
        if not isinstance(value, str):
            found = "nothing" if value is None else f"a value of type {type(value).__name__}"
            return "missing_text", f"column {column!r} holds {found}", ""
        if not prose.encodable(value):
            shown = value[:SHOWN].encode("utf-8", "replace").decode("utf-8")
            return "not_utf8", f"column {column!r} is no valid Unicode", shown
        if not prose.fold(value):
            return "missing_text", f"column {column!r} is blank", ""
    return None
