"""Finds the passages that answer a question, by the file, the row's id or the quote it names."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa
import regex

from tercet.models.text.words import UNSPACED
from tercet.tasks.corpus.sources.hypertext import decoded
from tercet.tasks.corpus.sources.streams import COMPRESSIONS, FORMATS
from tercet.tasks.evaluation.suites.own_questions import Question, readings

COLUMNS = ("passage_id", "doc_id", "corpus", "source", "path", "text")
# Paths that a message lists, at most.
_LISTED = 3

# Unlike `re`, `regex` treats combining marks, such as vowels of Hindi, as parts of a word.
_NO_WORD = regex.compile(r"[\W_]+")
_WHOLE_NUMBER = re.compile(r"^(\d+)\.0+$")
# Separators of several files or ids in one cell, and of several quotes.
_BETWEEN: Mapping[str, str] = {"file": "\n|;,", "id": "\n|;,", "quote": "\n|"}
_TAG = re.compile(r"<[^<>]*>")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\((?:[^()]|\([^()]*\))*+\)")
_SUFFIX = "|".join(map(re.escape, (*FORMATS, ".htm")))
_ENDS = re.compile(rf"({_SUFFIX})?({'|'.join(map(re.escape, COMPRESSIONS))})?$", re.IGNORECASE)


class _Letters(NamedTuple):
    """A document's letters and digits in lower case, joined without spaces.

    ends: the end of each passage in `joined`. words: where words begin or end.
    """

    joined: str
    ends: Sequence[int]
    words: Set[int]


class NotFound(NamedTuple):
    """Why nothing answers a question: a reason of `rejects`, and the detail."""

    reason: str
    detail: str


@dataclass(frozen=True)
class Passages:
    """The passages of a run, indexed by the names that questions give them.

    documents: the places of each document's passages, in order. files: documents by file. paths:
    documents by file and row. ids: documents by the id in their table, else by the number of the
    row. file_of: each document's file, with its corpus in front if several corpora have a file of
    this name. whole: files by their name, in each of `_FORMS`. ends: files by each end of their
    path, likewise. folders: all folders of files, in lower case. texts: a cache of each document's
    letters.
    """

    table: pa.Table
    documents: Mapping[int, Sequence[int]]
    files: Mapping[str, Sequence[int]]
    paths: Mapping[str, Sequence[int]]
    ids: Mapping[str, Sequence[int]]
    file_of: Mapping[int, str]
    whole: Sequence[Mapping[str, Sequence[str]]]
    ends: Sequence[Mapping[str, Sequence[str]]]
    folders: Set[str]
    texts: dict[int, _Letters] = field(default_factory=dict)


def index_passages(table: pa.Table, ids: Iterable[tuple[str, str, str]]) -> Passages:
    """table: `COLUMNS` of `passages`. ids: corpus, path and id of rows that have one."""
    documents: dict[int, list[int]] = {}
    files: dict[str, list[int]] = {}
    paths: dict[str, list[int]] = {}
    rows: dict[str, list[int]] = {}
    file_of: dict[int, str] = {}
    at: dict[tuple[str, str], int] = {}
    corpora: dict[str, dict[str, None]] = {}
    for corpus, source in zip(*(table[name].to_pylist() for name in COLUMNS[2:4]), strict=True):
        corpora.setdefault(source, {})[corpus] = None
    columns = (table[name].to_pylist() for name in COLUMNS[1:5])
    for place, (document, corpus, source, path) in enumerate(zip(*columns, strict=True)):
        if document not in documents:
            file = source if len(corpora[source]) == 1 else f"{corpus}/{source}"
            file_of[document] = file
            files.setdefault(file, []).append(document)
            paths.setdefault(path, []).append(document)
            rows.setdefault(path.rpartition(":")[2], []).append(document)
            at[corpus, path] = document
        documents.setdefault(document, []).append(place)
    by_id: dict[str, list[int]] = {}
    for corpus, path, doc_id in ids:
        if (corpus, path) in at:
            by_id.setdefault(_whole_number(doc_id), []).append(at[corpus, path])
    whole: list[dict[str, list[str]]] = [{} for _ in _FORMS]
    ends: list[dict[str, list[str]]] = [{} for _ in _FORMS]
    for source, of_source in corpora.items():
        same = [source] if len(of_source) == 1 else [f"{corpus}/{source}" for corpus in of_source]
        for number, form in enumerate(_FORMS):
            name = form(_slashed(source))
            # On a site, the address of a folder is that of its index page.
            for one in {name, name.removesuffix("/index")}:
                whole[number].setdefault(one, []).extend(same)
                for end in _ends_of(one):
                    ends[number].setdefault(end, []).extend(same)
    folders = {
        "/".join(parts[:end])
        for parts in (_slashed(source).casefold().split("/") for source in corpora)
        for end in range(1, len(parts))
    }
    places = (files, paths, by_id or rows)
    return Passages(table, documents, *places, file_of, whole, ends, folders)


def split_question(question: Question, passages: Passages) -> Sequence[Question]:
    """Splits a question whose cell lists several answers, unless the whole cell names one."""
    for column, marks in _BETWEEN.items():
        cell = getattr(question, column)
        if cell is None or not isinstance(
            _answers_of_cell(question, column, cell, passages), NotFound
        ):
            continue
        for mark in marks:
            parts = [part.strip() for part in cell.split(mark) if part.strip()]
            if any(
                not isinstance(_answers_of_cell(question, column, p, passages), NotFound)
                for p in parts
            ):
                return [
                    one
                    for part in parts
                    for one in split_question(question._replace(**{column: part}), passages)
                ]
    return [question]


def _answers_of_cell(
    question: Question, column: str, cell: str, passages: Passages
) -> Sequence[int] | NotFound:
    """The answers by this cell alone; a quote is searched within the question's file or row."""
    if column == "quote":
        return find_answers(question._replace(quote=cell), passages)
    cells: dict[str, Any] = {"file": None, "id": None, column: cell}
    return _documents(question._replace(**cells), passages)


def find_answers(question: Question, passages: Passages) -> Sequence[int] | NotFound:
    """The places of the passages that answer the question."""
    documents: Sequence[int] | NotFound = list(passages.documents)
    if question.file is not None or question.id is not None:
        documents = _documents(question, passages)
    if isinstance(documents, NotFound):
        return documents
    if question.quote is None:
        return [place for document in documents for place in passages.documents[document]]
    forms = (question.quote, _without_markup(question.quote))
    quotes = dict.fromkeys("".join(_words(quote)) for quote in forms)
    answers = {
        place: None
        for quote in quotes
        if quote
        for document in documents
        for place in _passages_with_quote(quote, document, passages)
    }
    where = "no passage" if question.file is None else f"no passage of {question.file!r}"
    quote = question.quote if len(question.quote) <= 60 else question.quote[:59] + "…"
    return list(answers) or NotFound("no_passage", f"{where} holds {quote!r}")


def _documents(question: Question, passages: Passages) -> Sequence[int] | NotFound:
    """The documents with the question's file, its id, or both."""
    if question.file is None:
        doc_id = question.id or ""
        documents = passages.ids.get(_whole_number(doc_id)) or passages.paths.get(doc_id)
        files = list(dict.fromkeys(passages.file_of[document] for document in documents or ()))
        if len(files) > 1:
            return NotFound("several_files", f"{question.id!r} is in {_listing(files)}")
        return documents or NotFound("no_document", f"no document has the id {question.id!r}")
    name = unicodedata.normalize("NFC", question.file)
    in_file = passages.paths.get(name)
    if in_file is None:
        by_reading = [_sources(reading, passages) for reading in readings(name)]
        found_by = (one for one in by_reading if not isinstance(one, NotFound))
        sources = next(found_by, by_reading[0])
        if isinstance(sources, NotFound):
            return sources
        in_file = [document for source in sources for document in passages.files[source]]
    if question.id is None:
        return in_file
    documents = [one for one in in_file if one in passages.ids.get(_whole_number(question.id), ())]
    what = f"no document of {question.file!r} has the id {question.id!r}"
    return documents or NotFound("no_document", what)


def _sources(name: str, passages: Passages) -> Sequence[str] | NotFound:
    """The file of this name: by its exact path, then by the end of its path in looser forms."""
    if name in passages.files:
        return [name]
    folders = passages.folders
    for form, whole, ends in zip(_FORMS, passages.whole, passages.ends, strict=True):
        slashed = form(_slashed(name))
        # The name may begin above the corpus's folder, but guide/index.md must not find index.md.
        longer = (
            whole[end]
            for end in _ends_of(slashed)
            if end in whole and _starts_above(slashed, end, folders)
        )
        sources = ends.get(slashed) if slashed not in whole else whole[slashed]
        sources = sources or next(longer, None)
        if sources is not None and len(sources) == 1:
            return sources
        if sources is not None:
            return NotFound("several_files", f"{name!r} is the end of {_listing(sources)}")
    return NotFound("no_document", f"no path of a passage ends in {name!r}")


def _listing(paths: Sequence[str]) -> str:
    rest = ", …" if len(paths) > _LISTED else ""
    return f"{len(paths):,} paths: {', '.join(paths[:_LISTED])}{rest}"


def _starts_above(path: str, end: str, folders: Set[str]) -> bool:
    """Whether the path's beginning, before this end, is not a folder of the corpus."""
    before = path.removesuffix(end).strip("/").casefold()
    return folders.isdisjoint(_ends_of(before))


def _passages_with_quote(quote: str, document: int, passages: Passages) -> Iterator[int]:
    """The places of the document's passages that hold the quote or, if it spans several, a part."""
    places = passages.documents[document]
    text = passages.texts.get(document)
    if text is None:
        column = passages.table["text"]
        text = passages.texts[document] = _letters([column[place].as_py() for place in places])
    begin = text.joined.find(quote)
    while begin >= 0:
        end = begin + len(quote)
        if begin in text.words and end in text.words:
            starts = (0, *text.ends)
            for place, start, stop in zip(places, starts, text.ends, strict=False):
                if start < end and begin < stop:
                    yield place
        begin = text.joined.find(quote, begin + 1)


def _letters(texts: Sequence[str]) -> _Letters:
    words = [_words(text) for text in texts]
    joined = "".join(word for some in words for word in some)
    bounds = set(accumulate((len(word) for some in words for word in some), initial=0))
    # Without spaces a word may begin and end at any letter.
    for letter in UNSPACED.finditer(joined):
        bounds.update(letter.span())
    ends = list(accumulate(sum(map(len, some)) for some in words))
    return _Letters(joined, ends, bounds)


def _words(text: str) -> list[str]:
    """The text's runs of letters and digits, case-folded."""
    return [word for word in _NO_WORD.split(unicodedata.normalize("NFKC", text).casefold()) if word]


def _whole_number(name: str) -> str:
    """A number without the `.0` that spreadsheets add."""
    return _WHOLE_NUMBER.sub(r"\1", name)


def _without_markup(text: str) -> str:
    """The text without tags and targets of links, with entities decoded."""
    return _LINK.sub(r"\1", decoded(_TAG.sub(" ", text)))


def _slashed(path: str) -> str:
    return unicodedata.normalize("NFC", path).replace("\\", "/").removeprefix("./").strip("/")


def _stem(path: str) -> str:
    """The path without suffixes that a reader knows."""
    return _ENDS.sub("", path)


def _ends_of(path: str) -> Iterator[str]:
    """The path, and each end of it that begins after a slash."""
    parts = path.split("/")
    return ("/".join(parts[start:]) for start in range(len(parts)))


# Forms in which names are compared, from the strictest to the loosest.
_FORMS: Sequence[Callable[[str], str]] = (
    str,
    _stem,
    str.casefold,
    lambda path: _stem(path.casefold()),
)
