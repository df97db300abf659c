"""A corpus that every machine has: docstrings of installed Python packages.

Source files are parsed, never imported. The packages' RECORD files list the source files, and
hashes of paths decide which are read.
"""

import ast
import csv
import difflib
import gc
import hashlib
import inspect
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tercet.models import seeding
from tercet.models.text.words import encodable, fold
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
# Fewest and most words of a pair's two texts.
SUMMARY_WORDS = (4, 60)
NEXT_WORDS = (8, 150)
MIN_DOCSTRING = 20  # characters; shorter ones hold no sentence
_NOT_DOCUMENTED = frozenset({"tests", "test", "_vendor", "vendor", "third_party"})
_QUOTES = (b'"""', b"'''")


def packages_of(corpus: CorpusConfig) -> list[str]:
    """The packages to read: the recipe's, else those of a default list that are installed."""
    if corpus.packages:
        return list(dict.fromkeys(corpus.packages))
    installed = [name for name in DEFAULT_PACKAGES if _installed(name) is not None]
    if not installed:
        raise BadInput(
            "missing_package",
            f"corpus {corpus.name!r}: none of the usual packages is installed; name some under "
            "`packages`",
        )
    return installed


def digest(corpus: CorpusConfig) -> str:
    """SHA-256, in hex, over the names and RECORD files of the corpus's packages."""
    whole = hashlib.sha256()
    for name in packages_of(corpus):
        record = _record(name)
        whole.update(f"{name}\0{hashlib.sha256(record.encode()).hexdigest()}\n".encode())
    return whole.hexdigest()


def check(corpus: CorpusConfig, max_bytes: int) -> None:
    """Checks that every package is installed and has source files, and that no column is named.

    Raises:
        BadInput: a check fails.
    """
    refuse_columns(corpus, "the source pydocs has docstrings")
    for name in packages_of(corpus):
        if not source_files(name):
            raise BadInput(
                "no_rows",
                f"package {name!r} of corpus {corpus.name!r} lists no .py files in its RECORD "
                "(an editable install?); name another one",
            )


def source_files(package: str) -> list[str]:
    """The package's .py files in its RECORD, without tests, sorted."""
    rows = csv.reader(_record(package).splitlines())
    named = [row[0] for row in rows if row and row[0].endswith(".py")]
    return sorted(name for name in named if _is_documented(name))


def _is_documented(name: str) -> bool:
    *folders, file = name.split("/")
    if ".." in folders or file == "conftest.py" or file.startswith("test_"):
        return False
    return not _NOT_DOCUMENTED.intersection(folders)


def chosen(files: Sequence[str], count: FileCount | None) -> list[str]:
    """`count` files (a number, or a fraction of all) by hash of their names, sorted."""
    if count is None:
        return list(files)
    number = count if isinstance(count, int) else max(1, round(count * len(files)))
    order = np.argsort(seeding.mix(seeding.text_ids(files)), kind="stable")
    return [files[index] for index in sorted(order[:number].tolist())]


def read(corpus: CorpusConfig, max_bytes: int) -> Iterator[Reading]:
    """A document for each docstring, in the order of packages, files and lines.

    A document's source is its package, its path `module:qualified name`. Its pair, if it has one,
    is its summary paragraph with the next paragraph. Its questions are a name with its summary and,
    for a method, its summary with that of its class.
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
    """Yields no table: docstrings are none."""
    raise BadInput(
        "conflict",
        f"corpus {corpus.name!r}: docstrings carry no labels; name a table as the source of a "
        "labelled corpus, or give this one another role",
    )


def has_pairs(corpus: CorpusConfig) -> bool:
    """Always True: a docstring's summary and its next paragraph are a pair."""
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
            docstrings = docstrings_in(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        yield Fault(package, name, "unparsable", str(error)[:SHOWN], "")
        return
    summaries: dict[str, list[str]] = {}
    for one in docstrings:
        if len(one.text) >= MIN_DOCSTRING:
            yield from _docstring_readings(package, module, one, summaries)


@contextmanager
def _no_collector() -> Iterator[None]:
    """Pauses the cycle collector, which takes a third of the time and finds nothing in syntax
    trees.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Docstring(NamedTuple):
    """A docstring with its owner's qualified name ('' for a module) and a function's parameters."""

    qualified: str
    parameters: tuple[str, ...] | None
    text: str


def docstrings_in(code: bytes) -> list[Docstring]:
    """The docstrings of a module, its classes and functions, without functions inside functions.

    Raises:
        SyntaxError, ValueError: the code does not parse.
    """
    docstrings: list[Docstring] = []
    _collect(ast.parse(code), "", docstrings)
    return docstrings


def _collect(
    owner: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
    name: str,
    docstrings: list[Docstring],
) -> None:
    parameters = None
    if isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef):
        declared = owner.args
        names = (one.arg for one in (*declared.posonlyargs, *declared.args, *declared.kwonlyargs))
        parameters = tuple(name for name in names if name not in ("self", "cls"))
    text = ast.get_docstring(owner, clean=False)
    if text is not None:
        docstrings.append(Docstring(name, parameters, text))
    if parameters is None:
        _descend(owner.body, name, docstrings)


def _descend(body: list[ast.stmt], name: str, docstrings: list[Docstring]) -> None:
    for statement in body:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            _collect(statement, f"{name}.{statement.name}".lstrip("."), docstrings)
        elif isinstance(statement, ast.If | ast.Try | ast.With):
            for part in ("body", "handlers", "orelse", "finalbody"):
                for inner in getattr(statement, part, []):
                    branch = inner.body if isinstance(inner, ast.ExceptHandler) else [inner]
                    _descend(branch, name, docstrings)


def _questions(docstring: Docstring, summaries: Mapping[str, list[str]]) -> Iterator[Question]:
    """The questions about this docstring. summaries: by qualified names, read so far."""
    qualified, parameters, _ = docstring
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
    package: str, module: str, docstring: Docstring, summaries: dict[str, list[str]]
) -> Iterator[Reading]:
    """The document and its faults.

    summaries: of earlier docstrings, by the owner's name. Gets that of this one: the sentences of
    its first paragraph if that is all prose, else none.
    """
    path, text = f"{module}:{docstring.qualified}", docstring.text
    if not encodable(text):
        shown = text[:SHOWN].encode("utf-8", "replace").decode("utf-8")
        yield Fault(package, path, "not_utf8", "not valid Unicode", shown)
        return
    cleaned = prose_of(text)
    paragraphs: list[list[str]] = []
    whole: list[str | None] = []
    for paragraph in (*cleaned.lead, *cleaned.rest):
        paragraph = fold(paragraph)
        clean = True
        good: list[str] = []
        for sentence in split_sentences(paragraph):
            if is_prose(sentence):
                good.append(sentence)
            else:
                clean = False
                yield Fault(package, path, "markup", "not prose", sentence[:SHOWN])
        whole.append(paragraph if clean else None)
        if good:
            paragraphs.append(good)
    if paragraphs:
        whole_summary = cleaned.lead and whole[0] is not None
        summaries[docstring.qualified] = paragraphs[0] if whole_summary else []
        pairs = _pairs(whole[: len(cleaned.lead)])
        yield Document(package, path, paragraphs, pairs, tuple(_questions(docstring, summaries)))


def _pairs(lead: list[str | None]) -> list[tuple[str, str]]:
    """The summary and the next paragraph, if both are prose of sensible length."""
    if len(lead) < 2 or lead[0] is None or lead[1] is None:
        return []
    summary, following = lead[0], lead[1]
    fits = _between(summary, SUMMARY_WORDS) and _between(following, NEXT_WORDS)
    return [(summary, following)] if fits and is_whole(following) else []


def _between(text: str, words: tuple[int, int]) -> bool:
    return words[0] <= len(text.split()) <= words[1]


@cache
def _installed(package: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(package)
    except (metadata.PackageNotFoundError, ValueError):
        return None


def _distribution(package: str) -> metadata.Distribution:
    """The distribution of this name, else the distribution with a top-level module of this name."""
    distribution = _installed(package)
    if distribution is not None:
        return distribution
    owners = metadata.packages_distributions()
    if package in owners:
        return metadata.distribution(owners[package][0])
    close = difflib.get_close_matches(package, {*DEFAULT_PACKAGES, *owners}, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "install it, or name another one"
    raise BadInput("missing_package", f"package {package!r} is not installed here; {hint}")


def _record(package: str) -> str:
    record = _distribution(package).read_text("RECORD")
    if record is None:
        raise BadInput(
            "no_rows",
            f"package {package!r} has no RECORD file (not installed by pip?); leave it out",
        )
    return record


READER = Reader("pydocs", digest, read, check=check, tables=tables, has_pairs=has_pairs)


# Titles of sections of prose; other titled sections hold data.
_PROSE_SECTIONS = frozenset({"notes", "note", "description", "details", "extended summary"})
_LABEL = re.compile(
    r"^(args?|arguments?|attributes?|examples?|inputs?|keyword args?|keyword arguments?|methods?"
    r"|notes?|other parameters|outputs?|parameters?|params|raises?|references?|returns?|see also"
    r"|shapes?|side effects?|todo|usage|variables|warnings?|warns|yields?|tips?|example usage"
    r"|caution|important|default|defaults)\s*:(\s|:|$)",
    re.IGNORECASE,
)
_UNDERLINE = re.compile(r"^([-=~^\"'`#*+.:_])\1{2,}$")
_FIELD = re.compile(r"^:[A-Za-z][\w \t*.,\[\]-]*:(\s|$)")
_BULLET = re.compile(r"^([-*+•–]|#\.|\(?\d{1,2}[.)]|\(?[a-zA-Z]\))\s")
_RULE = re.compile(r"^[=\-+|_*~\s]{3,}$")
_TABLE_ROW = re.compile(r"^[|+]")
_MARKDOWN_HEADING = re.compile(r"^#{1,6}\s")
_DOCTEST = re.compile(r"^(>>>|\.\.\. |In \[|\$ )")
_FENCE = re.compile(r"^(```|~~~)")

_ROLE = re.compile(r":[A-Za-z][\w+.:-]*:`([^`]+)`")
_CODE = re.compile(r"``(.+?)``")
_CROSS_REFERENCE = re.compile(r"\[?`([^`]+)`\]?(?:__?\b|__?(?=\W|$))?")
_TITLE_AND_TARGET = re.compile(r"^(.*\S)\s*<[^<>]*>$")
_FOOTNOTE = re.compile(r"\s?\[[#\w.*:-]+\]_+")
_MARKDOWN_LINK = re.compile(r"!?\[([^\]]+)\]\([^)\s]*\)")
_STRONG = re.compile(r"\*\*(\S(?:[^*]*\S)?)\*\*")
_EMPHASIS = re.compile(r"(?<![\w*])\*(\w(?:[^*]*[\w.!?])?)\*(?![\w*])")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_ESCAPE = re.compile(r"\\([*_`| ])")

_UNWANTED = re.compile(r"[\\{}|=<>$^`#@~\[\]]|::|https?:|www\.|\.\.\.|…|\*|--|__")
_ENDS = re.compile(r"[.!?][\"')]*$")
_STARTS = re.compile(r"^[\"'(]?[^\W_]")
_WORDLIKE = re.compile(r"^[\"'(]*[^\W\d_]+(?:['’-][^\W\d_]+)*(?:\(\))?[\"'),.;:!?]*$")
MIN_WORDLIKE = 0.6


class Prose(NamedTuple):
    """A docstring's paragraphs: before its first section, and in sections of prose."""

    lead: list[str]
    rest: list[str]


def prose_of(docstring: str) -> Prose:
    """The docstring's paragraphs of prose, each as one line without inline markup.

    Understands reStructuredText, the styles of NumPy and Google, Sphinx's field lists and the
    Markdown of docstrings. Leaves out titles, sections of parameters, results, examples and
    references, directives, footnotes, literal and fenced blocks, doctests, tables, lists and
    indented blocks.
    """
    return _Cleaner().run(inspect.cleandoc(docstring).split("\n"))


class _Cleaner:
    """A pass over the lines. open: lines of the current paragraph. skip_…: what is left out now."""

    def __init__(self) -> None:
        self.lead: list[str] = []
        self.rest: list[str] = []
        self.open: list[str] = []
        self.indent = 0
        self.titled = False
        self.skip_section = False
        self.skip_deeper: int | None = None
        self.skip_to_blank = False
        self.fenced = False

    def run(self, lines: list[str]) -> Prose:
        previous_title = False
        for number, line in enumerate(lines):
            text = line.strip()
            following = lines[number + 1].strip() if number + 1 < len(lines) else ""
            if previous_title:
                previous_title = False
            elif not self.fenced and text and _is_title(text, following):
                self._title(text)
                previous_title = True
            else:
                self._line(text, len(line) - len(line.lstrip()))
        self._close()
        return Prose(self.lead, self.rest)

    def _title(self, text: str) -> None:
        self._close()
        self.titled = True
        self.skip_deeper = None
        self.skip_to_blank = False
        self.skip_section = text.rstrip(":").lower() not in _PROSE_SECTIONS

    def _line(self, text: str, indent: int) -> None:
        if self.fenced or _FENCE.match(text):
            if _FENCE.match(text):
                self._close()
                self.fenced = not self.fenced
            return
        if not text:
            self._close()
            self.skip_to_blank = False
            return
        if self.skip_deeper is not None:
            if indent > self.skip_deeper:
                return
            self.skip_deeper = None
        if self.skip_section or self.skip_to_blank:
            return
        if _LABEL.match(text) or _FIELD.match(text):
            self._drop_deeper(indent)
            self.titled = True
        elif text.startswith(".. ") or text == ".." or _BULLET.match(text):
            self._drop_deeper(indent)
        elif _DOCTEST.match(text) or _TABLE_ROW.match(text) or _RULE.match(text):
            self._close()
            self.skip_to_blank = True
        elif _MARKDOWN_HEADING.match(text):
            self._close()
            self.titled = True
        elif self.open and indent > self.indent:  # a term with its definition
            self.open.clear()
            self.skip_deeper = self.indent
        elif not self.open and indent > 0:  # code, a quotation
            self.skip_to_blank = True
        else:
            self.indent = indent
            self.open.append(text)

    def _drop_deeper(self, indent: int) -> None:
        self._close()
        self.skip_deeper = indent

    def _close(self) -> None:
        if not self.open:
            return
        raw = " ".join(self.open)
        self.open.clear()
        if raw.endswith("::"):
            self.skip_deeper = self.indent
        text = plain(raw)
        if text:
            (self.rest if self.titled else self.lead).append(text)


def _is_title(text: str, following: str) -> bool:
    if not _UNDERLINE.match(following) or _UNDERLINE.match(text):
        return False
    return len(following) >= min(len(text), 4)


def plain(text: str) -> str:
    """The text without inline markup: roles, code, emphasis, links, footnotes, tags."""
    text = _ROLE.sub(lambda match: _shown(match[1]), text)
    text = _CODE.sub(lambda match: match[1], text)
    text = _FOOTNOTE.sub("", text)
    text = _MARKDOWN_LINK.sub(lambda match: match[1], text)
    text = _CROSS_REFERENCE.sub(lambda match: _shown(match[1]), text)
    text = _STRONG.sub(r"\1", text)
    text = _EMPHASIS.sub(r"\1", text)
    text = _TAG.sub("", text)
    text = _ESCAPE.sub(lambda match: match[1].strip(), text)
    if text.endswith("::"):
        text = text[:-1]
    return " ".join(text.split())


def _shown(target: str) -> str:
    """The shown text of a reference: its title, or with `~` the last part of its name."""
    titled = _TITLE_AND_TARGET.match(target)
    if titled:
        return titled[1]
    return target.rsplit(".", 1)[-1] if target.startswith("~") else target.lstrip("!.")


def is_prose(sentence: str) -> bool:
    """Whether a sentence is prose: mostly words, without markup, links or formulas."""
    if _UNWANTED.search(sentence) or not _STARTS.match(sentence) or sentence[-1] in ":,;(":
        return False
    words = sentence.split()
    return sum(map(bool, map(_WORDLIKE.match, words))) >= MIN_WORDLIKE * len(words)


def is_whole(paragraph: str) -> bool:
    """Whether a paragraph ends like a sentence."""
    return _ENDS.search(paragraph) is not None
