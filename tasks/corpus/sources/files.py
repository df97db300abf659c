"""Corpora in files: finds the files of a source, and reads their documents."""

import errno
import glob
import hashlib
import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, dropwhile, takewhile
from pathlib import Path

from tercet.models.text.words import fold
from tercet.storage.store import MARKER
from tercet.tasks.corpus.sources.corpora import (
    CorpusConfig,
    Document,
    Fault,
    Heading,
    Reading,
    open_headings,
    split_paragraphs,
    split_sentences,
)
from tercet.tasks.corpus.sources.hypertext import Block, text_of
from tercet.tasks.corpus.sources.pages import page_blocks, reading_version
from tercet.tasks.corpus.sources.reader import Reader, Table
from tercet.tasks.corpus.sources.streams import (
    FORMATS,
    PAGES,
    PLAIN,
    SHOWN,
    Line,
    content_digest,
    fault_of,
    format_of,
    known_format,
    lines,
)
from tercet.tasks.corpus.sources.tables import NO_ROWS, columns_of, first_rows, rows
from tercet.tasks.corpus.sources.values import (
    of_first_rows,
    read_tables,
    refuse_columns,
    wanted_columns,
)
from tercet.tasks.stage import PACKAGE, BadInput, package_file

PARAGRAPHS_PER_DOCUMENT = 20


def files_of(source: str) -> list[tuple[str, Path]]:
    """(relative name, path) of each file of a source, sorted by name.

    Names are relative to the folder before the glob's first wild card, so that they do not depend
    on where the corpus lies. A file with several names is listed once. A folder stands for its
    files, in subfolders too, of the most frequent readable kind (Markdown and HTML are one kind),
    without hidden files and stores.

    Raises:
        BadInput: no such file, no match, or no file of a readable kind.
    """
    if source.startswith(PACKAGE):
        source = str(package_file(source))
    if glob.has_magic(source) and not _is_there(source):
        fixed = takewhile(lambda part: not glob.has_magic(part), Path(source).parts[:-1])
        base = Path(*fixed)
        paths = once(base, (path for path in matches(source) if path.is_file()))
        if not paths:
            raise BadInput(
                "missing_file",
                f"{source}: no file matches{_where(source)}; check the pattern and the folder",
            )
        named = [(readable_name(base, path), path) for path in paths]
    else:
        path = Path(source)
        if not _is_there(source):
            from tercet.tasks.corpus.sources.registry import known_sources

            raise BadInput(
                "missing_file", f"{source}: no such file{_where(source)}; give {known_sources()}"
            )
        named = [(readable_name(path.parent, path), path)]
        if path.is_dir():
            kinds = kinds_of(path)
            if not kinds:
                formats = ", ".join(FORMATS)
                raise BadInput(
                    "missing_file",
                    f"{path} has no files that a reader knows ({formats}): name another folder",
                )
            named = next(iter(kinds.values()))
    for _, path in named:
        format_of(path)
    return sorted(named)


def _is_there(source: str) -> bool:
    try:
        return Path(source).exists()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise BadInput("unreadable", f"{source} cannot be read: {error.strerror}") from None


def _where(source: str) -> str:
    """The working directory, for messages about a relative path."""
    return "" if Path(source).is_absolute() else f" in {Path.cwd()}"


def kinds_of(folder: Path) -> dict[str, list[tuple[str, Path]]]:
    """(relative name, path) of a folder's readable files by kind, the most frequent kind first.

    .json comes last. Hidden files and stores, whose tables are not the user's texts, are left out.
    Links to folders are not followed.
    """
    paths: list[Path] = []
    for place, folders, names in os.walk(folder):
        if MARKER in names and "artifacts" in folders:
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths += (Path(place, name) for name in names if not name.startswith("."))
    kinds: dict[str, list[tuple[str, Path]]] = {}
    for path in once(folder, (path for path in paths if known_format(path) and path.is_file())):
        form, _ = format_of(path)
        kinds.setdefault(form, []).append((readable_name(folder, path), path))
    pages = sorted((form for form in PAGES if form in kinds), key=lambda form: -len(kinds[form]))
    for other in pages[1:]:
        kinds[pages[0]] += kinds.pop(other)
    # Files .json in a folder are usually settings.
    return dict(sorted(kinds.items(), key=lambda one: (one[0] == ".json", -len(one[1]), one[0])))


def unread(folder: Path) -> dict[str, int]:
    """Numbers of a folder's unreadable files by suffix, the most frequent first, and of `hidden`
    readable files, except files of git and of stores.
    """
    counts: Counter[str] = Counter()
    for place, folders, names in os.walk(folder):
        if MARKER in names and "artifacts" in folders:
            folders.clear()
            continue
        folders[:] = [name for name in folders if name != ".git"]
        inside = any(part.startswith(".") for part in Path(place).relative_to(folder).parts)
        for name in names:
            is_readable = known_format(Path(name)) is not None
            if inside or name.startswith("."):
                counts["hidden"] += is_readable
            elif not is_readable:
                counts[Path(name).suffix.lower() or "without a suffix"] += 1
    return {kind: count for kind, count in counts.most_common() if count}


def digest(corpus: CorpusConfig) -> str:
    """SHA-256, in hex, over the names and contents of the corpus's files."""
    whole = hashlib.sha256()
    for name, path in files_of(corpus.source):
        reader = reading_version(format_of(path)[0])
        line = f"{name}\0{content_digest(path)}{reader}\n"
        whole.update(line.encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def check(corpus: CorpusConfig, max_bytes: int) -> None:
    """Checks that the files exist, hold at least one row, and have the recipe's columns.

    Only the beginning of each file is read.

    Raises:
        BadInput: a check fails.
    """
    empty, header = True, False
    named = files_of(corpus.source)
    if all(format_of(path)[0] in PLAIN for _, path in named):
        refuse_columns(corpus, f"{corpus.source} has lines of text")
    for name, path in named:
        if format_of(path)[0] in PLAIN:
            empty = empty and not any(fold(line.text) for line in text_lines(path, max_bytes))
            continue
        table = table_of(corpus, name, path, max_bytes)
        header = header or bool(table.columns)
        if sample := first_rows(table.all_rows):
            empty = False
            if table.columns:
                wanted_columns(corpus, table, sample)
    if empty:
        what = NO_ROWS if header else "is empty"
        raise BadInput("no_rows", f"{corpus.source} {what}; name files with text")


def read(corpus: CorpusConfig, max_bytes: int) -> Iterator[Reading]:
    """The corpus's documents and faults in order: at most `limit` rows of the source."""
    return of_first_rows(corpus.limit, _readings(corpus, max_bytes))


def table_of(corpus: CorpusConfig, name: str, path: Path, max_bytes: int) -> Table:
    """A file of the corpus as a table.

    Raises:
        BadInput: the file cannot be read, or is not of the kind of its suffix.
    """
    columns = columns_of(path, max_bytes, corpus.dialect)
    if format_of(path)[0] != ".parquet":
        columns = list(dict.fromkeys(columns))  # columns of one name are one
    read = partial(rows, path, max_bytes, dialect=corpus.dialect)
    return Table(name, columns, read, str(path), read)


def tables(corpus: CorpusConfig, max_bytes: int) -> Iterator[Table]:
    """Each file as a table, also a .txt with tabs in its first line; empty files are left out.

    Raises:
        BadInput: a file of plain lines, without columns.
    """
    for name, path in files_of(corpus.source):
        form, _ = format_of(path)
        table = None if form in PAGES else table_of(corpus, name, path, max_bytes)
        if table is None or (form in PLAIN and len(table.columns) == 1):
            raise BadInput(
                "missing_column",
                f"{path}: lines of text have no columns, which the labelled corpus "
                f"{corpus.name!r} needs; save it as .tsv, .csv, .jsonl or .parquet, or as .txt "
                "with tabs and a header",
            )
        if table.columns or next(table.all_rows(), None) is not None:
            yield table


def portable(source: str) -> str:
    """The source with its full path; a glob with that of the working directory."""
    if _is_there(source):
        return str(Path(source).resolve())
    if not glob.has_magic(source):
        return source
    # Wild cards in the working directory's name are literal.
    return source if Path(source).is_absolute() else glob.escape(f"{Path.cwd()}/") + source


def _readings(corpus: CorpusConfig, max_bytes: int) -> Iterator[Reading]:
    for name, path in files_of(corpus.source):
        form, _ = format_of(path)
        if form not in PLAIN:
            yield from read_tables(corpus, [table_of(corpus, name, path, max_bytes)])
        elif form in PAGES and corpus.prose is not False:
            yield from _documents(name, page_blocks(path, max_bytes), max_bytes)
        elif corpus.prose is True:
            read = lines(path, max_bytes)
            yield from _documents(name, _paragraphs(read, max_bytes), max_bytes)
        else:
            yield from _lines(name, text_lines(path, max_bytes), max_bytes, corpus.prose == "lines")


def text_lines(path: Path, max_bytes: int) -> Iterator[Line]:
    """The lines of a .txt or .md; the blocks of other pages."""
    if format_of(path)[0] in (".txt", ".md"):
        return lines(path, max_bytes)
    read = enumerate(page_blocks(path, max_bytes), 1)
    return (b if isinstance(b, Line) else Line(n, " ".join(b.texts)) for n, b in read)


def _lines(name: str, read: Iterator[Line], max_bytes: int, split: bool) -> Iterator[Reading]:
    """A document for each line. split: whether a line has several sentences."""
    for line in read:
        if line.fault:
            yield line_fault(name, line, max_bytes)
        elif paragraphs := split_paragraphs(text := text_of(line.text), split):
            html = "" if text == line.text else line.text[:SHOWN]
            yield Document(name, f"{name}:{line.number}", paragraphs, [], html=html)


def _paragraphs(read: Iterator[Line], max_bytes: int) -> Iterator[Block | Line]:
    """Paragraphs, separated by empty lines, as blocks without HTML."""
    held: list[Line] = []
    for line in chain(read, [Line(0, "")]):
        if line.fault:
            yield line
        elif fold(line.text):
            held.append(line)
        if (
            held
            and not line.fault
            and (not fold(line.text) or sum(len(one.text) for one in held) > max_bytes)
        ):
            text = " ".join(one.text for one in held)
            cleaned = text_of(text)
            html = "" if cleaned == text else text[:SHOWN]
            yield Block((cleaned,), f":{held[0].number}", html=html)
            held.clear()


def _documents(name: str, read: Iterator[Block | Line], max_bytes: int) -> Iterator[Reading]:
    """A document for a file, or for every 20 paragraphs of a longer one, so that splits can divide
    a book.

    Code does not count as paragraphs. The title is that of front matter or HTML's head, else the
    first heading if it has level 1.
    """
    gathered: list[list[str]] = []
    headings: list[Heading] = []
    code: list[int] = []
    title: str | None = None
    place = html = ""
    continued = False

    def document() -> Document:
        about = (title or None, tuple(headings), html, continued, frozenset(code))
        return Document(name, name + place, gathered, [], (), None, *about)

    for block in read:
        if isinstance(block, Line):
            yield line_fault(name, block, max_bytes)
            continue
        if block.level == 0:
            title = fold(block.texts[0])
            continue
        if block.code:
            paragraphs = [[fold(block.texts[0])]]
        elif len(block.texts) == 1:
            paragraphs = split_paragraphs(block.texts[0], split=True)
        else:
            paragraphs = [[one for cell in block.texts for one in split_sentences(fold(cell))]]
        if not any(paragraphs):
            continue
        if len(gathered) - len(code) >= PARAGRAPHS_PER_DOCUMENT:
            yield document()
            gathered, code, html, continued = [], [], "", True
            headings = [one._replace(paragraph=-1) for one in open_headings(headings)]
        place = place if gathered else block.place
        if block.level is not None:
            heading = " ".join(paragraphs[0])
            if title is None:
                title = heading if block.level == 1 and not headings else ""
            headings.append(Heading(len(gathered), block.level, heading))
        code += [len(gathered)] if block.code else []
        html = html or block.html
        gathered += paragraphs
    if gathered:
        yield document()


def line_fault(name: str, line: Line, max_bytes: int) -> Fault:
    return Fault(name, f"{name}:{line.number}", *fault_of(line, max_bytes))


READER = Reader(
    "files",
    digest,
    read,
    form="a file, a folder, a glob",
    check=check,
    tables=tables,
    portable=portable,
)


def matches(pattern: str) -> Iterator[Path]:
    """The paths that match; `**` stands for a folder and all folders in it, links included.

    Not `glob`'s own `**`, which enters a folder once for each of its names, and never ends if
    several links lead back.
    """
    parts = pattern.split("/")
    if "**" not in parts:
        yield from map(Path, glob.iglob(pattern))  # noqa: PTH207
        return
    at = parts.index("**")
    head = "/".join(parts[:at]) or ("/" if at else ".")
    tail = "/".join(dropwhile(lambda part: part == "**", parts[at:])) or "*"
    for top in glob.iglob(head):  # noqa: PTH207
        for folder in _folders(Path(top)):
            yield from matches(str(Path(glob.escape(str(folder))) / tail))


def _folders(top: Path) -> Iterator[Path]:
    """The folder and the visible folders in it, each once, by its own name rather than a link's.

    Broken and circular links are ignored.
    """
    waiting, behind_links = deque([top]), deque[Path]()
    seen = set()
    while waiting or behind_links:
        folder = (waiting or behind_links).popleft()
        try:
            about = folder.stat()
            entries = sorted(folder.iterdir())
        except OSError:
            continue
        if (about.st_dev, about.st_ino) in seen:
            continue
        seen.add((about.st_dev, about.st_ino))
        yield folder
        for entry in entries:
            if not entry.name.startswith(".") and os.path.isdir(entry):  # noqa: PTH112 - may loop
                (behind_links if entry.is_symlink() else waiting).append(entry)


def once(base: Path, paths: Iterable[Path]) -> list[Path]:
    """Each file below `base` once, by its own name rather than a link's."""
    top = Path(os.path.realpath(base))
    named = sorted(
        (Path(os.path.realpath(path)) != top / path.relative_to(base), path) for path in paths
    )
    by_target: dict[str, Path] = {}
    for _, path in named:
        by_target.setdefault(os.path.realpath(path), path)
    return list(by_target.values())


def readable_name(base: Path, path: Path) -> str:
    """The path below `base`; bytes that are not UTF-8 become `\\xe9`."""
    return os.fsencode(path.relative_to(base).as_posix()).decode("utf-8", "backslashreplace")
