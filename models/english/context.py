"""The part of speech of a word, by rules about its neighbours.

Each rule answers whether the part of speech is certain. If no neighbour decides, the answer is no.
"""

import re
from dataclasses import dataclass
from functools import cache

from tercet.models.english.inflection import irregular_verbs, openers, tags_of
from tercet.models.english.words import NUMBER_WORDS, PREPOSITIONS, STOP_WORDS, word_lists, word_set

DATA_FILES = ("context.tsv",)

_LISTS = word_lists(__file__)
DETERMINERS = _LISTS["determiners"]
POSSESSIVES = word_set("its their his her our my your whose")
BE = _LISTS["be"]
HAVE = word_set("has have had having hasn't haven't hadn't")
MODALS = _LISTS["modals"]
DO = word_set("do does did don't doesn't didn't")
AUXILIARIES = BE | HAVE | MODALS | DO
SUBJECTS = _LISTS["subjects"]
OBJECTS = _LISTS["objects"]
CONJUNCTIONS = _LISTS["conjunctions"]
RELATIVES = word_set("that which who whom whose where when")
PLAIN_ADJECTIVES = _LISTS["plain_adjectives"]
_ADJECTIVE_ENDS = (
    *("ous", "ful", "less", "able", "ible", "ive", "ical", "ic", "ary", "ish", "eous", "ual"),
    *("nal", "cal", "ral", "ial", "tal", "bal"),
)
_NO_ADJECTIVES = _LISTS["no_adjectives"]
_MORE_ADJECTIVES = _LISTS["more_adjectives"] | PLAIN_ADJECTIVES
_ADVERBS = _LISTS["adverbs"]
_ADVERB_TAGS = frozenset(("RB", "RBR", "RBS"))
DOUBTFUL_OPENERS = _LISTS["doubtful_openers"]
_NO_PASTS = _LISTS["no_pasts"]
_BEFORE_NOUNS = _LISTS["before_nouns"]
_FUNCTION = STOP_WORDS | DETERMINERS | PREPOSITIONS | AUXILIARIES | SUBJECTS | CONJUNCTIONS

BOUNDARY = ","  # stands for punctuation and for the ends of the text
_QUOTES = ('"', "“", "‘", "'", "`")
_AFTER = re.compile(r"[\"”’'`]?\s+(\S+)(?:\s+(\S+))?")
_CLOSED = '.,;:!?)]}…"”—–'
_OPENED = "([{—–"


@dataclass(frozen=True)
class Around:
    """The two casefolded words before a span (earlier, before) and the two after it (after, later).

    `BOUNDARY` stands for punctuation and for the ends of the text. opens: whether a sentence begins
    at the span.
    """

    earlier: str
    before: str
    after: str
    later: str
    opens: bool

    @property
    def head(self) -> bool:
        """Whether no content word follows that the span could modify."""
        if self.after in openers():
            # A verb in "the file stores the rows"; part of a term in "the file stores" alone.
            clause = self.later in DETERMINERS or self.later in OBJECTS or self.later == "that"
            if self.after.removesuffix("s") not in DOUBTFUL_OPENERS:
                clause = clause or self.later in PREPOSITIONS or self.later == BOUNDARY
            return self.after.endswith("s") and clause
        if self.after in _BEFORE_NOUNS:
            return False
        return self.after == BOUNDARY or self.after in _FUNCTION or is_past_form(self.after)


def around(text: str, start: int, end: int) -> Around:
    """The neighbours of text[start:end]."""
    earlier = before = BOUNDARY
    opens = start == 0
    left = text[max(0, start - 60) : start]
    if left[-1:] in _QUOTES:
        left = left[:-1]
    if left[-1:].isspace():
        words = left.rsplit(None, 2)
        before = _left(words[-1])
        opens = words[-1][-1] in ".!?"
        if before != BOUNDARY and len(words) > 1:
            earlier = _left(words[-2])
    elif not text[:start].strip(" \t\"“‘'`([*-"):
        opens = True
    after = later = BOUNDARY
    behind = _AFTER.match(text, end)
    if behind is not None:
        first = behind.group(1)
        after = _right(first)
        if after != BOUNDARY and behind.group(2) and first[-1] not in _CLOSED:
            later = _right(behind.group(2))
    elif end < len(text) and text[end] not in _CLOSED and not text[end].isspace():
        after = text[end]
    return Around(earlier, before, after, later, opens)


def _left(token: str) -> str:
    if token[-1] in _CLOSED or token[-1] in _OPENED:
        return BOUNDARY
    return token.lstrip("([{\"“‘'`").casefold() or BOUNDARY


def _right(token: str) -> str:
    if token[0] in _CLOSED or token[0] in _OPENED:
        return BOUNDARY
    return token.strip("\"“‘'`").rstrip(_CLOSED).casefold() or BOUNDARY


def is_number(word: str) -> bool:
    """Whether a neighbour is a number, in digits or in words."""
    return word in NUMBER_WORDS or word[:1].isdigit()


def is_adjective_form(word: str) -> bool:
    """Whether a word is mostly an adjective, by list, ending and dictionary."""
    if word in _MORE_ADJECTIVES:
        return True
    if len(word) < 5 or not word.endswith(_ADJECTIVE_ENDS) or word in _NO_ADJECTIVES:
        return False
    return "JJ" in tags_of(word) or not tags_of(word)


@cache
def _pasts() -> frozenset[str]:
    verbs = irregular_verbs()
    forms = frozenset(form for verb in verbs.values() for form in (verb.past, verb.participle))
    return forms - _NO_PASTS - verbs.keys()


def is_past_form(word: str) -> bool:
    """Whether a content word after a noun is mostly a past tense or participle."""
    return word in _pasts() or (len(word) > 4 and word.endswith("ed") and not word.endswith("eed"))


def is_verb_like(word: str) -> bool:
    """Whether a content word before a number or a noun is mostly a verb."""
    if word in openers():
        return True
    return len(word) > 4 and word.endswith(("ed", "ing")) and not word.endswith(("eed", "thing"))


def is_adverb_form(word: str) -> bool:
    """Whether a word is mostly an adverb, by list, ending and dictionary."""
    if word in _ADVERBS:
        return True
    return len(word) > 4 and word.endswith("ly") and tags_of(word) <= _ADVERB_TAGS


def is_noun(context: Around, plural: bool) -> bool:
    """Whether a word is surely a noun, and the head of its phrase instead of a part of a term.

    The word before must open a noun phrase (only adjectives that form no term with their noun), and
    the word after must close it. A bare singular after a preposition is mostly an idiom.
    """
    if not context.head or context.after in ("-", "/", "(", "_", "="):
        return False
    before = context.before
    if before in DETERMINERS:
        # A pronoun with its verb: "that stores", "this changes".
        return not (plural and before in ("this", "that", "which", "what", "such"))
    if context.opens:
        return plural and context.after in AUXILIARIES
    if before in PLAIN_ADJECTIVES:
        return plural or context.earlier in DETERMINERS
    if is_number(before):
        return plural
    if before in PREPOSITIONS and before not in ("to", "as", "like"):
        return plural
    return False


def is_base_verb(context: Around) -> bool:
    """Whether a word in the base form is surely a verb."""
    before, after = context.before, context.after
    if after in ("-", "of") or (after in AUXILIARIES and after not in HAVE):
        return False
    if before in MODALS or before in ("not", "never", "cannot", "let's"):
        return True
    if before in DO:
        return after not in AUXILIARIES
    if before == "to":
        return _takes(context) or (
            not is_adjective_form(context.earlier)
            and context.earlier in ("order", "used", "able", "want")
        )
    if before in ("i", "we", "you", "they", "who"):
        return True
    if context.opens:
        return _takes(context)
    if is_adverb_form(before) and before not in ("here", "there"):
        return context.earlier in MODALS | {"to", "we", "they", "you", "not"}
    return False


def _takes(context: Around) -> bool:
    """Whether an object or a clause follows."""
    return (
        context.after in DETERMINERS
        or context.after in OBJECTS
        or context.after in ("how", "why", "whether")
    )


def is_third_person(context: Around, phrase: bool = False) -> bool:
    """Whether a word in -s is surely a verb."""
    if context.after in ("-", "of", "'s") or context.after in AUXILIARIES:
        return False
    if context.before in ("it", "he", "she", "which", "who"):
        return context.earlier not in PREPOSITIONS or context.before == "who"
    if context.before in DETERMINERS and context.before not in ("this", "that"):
        return False
    if context.before in PREPOSITIONS or context.before in CONJUNCTIONS - {"and", "that"}:
        return False
    if is_adjective_form(context.before) or is_number(context.before):
        return False
    return phrase or _takes(context)


def is_plural_subject(context: Around) -> bool:
    """Whether the word before is mostly a plural noun: "files depend on"."""
    before = context.before
    return len(before) > 3 and before.endswith("s") and not before.endswith(("ss", "us", "is"))


def is_ing_verb(context: Around, phrase: bool = False) -> bool:
    """Whether a word in -ing is surely a verb, not a noun or adjective."""
    if context.before in DETERMINERS or context.after in ("-", "of"):
        return False
    return phrase or _takes(context)


def is_reduced(context: Around) -> bool:
    """Whether a word in -ed modifies the noun before it: "values stored in"."""
    before = context.before
    plain = before != BOUNDARY and before.isalpha() and before not in _FUNCTION
    return plain and context.after in ("in", "by", "with", "from", "at", "on", "for", "as")


def is_participle(context: Around) -> bool:
    """Whether a word in -ed is surely a participle with an auxiliary."""
    if context.after in ("-",):
        return False
    last = context.earlier if is_adverb_form(context.before) else context.before
    return last in BE or last in HAVE or last in ("get", "gets", "got")


def is_past(context: Around) -> bool:
    """Whether a word in -ed is surely a past tense: a subject precedes or an object follows."""
    if (
        context.before in AUXILIARIES
        or context.before in DETERMINERS
        or context.before in PREPOSITIONS
    ):
        return False
    return context.before in SUBJECTS - {"there"} or _takes(context)


def is_attribute(context: Around) -> bool:
    """Whether an adjective surely precedes its noun."""
    after = context.after
    if after == BOUNDARY or not after.isalpha() or after in _FUNCTION or is_adverb_form(after):
        return False
    before = context.before
    if (
        context.opens
        or before in DETERMINERS
        or before in PREPOSITIONS - {"to"}
        or before in ("more", "most")
    ):
        return True
    return is_adjective_form(before) or is_number(before) or before in HAVE


def is_predicate(context: Around) -> bool:
    """Whether an adjective is surely a predicate: "it is valid"."""
    closes = context.after == BOUNDARY or context.after in PREPOSITIONS | CONJUNCTIONS
    if not closes and not is_adverb_form(context.after):
        return False
    last = context.earlier if is_adverb_form(context.before) else context.before
    return last in BE
