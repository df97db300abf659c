"""A negative by a word of the opposite meaning."""

import re
from functools import lru_cache

import pyarrow as pa

from tercet.models.english.context import Around, is_number, is_past_form
from tercet.models.english.verbs import forms_of
from tercet.models.english.word_classes import NUMBER_WORDS
from tercet.models.english.words import WORD, word_set
from tercet.models.generation import Given, Method, Several, methods
from tercet.models.knowledge.lexicon import load_pairs
from tercet.models.rules.word_exchange import Senses, exchanged, senses_of

# Mostly of another sense, or (with, without) the concern of `negation`.
_SKIPPED = word_set(
    """for against like since over up down off with without about into on out of all none
    some any no"""
)
# What a sentence wants of something: its opposite it does not want.
_WANTED = word_set("successfully safely valid agree")
_WISH = re.compile(
    r"\b(?:to|must|should|ensur\w*|allow\w*|so that|can|need\w*|want\w*|mak\w+ sure)\b",
    re.IGNORECASE,
)
# What the rest of a sentence explains, or tells apart, would contradict the opposite. The words of
# `_PLAIN`, that say where, when or how large, bear an explanation.
_TOLD_APART = re.compile(
    r"\b(?:i\.e|e\.g|otherwise|instead|unlike|whereas|respectively|rather|contrast)\b|:|[(]",
    re.IGNORECASE,
)
_EXPLAINED = re.compile(
    r"[;—]|\b(?:for (?:example|instance)|so that|thus|therefore|hence|no|not|neither|both|but|yet"
    r"|since|because|so|although|though|only|even|ever)\b|n['’]t\b",
    re.IGNORECASE,
)
_PLAIN = word_set(
    """more less first last above below small large southern northern eastern western morning
    evening summer winter summers winters lower upper dry wet narrow wide before after late early
    ancient modern minimum maximum rows columns"""
)
# Of a deed: what else is done, still holds, or depends on it.
_DEEDS = re.compile(r"\b(?:and|still|again|now|ever since|reopened)\b")
_CASE = re.compile(r"\b(?:if|when|unless|once)\b[^,]*$|^(?:Since|Because)\b[^,]*$", re.IGNORECASE)
_ORDERED = word_set("first next before after")
_ORDER = re.compile(r"\b(?:second|third|then|again)\b")
# "After nine years", "before a week of fog": how long it took.
_LONG = re.compile(
    rf" (?:about |almost |nearly |only |just |more than |less than )?(?:an?|several|some|many"
    rf"|\d+|{'|'.join(sorted(NUMBER_WORDS))})[\w-]* (?:\w+ )?"
    r"(?:second|minute|hour|day|night|week|month|year|decade|centur)"
)
_BARE_LENGTHS = word_set("which only long all")
_KIN = word_set(
    "wife husband uncle aunt nephew niece son daughter father mother girl boy brother sister"
)
_PRONOUN = re.compile(r"\b(?:he|she|his|her|him|himself|herself)\b", re.IGNORECASE)
_STOREYS = word_set(
    """house town valley court terrace floor floors deck decks half part jaw lip windows shelf bound
    bounds limit limits triangle triangular triangles slopes slope end edge reaches case"""
)
# Words that are of a term, or of another sense, before or behind these.
_NOT_BEFORE = {
    "exactly": word_set("one a an"),
    "first": word_set("one order derivative aid"),
    "sorted": word_set("in by"),
    "always": word_set("available"),
    "independent": word_set("of"),
    "dependent": word_set("of"),
}
_NOT_BEHIND = {
    "row": word_set("a"),
    "sometimes": word_set("also only but"),
    "above": word_set("high"),
    "ends": word_set("two both the"),
    "normalized": word_set("properly correctly"),
}
_STEM = 6  # letters that words of one family share


def antonym(given: Given, params: Several, seed: int) -> pa.Table:
    """One word of the sentence replaced by an antonym in the same form."""
    return exchanged(
        given, seed, "antonym", "exchange_antonym", _senses(), params.per_sentence, 1, fits=_fits
    )


def _fits(text: str, start: int, end: int, here: Around) -> bool:
    """Whether the rest of the sentence lets the opposite stand here."""
    form = text[start:end].lower()
    before = text[:start]
    if _TOLD_APART.search(text) or (form not in _PLAIN and _EXPLAINED.search(text)):
        return False
    if here.after in _NOT_BEFORE.get(form, ()) or here.before in _NOT_BEHIND.get(form, ()):
        return False
    if form in ("later", "earlier"):
        return here.after == "than"
    if form in ("before", "after") and (
        here.after in _BARE_LENGTHS or is_number(here.after) or _LONG.match(text, end)
    ):
        return False
    if form in _ORDERED and _ORDER.search(text):
        return False  # "the second eight weeks after the first"
    if form in _KIN and _PRONOUN.search(text):
        return False  # "the wife of the reformer, of whom she told"
    if form in ("lower", "upper") and here.after not in _STOREYS:
        return text[end + 1 : end + 2].isupper()  # "the lower Danube"
    if (here.opens and is_past_form(here.after)) or (form == "never" and "again" in text):
        return False  # "Long regarded as"
    if form == "known" and here.after != "to":
        return False
    if form in _WANTED and _WISH.search(before):
        return False
    if here.before == "be" and here.earlier == "to":
        return False  # "in order to be consistent"
    if form in _verbs() and (here.before == "by" or _DEEDS.search(text) or _CASE.search(before)):
        return False
    # "The minimizer that minimizes": a word of its family says it once more.
    stem = form[:_STEM]
    family = len(form) > _STEM and sum(
        match.group().lower().startswith(stem) for match in WORD.finditer(text)
    )
    return family < 2


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
