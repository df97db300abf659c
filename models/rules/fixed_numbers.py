"""Numbers that stay: they name something, or the sentence spells out what they count."""

import re
from fractions import Fraction

from tercet.models.english.numbers import Number
from tercet.models.english.words import NUMBER_WORDS

_SIZE_BEFORE = re.compile(r"(?:\bx|\bby) $")
# A hyphen makes a term ("two-way", "nine-point circle"), and these words a label ("case 2").
_HYPHEN = re.compile(r"[-‑–][^\W\d]")
_HYPHEN_BEFORE = re.compile(r"(?:[^\W\d]-|[A-Z]-\d+-|[(\[§])$")
# "1. simplicity, 2. speed".
_ITEM = re.compile(r"\. [a-z]")
_LABEL = (
    "section|chapter|figure|fig|table|equation|eq|case|step|version|level|type|kind|class|format|code"
    "|page|phase|stage|part|line|column|row|item|number|no|port|error|status|theorem|lemma|rule|model"
    "|algorithm|method|option|mode|axis|dim|dimension|channel|route|flight|platform|room|gate|highway"
    "|issue|bug|ticket|value|problem|appendix|example|exercise|note|ref|reference|point|question|python|strength|order|layer|rank"
)
_LABELLED = re.compile(rf"\b(?:{_LABEL})s?\.? (?:[\w.]+,? (?:and|or|to) )?$", re.IGNORECASE)
_CALLED = re.compile(r"(?:,? (?:and|or) \d+)? (?:\w+ )?(?:code|status|format|version|standard)\b")
_CAPITALS = re.compile(r"(?:^|\s)[A-Z]{2,}[\w.]* $")
_AT_TIME = re.compile(r"\bat $")
_TIME = re.compile(r"[0-2]?\d[.:][0-5]\d(?!\d)")
_CLOCK = re.compile(r" ?(?:o['’]clock|[ap]\.?m\.?\b)")
# What spells the number out: letters for so many things, what each of them is, or a list.
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
_SPELT_UP_TO = 12  # longer lists nobody writes out


def is_label(text: str, begin: int, end: int) -> bool:
    """Whether the number names something or is part of a term: "case 2", "2-gram"."""
    before = text[max(0, begin - 40) : begin]
    if _HYPHEN.match(text, end) or _ITEM.match(text, end) or _HYPHEN_BEFORE.search(before):
        return True
    if _LABELLED.search(before) or _CAPITALS.search(before) or _SIZE_BEFORE.search(before):
        return True
    if _AT_TIME.search(before) and _TIME.match(text, begin):
        return True
    return bool(_CALLED.match(text, end) or _CLOCK.match(text, end))


def is_spelt_out(text: str, begin: int, end: int, number: Number) -> bool:
    """Whether the sentence also says which things, or what becomes of each, are counted here."""
    if number.form == "fraction_words" and number.value == Fraction(1, 2):
        return True
    # "Seven of the nine planets": a part must be less than its whole.
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
