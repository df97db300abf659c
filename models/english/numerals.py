"""Numbers as English writes them: found in a text, valued exactly, and said in words."""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

Form: TypeAlias = Literal["digits", "words", "fraction", "fraction_words"]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


UNITS = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
TENS = _words("zero ten twenty thirty forty fifty sixty seventy eighty ninety")
SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_VALUES = {
    **{word: value for value, word in enumerate(UNITS)},
    **{word: 10 * value for value, word in enumerate(TENS) if value > 1},
}
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

_SAID = "|".join([*sorted(_VALUES, key=len, reverse=True), "hundred", *SCALES])
_PARTS = "|".join(
    re.escape(f).replace(r"\ ", "[ -]") for f in sorted(FRACTIONS, key=len, reverse=True)
)
_NUMBER = re.compile(
    rf"""
    (?P<fraction>(?<![\w./,])[0-9]{{1,3}}/[1-9][0-9]{{0,2}}(?![\w/]|[.,][0-9]))
    | (?P<digits>(?<![\w.,/:])
        (?:[0-9]{{1,3}}(?:,[0-9]{{3}})+(?:\.[0-9]+)?|[0-9]{{1,15}}(?:\.[0-9]{{1,12}})?|\.[0-9]{{1,12}})
        (?![0-9/:]|[.,][0-9]|(?:st|nd|rd|th)\b)
        (?P<scale>\ (?:hundred|thousand|million|billion|trillion)\b)?)
    | (?P<fraction_words>\b(?:{_PARTS})\b)
    | (?P<words>\b(?:{_SAID})(?:(?:[ -]|\ and\ )(?:{_SAID}))*\b)
    """,
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True)
class Number:
    """A number as it stands: `text` at [start, end) of where it was found, with its exact value.

    scale: the scale word behind the digits of "2.5 million", else "".
    """

    start: int
    end: int
    text: str
    form: Form
    value: Fraction
    scale: str = ""

    @property
    def digits(self) -> str:
        """The text without a scale word behind it."""
        return self.text[: -len(self.scale) - 1] if self.scale else self.text


def find(text: str) -> list[Number]:
    """All numbers of the text, in order. Ordinals, versions, clock times and dates with slashes
    are none; the digits of "5mm" are."""
    found = []
    for match in _NUMBER.finditer(text):
        form: Form = match.lastgroup if match.lastgroup != "scale" else "digits"  # type: ignore[assignment]
        said = match.group()
        scale = (match.group("scale") or "").strip()
        value = _value(said, form, scale)
        if value is not None:
            found.append(Number(match.start(), match.end(), said, form, value, scale))
    return found


def in_words(value: int) -> str:
    """A whole number in [0, 10**15) in words, hyphens between tens and units, no "and"."""
    if not 0 <= value < 10**15:
        raise ValueError(f"{value} is not in [0, 10**15)")
    if value < 20:
        return UNITS[value]
    if value < 100:
        tens, units = divmod(value, 10)
        return TENS[tens] + (f"-{UNITS[units]}" if units else "")
    if value < 1000:
        head, rest = divmod(value, 100)
        said = f"{UNITS[head]} hundred"
    else:
        name, size = max((item for item in SCALES.items() if item[1] <= value), key=lambda i: i[1])
        head, rest = divmod(value, size)
        said = f"{in_words(head)} {name}"
    return said + (f" {in_words(rest)}" if rest else "")


def _value(said: str, form: Form, scale: str) -> Fraction | None:
    if form == "fraction":
        upper, lower = said.split("/")
        return Fraction(int(upper), int(lower))
    if form == "fraction_words":
        return FRACTIONS[said.lower().replace("-", " ")]
    if form == "digits":
        number = Fraction((said[: -len(scale) - 1] if scale else said).replace(",", ""))
        factor = 100 if scale.lower() == "hundred" else SCALES.get(scale.lower(), 1)
        return number * factor
    return _value_of_words(said)


def _value_of_words(said: str) -> Fraction | None:
    words = [w for w in re.split(r"[ -]", said.lower()) if w and w != "and"]
    total, below = 0, 0
    for word in words:
        if word == "hundred":
            below *= 100
        elif word in SCALES:
            total, below = total + below * SCALES[word], 0
        else:
            below += _VALUES[word]
    value = total + below
    # "two three" and "hundred" alone are not numbers that we could say back.
    if value >= 10**15 or in_words(value).replace("-", " ").split() != words:
        return None
    return Fraction(value)
