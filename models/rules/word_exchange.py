"""Words exchanged for related ones in the form in which they stand: found, and put in place."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tercet.models import seeding
from tercet.models.english.articles import replaced
from tercet.models.english.plurals import plural
from tercet.models.english.verbs import forms_of
from tercet.models.english.words import WORD, in_shape_of, word_set
from tercet.models.generation import JOINT, Given, Output
from tercet.models.knowledge.lexicon import Group

_DETERMINERS = word_set("the a an this that its their his her our my your each every no")
_BEFORE_VERB = word_set(
    """to can could will would shall should may might must not i we you he she it they who
    does do did never cannot"""
)
_BEFORE_PARTICIPLE = word_set("has have had having be been being is are was were by get gets got")
# Their other senses are too frequent: "he left the firm", "he means well", "back in 1990".
_ELUSIVE = word_set(
    """left right back like mean means well even kind last just present lead still found
    bear lie lay may can will being be do does did have has had go get got let made second
    minute might saw open close follows following"""
)
# Before a verb's third person; "this stores" and "that stores" are no nouns.
_BEFORE_NOUNS = _DETERMINERS - {"this", "that"}
_MODALS = word_set("to can could will would shall should may might must cannot")
_NO_SUBJECTS = word_set(
    "this is was as has does its his hers whereas versus towards besides across"
)
# Behind these the passive stays: "defined by" is not "undefined by".
_AGENTS = word_set("by as to")
# Characters that tie a word to a name from code, a path or a formula.
_TIED = frozenset("_./\\-`=@#~<>$")
_WORD_BEHIND = re.compile(r"\s+([A-Za-z]+)")
_SURE_AFTER = word_set("the a to on its his her their from upper lower far top bottom")
_SURE = frozenset(("left", "right"))


@dataclass(frozen=True)
class Sense:
    """What replaces a word in one of its readings, in the same form.

    part: noun, verb, adjective, adverb, preposition; past: for a form that is both past and
    participle, the exchange for the past.
    """

    part: str
    others: tuple[str, ...]
    past: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spot:
    """A place where words can be exchanged: text[start:end], for one of the options."""

    start: int
    end: int
    options: tuple[str, ...]


# casefolded word or phrase to its senses; and the phrases that begin with a word
Senses: TypeAlias = tuple[dict[str, tuple[Sense, ...]], dict[str, tuple[str, ...]]]


def senses_of(groups: Iterable[Group], *, skip: Callable[[str, str], bool]) -> Senses:
    """Every form of the groups' words, with the others of the group in that form.

    skip: (part of speech, word) of words that are not to be exchanged; they may still come in.
    """
    table: dict[str, dict[str, tuple[dict[str, None], dict[str, None]]]] = {}

    def enter(part: str, form: str, other: str, past: str = "") -> None:
        if form != other and not (part in ("verb", "form", "third") and form in _ELUSIVE):
            entry = table.setdefault(form, {}).setdefault(part, ({}, {}))
            entry[0][other] = None
            entry[1][past or other] = None

    for group in groups:
        words = [word.casefold() for word in group.words]
        if any(word != given for word, given in zip(words, group.words, strict=True)):
            continue
        for word in words:
            if skip(group.pos, word):
                continue
            for other in words:
                if other != word:
                    _enter_forms(enter, group.pos, word, other)
    senses = {
        form: tuple(Sense(p, tuple(others), tuple(past)) for p, (others, past) in found.items())
        for form, found in table.items()
        if form not in _ELUSIVE or form in _SURE
    }
    phrases: dict[str, list[str]] = {}
    for form in sorted(senses, key=len, reverse=True):
        if " " in form:
            phrases.setdefault(form.split(" ", 1)[0], []).append(form)
    return senses, {head: tuple(forms) for head, forms in phrases.items()}


def _enter_forms(enter: Callable[..., None], part: str, word: str, other: str) -> None:
    if part == "noun":
        enter(part, word, other)
        if plural(word) != word and plural(other) != other:
            enter("nouns", plural(word), plural(other))
    elif part == "verb":
        mine, its = forms_of(word), forms_of(other)
        enter("verb", mine.base, its.base)
        enter("third", mine.third, its.third)
        enter("form", mine.ing, its.ing)
        if mine.past == mine.participle:
            enter("form", mine.participle, its.participle, its.past)
        else:
            enter("form", mine.past, its.past)
            enter("form", mine.participle, its.participle)
    else:
        enter(part, word, other)


def spots(text: str, senses: Senses) -> list[Spot]:
    """The places of the text where a word has an exchange that fits the word before it.

    Names (a capital inside a sentence) are left alone.
    """
    table, phrases = senses
    found: list[Spot] = []
    done, before = 0, ""
    for match in WORD.finditer(text):
        word, start = match.group(), match.start()
        low = word.lower()
        last, before = before, low
        if start < done or (low not in table and low not in phrases):
            continue
        if word != low and (start > 0 or word[1:] != low[1:]):
            continue
        form, end = low, match.end()
        for phrase in phrases.get(low, ()):
            stop = start + len(phrase)
            if text[start:stop].lower() == phrase and not text[stop : stop + 1].isalnum():
                form, end = phrase, stop
                break
        if form not in table or (form in _SURE and last not in _SURE_AFTER):
            continue
        if _tied(text, start, end):
            continue
        options: dict[str, None] = {}
        for sense in table[form]:
            if _fits(sense, last):
                ended = last in _BEFORE_PARTICIPLE or last in _DETERMINERS
                options.update(dict.fromkeys(sense.others if ended else sense.past))
        behind = _WORD_BEHIND.match(text, end)
        if behind is not None and behind.group(1) in _AGENTS:
            options.pop("un" + form, None)
        if options:
            found.append(Spot(start, end, tuple(options)))
            done = end
    return found


def _fits(sense: Sense, last: str) -> bool:
    if sense.part == "verb":
        return not last or last in _BEFORE_VERB or _is_subject(last)
    if sense.part == "third":
        return last not in _BEFORE_NOUNS
    if sense.part == "adjective":
        return last not in _MODALS
    if sense.part == "noun":
        return last not in _BEFORE_VERB
    return True


def _is_subject(last: str) -> bool:
    """Whether a word is a plural, behind which a base form is a verb: "files contain"."""
    plain = len(last) > 3 and "'" not in last and "’" not in last and last not in _NO_SUBJECTS
    return plain and last.endswith("s") and not last.endswith(("ss", "us", "is"))


def _tied(text: str, start: int, end: int) -> bool:
    """Whether text[start:end] is part of an identifier, a path, a call or a formula.

    A full stop that ends a sentence ties nothing.
    """
    before, after = text[start - 1 : start], text[end : end + 1]
    if before in _TIED or before.isdigit():
        return True
    if after == ".":
        return text[end + 1 : end + 2].isalnum() or text[end + 1 : end + 2] == "_"
    return after.isdigit() or after == "(" or (after != "" and after in _TIED)


def exchanged(
    given: Given, seed: int, purpose: str, operation: str, senses: Senses, copies: int, words: int
) -> pa.Table:
    """Up to `copies` generations a sentence, each with up to `words` places exchanged.

    Places come in a seeded order of the sentence: the first generation takes the first `words` of
    them, the next one goes on behind. With several, `old` and `new` hold all of them.
    """
    texts = given.texts()
    found = [spots(text, senses) for text in texts]
    counts = np.array([len(each) for each in found], dtype=np.int64)
    rows = np.repeat(np.arange(len(texts)), counts)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    ids = given.ids()
    keys = seeding.draws(seed, purpose, ids[rows], place.astype(np.uint64))
    picks = seeding.draws(seed, f"{purpose}.option", ids[rows], place.astype(np.uint64)).tolist()
    order = place[np.lexsort((keys, rows))].tolist()
    output = Output()
    first = 0
    for i, (text, each, sentence_id) in enumerate(zip(texts, found, ids.tolist(), strict=True)):
        ordered = order[first : first + len(each)]
        for copy in range(copies):
            chosen = sorted(ordered[copy * words : (copy + 1) * words])
            if not chosen:
                break
            options = [each[j].options for j in chosen]
            news = [o[picks[first + j] % len(o)] for o, j in zip(options, chosen, strict=True)]
            raw, old, new = _put(text, [each[j] for j in chosen], news)
            if raw != text:
                output.add(int(sentence_id), raw, operation, old, new)
        first += int(counts[i])
    return output.table()


def _put(text: str, chosen: Sequence[Spot], news: Sequence[str]) -> tuple[str, str, str]:
    shaped = [
        in_shape_of(text[spot.start : spot.end], new)
        for spot, new in zip(chosen, news, strict=True)
    ]
    raw = text
    for spot, new in zip(reversed(chosen), reversed(shaped), strict=True):
        raw = replaced(raw, spot.start, spot.end, new)
    old = JOINT.join([text[spot.start : spot.end] for spot in chosen])
    return raw, old, JOINT.join(shaped)
