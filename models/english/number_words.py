"""Values of English number words: "twenty-five", "three hundred and six", "two thirds"."""

import re

from tercet.models.english.inflection import listed

SMALL = {
    word: value
    for value, word in enumerate(
        listed(
            """zero one two three four five six seven eight nine ten eleven twelve thirteen
            fourteen fifteen sixteen seventeen eighteen nineteen"""
        )
    )
}
TENS = {
    word: 10 * value
    for value, word in enumerate(
        listed("twenty thirty forty fifty sixty seventy eighty ninety"), start=2
    )
}
SCALES = {
    "hundred": 100.0,
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "trillion": 1e12,
    "dozen": 12.0,
}
PARTS = {
    "half": 2,
    "halves": 2,
    "third": 3,
    "quarter": 4,
    "fourth": 4,
    "fifth": 5,
    "sixth": 6,
    "seventh": 7,
    "eighth": 8,
    "ninth": 9,
    "tenth": 10,
}
PARTS |= {word + "s": value for word, value in PARTS.items() if not word.startswith("hal")}
_WORD = re.compile(r"[A-Za-z]+")
_ORDINAL = re.compile(
    r"([- ])(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth"
    r"|hundredth|thousandth|\w+teenth)(?![\w])",
    re.IGNORECASE,
)


def either_case(words: list[str]) -> str:
    """A regular expression for any of the words, small or with a capital at the start.

    Words are grouped by their first letter, so that text is passed over quickly.
    """
    by_letter: dict[str, list[str]] = {}
    for word in sorted(words, key=len, reverse=True):
        by_letter.setdefault(word[0], []).append(word[1:])
    return "|".join(
        f"[{letter.upper()}{letter}](?:{'|'.join(rest)})" for letter, rest in by_letter.items()
    )


def parse(text: str) -> list[tuple[int, int, float]]:
    """The numbers that a run of number words spells: (start, end, value) of each, in order.

    A scale alone ("hundred") is no number; "and" goes on with a number after a scale only.
    """
    found: list[tuple[int, int, float]] = []
    start = end = 0
    total = current = 0.0
    last = ""
    largest = float("inf")
    linked = False

    def close() -> None:
        if last and last != "a":
            found.append((start, end, total + current))

    for match in _WORD.finditer(text):
        word = match.group().casefold()
        if word == "and":
            linked = True
            continue
        fits = last != "" and (not linked or last == "scale")
        if word in ("a", "an"):
            close()
            start, total, current, last, largest = match.start(), 0.0, 1.0, "a", float("inf")
        elif word in SCALES:
            scale = SCALES[word]
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
            value = SMALL.get(word, TENS.get(word, 0))
            kind = "tens" if word in TENS else "small"
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
    return found


def is_ordinal(text: str, end: int, last_word: str) -> bool:
    """Whether the number word that ends at `end` is the beginning of an ordinal, "twenty-first"."""
    match = _ORDINAL.match(text, end)
    if match is None:
        return False
    folded = last_word.casefold()
    return match.group(1) == "-" or folded in TENS or folded in SCALES
