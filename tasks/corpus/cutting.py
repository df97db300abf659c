"""Documents cut into passages: at headings, paragraphs and sentences, within a budget of tokens."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from tercet.models.text.lengths import UNSPACED
from tercet.models.text.passages import context_of
from tercet.tasks.corpus.sources.corpora import Document, Heading, open_headings

# The tokens of each text.
Count: TypeAlias = Callable[[Sequence[str]], list[int]]

# Where a sentence may be cut: between words, and between letters of scripts without spaces. What
# has no spaces for longer is data, not a word.
_UNIT = re.compile(rf"{UNSPACED.pattern}|(?:(?!{UNSPACED.pattern})\S){{1,100}}")


class Section(NamedTuple):
    """What stands under one heading: title and headings above it, and its own paragraphs."""

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


def sections(document: Document, context: bool) -> Iterator[Section]:
    """The document's paragraphs between its headings, which are in no section's paragraphs.

    context: whether they are told; else it is empty.
    """
    above: list[Heading] = open_headings(h for h in document.headings if h.paragraph < 0)
    headings = {heading.paragraph: heading for heading in document.headings}
    held: list[list[str]] = []
    for number, paragraph in enumerate(document.paragraphs):
        if number not in headings:
            held.append(paragraph)
            continue
        if held:
            yield Section(_path(document.title, above) if context else "", held)
        held, above = [], open_headings([*above, headings[number]])
    if held:
        yield Section(_path(document.title, above) if context else "", held)


def _path(title: str | None, above: Sequence[Heading]) -> str:
    names = [heading.text for heading in above]
    if title is not None and names[:1] != [title]:
        names = [title, *names]
    return context_of(names)


def cut(
    documents: Sequence[Document], tokens: int, overlap: int, context: bool, count: Count
) -> list[list[Passage]]:
    """The passages of each document, in order.

    A passage has at most `tokens` with its context, which takes no more than half of them from the
    text. It never spans a heading, and parts no paragraph that has room in one passage; a longer
    one is cut at sentences. A sentence without room is passages of its own, cut at words.

    overlap: at most so many tokens of a passage's end, in whole sentences and never all of them,
        also begin the next one.
    """
    read = [list(sections(document, context)) for document in documents]
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
            for text, size in _pieces(section, tokens, overlap, sizes, count)
        ]
        for some in read
    ]


def _pieces(
    section: Section, tokens: int, overlap: int, sizes: Mapping[str, int], count: Count
) -> Iterator[tuple[str, int]]:
    """The section's texts with their own tokens."""
    room = max(tokens - sizes[section.context], (tokens + 1) // 2)
    run: list[_Sentence] = []
    for number, paragraph in enumerate(section.paragraphs):
        for text in paragraph:
            if sizes[text] <= room:
                run.append(_Sentence(text, number, sizes[text]))
                continue
            yield from _packed(run, room, overlap)
            run = []
            parts = _parts(text, room, count)
            yield from zip(parts, count(parts), strict=True)
    yield from _packed(run, room, overlap)


def _packed(run: Sequence[_Sentence], room: int, overlap: int) -> Iterator[tuple[str, int]]:
    """Sentences, each of which has room, as passages."""
    start = end = 0
    while end < len(run):
        size, stop = sum(one.size for one in run[start:end]), end
        while stop < len(run) and size + run[stop].size <= room:
            size += run[stop].size
            stop += 1
        if stop < len(run):
            first, whole = _paragraph(run, stop, room)
            if end < first and whole <= room:
                stop = first
        yield _joined(run[start:stop]), sum(one.size for one in run[start:stop])
        begun, start, end = start, stop, stop
        if end < len(run):
            first, whole = _paragraph(run, end, room)
            needed = whole if first == end and whole <= room else run[end].size
            left = min(overlap, room - needed)
            while start > begun + 1 and run[start - 1].size <= left:
                start -= 1
                left -= run[start].size


def _paragraph(run: Sequence[_Sentence], index: int, room: int) -> tuple[int, int]:
    """Where the paragraph of a sentence begins, and its size; of one without room, a part of it."""
    first, last, size = index, index, 0
    while first and size <= room and run[first - 1].paragraph == run[index].paragraph:
        first -= 1
        size += run[first].size
    while last < len(run) and size <= room and run[last].paragraph == run[index].paragraph:
        size += run[last].size
        last += 1
    return first, size


def _joined(run: Sequence[_Sentence]) -> str:
    """Sentences with blanks between them, paragraphs on lines of their own."""
    text = run[0].text
    for one, before in zip(run[1:], run, strict=False):
        text += (" " if one.paragraph == before.paragraph else "\n") + one.text
    return text


def _parts(text: str, room: int, count: Count) -> list[str]:
    """A sentence cut at words, each part as long as there is room."""
    units = list(_UNIT.finditer(text))
    parts, start, end, size = [], 0, 0, 0
    for unit, own in zip(units, count([unit[0] for unit in units]), strict=True):
        if size and size + own > room:
            parts.append(text[start:end])
            start, size = unit.start(), 0
        end, size = unit.end(), size + own
    return [*parts, text[start:]]
