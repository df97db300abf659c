"""The part of speech of a word in context, by rules about the words around it.

Each rule answers "surely" or "not surely": where no neighbour decides, a word is left alone.
"""

import re
from dataclasses import dataclass

from tercet.models.english.words import IRREGULAR, NUMBER_WORDS, OPENERS, STOP_WORDS, word_set

DETERMINERS = word_set(
    """the a an this that these those its their his her our my your each every no some any another
    both all several many few which what whose either neither such"""
)
POSSESSIVES = word_set("its their his her our my your whose")
PREPOSITIONS = word_set(
    """about above across after against along alongside amid among amongst around as at before
    behind below beneath beside besides between beyond by despite down during except for from in
    inside into like near of off on onto out outside over past per regarding since than through
    throughout till to toward towards under underneath unlike until up upon via vs with within
    without"""
)
BE = word_set("am is are was were be been being isn't aren't wasn't weren't")
HAVE = word_set("has have had having hasn't haven't hadn't")
MODALS = word_set(
    """can could will would shall should may might must cannot can't couldn't won't wouldn't
    shouldn't mustn't"""
)
DO = word_set("do does did don't doesn't didn't")
AUXILIARIES = BE | HAVE | MODALS | DO
SUBJECTS = word_set("i we you he she it they who there")
OBJECTS = word_set("it them him her us me itself themselves himself herself")
CONJUNCTIONS = word_set("and or but nor if when where while because that than whether so although")
RELATIVES = word_set("that which who whom whose where when")
# Adjectives that make no term with their noun: "a new dog" is a dog, "a hot dog" may be none.
PLAIN_ADJECTIVES = word_set(
    """new old other same different given first last second third next previous former single
    whole entire main specific particular certain various multiple additional original
    current existing following corresponding resulting underlying actual own similar only
    good bad better best worse worst great big large small long short young little huge tiny
    important common simple complex beautiful famous popular possible available specified
    desired requested provided separate individual respective relevant appropriate suitable
    unique subsequent remaining known unknown unusual strong weak rare recent modern ancient
    early late major minor poor rich happy sad strange typical usual interesting
    american british french german english russian chinese japanese european african asian indian
    italian spanish dutch swedish polish canadian australian irish scottish greek korean"""
)
_ADJECTIVE_ENDS = (
    *("ous", "ful", "less", "able", "ible", "ive", "ical", "ic", "ary", "ish", "eous", "ual"),
    *("nal", "cal", "ral", "ial", "tal", "bal"),
)
_NO_ADJECTIVES = word_set(
    """table cable variable vegetable archive music topic metric logic critic clinic fabric traffic
    dictionary library boundary summary salary secretary diary dish fish british final general
    relative native objective perspective adjective detective narrative portal journal signal
    terminal tutorial metal hospital capital interval material individual"""
)
_MORE_ADJECTIVES = word_set(
    """high low wide narrow deep full empty open free hard easy fast slow hot cold warm cool dark
    light clear sharp smooth rough soft loud quiet dry wet clean dirty safe true false real right
    left wrong valid local public private total equal final initial upper lower inner outer
    central human direct present net raw flat dense sparse male female black white red blue green
    yellow brown grey gray roman royal"""
    + " "
    + " ".join(sorted(PLAIN_ADJECTIVES))
)
_ADVERBS = word_set(
    """also always never not often still already just only even ever now then then soon here there
    again too very quite rather almost more most less least much well so perhaps therefore thus
    however instead yet first together usually"""
)
_NO_ADVERBS = word_set(
    """apply comply imply multiply reply supply rally tally family assembly anomaly monopoly
    butterfly italy belly bully jelly friendly lovely lonely daily weekly monthly yearly early"""
)
# Openers that are as often nouns or adjectives: "Mean pressure", "Log scale".
DOUBTFUL_OPENERS = word_set(
    """mean log list plot sample test sort stack sum split round count draw fill fit format handle
    join map pass print switch wait check copy build call cause load move need release start store
    support update use cost cut deal drink drive fall feed fight hit hold hurt lead lie light meet
    read ride ring run set shake show sleep spread stand stick strike swim tear think throw wake
    wear win try reset feel find cast shut put leave left open live attempt
    bear beat bet bite breed burst forecast override shed slide spin spring sting stride string
    swing upset"""
)
# Without those that are as often something else: "the training set", "the left side".
_PAST = frozenset(form for pair in IRREGULAR.values() for form in pair) - frozenset(IRREGULAR)
_PAST -= word_set("left found felt bound ground bit cut built read")
# Of the closed classes those that stand before a noun as adjectives do: "an average little story".
_BEFORE_NOUNS = word_set(
    """little last next first second third fourth fifth own same other such more most fewer less"""
)
_FUNCTION = STOP_WORDS | DETERMINERS | PREPOSITIONS | AUXILIARIES | SUBJECTS | CONJUNCTIONS

BOUNDARY = ","  # a neighbour that is punctuation, or the text's end
_QUOTES = ('"', "“", "‘", "'", "`")
_AFTER = re.compile(r"[\"”’'`]?\s+(\S+)(?:\s+(\S+))?")
_CLOSED = '.,;:!?)]}…"”—–'
_OPENED = "([{—–"


@dataclass(frozen=True)
class Around:
    """The words around a place, casefolded: two before it and two behind it.

    `BOUNDARY` stands for punctuation and for the text's ends; opens: whether a sentence begins at
    the place.
    """

    earlier: str
    before: str
    after: str
    later: str
    opens: bool

    @property
    def head(self) -> bool:
        """Whether no content word that the place could modify comes behind it."""
        if self.after in OPENERS:
            # "The file stores the rows"; "the log scale" and "the file stores" are terms.
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
    """Whether a word is mostly an adjective, by list and ending."""
    if word in _MORE_ADJECTIVES:
        return True
    return len(word) > 4 and word.endswith(_ADJECTIVE_ENDS) and word not in _NO_ADJECTIVES


def is_past_form(word: str) -> bool:
    """Whether a content word behind a noun is mostly a past or a participle."""
    return word in _PAST or (len(word) > 4 and word.endswith("ed") and not word.endswith("eed"))


def is_verb_like(word: str) -> bool:
    """Whether a content word before a number or a noun is mostly a verb."""
    if word in OPENERS:
        return True
    return len(word) > 4 and word.endswith(("ed", "ing")) and not word.endswith(("eed", "thing"))


def is_adverb_form(word: str) -> bool:
    """Whether a word is mostly an adverb, by list and ending."""
    if word in _ADVERBS:
        return True
    return len(word) > 4 and word.endswith("ly") and word not in _NO_ADVERBS


def is_noun(here: Around, plural: bool) -> bool:
    """Whether a word is surely a noun, and the head of its phrase rather than a part of a term.

    Before it comes what opens a noun phrase (of adjectives those that make no term with their
    noun); behind it what closes one. A bare singular after a preposition is mostly an idiom.
    """
    if not here.head or here.after in ("-", "/", "(", "_", "="):
        return False
    before = here.before
    if before in DETERMINERS:
        # "That stores", "this changes": a pronoun and its verb.
        return not (plural and before in ("this", "that", "which", "what", "such"))
    if here.opens:
        return plural and here.after in AUXILIARIES
    if before in PLAIN_ADJECTIVES:
        return plural or here.earlier in DETERMINERS
    if is_number(before):
        return plural
    if before in PREPOSITIONS and before not in ("to", "as", "like"):
        return plural
    return False


def is_base_verb(here: Around) -> bool:
    """Whether a word in the base form is surely a verb."""
    before, after = here.before, here.after
    if after in ("-", "of") or (after in AUXILIARIES and after not in HAVE):
        return False
    if before in MODALS or before in ("not", "never", "cannot", "let's"):
        return True
    if before in DO:
        return after not in AUXILIARIES
    if before == "to":
        return _takes(here) or (
            not is_adjective_form(here.earlier)
            and here.earlier in ("order", "used", "able", "want")
        )
    if before in ("i", "we", "you", "they", "who"):
        return True
    if here.opens:
        return _takes(here)
    if is_adverb_form(before) and before not in ("here", "there"):
        return here.earlier in MODALS | {"to", "we", "they", "you", "not"}
    return False


def _takes(here: Around) -> bool:
    """Whether an object or a clause comes behind a verb."""
    return (
        here.after in DETERMINERS
        or here.after in OBJECTS
        or here.after in ("how", "why", "whether")
    )


def is_third_person(here: Around, phrase: bool = False) -> bool:
    """Whether a word in -s is surely a verb."""
    if here.after in ("-", "of", "'s") or here.after in AUXILIARIES:
        return False
    if here.before in ("it", "he", "she", "which", "who"):
        return here.earlier not in PREPOSITIONS or here.before == "who"
    if here.before in DETERMINERS and here.before not in ("this", "that"):
        return False
    if here.before in PREPOSITIONS or here.before in CONJUNCTIONS - {"and", "that"}:
        return False
    if is_adjective_form(here.before) or is_number(here.before):
        return False
    return phrase or _takes(here)


def is_plural_subject(here: Around) -> bool:
    """Whether the word before is mostly a plural noun: "files depend on"."""
    before = here.before
    return len(before) > 3 and before.endswith("s") and not before.endswith(("ss", "us", "is"))


def is_ing_verb(here: Around, phrase: bool = False) -> bool:
    """Whether a word in -ing is surely a verb, and no noun or adjective."""
    if here.before in DETERMINERS or here.after in ("-", "of"):
        return False
    return phrase or _takes(here)


def is_reduced(here: Around) -> bool:
    """Whether a word in -ed says something of the noun before it: "values stored in"."""
    before = here.before
    plain = before != BOUNDARY and before.isalpha() and before not in _FUNCTION
    return plain and here.after in ("in", "by", "with", "from", "at", "on", "for", "as")


def is_participle(here: Around) -> bool:
    """Whether a word in -ed is surely a participle that belongs to an auxiliary."""
    if here.after in ("-",):
        return False
    last = here.earlier if is_adverb_form(here.before) else here.before
    return last in BE or last in HAVE or last in ("get", "gets", "got")


def is_past(here: Around) -> bool:
    """Whether a word in -ed is surely a past, with a subject before and an object behind it."""
    if here.before in AUXILIARIES or here.before in DETERMINERS or here.before in PREPOSITIONS:
        return False
    return here.before in SUBJECTS - {"there"} or _takes(here)


def is_attribute(here: Around) -> bool:
    """Whether an adjective surely stands before its noun."""
    after = here.after
    if after == BOUNDARY or not after.isalpha() or after in _FUNCTION or is_adverb_form(after):
        return False
    before = here.before
    if (
        here.opens
        or before in DETERMINERS
        or before in PREPOSITIONS - {"to"}
        or before in ("more", "most")
    ):
        return True
    return is_adjective_form(before) or is_number(before) or before in HAVE


def is_predicate(here: Around) -> bool:
    """Whether an adjective surely says something of a subject: "it is valid"."""
    closes = here.after == BOUNDARY or here.after in PREPOSITIONS | CONJUNCTIONS
    if not closes and not is_adverb_form(here.after):
        return False
    last = here.earlier if is_adverb_form(here.before) else here.before
    return last in BE
