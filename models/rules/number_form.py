"""Positives by writing the same numbers in another way: 3 and three, 1,000 and one thousand."""

import re

import pyarrow as pa

from tercet.models.config import Config
from tercet.models.english.context import BOUNDARY, around, is_number, is_verb_like
from tercet.models.english.numbers import FRACTIONS, SCALES, Number, in_words, numbers_in
from tercet.models.english.words import (
    MONTH,
    STOP_WORDS,
    in_shape_of,
    replaced,
    word_lists,
    word_set,
)
from tercet.models.generation import JOINT, Method, MethodInput, Output, methods

DATA_FILES = ("number_form.tsv",)

_LISTS = word_lists(__file__)
_BEFORE = re.compile(
    rf"(?:{MONTH} |[#$€£¥+\-–—−=<>*^(\[]|[+*/=<>−-] |\b(?:[Nn]o|vol|pp?|chapter)\.? )$"
)
_AFTER = re.compile(rf" (?:of )?{MONTH}\b|['’]s\b|[-–—−](?:\d|[A-Z])|\s?[=<>*^+°]|[\w\])]")
_PERCENT = re.compile(r"\s?%| per ?cent\b")
# The fraction is only a part of the number: "2 1/2", "a half".
_MIXED = re.compile(r"(?:\d|\ban?|\bone)[ -]$", re.IGNORECASE)
_LONGEST_IN_WORDS = 3
_NEXT = re.compile(r"[ -]([^\W\d_]+)")
# "1" is not a count before `_AFTER_ONE`; "one" is a count only after `_BEFORE_ONE`.
_AFTER_ONE = word_set("or and to of day another other")
_BEFORE_ONE = _LISTS["before_one"]
# In "2000 and 3000 meters" both numbers must change, or neither.
_JOINED = word_set("and or to of vs versus")
_UNITS = _LISTS["units"]
_LABELS = _LISTS["labels"]
_YEARS = range(1500, 2101)


# Maximum of rewritten numbers per sentence.
_MOST = 4


def number_form(inputs: MethodInput, params: Config, seed: int) -> pa.Table:
    """Writes the numbers of the sentence's quantities in another way, with the same values.

    `old` and `new` of `detail` have all changed numbers, `mention_id` the first.
    """
    mentions = inputs.located("quantity")
    columns = mentions.select(["row", "mention_id", "node_id", "text", "start"])
    texts = inputs.texts()
    ids = inputs.ids().tolist()
    by_row: dict[int, list[tuple[int, int, str, int]]] = {}
    for row, mention_id, node_id, text, start in zip(
        *(column.to_pylist() for column in columns.columns), strict=True
    ):
        by_row.setdefault(row, []).append((mention_id, node_id, text, start))
    output = Output()
    for row, quantities in by_row.items():
        changes = _changes(texts[row], quantities)[:_MOST]
        if changes:
            raw = texts[row]
            for begin, end, new, _, _ in reversed(changes):
                raw = replaced(raw, begin, end, new)
            old = JOINT.join([texts[row][begin:end] for begin, end, *_ in changes])
            new = JOINT.join([change[2] for change in changes])
            _, _, _, mention_id, node_id = changes[0]
            output.add(ids[row], raw, "rewrite_number", old, new, mention_id, node_id)
    return output.table()


def _changes(
    text: str, quantities: list[tuple[int, int, str, int]]
) -> list[tuple[int, int, str, int, int]]:
    """(start, end, new text, mention, node) of each number with another form, in text order."""
    changes: list[tuple[int, int, str, int, int]] = []
    done = 0
    for mention_id, node_id, mention, start in quantities:
        for number in numbers_in(mention):
            begin, end = start + number.start, start + number.end
            if begin >= done:
                change = rewritten(text, begin, end, number)
                if change is not None:
                    end, new = change
                    changes.append((begin, end, new, mention_id, node_id))
                    done = end
    return changes


def rewritten(text: str, begin: int, end: int, number: Number) -> tuple[int, str] | None:
    """(end of the replaced span, new text) for the number at text[begin:end], or None.

    The replaced span includes a percent sign behind the number.
    """
    if _BEFORE.search(text[max(0, begin - 12) : begin]):
        return None
    if number.form.startswith("fraction") and _MIXED.search(text, max(0, begin - 4), begin):
        return None
    percent = _PERCENT.match(text, end)
    if percent and number.form in ("digits", "words") and not number.scale:
        return _other_percent(text, begin, number, percent)
    if _AFTER.match(text, end) or (number.value > 12 and text[end : end + 1] == "-"):
        return None
    new = _other_form(text, end, number)
    if new is None or new == number.text or not _counts(text, begin, end, number):
        return None
    return end, _with_capital(begin, number, new)


def _with_capital(begin: int, number: Number, new: str) -> str:
    """The new text, capitalised at the beginning of a sentence."""
    at_head = begin == 0 or number.text[0].isupper()
    return in_shape_of("A" if at_head else "a", new)


def _counts(text: str, begin: int, end: int, number: Number) -> bool:
    """Whether the number surely counts something: it is not a label ("page 8"), a pronoun ("the two
    of them"), a value in code or part of a name."""
    if number.form in ("fraction", "fraction_words"):
        return True
    context = around(text, begin, end)
    if context.before == "-" or text[begin - 1 : begin] in ("`", '"', "'", "/", "_"):
        return False
    behind = _NEXT.match(text, end)
    if behind is None:
        # "For the two", "rows 1 and 2", or a value that something is compared with.
        return False
    noun = behind.group(1)
    if number.value == 1 and (number.form == "words" or noun in _AFTER_ONE):
        return number.form == "words" and context.before in _BEFORE_ONE and _is_content(noun)
    if number.form == "digits" and not number.scale and number.value < 1000:
        if noun in _UNITS or (len(noun) < 3 and noun not in STOP_WORDS):
            return False
        # After a content word the number is its label: "grade 3", "Figure 2", "version 3".
        if not (
            context.before == BOUNDARY
            or context.before in STOP_WORDS
            or is_verb_like(context.before)
        ):
            return False
        if context.earlier in _LABELS or context.before in _LABELS:
            return False
        if noun in STOP_WORDS:
            return False
    if context.before in _JOINED and is_number(context.earlier):
        return number.form == "words"
    return _is_content(noun) or noun in ("or", "to", "and", "more", "of", "other", "such")


def _is_content(word: str) -> bool:
    return word.islower() and word not in STOP_WORDS and len(word) > 2


def _other_percent(
    text: str, begin: int, number: Number, percent: re.Match[str]
) -> tuple[int, str] | None:
    if number.value == 50 and text.startswith(" of ", percent.end()):
        return percent.end(), _with_capital(begin, number, "half")
    if text[percent.end() : percent.end() + 1] in ("-", "–", "/"):
        return None
    if "%" in percent.group():
        return percent.end(), f"{number.text} percent"
    if number.form == "digits":
        return percent.end(), f"{number.text}%"
    if number.value.denominator == 1 and number.value <= 100:
        return percent.end(), f"{int(number.value)}%"
    return None


def _other_form(text: str, end: int, number: Number) -> str | None:
    if number.form == "fraction":
        fractions = [
            f for f, v in FRACTIONS.items() if v == number.value and " " in f and f[:2] != "a "
        ]
        reduced = f"{number.value.numerator}/{number.value.denominator}"
        return fractions[0] if fractions and reduced == number.text else None
    if number.form == "fraction_words":
        if not text.startswith(" of ", end):
            return None
        percent = number.value * 100
        return f"{int(percent)}%" if percent.denominator == 1 else None
    if number.value.denominator != 1:
        return None
    value = int(number.value)
    if number.form == "words":
        # "One of" is rarely a count.
        return None if value == 1 and text.startswith(" of ", end) else _in_digits(value)
    if number.scale:
        if number.scale.lower() == "hundred" or "." in number.digits:
            return f"{value:,}"
        return _in_short_words(value)
    if "." in number.text or (len(number.text) > 1 and number.text[0] == "0"):
        return None
    return _other_integer(number.text, value)


def _other_integer(text: str, value: int) -> str | None:
    short = _in_short_words(value)
    if "," in text:
        return short or str(value)
    if value <= 100 or (short and value % 100 == 0 and value not in _YEARS):
        return short
    # Four digits may be a year.
    return f"{value:,}" if value >= 10_000 else None


def _in_digits(value: int) -> str:
    for scale in ("million", "billion", "trillion"):
        head, rest = divmod(value, SCALES[scale])
        if 1 <= head < 1000 and not rest:
            return f"{head} {scale}"
    return f"{value:,}"


def _in_short_words(value: int) -> str | None:
    if value >= 10**15:
        return None
    words = in_words(value)
    return words if len(words.split()) <= _LONGEST_IN_WORDS else None


METHODS = methods(Method("number_form", "positive", "keeps", number_form, Config, ("mentions",)))
