"""Singular and plural of English nouns: regular by rule, the frequent irregular ones by list."""

from functools import lru_cache

from tercet.models.english.words import in_shape_of, with_s, word_set

# singular plural
_IRREGULAR = """
man men|woman women|child children|person people|foot feet|tooth teeth|goose geese|mouse mice
louse lice|ox oxen|index indices|matrix matrices|vertex vertices|appendix appendices|axis axes
analysis analyses|basis bases|crisis crises|thesis theses|hypothesis hypotheses
parenthesis parentheses|criterion criteria|phenomenon phenomena|bacterium bacteria|medium media
spectrum spectra|maximum maxima|minimum minima|corpus corpora|nucleus nuclei|radius radii
alumnus alumni|stimulus stimuli|formula formulae|larva larvae|leaf leaves|loaf loaves|half halves
calf calves|thief thieves|shelf shelves|wolf wolves|elf elves|self selves|knife knives|life lives
wife wives|quiz quizzes|hero heroes|potato potatoes|tomato tomatoes|echo echoes|bus buses|gas gases
lens lenses|status statuses|virus viruses|campus campuses|stomach stomachs|epoch epochs
monarch monarchs|patriarch patriarchs|matriarch matriarchs|eunuch eunuchs|loch lochs|tech techs
"""
# Whose plural in -s is as good, and is the one that we write.
_ALSO_REGULAR = word_set("formula medium maximum minimum")
_SAME_IN_BOTH = word_set(
    "sheep fish deer series species aircraft spacecraft data news police cattle people staff crew"
)
# The last two are collective nouns, which have a regular plural too.
_INVARIANT = _SAME_IN_BOTH - word_set("staff crew")
# Nouns that end in one of these have its plural.
_HEADS = ("woman", "man", "child", "wife", "shelf", "tooth", "foot", "goose", "mouse", "wolf")
_NO_PLURALS = word_set(
    """abdomen acumen albumen bitumen bremen cyclamen dolmen hymen lumen omen pumice ramen regimen
    semen specimen stamen yemen"""
)
_NOT_OF_HEADS = word_set(
    """afoot barefoot bigfoot bluetooth german human mongoose norman ottoman roman sawtooth shaman
    talisman"""
)


def _pairs() -> list[tuple[str, str]]:
    entries = [entry.split() for line in _IRREGULAR.split("\n") for entry in line.split("|")]
    return [(entry[0], entry[1]) for entry in entries if entry]


_SINGULARS = {many: one for one, many in _pairs()}
_PLURALS = {one: many for one, many in _pairs() if one not in _ALSO_REGULAR}


def plural(text: str) -> str:
    """The plural of a noun, or of the last word of a noun phrase; of a plural the same text."""
    head, space, word = text.rpartition(" ")
    lower = word.lower()
    if lower in _INVARIANT or _irregular_singular(lower) or not word:
        return text
    if lower in _PLURALS:
        return head + space + in_shape_of(word, _PLURALS[lower])
    for suffix in _HEADS:
        if lower.endswith(suffix) and lower not in _NOT_OF_HEADS:
            return head + space + word[: -len(suffix)] + _PLURALS[suffix]
    if lower.endswith(("gnosis", "phasis", "thesis", "lysis", "crisis")):
        return head + space + word[:-2] + "es"
    return text if _ends_as_plural(lower) else head + space + with_s(word)


def is_plural(text: str, lemma: str | None = None) -> bool:
    """Whether a noun phrase is in the plural, as written; its lemma decides where it is known."""
    folded = text.casefold()
    if lemma is not None:
        own = lemma.casefold()
        return folded != own and folded == plural(own)
    last = folded.rpartition(" ")[2]
    return bool(_irregular_singular(last)) or (len(last) > 3 and _ends_as_plural(last))


def may_be_plural(word: str) -> bool:
    """Whether the casefolded word can be read as a plural noun, "sheep" and "firemen" included."""
    return (
        word in _SAME_IN_BOTH
        or bool(_irregular_singular(word))
        or (len(word) > 3 and _ends_as_plural(word))
    )


@lru_cache(maxsize=1 << 16)
def singulars(word: str) -> tuple[str, ...]:
    """Forms that the casefolded word may be the plural of, likeliest first; () for none."""
    if irregular := _irregular_singular(word):
        return (irregular,)
    if len(word) < 4 or not word.endswith("s") or word.endswith("ss"):
        return ()
    if word.endswith("ies"):
        return (word[:-3] + "y", word[:-1])
    if word.endswith(("ches", "shes", "xes", "sses", "zes", "oes")):
        return (word[:-2], word[:-1])
    if word.endswith("ses"):
        return (word[:-1], word[:-2])
    if word.endswith("ves"):
        return (word[:-1], word[:-3] + "f", word[:-3] + "fe")
    return () if word.endswith(("us", "is")) else (word[:-1],)


def _irregular_singular(word: str) -> str:
    """ "child" of "children", "grandchild" of "grandchildren"; "" of any other word."""
    if word in _SINGULARS:
        return _SINGULARS[word]
    if word not in _NO_PLURALS:
        for one in _HEADS:
            many = _PLURALS[one]
            if len(word) > len(many) + 1 and word.endswith(many):
                return word[: -len(many)] + one
    return ""


def _ends_as_plural(word: str) -> bool:
    return word.endswith("s") and not word.endswith(("ss", "us", "is"))
