"""Stage `passages`: reads the corpora's documents again and cuts them into passages for search.

Documents are read and cut in lots of bounded size; only ids of documents and passages stay in
memory.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from tercet.models import seeding
from tercet.models.text.passages import context_of, passage_text
from tercet.models.text.words import UNSPACED, count_words
from tercet.tasks.corpus import ingest
from tercet.tasks.corpus.former_parts import former_parts
from tercet.tasks.corpus.sources.corpora import (
    Document,
    Heading,
    PassagesConfig,
    Reading,
    open_headings,
)
from tercet.tasks.corpus.sources.registry import reader_of
from tercet.tasks.rejects import Rejects
from tercet.tasks.stage import OnePart, Stage, Work
from tercet.tasks.tokenizer import load_tokenizer

# Gives the number of tokens of each text.
Count: TypeAlias = Callable[[Sequence[str]], list[int]]

# Units between which a sentence may be cut: words, letters of scripts without spaces, and pieces of
# 100 characters of longer stretches without spaces, which are data.
_UNIT = re.compile(rf"{UNSPACED.pattern}|(?:(?!{UNSPACED.pattern})\S){{1,100}}")


class Section(NamedTuple):
    """The paragraphs under one heading. context: the title and the headings above them."""

    context: str
    paragraphs: list[list[str]]


class Passage(NamedTuple):
    """A piece of a section. n_tokens: of text and context together."""

    context: str
    text: str
    n_tokens: int


class _Sentence(NamedTuple):
    text: str
    paragraph: int
    size: int


def sections(document: Document) -> Iterator[Section]:
    """The document's paragraphs between its headings, without the headings."""
    above: list[Heading] = open_headings(h for h in document.headings if h.paragraph < 0)
    headings = {heading.paragraph: heading for heading in document.headings}
    held: list[list[str]] = []
    for number, paragraph in enumerate(document.paragraphs):
        if number not in headings:
            held.append(paragraph)
            continue
        if held:
            yield Section(_path(document.title, above), held)
        held, above = [], open_headings([*above, headings[number]])
    if held:
        yield Section(_path(document.title, above), held)


def _path(title: str | None, above: Sequence[Heading]) -> str:
    names = [heading.text for heading in above]
    if title is not None and names[:1] != [title]:
        names = [title, *names]
    return context_of(names)


def cut(documents: Sequence[Document], tokens: int, count: Count) -> list[list[Passage]]:
    """The passages of each document, in order.

    A passage has at most `tokens` with its context, and a long context leaves half of them to the
    text. A passage never spans a heading, and never divides a paragraph that fits into one passage;
    longer paragraphs are cut at sentences. Longer sentences are cut at words into passages of their
    own.
    """
    read = [list(sections(document)) for document in documents]
    texts: dict[str, None] = {}
    for section in (one for some in read for one in some):
        texts[section.context] = None
        texts.update(dict.fromkeys(text for texts in section.paragraphs for text in texts))
    texts.pop("", None)
    sizes = {"": 0, **dict(zip(texts, count(list(texts)), strict=True))}
    return [
        [
            Passage(section.context, text, sizes[section.context] + size)
            for section in some
            for text, size in _pieces(section, tokens, sizes, count)
        ]
        for some in read
    ]


def _pieces(
    section: Section, tokens: int, sizes: Mapping[str, int], count: Count
) -> Iterator[tuple[str, int]]:
    """The section's passages: text, and tokens without the context."""
    room = max(tokens - sizes[section.context], (tokens + 1) // 2)
    run: list[_Sentence] = []
    for number, paragraph in enumerate(section.paragraphs):
        for text in paragraph:
            if sizes[text] <= room:
                run.append(_Sentence(text, number, sizes[text]))
                continue
            yield from _packed(run, room)
            run = []
            parts = _parts(text, room, count)
            yield from zip(parts, count(parts), strict=True)
    yield from _packed(run, room)


def _packed(run: Sequence[_Sentence], room: int) -> Iterator[tuple[str, int]]:
    """Packs sentences that all fit into passages: text and tokens."""
    start = 0
    while start < len(run):
        size, stop = 0, start
        while stop < len(run) and size + run[stop].size <= room:
            size += run[stop].size
            stop += 1
        if stop < len(run):
            first, whole = _paragraph(run, stop, room)
            if start < first and whole <= room:
                stop = first
        yield _joined(run[start:stop]), sum(one.size for one in run[start:stop])
        start = stop


def _paragraph(run: Sequence[_Sentence], index: int, room: int) -> tuple[int, int]:
    """The start and size of a sentence's paragraph; both partial if the paragraph does not fit."""
    first, last, size = index, index, 0
    while first and size <= room and run[first - 1].paragraph == run[index].paragraph:
        first -= 1
        size += run[first].size
    while last < len(run) and size <= room and run[last].paragraph == run[index].paragraph:
        size += run[last].size
        last += 1
    return first, size


def _joined(run: Sequence[_Sentence]) -> str:
    """The sentences with blanks between them, each paragraph on a new line."""
    text = run[0].text
    for one, before in zip(run[1:], run, strict=False):
        text += (" " if one.paragraph == before.paragraph else "\n") + one.text
    return text


def _parts(text: str, room: int, count: Count) -> list[str]:
    """A sentence cut at words into parts that just fit."""
    units = list(_UNIT.finditer(text))
    parts, start, end, size = [], 0, 0, 0
    for unit, tokens in zip(units, count([unit[0] for unit in units]), strict=True):
        if size and size + tokens > room:
            parts.append(text[start:end])
            start, size = unit.start(), 0
        end, size = unit.end(), size + tokens
    return [*parts, text[start:]]


PASSAGES = pa.schema(
    [
        ("passage_id", pa.uint64()),
        ("doc_id", pa.uint64()),
        ("text", pa.string()),
        ("context", pa.string()),
        ("corpus", pa.string()),
        ("source", pa.string()),
        ("path", pa.string()),
        ("position", pa.int32()),
        ("n_tokens", pa.int32()),
        ("split", pa.string()),
    ]
)
"""Table `passages`. The documents of `documents`, cut at headings, paragraphs and sentences to at
most `ingest.passages.tokens`; among equal passages only the first is kept. No `text` holds
headings, so a document of headings alone has no passage.

Passages hold all sentences of a document, also code and sentences that `sentences` lacks because of
their length or as duplicates: a passage of train may share words with test.

Key: `passage_id`.

Columns:
    passage_id: id of the text that an encoder reads: the context, a line break and the text;
        without a context, the text
    doc_id: → `documents.doc_id`
    text: the passage: sentences with a blank between them, paragraphs with a line break
    context: title of the file or row and the headings above the passage, joined by ` > `; empty
        without any
    corpus: the corpus's name in the recipe
    source: as in `documents`
    path: the place of its document, as in `documents`
    position: number of the passage in its document, from 0; dropped duplicates are counted, so
        there are gaps
    n_tokens: tokens of text and context by the backbone's tokenizer, without special ones; words in
        a recipe without a backbone
    split: that of the document
"""

# Most characters and documents that are cut at once; a longer document is cut alone.
_LOT, _MOST = 1_000_000, 5_000


def run(work: Work) -> None:
    """Emits `passages`; a reject for each document that is not in `documents` or comes again."""
    with former_parts(work, {"passages": PASSAGES}) as ordered:
        _run(ordered)


def _run(work: Work) -> None:
    documents = work.inputs["documents"].table("documents", ["doc_id", "split"]).sort_by("doc_id")
    ids, splits = documents["doc_id"].to_numpy(), documents["split"].to_pylist()
    left = np.ones(len(ids), dtype=np.bool_)
    rejects = Rejects("passages", work.emit, work.resources.part_rows)
    seen: set[int] = set()
    rows: list[tuple[Any, ...]] = []
    for corpus, document, passages in _cut(work):
        doc_id = seeding.text_id(document.text())
        place = int(np.searchsorted(ids, np.uint64(doc_id)))
        if place == len(ids) or ids[place] != doc_id or not left[place]:
            if passages:
                detail = f"{document.path}: {len(passages)} passages"
                rejects.add(doc_id, "document_left_out", detail, passages[0].text)
            continue
        left[place] = False
        of_document = (corpus, document.source, document.path)
        for position, (context, text, n_tokens) in enumerate(passages):
            passage_id = seeding.text_id(passage_text(context, text))
            if passage_id in seen:
                rejects.add(passage_id, "duplicate", f"{document.path}: passage", text)
                continue
            seen.add(passage_id)
            passage = (passage_id, doc_id, text, context, *of_document, position, n_tokens)
            rows.append((*passage, splits[place]))
        if len(rows) >= work.resources.part_rows:
            _emit(work, rows)
            rows = []
            work.resources.progress(len(ids) - int(left.sum()), len(ids), "documents")
    _emit(work, rows)
    rejects.flush()


def _cut(work: Work) -> Iterator[tuple[str, Document, list[Passage]]]:
    """(corpus, document, passages) for every document of the corpora."""
    config: PassagesConfig = work.config
    count = _counter(work)
    for corpus in config.corpora:
        for lot in _lots(reader_of(corpus.source).read(corpus, config.max_line_bytes)):
            cut_lot = cut(lot, config.tokens, count)
            for document, passages in zip(lot, cut_lot, strict=True):
                yield corpus.name, document, passages


def _lots(readings: Iterator[Reading]) -> Iterator[list[Document]]:
    """The documents in lots of bounded size."""
    lot: list[Document] = []
    size = 0
    for reading in readings:
        if isinstance(reading, Document):
            lot.append(reading)
            size += sum(len(text) for paragraph in reading.paragraphs for text in paragraph)
            if size >= _LOT or len(lot) == _MOST:
                yield lot
                lot, size = [], 0
    if lot:
        yield lot


def _counter(work: Work) -> Count:
    if "tokenizer" not in work.models:
        return lambda texts: [count_words(text) for text in texts]
    tokenizer = load_tokenizer(work.models["tokenizer"], "ingest.passages")

    def count(texts: Sequence[str]) -> list[int]:
        if not texts:
            return []
        read = tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return [len(ids) for ids in read]

    return count


def _emit(work: Work, rows: Sequence[tuple[Any, ...]]) -> None:
    if rows:
        columns = [list(column) for column in zip(*rows, strict=True)]
        work.emit("passages", pa.table(columns, schema=PASSAGES))


STAGE = Stage(
    name="passages",
    config=PassagesConfig,
    tables={"passages": PASSAGES},
    run=run,
    seeded=False,
    libraries=(*ingest.LIBRARIES, "transformers", "tokenizers"),
    externals=ingest.externals,
    locations=ingest.STAGE.locations,
    uses=ingest.readers,
    cut=OnePart(continues=True),
)
