"""Docstrings as prose: markup, code, doctests, tables and parameter sections taken away."""

import inspect
import re
from typing import NamedTuple

# Sections whose text is prose about the object as a whole; every other titled section is data.
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
    """A docstring's paragraphs in order: before its first section, and in sections of prose."""

    lead: list[str]
    rest: list[str]


def prose_of(docstring: str) -> Prose:
    """The docstring's prose paragraphs, each as one line of text, inline markup taken away.

    Understood are reStructuredText, the styles of NumPy and Google, Sphinx's field lists and
    Markdown as docstrings use it. Left out are titles, sections of parameters, results, examples
    and references, directives, footnotes, literal and fenced blocks, doctests, tables, lists and
    indented blocks.
    """
    return _Cleaner().run(inspect.cleandoc(docstring).split("\n"))


class _Cleaner:
    """One pass over the lines, with what is open and what is being left out."""

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
    text = _ROLE.sub(lambda found: _shown(found[1]), text)
    text = _CODE.sub(lambda found: found[1], text)
    text = _FOOTNOTE.sub("", text)
    text = _MARKDOWN_LINK.sub(lambda found: found[1], text)
    text = _CROSS_REFERENCE.sub(lambda found: _shown(found[1]), text)
    text = _STRONG.sub(r"\1", text)
    text = _EMPHASIS.sub(r"\1", text)
    text = _TAG.sub("", text)
    text = _ESCAPE.sub(lambda found: found[1].strip(), text)
    if text.endswith("::"):
        text = text[:-1]
    return " ".join(text.split())


def _shown(target: str) -> str:
    """What a reader sees of a reference: its title, or with `~` the last part of its name."""
    titled = _TITLE_AND_TARGET.match(target)
    if titled:
        return titled[1]
    return target.rsplit(".", 1)[-1] if target.startswith("~") else target.lstrip("!.")


def is_prose(sentence: str) -> bool:
    """Whether a sentence reads as prose: no left-over markup, links or formulas; mostly words."""
    if _UNWANTED.search(sentence) or not _STARTS.match(sentence) or sentence[-1] in ":,;(":
        return False
    words = sentence.split()
    return sum(map(bool, map(_WORDLIKE.match, words))) >= MIN_WORDLIKE * len(words)


def is_whole(paragraph: str) -> bool:
    """Whether a paragraph ends as a sentence does."""
    return _ENDS.search(paragraph) is not None
