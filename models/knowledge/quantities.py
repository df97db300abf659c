"""Quantities in text: digits, number words, fractions, percentages, ranges and their units.

Ordinals, dates in digits, clock times, version numbers and digits inside names are not quantities.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from tercet.models.english.numbers import (
    PARTS,
    SCALE_VALUES,
    TEN_VALUES,
    UNIT_VALUES,
    is_ordinal,
    spelled,
)
from tercet.models.english.words import word_lists

DATA_FILES = ("units.tsv", "quantities.tsv")

_LISTS = word_lists(__file__)


def _either_case(words: list[str]) -> str:
    """A regular expression for any of the words, in lower case or capitalised.

    Words are grouped by their first letter, which speeds up the search.
    """
    by_letter: dict[str, list[str]] = {}
    for word in sorted(words, key=len, reverse=True):
        by_letter.setdefault(word[0], []).append(word[1:])
    return "|".join(
        f"[{letter.upper()}{letter}](?:{'|'.join(rest)})" for letter, rest in by_letter.items()
    )


_SCALE = _either_case([*SCALE_VALUES])
_NUMBER = r"(?:\d{1,3}(?:,\d{3})++|\d++)(?:\.\d++)?+(?:[eE][+-]?\d++)?+"
_VULGAR = {"¼": 0.25, "½": 0.5, "¾": 0.75, "⅓": 1 / 3, "⅔": 2 / 3, "⅛": 0.125, "⅜": 0.375}
_VULGAR |= {"⅝": 0.625, "⅞": 0.875}
# In "two and a half million" the scale applies to the half too.
_HALF = rf"(?P<half>[ ]and[ ](?:a|one)[ ]half(?!\w)(?:[ ](?P<of_half>{_SCALE})(?!\w))?)?"
_DIGITS = re.compile(
    r"(?<![\w.#])(?<!\d[:,/])(?<![^\W\d_][-–])"
    r"(?P<sign>(?<![\w)\]%])[-−](?=[.\d]))?"
    rf"(?:(?P<whole>\d++[ ])?(?P<top>\d++)/(?P<under>\d++)(?![\d/])"
    rf"|(?P<of>\d*)(?P<vulgar>[{''.join(_VULGAR)}])"
    rf"|(?P<number>{_NUMBER}|\.\d++)(?![:.,/]?\d|\.[a-z])"
    rf"(?:[ -](?P<scale>{_SCALE})(?!\w))?{_HALF})"
)
_ONES = [word for word, value in UNIT_VALUES.items() if value]
_WORD = _either_case([*UNIT_VALUES, *TEN_VALUES])
_ANY = _either_case([*UNIT_VALUES, *TEN_VALUES, *SCALE_VALUES])
_WORDS = re.compile(
    r"(?<![\w])(?:"
    rf"(?P<part>[Hh]alf)(?:(?=[ ](?:of|the)(?!\w))|[ ]an?[ ](?P<scale>{_SCALE})(?!\w))"
    rf"|(?P<top>{_either_case(_ONES[:9])})[ -](?P<under>{'|'.join(PARTS)})(?!\w)"
    rf"|(?P<run>(?:{_WORD}|[Aa](?=[ ](?:{_SCALE})(?!\w)))(?!\w)"
    rf"(?:(?:[ -]|[ ]and[ ])(?:{_ANY})(?!\w))*){_HALF})"
)
_BETWEEN = re.compile(r"[ ]?%?(?:[ ]?[-–—−][ ]?|[ ]to[ ])")
_BARE_HYPHEN = re.compile(r"[-–]")
_CURRENCY = re.compile(r"([$€£¥])[ ]?\Z")
_BEFORE = re.compile(r"(\w+)[ ,]*\Z")
_YEAR = re.compile(r"(?:1\d{3}|20\d\d|2100)")
_BEFORE_YEARS = _LISTS["before_years"]
_BEFORE_ONE = _LISTS["before_one"]
_AFTER_HYPHEN = _LISTS["after_hyphen"]
_HYPHENED = re.compile(r"-([A-Za-z]+)")
_MONEY = frozenset("$€£¥")


@dataclass(frozen=True)
class Quantity:
    """A number in text.

    start, end: span of the number, with sign and scale word, without the unit.
    value: the number, or the middle of a range. form: number, year, fraction, range, percentage,
        money or measure. unit: as in `units.tsv`, or None. unit_start, unit_end: span of the unit;
        empty at `end` if there is no unit, or the unit precedes the number.
    needs_noun: whether it is a quantity only if it counts a following noun ("one dog").
    """

    start: int
    end: int
    value: float
    form: str
    unit: str | None
    unit_start: int
    unit_end: int
    needs_noun: bool


def find(text: str) -> list[Quantity]:
    """The quantities of a text in order, without the nouns that they count.

    The caller must drop a quantity with `needs_noun` if it counts no noun.
    """
    atoms = sorted([*_digits(text), *_words(text)], key=lambda atom: atom.start)
    quantities: list[Quantity] = []
    at = 0
    while at < len(atoms):
        chain = 1
        while at + chain < len(atoms) and _BARE_HYPHEN.fullmatch(
            text, atoms[at + chain - 1].end, atoms[at + chain].start
        ):
            chain += 1
        if chain > 2:  # a date or a telephone number
            at += chain
            continue
        merged = _range(text, atoms[at], atoms[at + 1]) if at + 1 < len(atoms) else None
        quantity = _with_unit(text, atoms[at] if merged is None else merged)
        if quantity is not None:
            quantities.append(quantity)
        at += 1 if merged is None else 2
    return quantities


# Languages disagree on whether a comma is decimal or separates thousands; the text does not tell.
_SEPARATED = re.compile(r"\d+(?:[.,'’]\d+)+|\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)")
# "14 heures" may be a time. A short word may join two numbers: "de 5 à 10", "12 sur 20", "14 h 30".
_TIE = r"(?:\s?%)?\s[^\W\d_]{1,3}\s"
_TIED_BEFORE = re.compile(rf"\d{_TIE}\Z")
_TIED_AFTER = re.compile(rf"\s?(?:h|heures?|horas?|hores|or[ae]|Uhr|uur)\b|{_TIE}\d")
_SYMBOL = 2  # letters of a unit symbol; longer units are English words


def find_in_any_language(text: str) -> list[Quantity]:
    """Whole numbers in digits, with their units if these are symbols.

    Left out are numbers with a comma, point, apostrophe or space inside, whose meaning differs
    between languages; fractions, which may be dates; hours, which may be times; and two numbers
    joined by a short word, which may be a range.
    """
    separated = [match.span() for match in _SEPARATED.finditer(text)]
    starts = [start for start, _ in separated]
    quantities = []
    for quantity in find(text):
        number = text[quantity.start : quantity.end]
        at = bisect_right(starts, quantity.start) - 1
        if not number.isdecimal() or quantity.needs_noun:
            continue
        before = text[max(0, quantity.start - 8) : quantity.start]
        if _TIED_BEFORE.search(before) or _TIED_AFTER.match(text, quantity.end):
            continue
        if at >= 0 and quantity.start < separated[at][1]:
            continue
        unit = text[quantity.unit_start : quantity.unit_end]
        if unit.isalpha() and len(unit) > _SYMBOL:
            quantity = _atom(quantity.start, quantity.end, quantity.value)
        quantities.append(quantity)
    return quantities


def _atom(start: int, end: int, value: float, form: str = "number") -> Quantity:
    return Quantity(start, end, value, form, None, end, end, False)


def _digits(text: str) -> Iterator[Quantity]:
    for match in _DIGITS.finditer(text):
        form = "number"
        if match["number"]:
            value = float(match["number"].replace(",", ""))
            value += 0.5 if match["half"] else 0
            value *= _scale(match["scale"]) * _scale(match["of_half"])
        elif match["vulgar"]:
            value, form = float(match["of"] or 0) + _VULGAR[match["vulgar"]], "fraction"
        elif int(match["under"]):
            value = float(match["whole"] or 0) + int(match["top"]) / int(match["under"])
            form = "fraction"
        else:
            continue
        yield _atom(match.start(), match.end(), -value if match["sign"] else value, form)


def _scale(word: str | None) -> float:
    return SCALE_VALUES[word.casefold()] if word else 1


def _words(text: str) -> Iterator[Quantity]:
    for match in _WORDS.finditer(text):
        start = match.start()
        if match["run"] is None:
            top = 1 if match["part"] else UNIT_VALUES[match["top"].casefold()]
            under = match["part"] or match["under"]
            if (top > 1) != (under.endswith("s") or under == "halves"):
                if top > 1 or not match["part"]:
                    # "two third places": only "two" is a number, unless an ordinal starts there.
                    end = start + len(match["top"])
                    if text[end] != "-":
                        yield _one_flag(text, _atom(start, end, float(top)))
                continue
            value = top / PARTS[under.casefold()] * _scale(match["scale"])
            form = "number" if match["scale"] else "fraction"
            yield _atom(start, match.end(), value, form)
            continue
        run = match["run"]
        spelt = spelled(run)
        for number, (first, last, value) in enumerate(spelt):
            end = start + last
            final = number == len(spelt) - 1
            if final and is_ordinal(text, end, run[first:last].split()[-1]):
                continue
            if final and match["half"]:
                value, end = (value + 0.5) * _scale(match["of_half"]), match.end()
            yield _one_flag(text, _atom(start + first, end, value))


def _one_flag(text: str, atom: Quantity) -> Quantity:
    """The number; "one" is marked as needing a noun, and as no number (NaN) after a determiner."""
    if text[atom.start : atom.end].casefold() != "one":
        return atom
    before = _BEFORE.search(text, max(0, atom.start - 12), atom.start)
    if before is not None and before.group(1).casefold() in _BEFORE_ONE:
        return replace(atom, needs_noun=True, value=float("nan"))
    return replace(atom, needs_noun=True)


def _range(text: str, low: Quantity, high: Quantity) -> Quantity | None:
    """The two numbers as one range, if they are joined as a range and ascend; else None."""
    ascending = low.value < high.value
    linked = _BETWEEN.fullmatch(text, low.end, high.start) is not None or (
        text[low.end : high.start] == " and "
        and text[max(0, low.start - 8) : low.start].casefold() == "between "
    )
    if not ascending or not linked:
        return None
    value = (low.value + high.value) / 2
    return Quantity(low.start, high.end, value, "range", None, high.end, high.end, False)


def _with_unit(text: str, atom: Quantity) -> Quantity | None:
    """The number with its unit and final form; None if it is part of a word."""
    if atom.value != atom.value:
        return None
    plain = text[atom.start : atom.end]
    is_year = atom.form == "number" and _YEAR.fullmatch(plain) is not None
    pattern, units = _units()
    match = pattern.match(text, atom.end)
    if match is not None:
        written = match["unit"]
        # A short symbol after a number word or a year is not a unit: "five m", "in 1990 s".
        short = written.isalpha() and len(written) < 3
        if short and (is_year or not any(map(str.isdigit, plain))):
            match = None
    following = text[atom.end : atom.end + 2]
    if match is None and following[:1] and (following[0].isalnum() or following[0] == "_"):
        return None
    unit, span = None, (atom.end, atom.end)
    if match is not None:
        unit, span = units[match["unit"]], match.span("unit")
    else:
        currency = _CURRENCY.search(text, max(0, atom.start - 4), atom.start)
        if currency is not None:
            unit = currency.group(1)
    # "5-apdb" is a number only if it counts the word after the hyphen.
    hyphened = _HYPHENED.match(text, atom.end) if match is None else None
    doubtful = (
        hyphened is not None
        and hyphened.group(1).casefold() not in _AFTER_HYPHEN
        and any(map(str.isdigit, plain))
    )
    form = atom.form
    if form == "number" and unit is not None:
        form = "money" if unit in _MONEY else "percentage" if unit == "%" else "measure"
    elif is_year:
        before = _BEFORE.search(text, max(0, atom.start - 12), atom.start)
        led = before is not None and before.group(1).casefold() in _BEFORE_YEARS
        form = "year" if led or text[atom.start - 1 : atom.start] == "(" else "number"
    needs = (atom.needs_noun and unit is None) or doubtful
    return Quantity(atom.start, atom.end, atom.value, form, unit, *span, needs)


def is_year_like(text: str, quantity: Quantity) -> bool:
    """Whether a plain number that counts nothing may be a year."""
    return (
        quantity.form == "number"
        and _YEAR.fullmatch(text, quantity.start, quantity.end) is not None
    )


@lru_cache(maxsize=1)
def _units() -> tuple[re.Pattern[str], dict[str, str]]:
    """A pattern for a unit right after a number, and the unit of each spelling."""
    units: dict[str, str] = {}
    for line in Path(__file__).with_name("units.tsv").read_text("utf-8").splitlines()[1:]:
        unit, spellings = line.split("\t")
        for spelling in spellings.split("|"):
            units.setdefault(spelling, unit)
    listed = "|".join(map(re.escape, sorted(units, key=len, reverse=True)))
    return re.compile(rf"[ \u00a0-]?(?P<unit>{listed})(?!\w)"), units
