"""The corpus that is on every machine: docstrings of the Python packages installed there.

Source files are read and parsed, never imported. The hash of their paths decides which ones, before
any is read; the packages' RECORD files say what is installed.
"""

import ast
import csv
import difflib
import gc
import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tercet.models import seeding
from tercet.models.text.unicode import encodable, fold
from tercet.tasks.corpus.sources import docstrings
from tercet.tasks.corpus.sources.corpora import (
    CorpusConfig,
    Document,
    Fault,
    FileCount,
    Question,
    Reading,
    split_sentences,
)
from tercet.tasks.corpus.sources.reader import Reader, Table
from tercet.tasks.corpus.sources.streams import SHOWN
from tercet.tasks.corpus.sources.values import refuse_columns
from tercet.tasks.stage import BadInput

DEFAULT_PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "pandas",
    "torch",
    "transformers",
    "networkx",
    "prefect",
    "datasets",
    "sqlalchemy",
    "sympy",
)
# Words of a pair's two texts, both ends included: enough to say something, not a page.
SUMMARY_WORDS = (4, 60)
NEXT_WORDS = (8, 150)
MIN_DOCSTRING = 20  # characters; shorter ones hold no sentence
_NOT_DOCUMENTED = frozenset({"tests", "test", "_vendor", "vendor", "third_party"})
_QUOTES = (b'"""', b"'''")


def packages_of(corpus: CorpusConfig) -> list[str]:
    """The packages to read: those named, else those of a default list that are installed."""
    if corpus.packages:
        return list(dict.fromkeys(corpus.packages))
    found = [name for name in DEFAULT_PACKAGES if _installed(name) is not None]
    if not found:
        raise BadInput(
            f"corpus {corpus.name!r}: none of the usual packages is installed; name some under "
            "`packages`"
        )
    return found


def digest(corpus: CorpusConfig) -> str:
    """SHA-256, in hex, over the names and RECORD files of the corpus's packages."""
    whole = hashlib.sha256()
    for name in packages_of(corpus):
        record = _record(name)
        whole.update(f"{name}\0{hashlib.sha256(record.encode()).hexdigest()}\n".encode())
    return whole.hexdigest()


def check(corpus: CorpusConfig, max_bytes: int) -> None:
    """See that every package is installed and has source files, and that no column is asked for.

    Raises:
        BadInput: one is not, or has none.
    """
    refuse_columns(corpus, "the source pydocs has docstrings")
    for name in packages_of(corpus):
        if not source_files(name):
            raise BadInput(
                f"package {name!r} of corpus {corpus.name!r} lists no .py files in its RECORD "
                "(an editable install?); name another one"
            )


def source_files(package: str) -> list[str]:
    """The package's .py files as its RECORD names them, without its tests, in order of name."""
    rows = csv.reader(_record(package).splitlines())
    named = [row[0] for row in rows if row and row[0].endswith(".py")]
    return sorted(name for name in named if _is_documented(name))


def _is_documented(name: str) -> bool:
    *folders, file = name.split("/")
    if ".." in folders or file == "conftest.py" or file.startswith("test_"):
        return False
    return not _NOT_DOCUMENTED.intersection(folders)


def chosen(files: Sequence[str], count: FileCount | None) -> list[str]:
    """`count` of the files (a number, or a fraction) by hash of their names, in order of name."""
    if count is None:
        return list(files)
    wanted = count if isinstance(count, int) else max(1, round(count * len(files)))
    order = np.argsort(seeding.mix(seeding.text_ids(files)), kind="stable")
    return [files[index] for index in sorted(order[:wanted].tolist())]


def read(corpus: CorpusConfig, max_bytes: int) -> Iterator[Reading]:
    """Documents, one a docstring, in the order of packages, files and lines.

    A document's source is its package, its path is `module:qualified name`. Its one pair, if it
    has one, is its summary paragraph with the paragraph behind it. Its questions: the summary by
    what the code calls it, and, of a method, the summary of its class by that of the method.
    """
    documents = 0
    for package in packages_of(corpus):
        folder = Path(str(_distribution(package).locate_file("")))
        for name in chosen(source_files(package), corpus.files):
            for reading in _file_readings(package, name, folder / name):
                yield reading
                documents += isinstance(reading, Document)
                if documents == corpus.limit:
                    return


def tables(corpus: CorpusConfig, max_bytes: int) -> Iterator[Table]:
    """None: docstrings are not a table."""
    raise BadInput(
        f"corpus {corpus.name!r}: docstrings carry no labels; name a table as the source of a "
        "labelled corpus, or give this one another role"
    )


def has_pairs(corpus: CorpusConfig) -> bool:
    """A docstring's summary goes with the paragraph behind it."""
    return True


def _file_readings(package: str, name: str, path: Path) -> Iterator[Reading]:
    try:
        code = path.read_bytes()
    except OSError as error:
        yield Fault(package, name, "unreadable", error.strerror or str(error), "")
        return
    if not any(quotes in code for quotes in _QUOTES):
        return
    module = name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    try:
        with _no_collector(), warnings.catch_warnings(action="ignore"):
            found = docstrings_in(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        yield Fault(package, name, "unparsable", str(error)[:SHOWN], "")
        return
    summaries: dict[str, list[str]] = {}
    for one in found:
        if len(one.text) >= MIN_DOCSTRING:
            yield from _docstring_readings(package, module, one, summaries)


@contextmanager
def _no_collector() -> Iterator[None]:
    """Without the cycle collector, which finds nothing in a syntax tree and takes a third."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Found(NamedTuple):
    """A docstring with its owner's qualified name ('' for a module) and a function's parameters."""

    qualified: str
    parameters: tuple[str, ...] | None
    text: str


def docstrings_in(code: bytes) -> list[Found]:
    """The docstrings of a module, its classes and functions.

    Functions inside functions are left out.

    Raises:
        SyntaxError, ValueError: the code does not parse.
    """
    found: list[Found] = []
    _collect(ast.parse(code), "", found)
    return found


def _collect(
    owner: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
    name: str,
    found: list[Found],
) -> None:
    parameters = None
    if isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef):
        given = owner.args
        names = (one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs))
        parameters = tuple(name for name in names if name not in ("self", "cls"))
    text = ast.get_docstring(owner, clean=False)
    if text is not None:
        found.append(Found(name, parameters, text))
    if parameters is None:
        _descend(owner.body, name, found)


def _descend(body: list[ast.stmt], name: str, found: list[Found]) -> None:
    for statement in body:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            _collect(statement, f"{name}.{statement.name}".lstrip("."), found)
        elif isinstance(statement, ast.If | ast.Try | ast.With):
            for part in ("body", "handlers", "orelse", "finalbody"):
                for inner in getattr(statement, part, []):
                    branch = inner.body if isinstance(inner, ast.ExceptHandler) else [inner]
                    _descend(branch, name, found)


def _questions(found: Found, summaries: Mapping[str, list[str]]) -> Iterator[Question]:
    """What can be asked about this docstring. summaries: by the qualified names read so far."""
    qualified, parameters, _ = found
    summary = summaries[qualified]
    if not qualified or not _between(" ".join(summary), SUMMARY_WORDS):
        return
    called = qualified if parameters is None else f"{qualified}({', '.join(parameters)})"
    yield Question("name_to_summary", called, " ".join(summary), summary)
    above = summaries.get(qualified.rpartition(".")[0], []) if "." in qualified else []
    if parameters is not None and _between(" ".join(above), SUMMARY_WORDS):
        both = [*summary, *above]
        yield Question("method_to_class", " ".join(summary), " ".join(above), both)


def _docstring_readings(
    package: str, module: str, found: Found, summaries: dict[str, list[str]]
) -> Iterator[Reading]:
    """The document and its faults.

    summaries: of those before, by the owner's name, which gets that of this one: the sentences of
    its first paragraph, none if that is not all prose.
    """
    path, text = f"{module}:{found.qualified}", found.text
    if not encodable(text):
        shown = text[:SHOWN].encode("utf-8", "replace").decode("utf-8")
        yield Fault(package, path, "not_utf8", "not valid Unicode", shown)
        return
    cleaned = docstrings.prose_of(text)
    kept: list[list[str]] = []
    whole: list[str | None] = []
    for paragraph in (*cleaned.lead, *cleaned.rest):
        paragraph = fold(paragraph)
        clean = True
        good: list[str] = []
        for sentence in split_sentences(paragraph):
            if docstrings.is_prose(sentence):
                good.append(sentence)
            else:
                clean = False
                yield Fault(package, path, "markup", "not prose", sentence[:SHOWN])
        whole.append(paragraph if clean else None)
        if good:
            kept.append(good)
    if kept:
        whole_summary = cleaned.lead and whole[0] is not None
        summaries[found.qualified] = kept[0] if whole_summary else []
        pairs = _pairs(whole[: len(cleaned.lead)])
        yield Document(package, path, kept, pairs, tuple(_questions(found, summaries)))


def _pairs(lead: list[str | None]) -> list[tuple[str, str]]:
    """The summary with the paragraph behind it, where both are prose of sensible length."""
    if len(lead) < 2 or lead[0] is None or lead[1] is None:
        return []
    summary, following = lead[0], lead[1]
    fits = _between(summary, SUMMARY_WORDS) and _between(following, NEXT_WORDS)
    return [(summary, following)] if fits and docstrings.is_whole(following) else []


def _between(text: str, words: tuple[int, int]) -> bool:
    return words[0] <= len(text.split()) <= words[1]


@cache
def _installed(package: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(package)
    except (metadata.PackageNotFoundError, ValueError):
        return None


def _distribution(package: str) -> metadata.Distribution:
    """The distribution of that name, or the one that brings the top module of that name."""
    found = _installed(package)
    if found is not None:
        return found
    owners = metadata.packages_distributions()
    if package in owners:
        return metadata.distribution(owners[package][0])
    close = difflib.get_close_matches(package, {*DEFAULT_PACKAGES, *owners}, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "install it, or name another one"
    raise BadInput(f"package {package!r} is not installed here; {hint}")


def _record(package: str) -> str:
    record = _distribution(package).read_text("RECORD")
    if record is None:
        raise BadInput(
            f"package {package!r} has no RECORD file (not installed by pip?); leave it out"
        )
    return record


READER = Reader("pydocs", digest, read, check=check, tables=tables, has_pairs=has_pairs)
