"""Draws a replacement for a number: of the same form, near the old value or at random.

`near`: with the same number of digits; a year within sixty years. `random` (GCSE, table 6): a whole
number of one to four digits, or up to the length of the old one, all lengths equally likely; in
words from two to ninety-nine. A year stays a year, a day of the month a day of the month, and a
percentage up to 100 stays below 100. Decimals and scale word are kept.
"""

import re
from typing import Literal, TypeAlias

from tercet.models.english.numbers import FRACTIONS, TENS, UNITS, Number, in_words, numbers_in
from tercet.models.english.words import MONTH

Value: TypeAlias = Literal["near", "random"]

_AFTER_MONTH = re.compile(rf"{MONTH} $")
_BEFORE_MONTH = re.compile(rf" (?:of )?{MONTH}\b")
_YEARS = range(1500, 2100)
_PRESENT = 2026
_AS_YEAR = re.compile(
    r"\b(?:in|since|until|by|from|year|around|before|after|and|or|to) $", re.IGNORECASE
)
_PERCENT = re.compile(r" ?%| per ?cent\b")
_PLAIN = re.compile(r"(?P<whole>0|[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d*)(?:\.(?P<decimals>\d+))?")
# Maximum number of digits of a random whole number, and of one with a scale word.
_LONGEST, _LONGEST_SCALED = 4, 3


def other_number(
    text: str, begin: int, end: int, number: Number, draw: int, value: Value
) -> str | None:
    """Another number of the same form, possibly of the same value; None if `near` has none.

    begin, end: span of the number in the text. draw: 64-bit draw. Fractions, and numbers in words
    from a hundred on, have the same few choices under both values of `value`.
    """
    new = _of_its_form(text, begin, end, number, draw, value)
    return any_number(number.text, draw) if new is None and value == "random" else new


def any_number(old: str, draw: int) -> str:
    """A whole number from 2 to 99, in words if the old number is in words."""
    value = 2 + draw % 98
    return in_words(value) if any(map(str.isalpha, old)) else str(value)


def _of_its_form(
    text: str, begin: int, end: int, number: Number, draw: int, value: Value
) -> str | None:
    if number.form == "digits":
        return _other_digits(text, begin, end, number, draw, value)
    if number.form == "fraction":
        return _other_fraction(number, draw)
    if number.form == "fraction_words":
        return _other_fraction_words(text, end, number, draw, value)
    if value == "random" and 0 < number.value < 100:
        new = in_words(2 + draw % 98)
        return new.replace("-", " ") if " " in number.text else new
    return _other_words(number, draw)


def _other_digits(
    text: str, begin: int, end: int, number: Number, draw: int, how: Value
) -> str | None:
    digits = number.digits
    value = number.value
    tail = f" {number.scale}" if number.scale else ""
    if digits.isdigit() and not tail:
        by_month = _AFTER_MONTH.search(text[:begin]) or _BEFORE_MONTH.match(text, end)
        if value <= 31 and by_month:
            return str(2 + draw % 27)
        if len(digits) == 4 and (
            int(value) in _YEARS or (1000 <= value < _YEARS.start and _AS_YEAR.search(text[:begin]))
        ):
            return str(_year(int(value), draw, how))
        if how == "near" and 10 <= value <= 100 and _PERCENT.match(text, end):
            return str(10 + draw % 90)
    plain = _PLAIN.fullmatch(digits)
    if how == "near" or plain is None:
        return _template(digits, draw) + tail
    if value <= 100 and not tail and _PERCENT.match(text, end):
        return f"{2 + draw % 98}{_decimals(plain, draw // 98)}"
    most = _LONGEST_SCALED if tail else max(_LONGEST, sum(map(str.isdigit, plain["whole"])))
    size, draw = 1 + draw % most, draw // most
    low = 10 ** (size - 1)
    whole, draw = low + draw % (9 * low), draw // (9 * low)
    return (f"{whole:,}" if "," in digits else str(whole)) + _decimals(plain, draw) + tail


def _decimals(plain: re.Match[str], draw: int) -> str:
    """Decimals of the old number's length."""
    places = len(plain["decimals"] or "")
    return f".{draw % 10**places:0{places}}" if places else ""


def _year(value: int, draw: int, how: Value) -> int:
    """Another year, on the same side of `_PRESENT` as the old one."""
    low, high = (value - 60, value + 60) if how == "near" else (0, _YEARS.stop)
    if value > _PRESENT:
        low, high = _PRESENT, min(high, _YEARS.stop - 1)
    else:
        earliest = 1000 if how == "near" or value < _YEARS.start else _YEARS.start
        low, high = max(earliest, low), min(high, _PRESENT)
    return low + draw % (high - low + 1)


def _template(number: str, draw: int) -> str:
    """The number with other digits. Leading zeros stay, as do trailing zeros of a whole number, so
    that round numbers stay round."""
    places = [i for i, c in enumerate(number) if c.isdigit()]
    digits = "".join(number[i] for i in places)
    lead = len(digits) - len(digits.lstrip("0"))
    if lead == len(digits):
        lead -= 1
    core = digits[lead:]
    zeros = "" if "." in number else "0" * (len(core) - len(core.rstrip("0")))
    if zeros == core:
        zeros = ""
    length = len(core) - len(zeros)
    low = 10 ** (length - 1)
    new = "0" * lead + str(low + draw % (9 * low)) + zeros
    chars = list(number)
    for place, digit in zip(places, new, strict=True):
        chars[place] = digit
    return "".join(chars)


def _other_fraction(number: Number, draw: int) -> str | None:
    upper, lower = (int(n) for n in number.text.split("/"))
    if lower == 1:
        return None
    if upper < lower and lower > 2:
        return f"{1 + draw % (lower - 1)}/{lower}"
    return f"{upper}/{2 + draw % 8}" if upper else f"{1 + draw % max(lower - 1, 1)}/{lower}"


def _other_fraction_words(text: str, end: int, number: Number, draw: int, how: Value) -> str | None:
    fraction = number.text.lower().replace("-", " ")
    if how == "near" and fraction == "half" and not text.startswith(" of ", end):
        return None
    options = [f for f in FRACTIONS if f.startswith("a ") and FRACTIONS[f] != number.value]
    if not fraction.startswith("a ") and fraction != "half":
        options = [
            f
            for f in FRACTIONS
            if not f.startswith(("a ", "half")) and FRACTIONS[f] != number.value
        ]
    new = options[draw % len(options)]
    return new.replace(" ", "-") if "-" in number.text else new


def _other_words(number: Number, draw: int) -> str | None:
    value = int(number.value)
    if value == 0:
        return None
    if value <= 10:
        return UNITS[2 + draw % 9]
    if value < 20:
        return UNITS[11 + draw % 9]
    if value < 100 and value % 10 == 0:
        return TENS[2 + draw % 8]
    if value < 100:
        new = in_words(10 * (2 + draw % 8) + 1 + draw // 8 % 9)
        return new if "-" in number.text else new.replace("-", " ")
    # Longer numbers change in their first word: "two hundred million" to "seven hundred million".
    first = numbers_in(number.text.replace("-", " ").split(" ", 1)[0].lower())
    # A number that begins with a scale word ("hundred-and-one") is not changed.
    if not first or not 0 < first[0].value < 100:
        return None
    head = _other_words(first[0], draw)
    return None if head is None else head + number.text[first[0].end :].lower()
