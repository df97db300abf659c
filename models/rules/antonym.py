"""Negatives by replacing a word with its antonym."""

import re
from functools import cache, lru_cache

import pyarrow as pa

from tercet.models.english.context import (
    AUXILIARIES,
    CONJUNCTIONS,
    DETERMINERS,
    RELATIVES,
    Around,
    is_adverb_form,
    is_number,
    is_past_form,
)
from tercet.models.english.inflection import forms_of, openers
from tercet.models.english.words import NUMBER_WORDS, PREPOSITIONS, WORD, word_lists, word_set
from tercet.models.generation import Method, MethodInput, Several, methods
from tercet.models.knowledge.lexicon import load_pairs
from tercet.models.rules.word_exchange import Senses, exchanged, senses_of

DATA_FILES = ("antonym.tsv",)

_LISTS = word_lists(__file__)
_SKIPPED = _LISTS["skipped"]
# The opposite of something wanted or allowed makes no sense: "for easy access".
_WISH = re.compile(
    r"\b(?:to|must|should|ensur\w*|allow\w*|enabl\w*|so that|can|need\w*|want\w*|mak\w+ sure"
    r"|find\w*|select\w*|choos\w*|pick\w*)\b"
    r"|\bfor (?:an? |the )?$",
    re.IGNORECASE,
)
# An explanation or contrast in the rest of the sentence would contradict the opposite: "so dry that
# nothing grows". The words of `_PLAIN`, which say where, when or how many, are not affected by
# `_EXPLAINED`.
_TOLD_APART = re.compile(
    r"\b(?:i\.e|e\.g|otherwise|instead|unlike|whereas|respectively|rather|contrast|too|so|thereby"
    r"|goal|aims?|purpose|whether|if not|or not"
    r"|(?:allow|avoid|disabl|enabl|ensur|help|mak|prevent)ing)\b"
    r"|^While\b|:|[(]|[?]",
    re.IGNORECASE,
)
_EXPLAINED = re.compile(
    r"[;—]| - |\b(?:for (?:example|instance)|such (?:as|that)|as (?:it|they)|due to|however|like"
    r"|in order to|thus|therefore|hence|no|not|nor|neither|both|but|yet|since|only"
    r"|exclusively|ever|whenever|forc\w+)\b|n['’]t\b",
    re.IGNORECASE,
)
# Reasons that affect the words of `_PLAIN` too: "rejected because it came after noon".
_REASON = re.compile(
    r"\b(?:because|although|though|even|enough|when|while|if|unless|once)\b", re.IGNORECASE
)
_PLAIN = _LISTS["plain"]
# Another action or state that depends on the verb: "Took the offer, calling it fair".
_DEEDS = re.compile(
    r"\b(?:and|still|again|now|ever since|reopened|as soon as)\b|, (?:\w+ly )?\w+ing\b|^Having\b"
)
_ORDERED = word_set("first before after")
_ORDER = re.compile(
    r"\b(?:second|third|then|again|later|subsequent\w*|(?:after|before) \w+ last)\b", re.IGNORECASE
)
# Durations: "after nine years", "before a week of fog".
_LONG = re.compile(
    rf" (?:about |almost |nearly |only |just |more than |less than )?(?:an?|several|some|many"
    rf"|\d+|{'|'.join(sorted(NUMBER_WORDS))})[\w-]* (?:\w+ )?"
    r"(?:second|minute|hour|day|night|week|month|year|decade|centur)"
)
# One action depends on another: "Eat it before it melts", "resulting after computing".
_CLAUSE = re.compile(
    r" (?:[\w'’]+ing\b|(?:I|it|he|she|they|we|you)\b"
    r"|[^,.;]*\b(?:had|has|have|was|were|is|are|did|does)\b)"
)
_BARE_LENGTHS = word_set("which only long all")
_CLOCK = re.compile(rf"(?:\d|['’]clock|half|{'|'.join(sorted(NUMBER_WORDS))}) in the $")
_KIN = _LISTS["kin"]
_PRONOUN = re.compile(r"\b(?:he|she|his|her|him|himself|herself)\b", re.IGNORECASE)
_STOREYS = _LISTS["storeys"]
# References within the text are not facts: "the note above explains it", "as shown below".
_PLACES = word_set("above below outside")
_POINTING = _LISTS["pointing"]
_NO_PLACE = AUXILIARIES | CONJUNCTIONS | RELATIVES | PREPOSITIONS - {"of"}


def _by_form(kind: str) -> dict[str, frozenset[str]]:
    return {k.removeprefix(kind): words for k, words in _LISTS.items() if k.startswith(kind)}


# Words that form a term, or have another sense, before or behind the listed words.
_NOT_BEFORE = _by_form("not before ")
_NOT_BEHIND = _by_form("not behind ") | {"many": PREPOSITIONS}  # "for few years"
# Words elsewhere in the sentence that do not fit the opposite.
_NOT_WITH = {
    word: re.compile(pattern, re.IGNORECASE)
    for words, pattern in (
        ("summer winter summers winters", r"\b(?:snow|ice|fr[eo]+[sz]|cold|hot\b|heat|ski)"),
        (
            "minimum maximum",
            r"(?<![a-z])(?:(?:arg)?(?:min|max)|(?:larg|small|low|high|great)est|at least)"
            r"(?![a-z])",
        ),
        ("included", r"\b(?:below|above|here)\b"),
        ("temporarily temporary", r"\bcontext"),
        ("randomly", r"\b(?:probab|sampl|shuffl|distribut|seed)"),
        ("row rows column columns", r"\b(?:SQL|SELECT|INSERT|CREATE|ORDER|\w*constraint)\b"),
        ("input output inputs outputs", r"\bsame\b"),
        ("never", r"\b(?:always|sometimes)\b"),
        ("sometimes", r"\b(?:always|never)\b"),
        ("always", r"\b(?:sometimes|never)\b"),
    )
    for word in words.split()
}
_ENDING = re.compile(r"(?:(?<=...)(?:ing|ed)|(?<=....)(?:e|es|ly|um)|(?<=..[^s])s)$")
_ENDINGS = _LISTS["endings"]
_ROOT = 6  # letters that long words of one family share


def antonym(inputs: MethodInput, params: Several, seed: int) -> pa.Table:
    """One word of the sentence replaced by an antonym in the same form."""
    return exchanged(
        inputs, seed, "antonym", "exchange_antonym", _senses(), params.per_sentence, 1, fits=_fits
    )


def _fits(text: str, start: int, end: int, context: Around) -> bool:
    """Whether the rest of the sentence allows the opposite at text[start:end]."""
    form = text[start:end].lower()
    before = text[:start]
    if _TOLD_APART.search(text) or _REASON.search(text):
        return False
    if form not in _PLAIN and _EXPLAINED.search(text):
        return False
    if form in _NOT_WITH and _NOT_WITH[form].search(text):
        return False
    if form in _ORDERED and _ORDER.search(text):
        return False  # "the second eight weeks after the first"
    if form in _KIN and _PRONOUN.search(text):
        return False  # "the wife of the reformer, of whom she told"
    if form not in _PLAIN and _WISH.search(before):
        return False
    if form in _verbs() and (context.before == "by" or _DEEDS.search(text)):
        return False
    return _is_free(form, context, text[end:], before) and not _repeats_family(form, text)


def _is_free(form: str, context: Around, behind: str, before: str) -> bool:
    """Whether the neighbouring words allow another word: no term, no idiom, no special sense."""
    if context.after in _NOT_BEFORE.get(form, ()) or context.before in _NOT_BEHIND.get(form, ()):
        return False
    if form not in _PLAIN:
        if context.after in ("and", "or"):
            return False  # "hard or impossible to find"
        if context.opens and behind[1:2].isupper():
            return False  # "Inner Loop of the Solver"
    if (context.earlier, context.before) == ("to", "be") or "without" in (
        context.earlier,
        context.before,
    ):
        return False  # "in order to be consistent", "without an invalid ticket"
    if context.opens and is_past_form(context.after):
        return False  # "Long regarded as"
    if form in ("later", "earlier"):
        return context.after == "than"
    if form in ("before", "after"):
        rests = context.before == "only" or _CLAUSE.match(behind) is not None
        length = context.after in _BARE_LENGTHS or is_number(context.after) or _LONG.match(behind)
        return not (rests or length)
    if form in ("lower", "upper"):
        return context.after in _STOREYS or behind[1:2].isupper()  # "the lower Danube"
    if form in ("morning", "evening"):
        return not _CLOCK.search(before)  # "at two in the evening"
    if form in _PLACES:
        return _is_place(context)
    if form == "more":
        return context.later not in ("one", "once", "1", "zero", "0")  # "less than one sample"
    if form == "never":
        return _is_habit(context) and "again" not in behind
    if form == "closed":
        return context.after in DETERMINERS  # "a set that is opened"
    return form != "known" or context.after == "to"


def _repeats_family(form: str, text: str) -> bool:
    """Whether the text has another word of the family of the form, or of an antonym's family.

    "The minimizer that minimizes", "decode it with the encoder".
    """
    words = [match.group().lower() for match in WORD.finditer(text)]
    if sum(_is_kin(word, form) for word in words) > 1:
        return True
    return any(_is_kin(word, other) for other in _others(form) for word in words)


def _is_place(context: Around) -> bool:
    """Whether "above" and the like name a real place, not a place in the text."""
    if context.before in _POINTING or context.before in DETERMINERS | PREPOSITIONS:
        return False
    if context.after in _NO_PLACE or context.after in openers():
        return False
    return not (is_adverb_form(context.after) or is_past_form(context.after))


def _is_habit(context: Around) -> bool:
    """Whether "never" describes a habit; "sometimes" cannot replace it for a single event."""
    if context.before in ("has", "have", "had", "was", "were"):
        return False
    return context.before in ("is", "are", "be") or not is_past_form(context.after)


def _is_kin(word: str, form: str) -> bool:
    """Whether a lower-case word is of the family of a form: "minimal" and "minimum"."""
    root = _ENDING.sub("", form)[:_ROOT]
    if not word.startswith(root):
        return False
    return len(root) > 4 or word == root or word[len(root) :] in _ENDINGS


@cache
def _others(form: str) -> frozenset[str]:
    """The one-word antonyms of a form."""
    senses = _senses()[0].get(form, ())
    return frozenset(o for sense in senses for o in (*sense.others, *sense.past) if " " not in o)


@lru_cache(maxsize=1)
def _verbs() -> frozenset[str]:
    """Every form of the verbs that have an antonym."""
    verbs = {word for group in load_pairs()[1] if group.pos == "verb" for word in group.words}
    forms = (forms_of(verb) for verb in verbs)
    return frozenset(form for f in forms for form in (f.base, f.third, f.ing, f.past, f.participle))


@lru_cache(maxsize=1)
def _senses() -> Senses:
    return senses_of(
        load_pairs()[1],
        skip=lambda part, word: word in _SKIPPED,
    )


METHODS = methods(Method("antonym", "negative", "alters", antonym, Several))
