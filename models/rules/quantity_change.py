"""Negatives by changing a number to another value of the same form and magnitude."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.models import seeding
from tercet.models.english.context import BE, BOUNDARY, Around, around
from tercet.models.english.inflection import plural
from tercet.models.english.numbers import UNITS, Number, numbers_in
from tercet.models.english.words import (
    MONTH,
    NUMBER_WORDS,
    STOP_WORDS,
    in_shape_of,
    replaced,
    word_lists,
)
from tercet.models.generation import Method, MethodInput, Output, Several, methods
from tercet.models.knowledge.quantities import find
from tercet.models.rules.other_numbers import Value, any_number, other_number
from tercet.models.runs import begins

DATA_FILES = ("quantity_change.tsv",)

_LISTS = word_lists(__file__)
_TRIES = 8
# Contexts in which the value of the number hardly matters.
_EITHER = re.compile(r"\beither $", re.IGNORECASE)
_OF_THE_BEST = re.compile(
    r" of (?:the|its|their|our) (?:most|best|worst|few|first|largest|biggest|greatest|main|major)\b"
)
_RETURNED = re.compile(r"\breturn(?:s|ed|ing)? [`(]?$", re.IGNORECASE)
_LISTED_BEFORE = re.compile(r"(?:[\[({]|\d,|\d,? (?:and|or|to)) ?$")
_LISTED_AFTER = re.compile(r"[\])},;]|,? (?:and|or|to) \d")
# A sign, as in "-5 degrees", and the hyphen of a range are not operators.
_OPERATOR_BEFORE = re.compile(r"(?:[+*/=<>^×≤≥]\s?|(?<=\S)\s[-−]\s|[^\W\d][-−]|[)\]][-−])$")
_OPERATOR_AFTER = re.compile(r"\s?[+*/=<>^×≤≥]|\s[-−]\s|[-‑]?D\b|\s?x\s|\s?by\s[\dN]")
_BEFORE_ONE = _LISTS["before_one"]
_AGREES = re.compile(r"\b(?:is|was|has|does)\b")
_OTHERS = re.compile(r"\b(?:an?other|the other|each other|both|either|itself)\b")
_OF_A_PAIR = re.compile(
    r"\b(?:differences?|distances?|similarity|products?|sum|union|intersection|swaps?|pair|ratio|both|neighbou?rs?|sides|ends|halves|legs|compar\w+|quotient|divisi\w+|divid\w+)\b",
    re.IGNORECASE,
)
_DECADE = re.compile(r"\b(?:the (?:twen|thir|for|fif|six|seven|eigh|nine)ties|\d{3}0s|century)\b")
# References: "p. 8", "defined in 3".
_LOCATED = re.compile(r"\bpp?\. ?(?:\d+[-–])?$|\.\.$|\b(?:defined|described|given|shown) in $")
# "16B-wide", "4x-faster".
_GLUED = re.compile(r"[^\W\d]+[-‑]")
# A part with its whole ("28 out of 36") and lists of numbers: changing one alone makes no sense.
_PART_BEFORE = re.compile(r"\d (?:(?:out )?of (?:the |all )?|[./] )$|\d(?:,|,? (?:and|or)) $")
_PART_AFTER = re.compile(r" (?:out )?of (?:the |all )?\d|, (?:and |or )?\d| \. \d")
_BRACKETED = re.compile(r"\s?[(\[:;]|\s?[-–]\s?\d")
# A number after a name is part of the name: "ISO 8601", "Formula 51".
_NAMED = re.compile(rf"(?<!^)\b(?!{MONTH})[A-Z][\w.]+ $")
_CONFIDENCE = re.compile(r" ?% (?:CI|confidence|credible)\b|\s?±")
_BEHIND_WORDS = _LISTS["behind_words"]
# Maximum distance in characters from a number to the end of the noun that it counts.
_NEAR = 40


@dataclass(frozen=True)
class Change:
    """A changed number in a sentence.

    row: the anchor. mention_id, node_id: the quantity. mention: its text with the new number. raw:
    the sentence with the new number. old, new: the numbers as they are written.
    """

    row: int
    mention_id: int
    node_id: int
    mention: str
    raw: str
    old: str
    new: str


def quantity_change(inputs: MethodInput, params: Several, seed: int) -> pa.Table:
    """Changes the number of one quantity of the sentence."""
    output = Output()
    ids = inputs.ids().tolist()
    for change in changes(inputs, seed, "quantity_change", params.per_sentence):
        output.add(
            ids[change.row],
            change.raw,
            "change_quantity",
            change.old,
            change.new,
            change.mention_id,
            change.node_id,
        )
    return output.table()


def changes(
    inputs: MethodInput, seed: int, purpose: str, count: int, rounds: int = 1, value: Value = "near"
) -> Iterator[Change]:
    """Up to `count` changes per sentence, drawn for `purpose`, in the order of the anchors.

    Each round goes through the sentence's quantities in a drawn order and changes each quantity
    that can be changed, to a number that no earlier round gave it. With `random` all quantities can
    be changed, since a language model then adapts the sentence.
    """
    mentions = inputs.located("quantity")
    rows = mentions["row"].to_numpy()
    mention_ids = mentions["mention_id"].to_numpy()
    # The drawn order of quantities, and the draws for their new values.
    order = seeding.draws(seed, purpose, mention_ids)
    drawn = [
        seeding.draws(seed, f"{purpose}.value", mention_ids, c).tolist() for c in range(_TRIES)
    ]
    columns = mentions.select(["mention_id", "node_id", "text", "start", "of_mention_id"])
    quantities = list(zip(*(column.to_pylist() for column in columns.columns), strict=True))
    counted = _ends(inputs, mentions["of_mention_id"])
    texts = inputs.texts()
    starts = np.flatnonzero(begins(rows))
    for low, high in pairwise([*starts.tolist(), len(rows)]):
        row = int(rows[low])
        used: set[tuple[int, str]] = set()
        ordered = sorted(range(low, high), key=lambda i: int(order[i]))
        for turn, i in itertools.product(range(rounds), ordered):
            if len(used) == count:
                break
            mention_id, node_id, mention, start, of_mention_id = quantities[i]
            draws = [d[i] for d in drawn]
            if turn:
                counters = np.arange(turn * _TRIES, (turn + 1) * _TRIES, dtype=np.uint64)
                same = np.full(_TRIES, mention_id, dtype=np.uint64)
                draws = seeding.draws(seed, f"{purpose}.value", same, counters).tolist()
            noun = counted.get(of_mention_id)
            change = changed(texts[row], mention, start, noun, draws, value, inputs.english)
            if change is None or (i, change[2]) in used:
                continue
            raw, old, new = change
            used.add((i, new))
            places = [number.start for number in numbers_in(mention) if number.text == old]
            at = places[0] if places else mention.index(old)
            other = mention[:at] + new + mention[at + len(old) :]
            yield Change(row, mention_id, node_id, other, raw, old, new)


def changed(
    text: str,
    mention: str,
    start: int,
    counted: int | None,
    draws: Sequence[int],
    value: Value = "near",
    english: bool = True,
) -> tuple[str, str, str] | None:
    """(new sentence, old number, new number) for the first number of the mention that can change.

    text: the sentence. mention, start: text and start of the mention. counted: end of the noun that
    it counts. draws: 64-bit draws; the first that gives another value is used. value: `near`, or
    `random`, which ignores the context of the number. Outside English a number up to 31 may be a
    day of the month, so its replacement is below 29.
    """
    numbers = numbers_in(mention)
    if value == "random" and not numbers:
        return _unread(text, mention, start, draws)
    for number in numbers:
        begin, end = start + number.start, start + number.end
        one = not english and number.value < 2
        if value == "near" and (one or _fixed(text, begin, end, number)):
            continue
        may_be_day = value == "near" and not english and number.value <= 31
        for draw in draws:
            new = other_number(text, begin, end, number, draw, value)
            if may_be_day:
                new = str(2 + draw % 27)
            if new is None:
                break
            if _same(new, number) or _falls(mention, numbers, number, new):
                continue
            new = in_shape_of(number.text, new) if number.form != "digits" else new
            raw = (
                replaced(text, begin, end, new, english)
                if value == "random" or not english
                else _with_noun(text, begin, end, number, new, counted)
            )
            if raw is not None:
                return raw, number.text, new
            break
    return None


def _unread(
    text: str, mention: str, start: int, draws: Sequence[int]
) -> tuple[str, str, str] | None:
    """`changed` for a mention in which `numbers_in` finds no number: "a dozen", "½"."""
    quantities = find(mention)
    begin, end = (quantities[0].start, quantities[0].end) if quantities else (0, len(mention))
    old = mention[begin:end]
    for draw in draws:
        new = in_shape_of(old, any_number(old, draw))
        if not quantities or numbers_in(new)[0].value != quantities[0].value:
            return replaced(text, start + begin, start + end, new), old, new
    return None


def _fixed(text: str, begin: int, end: int, number: Number) -> bool:
    """Whether the number must not be changed in its context: "one of", "2-D", "x - 1"."""
    before = text[max(0, begin - 16) : begin]
    if _EITHER.search(before) or _OF_THE_BEST.match(text, end):
        return True
    if number.value > 1000 and _DECADE.search(text):
        return True
    if _is_elsewhere(text, begin, end) or _CONFIDENCE.match(text, end):
        return True
    if is_label(text, begin, end) or is_spelt_out(text, begin, end, number):
        return True
    context = around(text, begin, end)
    if text.startswith("..", end) or context.before == "all" or _LOCATED.search(before):
        return True
    if number.value == 1 and not _counts_one(text, end, context, number):
        return True
    if number.value == 2 and (
        "between" in (context.before, context.earlier) or _OF_A_PAIR.search(text)
    ):
        return True
    if _PART_BEFORE.search(before) or _PART_AFTER.match(text, end):
        return True
    if number.form == "fraction" and (
        context.after in STOP_WORDS - {"of"} or context.after == BOUNDARY
    ):
        return True
    if number.form == "fraction_words" and before.endswith(("-", "a ", "A ", "an ")):
        return True
    if number.form == "words" and context.after in STOP_WORDS - _BEHIND_WORDS:
        # A pronoun: "the two are equal", "which of the three".
        return True
    if number.form != "digits":
        return False
    if _GLUED.match(text, end):
        return True
    if text[begin - 1 : begin] in ("`", "'", '"', "_", "#") or _NAMED.search(before):
        return True
    if "CI" in text and (
        _BRACKETED.match(text, end) or text.count("(", 0, begin) > text.count(")", 0, begin)
    ):
        return True
    if _OPERATOR_BEFORE.search(before) or _OPERATOR_AFTER.match(text, end):
        return True
    if number.value not in (0, 1):
        return False
    if _RETURNED.search(before):
        return True
    return bool(_LISTED_BEFORE.search(before) or _LISTED_AFTER.match(text, end))


def _is_elsewhere(text: str, begin: int, end: int) -> bool:
    """Whether the text repeats the number, or has the next one ("the 1,001st of 1,000"), so that
    changing only this one would be a contradiction."""
    value = numbers_in(text[begin:end])[0].value
    if 1 < value < 20 and re.search(rf"\b(?:{value}|{UNITS[int(value)]})-?(?:D|d|-way)\b", text):
        return True
    others = [n.value for n in numbers_in(text) if n.end <= begin or n.start >= end]
    return value in others or (value > 20 and (value + 1 in others or value - 1 in others))


def _counts_one(text: str, end: int, context: Around, number: Number) -> bool:
    """Whether "one" surely counts the object after it, with no verb that agrees with it."""
    if number.form == "digits" and context.before in BE and context.after == BOUNDARY:
        return True
    if context.before not in _BEFORE_ONE or _OTHERS.search(text):
        return False
    return (
        context.after != BOUNDARY
        and context.after not in STOP_WORDS
        and not _AGREES.search(text, end)
    )


def _falls(mention: str, numbers: Sequence[Number], number: Number, new: str) -> bool:
    """Whether a range would no longer ascend."""
    if len(numbers) != 2 or numbers[0].value >= numbers[1].value:
        return False
    after = numbers_in(mention[: number.start] + new + mention[number.end :])
    return len(after) == 2 and after[0].value >= after[1].value


def _same(new: str, number: Number) -> bool:
    numbers = numbers_in(new)
    return not numbers or numbers[0].value == number.value or numbers[0].value == 1


def _with_noun(
    text: str, begin: int, end: int, number: Number, new: str, counted: int | None
) -> str | None:
    """The text with the new number; the noun becomes plural if the old number is 1.

    None if a noun seems to follow but its end is unknown.
    """
    if number.value == 1:
        behind = around(text, begin, end).after
        if counted is not None and end < counted <= end + _NEAR:
            text = text[:end] + plural(text[end:counted]) + text[counted:]
        elif number.form == "words" or (behind.isalpha() and behind not in STOP_WORDS):
            return None
    return replaced(text, begin, end, new)


def _ends(inputs: MethodInput, mention_ids: pa.ChunkedArray) -> dict[int | None, int]:
    """The ends of the mentions with these ids."""
    mentions = inputs.mentions
    assert mentions is not None
    nouns = mentions.filter(pc.is_in(mentions["mention_id"], mention_ids.drop_null()))
    return dict(zip(nouns["mention_id"].to_pylist(), nouns["end"].to_pylist(), strict=True))


# The rest of the module recognises numbers that must not change: numbers that name something, and
# numbers of things that the sentence lists.
_SIZE_BEFORE = re.compile(r"(?:\bx|\bby) $")
# Terms with a hyphen: "two-way", "nine-point circle".
_HYPHEN = re.compile(r"[-‑–][^\W\d]")
_HYPHEN_BEFORE = re.compile(r"(?:[^\W\d]-|[A-Z]-\d+-|[(\[§])$")
# "1. simplicity, 2. speed".
_ITEM = re.compile(r"\. [a-z]")
_LABEL = "|".join(sorted(_LISTS["labels"]))
_LABELLED = re.compile(rf"\b(?:{_LABEL})s?\.? (?:[\w.]+,? (?:and|or|to) )?$", re.IGNORECASE)
_CALLED = re.compile(r"(?:,? (?:and|or) \d+)? (?:\w+ )?(?:code|status|format|version|standard)\b")
_CAPITALS = re.compile(r"(?:^|\s)[A-Z]{2,}[\w.]* $")
_CLOCK = re.compile(r" ?(?:o['’]clock|[ap]\.?m\.?\b)")
# Enumerations of the counted things: letters, descriptions of each, or a list.
_SPELT_OUT = re.compile(
    r":|\b(?:namely|i\.e|respectively|e\.g|one another|each other|the (?:other|former|latter|first"
    r"|second|third|last)|the one|one|another|both|either|neither|first|second)\b"
    r"|\b[a-zA-Z]\d?(?:, [a-zA-Z]\d?)*,? (?:and|or|to) [a-zA-Z]\d?\b|[a-z]\d,? and [a-z]+\d\b"
    r"|\w+, \w+,? (?:and|or) \w+|\w+, \w+, \w+|['\"`] (?:and|or) ['\"`]"
)
# "The three values are the name, a list of …, and a list of …".
_THE = re.compile(r"\bthe $", re.IGNORECASE)
_ARE = re.compile(r"[^,.;]{1,40} (?:are|were) (?:the|an?) [^.;]*\b(?:and|or)\b")
_COMPARED = re.compile(r"\b(?:\w+er|more|less|worse|one|which|either) of (?:the |its |their )?$")
# "These two", "three hours and twenty minutes", "0 for text, 1 for images".
_TOLD_BEFORE = re.compile(
    r"\b(?:these|those|above|following|such|latter|former|last|one or|i\.e\.,?"
    r"|(?:hours?|minutes?|feet|pounds?) and) $",
    re.IGNORECASE,
)
_LISTED = re.compile(r"\(\w+, \w+(?:, \w+)*\)")
_JOINED = re.compile(r"\w+ and (?:the |an? )?\w+ (?:are|were) $")
_KEY = re.compile(r" for\b| or \d")
_COUNT = rf"(?:\d+|(?:{'|'.join(sorted(NUMBER_WORDS))})(?:-\w+)?)"
_WHOLE = re.compile(rf" of (?:the|its|their) {_COUNT}\b", re.IGNORECASE)
_PART = re.compile(rf"\b{_COUNT} of (?:the|its|their) $", re.IGNORECASE)
_SPELT_UP_TO = 12  # longest list that a sentence spells out


def is_label(text: str, begin: int, end: int) -> bool:
    """Whether the number is a label or part of a term: "case 2", "2-gram"."""
    before = text[max(0, begin - 40) : begin]
    if _HYPHEN.match(text, end) or _ITEM.match(text, end) or _HYPHEN_BEFORE.search(before):
        return True
    if _LABELLED.search(before) or _CAPITALS.search(before) or _SIZE_BEFORE.search(before):
        return True
    return bool(_CALLED.match(text, end) or _CLOCK.match(text, end))


def is_spelt_out(text: str, begin: int, end: int, number: Number) -> bool:
    """Whether the sentence also lists the counted things, or says what happens to each."""
    if number.form == "fraction_words" and number.value == Fraction(1, 2):
        return True
    # A part must stay smaller than its whole: "seven of the nine planets".
    if _WHOLE.match(text, end) or _PART.search(text[:begin]):
        return True
    if _TOLD_BEFORE.search(text[:begin]) or (number.form == "digits" and _KEY.match(text, end)):
        return True
    if number.form not in ("words", "digits") or number.value > _SPELT_UP_TO:
        return False
    if _LISTED.search(text) or _JOINED.search(text[:begin]):
        return True
    if _THE.search(text[:begin]) and _ARE.match(text, end):
        return True
    return bool(_SPELT_OUT.search(text, end) or _COMPARED.search(text[:begin]))


METHODS = methods(
    Method(
        *("quantity_change", "negative", "alters", quantity_change, Several, ("mentions",)),
        languages=(),
    )
)
