"""Plurals of nouns and forms of verbs, by lemminflect's dictionary and rules.

Importing lemminflect takes a second, so functions import it. `inflection.tsv` overrides forms.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from tercet.models.english.words import (
    IRREGULAR_VERBS,
    OPENING_VERBS,
    SAME_IN_BOTH,
    in_shape_of,
)

DATA_FILES = ("inflection.tsv",)

_OTHERWISE = {
    (word, tag): form
    for word, tag, form in (
        line.split("\t")
        for line in Path(__file__).with_suffix(".tsv").read_text("utf-8").splitlines()
        if not line.startswith("#")
    )
}
_ONES = {form: word for (word, tag), form in _OTHERWISE.items() if tag == "NNS"}


def _inflected(word: str, tag: str) -> str:
    """The form of a casefolded word with this Penn tag.

    The first spelling without a hyphen is preferred, and a plural that differs from the singular:
    "mappings", not "mapping".
    """
    from lemminflect import getInflection

    if listed := _OTHERWISE.get((word, tag)):
        return listed
    forms = getInflection(word, tag) or (word,)
    return min(forms, key=lambda form: (form.count("-"), tag == "NNS" and form == word))


@lru_cache(maxsize=1 << 16)
def plural(text: str) -> str:
    """The plural of a noun, or of the last word of a noun phrase; a plural stays as it is."""
    head, space, word = text.rpartition(" ")
    folded = word.lower()
    if not word or may_be_plural(folded):
        return text
    many = _inflected(folded, "NNS")
    longer = many.startswith(folded)
    return head + space + (word + many[len(folded) :] if longer else in_shape_of(word, many))


def is_plural(text: str, lemma: str | None = None) -> bool:
    """Whether a noun phrase is plural; the lemma decides if it is known."""
    folded = text.casefold()
    ones = singulars(folded.rpartition(" ")[2])
    if lemma is None:
        return bool(ones)
    return folded != lemma.casefold() and lemma.casefold().rpartition(" ")[2] in ones


def may_be_plural(word: str) -> bool:
    """Whether the casefolded word can be a plural noun, as "sheep" and "firemen"."""
    return word in SAME_IN_BOTH or bool(singulars(word))


@lru_cache(maxsize=1 << 16)
def singulars(word: str) -> tuple[str, ...]:
    """The possible singulars of the casefolded word, the likeliest first; () for none."""
    from lemminflect import getAllLemmas, getLemma

    if word in _ONES:
        return (_ONES[word],)
    ones = getAllLemmas(word).get("NOUN", ())
    if not ones and len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        ones = getLemma(word, "NOUN")
    # For nouns that are their own singular, the dictionary also lists other spellings.
    both = word in ones
    return tuple(one for one in ones if one != word and (word.startswith(one) or not both))


@lru_cache(maxsize=1 << 16)
def tags_of(word: str) -> frozenset[str]:
    """The Penn tags of the inflected forms of a casefolded base form (JJ, RB, NN, VB, …); empty if
    the dictionary lacks the word."""
    from lemminflect import getAllInflections

    return frozenset(getAllInflections(word))


@dataclass(frozen=True)
class Forms:
    """The five forms of a verb; in "carry out" the first word is inflected."""

    base: str
    third: str
    ing: str
    past: str
    participle: str


@lru_cache(maxsize=1 << 13)
def forms_of(verb: str) -> Forms:
    """The forms of a verb, from its base form."""
    head, space, rest = verb.partition(" ")
    tags = ("VBZ", "VBG", "VBD", "VBN")
    return Forms(verb, *(_inflected(head, tag) + space + rest for tag in tags))


@cache
def irregular_verbs() -> dict[str, Forms]:
    """The verbs whose past tense does not end in -ed, by base form."""
    return {verb: forms_of(verb) for verb in sorted(IRREGULAR_VERBS)}


@cache
def irregular_participles() -> frozenset[str]:
    """The past participles of irregular verbs."""
    return frozenset(forms.participle for forms in irregular_verbs().values())


@cache
def openers() -> frozenset[str]:
    """Casefolded verbs that may open a sentence but never begin a proper name."""
    return OPENING_VERBS | {forms_of(verb).third for verb in OPENING_VERBS}
