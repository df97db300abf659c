"""Replaces words by related words in the same inflected form; positives by synonyms."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pydantic import Field

from tercet.models import seeding
from tercet.models.english.context import (
    BE,
    BOUNDARY,
    DETERMINERS,
    RELATIVES,
    Around,
    around,
    is_adjective_form,
    is_attribute,
    is_base_verb,
    is_ing_verb,
    is_noun,
    is_number,
    is_participle,
    is_past,
    is_plural_subject,
    is_predicate,
    is_reduced,
    is_third_person,
)
from tercet.models.english.inflection import forms_of, openers, plural
from tercet.models.english.words import WORD, in_shape_of, replaced, word_lists, word_set
from tercet.models.generation import JOINT, Method, MethodInput, Output, Several, methods
from tercet.models.knowledge.lexicon import Group, load_pairs
from tercet.models.runs import places_within

DATA_FILES = ("word_exchange.tsv",)

_LISTS = word_lists(__file__)
_ELUSIVE = _LISTS["elusive"]
_DIRECTED = tuple(_LISTS["directed"])
_BEFORE_DEGREE = _LISTS["before_degree"]
_GOAL = re.compile(r"\b(?:to|from|into|onto)\b")
_NO_COMPARISON = _LISTS["no_comparison"]
_BEFORE_PARTICLE = _LISTS["before_particle"]
# Adverbs that put the verb before the subject when they open a sentence.
_INVERTING = word_set("never rarely seldom infrequently hardly")
_BEFORE_INFINITIVE = _LISTS["before_infinitive"]
_MOVES = _LISTS["moves"]
# Characters that join a word to an identifier, a path or a formula.
_TIED = frozenset("_./\\-`=@#~<>$")
_READINGS = ("verb", "third", "ing", "ed", "past", "participle")


@dataclass(frozen=True)
class Sense:
    """Replacements of a word in one part of speech and form.

    part: noun, nouns (plural), adjective, adverb, preposition, linking, or a form of a verb: verb
    (base form), third, ing, past, participle, or ed (past and participle alike). others: the
    replacements in the same form. past: for ed, the replacements in the past tense.
    """

    part: str
    others: tuple[str, ...]
    past: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spot:
    """A place text[start:end] where one of the options can replace the words."""

    start: int
    end: int
    options: tuple[str, ...]


Spans: TypeAlias = Sequence[tuple[int, int]]
Fits: TypeAlias = Callable[[str, int, int, Around], bool]
# From a casefolded word or phrase to its senses; from a word to the phrases that begin with it.
Senses: TypeAlias = tuple[dict[str, tuple[Sense, ...]], dict[str, tuple[str, ...]]]


def senses_of(groups: Iterable[Group], *, skip: Callable[[str, str], bool]) -> Senses:
    """Every form of the groups' words, with the group's remaining words in the same form.

    skip: from (part of speech, word) to whether the word is never replaced; it may still replace
    other words.
    """
    table: dict[str, dict[str, tuple[dict[str, None], dict[str, None]]]] = {}

    def enter(part: str, form: str, other: str, past: str = "") -> None:
        elusive = part in _READINGS and form.partition(" ")[0] in _ELUSIVE
        if form != other and not elusive:
            entry = table.setdefault(form, {}).setdefault(part, ({}, {}))
            entry[0][other] = None
            entry[1][past or other] = None

    for group in groups:
        words = [word.casefold() for word in group.words]
        if any(word != member for word, member in zip(words, group.words, strict=True)):
            continue
        for word in words:
            if word in group.loose or skip(group.pos, word):
                continue
            for other in words:
                if other != word:
                    _enter_forms(enter, group.pos, word, other)
    senses = {
        form: tuple(Sense(p, tuple(others), tuple(past)) for p, (others, past) in parts.items())
        for form, parts in table.items()
        if form not in _ELUSIVE
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
        forms, other_forms = forms_of(word), forms_of(other)
        enter("verb", forms.base, other_forms.base)
        enter("third", forms.third, other_forms.third)
        enter("ing", forms.ing, other_forms.ing)
        if forms.past == forms.base:
            enter("participle", forms.participle, other_forms.participle)  # "Read the manual"
        elif forms.past == forms.participle:
            enter("ed", forms.participle, other_forms.participle, other_forms.past)
        else:
            enter("past", forms.past, other_forms.past)
            enter("participle", forms.participle, other_forms.participle)
    else:
        enter(part, word, other)


def spots(text: str, senses: Senses, spared: Spans = (), fits: Fits | None = None) -> list[Spot]:
    """The places where a word is surely of the part of speech in which it can be replaced.

    spared: spans in which nothing is replaced. fits: additional condition on a place. Names (a
    capital inside a sentence) are not replaced.
    """
    table, phrases = senses
    places: list[Spot] = []
    done = 0
    for match in WORD.finditer(text):
        word, start = match.group(), match.start()
        low = word.lower()
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
        if form not in table or _tied(text, start, end):
            continue
        if any(low_end < end and start < high for low_end, high in spared):
            continue
        context = around(text, start, end)
        if fits is not None and not fits(text, start, end, context):
            continue
        options: dict[str, None] = {}
        for sense in table[form]:
            options.update(dict.fromkeys(_others(sense, context, form)))
        options = {new: None for new in options if _settles(form, new, context, text, end)}
        if options:
            places.append(Spot(start, end, tuple(options)))
            done = end
    return places


def _settles(form: str, new: str, context: Around, text: str, end: int) -> bool:
    """Whether the replacement is unambiguous: not in an idiom, and not in the text already."""
    if re.search(rf"\b{re.escape(new)}\b", text, re.IGNORECASE):
        return False
    if context.before in ("from", "between") and _GOAL.search(text, end):
        return False  # "from tiny boats to large ones"
    if new in ("un" + form, "in" + form, "dis" + form):
        ties = context.after in ("on", "to", "from")
        if ties or (form.endswith("ed") and context.after in ("by", "as")):
            return False
    if form.startswith(_DIRECTED) and new.startswith(_DIRECTED) and _GOAL.search(text, end):
        return False
    if form == "provided" and (context.before == BOUNDARY or context.after == "that"):
        return False
    if new == "about" and not (is_number(context.after) or context.after in DETERMINERS):
        return False
    if context.opens and (new in _INVERTING) != (form in _INVERTING):
        return False  # "rarely is it": not "rarely it is"
    if form == "due to" and context.before in BE and context.after not in DETERMINERS:
        return False  # "is due to arrive"
    if new == "got" and not is_past(context):
        return False  # "the values got for it"
    if form in ("first", "last") and (context.after in openers() or context.before in RELATIVES):
        return False  # "which first prepares"
    if form in ("exactly", "precisely") and context.after in ("a", "an"):
        return False
    if form in ("more", "less"):
        counts = context.after == "than" and (
            is_number(context.later) or context.later in DETERMINERS
        )
        compares = counts or is_adjective_form(context.after)
        return compares and context.before not in _NO_COMPARISON
    if form in ("before", "after"):
        return context.before not in _BEFORE_PARTICLE and context.after not in ("all", "and", "or")
    if form in ("above", "below"):
        return context.before not in DETERMINERS and context.before not in _MOVES
    if form in ("few", "many"):
        return context.before not in ("a", "as", "so", "too", "how", "first", "last")
    return not (form in ("never", "always") and context.after in ("again", "quite", "really", "so"))


def _others(sense: Sense, context: Around, form: str) -> tuple[str, ...]:
    """The replacements of the word in this sense; () unless the word surely has this sense."""
    if sense.part in _READINGS:
        # Not every verb takes an infinitive: "begin to", "helps to".
        if context.after == "to":
            if not _takes_infinitive(form):
                return ()
            return tuple(o for o in _of_verb(sense, context, " " in form) if _takes_infinitive(o))
        return _of_verb(sense, context, " " in form)
    fits = {
        "noun": lambda: is_noun(context, plural=False),
        "nouns": lambda: is_noun(context, plural=True),
        "adjective": lambda: is_attribute(context) or is_predicate(context),
        "adverb": lambda: (
            context.after not in ("-", "enough") and context.before not in _BEFORE_DEGREE
        ),
        "preposition": lambda: context.after != BOUNDARY and context.after != "-",
        "linking": lambda: context.before == BOUNDARY and context.after == BOUNDARY,
    }[sense.part]()
    return sense.others if fits else ()


def _takes_infinitive(form: str) -> bool:
    return form.partition(" ")[0] in _BEFORE_INFINITIVE


def _of_verb(sense: Sense, context: Around, phrase: bool) -> tuple[str, ...]:
    part = sense.part
    if part == "verb":
        sure = is_base_verb(context) or (phrase and is_plural_subject(context))
        return sense.others if sure else ()
    if part == "third":
        return sense.others if is_third_person(context, phrase) else ()
    if part == "ing":
        return sense.others if is_ing_verb(context, phrase) else ()
    if part in ("participle", "ed") and is_participle(context):
        return sense.others
    if part in ("past", "ed") and is_past(context):
        return sense.past
    if part == "ed" and sense.others == sense.past and is_reduced(context):
        return sense.others
    return ()


def _tied(text: str, start: int, end: int) -> bool:
    """Whether text[start:end] is part of an identifier, a path, a call or a formula.

    A full stop that ends a sentence does not count.
    """
    before, after = text[start - 1 : start], text[end : end + 1]
    if before in _TIED or before.isdigit():
        return True
    if after == ".":
        return text[end + 1 : end + 2].isalnum() or text[end + 1 : end + 2] == "_"
    return after.isdigit() or after == "(" or (after != "" and after in _TIED)


def exchanged(
    inputs: MethodInput,
    seed: int,
    purpose: str,
    operation: str,
    senses: Senses,
    copies: int,
    words: int,
    spared: Mapping[int, Spans] | None = None,
    fits: Fits | None = None,
) -> pa.Table:
    """Up to `copies` generations per sentence, each with up to `words` places replaced.

    spared: by anchor, spans in which nothing is replaced. fits: see `spots`.

    The places of a sentence are in a seeded order; the first generation uses the first `words`
    places, the next generation the places after them. `old` and `new` have all replaced words.
    """
    texts = inputs.texts()
    spans = spared or {}
    by_row = [spots(text, senses, spans.get(row, ()), fits) for row, text in enumerate(texts)]
    counts = np.array([len(each) for each in by_row], dtype=np.int64)
    rows = np.repeat(np.arange(len(texts)), counts)
    place = places_within(counts)
    ids = inputs.ids()
    keys = seeding.draws(seed, purpose, ids[rows], place.astype(np.uint64))
    picks = seeding.draws(seed, f"{purpose}.option", ids[rows], place.astype(np.uint64)).tolist()
    order = place[np.lexsort((keys, rows))].tolist()
    output = Output()
    first = 0
    for i, (text, each, sentence_id) in enumerate(zip(texts, by_row, ids.tolist(), strict=True)):
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


class Synonyms(Several):
    """Parameters of `synonym`."""

    words: int = Field(3, ge=1, le=50, description="words exchanged in one generation, at most")


def synonym(inputs: MethodInput, params: Synonyms, seed: int) -> pa.Table:
    """Replaces some words of the sentence by synonyms in the same form.

    Words of entities stay: they are terms, whose synonyms name other things.
    """
    copies, words = params.per_sentence, params.words
    spared = inputs.spans("entity")
    return exchanged(inputs, seed, "synonym", "exchange_synonym", _senses(), copies, words, spared)


@lru_cache(maxsize=1)
def _senses() -> Senses:
    return senses_of(load_pairs()[0], skip=lambda part, word: part == "entity")


METHODS = methods(Method("synonym", "positive", "keeps", synonym, Synonyms, ("mentions",)))
