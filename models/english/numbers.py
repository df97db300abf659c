"""Finds, reads and writes English numbers.

`numbers_in` finds the numbers of a text, in digits and in words, with exact values; rules change
these. `spelled` reads a sequence of number words as people write them ("a hundred and six", "two
dozen"); extraction uses it.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

Form: TypeAlias = Literal["digits", "words", "fraction", "fraction_words"]

_UNITS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen"""
_TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety"
UNITS = tuple(_UNITS.split())
# By number of tens; values below 20 are in `UNITS`.
TENS = tuple(_TENS.split())
SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}

UNIT_VALUES = {word: value for value, word in enumerate(UNITS)}
TEN_VALUES = {word: 10 * value for value, word in enumerate(TENS) if value > 1}
# Scale words that may follow a number word in a text.
SCALE_VALUES = {
    "hundred": 100.0,
    **{word: float(value) for word, value in SCALES.items()},
    "dozen": 12.0,
}
_PARTS = "third fourth fifth sixth seventh eighth ninth tenth"
PARTS = {"quarter": 4} | {word: value for value, word in enumerate(_PARTS.split(), 3)}
PARTS |= {word + "s": value for word, value in PARTS.items()} | {"half": 2, "halves": 2}
FRACTIONS = {
    "half": Fraction(1, 2),
    "one half": Fraction(1, 2),
    "a half": Fraction(1, 2),
    "one third": Fraction(1, 3),
    "a third": Fraction(1, 3),
    "two thirds": Fraction(2, 3),
    "one quarter": Fraction(1, 4),
    "a quarter": Fraction(1, 4),
    "three quarters": Fraction(3, 4),
    "one fifth": Fraction(1, 5),
    "a fifth": Fraction(1, 5),
    "two fifths": Fraction(2, 5),
    "three fifths": Fraction(3, 5),
    "four fifths": Fraction(4, 5),
}

_VALUES = UNIT_VALUES | TEN_VALUES
_NUMBER_WORD = "|".join([*sorted(_VALUES, key=len, reverse=True), "hundred", *SCALES])
_FRACTION_WORDS = "|".join(
    re.escape(f).replace(r"\ ", "[ -]") for f in sorted(FRACTIONS, key=len, reverse=True)
)
_NUMBER = re.compile(
    rf"""
    (?P<fraction>(?<![\w./,])[0-9]{{1,3}}/[1-9][0-9]{{0,2}}(?![\w/]|[.,][0-9]))
    | (?P<digits>(?<![\w.,/:])
        (?:[0-9]{{1,3}}(?:,[0-9]{{3}})+(?:\.[0-9]+)?|[0-9]{{1,15}}(?:\.[0-9]{{1,12}})?|\.[0-9]{{1,12}})
        (?![0-9/:]|[.,][0-9]|(?:st|nd|rd|th)\b)
        (?P<scale>\ (?:hundred|thousand|million|billion|trillion)\b)?)
    | (?P<fraction_words>\b(?:{_FRACTION_WORDS})\b)
    | (?P<words>\b(?:{_NUMBER_WORD})(?:(?:[ -]|\ and\ )(?:{_NUMBER_WORD}))*\b)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z]+")
_ORDINAL = re.compile(
    r"([- ])(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth"
    r"|hundredth|thousandth|\w+teenth)(?![\w])",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Number:
    """A number in a text: its span [start, end), its text there, and its exact value.

    scale: the scale word after digits, as in "2.5 million", else "".
    """

    start: int
    end: int
    text: str
    form: Form
    value: Fraction
    scale: str = ""

    @property
    def digits(self) -> str:
        """The text without the scale word."""
        return self.text[: -len(self.scale) - 1] if self.scale else self.text


def numbers_in(text: str) -> list[Number]:
    """The numbers of the text, in order, without ordinals, versions, clock times and dates with
    slashes. The 5 of "5mm" is included."""
    numbers = []
    for match in _NUMBER.finditer(text):
        form: Form = match.lastgroup if match.lastgroup != "scale" else "digits"  # type: ignore[assignment]
        matched = match.group()
        scale = (match.group("scale") or "").strip()
        value = _value(matched, form, scale)
        if value is not None:
            numbers.append(Number(match.start(), match.end(), matched, form, value, scale))
    return numbers


def in_words(value: int) -> str:
    """A whole number in [0, 10**15) in words, with hyphens between tens and units, without "and".

    Raises: ValueError for a number outside the range.
    """
    if not 0 <= value < 10**15:
        raise ValueError(f"{value} is not in [0, 10**15)")
    if value < 20:
        return UNITS[value]
    if value < 100:
        tens, units = divmod(value, 10)
        return TENS[tens] + (f"-{UNITS[units]}" if units else "")
    if value < 1000:
        head, rest = divmod(value, 100)
        words = f"{UNITS[head]} hundred"
    else:
        name, size = max((item for item in SCALES.items() if item[1] <= value), key=lambda i: i[1])
        head, rest = divmod(value, size)
        words = f"{in_words(head)} {name}"
    return words + (f" {in_words(rest)}" if rest else "")


def spelled(text: str) -> list[tuple[int, int, float]]:
    """The numbers in a sequence of number words: (start, end, value) of each, in order.

    A scale word alone ("hundred") is not a number; "and" continues a number only after a scale.
    """
    spans: list[tuple[int, int, float]] = []
    start = end = 0
    total = current = 0.0
    last = ""
    largest = float("inf")
    linked = False

    def close() -> None:
        if last and last != "a":
            spans.append((start, end, total + current))

    for match in _WORD.finditer(text):
        word = match.group().casefold()
        if word == "and":
            linked = True
            continue
        fits = last != "" and (not linked or last == "scale")
        if word in ("a", "an"):
            close()
            start, total, current, last, largest = match.start(), 0.0, 1.0, "a", float("inf")
        elif word in SCALE_VALUES:
            scale = SCALE_VALUES[word]
            if not fits or (last == "scale" and scale < 1e3) or scale >= largest or linked:
                if last:
                    close()
                last, linked = "", False
                continue
            if scale >= 1e3:
                total, current, largest = total + current * scale, 0.0, scale
            else:
                current *= scale
            last, end = "scale", match.end()
        else:
            value = _VALUES.get(word, 0)
            kind = "tens" if word in TEN_VALUES else "small"
            follows = fits and (
                last == "scale" or (last == "tens" and kind == "small" and 0 < value < 10)
            )
            if not follows:
                close()
                start, total, current, largest = match.start(), 0.0, 0.0, float("inf")
            current += value
            last, end = kind, match.end()
        linked = False
    close()
    return spans


def is_ordinal(text: str, end: int, last_word: str) -> bool:
    """Whether the number word that ends at `end` begins an ordinal such as "twenty-first"."""
    match = _ORDINAL.match(text, end)
    if match is None:
        return False
    folded = last_word.casefold()
    return match.group(1) == "-" or folded in TEN_VALUES or folded in SCALE_VALUES


def _value(text: str, form: Form, scale: str) -> Fraction | None:
    if form == "fraction":
        upper, lower = text.split("/")
        return Fraction(int(upper), int(lower))
    if form == "fraction_words":
        return FRACTIONS[text.lower().replace("-", " ")]
    if form == "digits":
        number = Fraction((text[: -len(scale) - 1] if scale else text).replace(",", ""))
        factor = 100 if scale.lower() == "hundred" else SCALES.get(scale.lower(), 1)
        return number * factor
    return _value_of_words(text)


def _value_of_words(text: str) -> Fraction | None:
    words = [w for w in re.split(r"[ -]", text.lower()) if w and w != "and"]
    total, below = 0, 0
    for word in words:
        if word == "hundred":
            below *= 100
        elif word in SCALES:
            total, below = total + below * SCALES[word], 0
        else:
            below += _VALUES[word]
    value = total + below
    # Not a number if writing the value gives other words: "two three", "hundred".
    if value >= 10**15 or in_words(value).replace("-", " ").split() != words:
        return None
    return Fraction(value)
