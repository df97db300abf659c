"""Spans of tokens that may be entities: nouns of the lexicon, names from code, proper names."""

from collections.abc import Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tercet.models.english.words import NUMBER_WORDS
from tercet.models.knowledge.lexicon import MAX_WORDS, Lexicon
from tercet.models.knowledge.tokens import CAPITALISED, CAPITALS, IDENTIFIER, LOWER, ROMAN, Tokens

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

MAX_NAME = 6  # words; a longer run of capitals is a headline


@dataclass(frozen=True)
class Spans:
    """Candidates as columns: first and last token, the lexicon's entry and set of types (-1 for
    identifiers and names)."""

    first: Ints
    last: Ints
    entry: Ints
    types: Ints


def nouns(tokens: Tokens, lexicon: Lexicon) -> Spans:
    """Every phrase of the lexicon that occurs in the texts, of whatever length.

    The last word may be a plural. Closed-class words never begin or end a match, a part of a
    hyphened word is none, and a lone word after a pronoun or a modal is a verb.
    """
    count = len(tokens.starts)
    word = (tokens.kind == LOWER) | (tokens.kind == CAPITALISED) | (tokens.kind == CAPITALS)
    inner = word & ~tokens.stop
    tied_before = np.zeros(count, dtype=np.bool_)
    tied_before[1:] = (tokens.tied & ~_any_of(tokens, NUMBER_WORDS))[:-1]
    verb = np.zeros(count, dtype=np.bool_)
    verb[1:] = (tokens.before_verb & tokens.joined)[:-1]
    verb &= tokens.kind == LOWER
    columns: list[tuple[Ints, Ints, Ints, Ints]] = []
    begin = np.flatnonzero(inner & ~tied_before & ((tokens.surface >= 0) | (tokens.lemma >= 0)))
    node = np.full(len(begin), -1, dtype=np.int64)
    for length in range(1, MAX_WORDS + 1):
        last = begin + length - 1
        if length == 1:
            surface, lemma = tokens.surface[last], tokens.lemma[last]
        else:
            surface = lexicon.phrases.step(node, tokens.surface[last])
            lemma = lexicon.phrases.step(node, tokens.lemma[last])
        ends = inner[last] & ~tokens.tied[last]
        if length == 1:
            ends &= ~verb[last] & ~tokens.weak[last]
        entry = lexicon.phrases.entry(surface)
        types = _types(tokens, lexicon, begin, last, entry)
        other = lexicon.phrases.entry(lemma)
        other_types = _types(tokens, lexicon, begin, last, other)
        plain = types >= 0
        entry, types = np.where(plain, entry, other), np.where(plain, types, other_types)
        found = ends & (types >= 0)
        columns.append((begin[found], last[found], entry[found], types[found]))
        further = (surface >= 0) & tokens.joined[last] & (last + 1 < count)
        begin, node = begin[further], surface[further]
    parts = [np.concatenate(each) for each in zip(*columns, strict=True)]
    return Spans(*parts)


def identifiers(tokens: Tokens) -> Spans:
    """Names from code: snake_case, CamelCase, dotted.names, call(), --flags."""
    return _plain(np.flatnonzero((tokens.kind == IDENTIFIER) & ~tokens.stop))


def names(tokens: Tokens) -> Spans:
    """Runs of capitalised words, linked by "of" and the like, and acronyms.

    A text's first word is capitalised anyway: it counts if it is an acronym, or unknown to the
    lexicon and no verb of documentation, with a capitalised word behind. Texts in title case or
    capitals have no names.
    """
    count = len(tokens.starts)
    if not count:
        return _plain(np.zeros(0, dtype=np.int64))
    capital = (tokens.kind == CAPITALISED) | (tokens.kind == CAPITALS)
    initial = (tokens.ends - tokens.starts == 1) & capital & tokens.dotted
    abroad = _any_of(tokens, {"us"})
    name = capital & (~tokens.stop | initial | (abroad & (tokens.kind == CAPITALS)))
    sizes = np.bincount(tokens.text)
    headline = (np.bincount(tokens.text, weights=capital) > 0.7 * sizes) & (sizes >= 6)
    name &= ~headline[tokens.text]

    near = (tokens.joined | (tokens.dotted & (initial | tokens.title)))[:-1]
    linked = np.zeros(count, dtype=np.bool_)  # to the next token
    goes_on = name | (tokens.kind == ROMAN)
    linked[:-1] = near & name[:-1] & goes_on[1:]
    the = _any_of(tokens, {"the"})
    for gap in ((tokens.link,), (tokens.link, the)):
        width = len(gap) + 1
        bridge = name[:-width] & name[width:]
        for place, inside in enumerate(gap, start=1):
            bridge &= inside[place : count - width + place]
        for place in range(width):
            bridge &= near[place : count - width + place]
        at = np.flatnonzero(bridge)
        for place in range(width):
            linked[at + place] = True
    begins = linked.copy()
    begins[1:] &= ~linked[:-1]
    alone = name & ~linked
    alone[1:] &= ~linked[:-1]
    last = np.flatnonzero(~linked)
    first = np.flatnonzero(begins | alone)
    last = last[np.searchsorted(last, first)]

    known = (tokens.surface >= 0) | (tokens.lemma >= 0) | tokens.inflected | tokens.opener
    opening = tokens.first[first] & (tokens.kind[first] == CAPITALISED)
    second = np.minimum(first + 1, count - 1)
    kept = ~known[first] & (last > first) & name[second]
    following = np.append(np.flatnonzero(name), count)
    moved = following[np.searchsorted(following, first + 1)]
    first = np.where(opening & ~kept, moved, first)
    fits = (first <= last) & (last - first < MAX_NAME)
    first, last = first[fits], last[fits]
    lone_initial = (first == last) & (tokens.ends[first] - tokens.starts[first] == 1)
    return _plain(first[~lone_initial], last[~lone_initial])


def _any_of(tokens: Tokens, words: Set[str]) -> Flags:
    """Which tokens are one of the casefolded words."""
    return np.array([fold in words for fold in tokens.folded], dtype=np.bool_)[tokens.code]


def _plain(first: Ints, last: Ints | None = None) -> Spans:
    none = np.full(len(first), -1, dtype=np.int64)
    return Spans(first, first if last is None else last, none, none)


def _types(tokens: Tokens, lexicon: Lexicon, first: Ints, last: Ints, entry: Ints) -> Ints:
    """The set of types with which each span is that entry, by its letter case; -1 for none."""
    known = entry >= 0
    at = np.where(known, entry, 0)
    upper = (tokens.kind[first] >= CAPITALISED) & (tokens.kind[last] >= CAPITALISED)
    capitals = (tokens.kind[first] == CAPITALS) & (tokens.kind[last] == CAPITALS)
    ordinary, proper = lexicon.ordinary[at], lexicon.proper[at]
    opening = tokens.first[first] & (first == last) & ~capitals
    doubtful = opening & tokens.inflected[first]
    named = np.where(opening & (ordinary >= 0), ordinary, np.where(doubtful, -1, proper))
    named = np.where(lexicon.capitals[at] & ~capitals, -1, named)
    return np.where(known, np.where(upper, named, ordinary), -1)
