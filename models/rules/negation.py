"""Negatives by inserting or removing a negation."""

import re
from collections.abc import Iterator
from functools import cache

import pyarrow as pa

from tercet.models import seeding
from tercet.models.english.context import (
    AUXILIARIES,
    DETERMINERS,
    DOUBTFUL_OPENERS,
    MODALS,
    OBJECTS,
    around,
    is_adverb_form,
    is_past,
    is_third_person,
)
from tercet.models.english.inflection import forms_of, irregular_participles
from tercet.models.english.words import (
    DOCUMENTATION_VERBS,
    IRREGULAR_VERBS,
    NUMBER_WORDS,
    PLAIN_VERBS,
    STOP_WORDS,
    capitalised,
    in_shape_of,
    replaced,
    word_lists,
    word_set,
)
from tercet.models.generation import Method, MethodInput, Output, Several, methods

DATA_FILES = ("negation.tsv",)

_LISTS = word_lists(__file__)
_VERBS = PLAIN_VERBS | IRREGULAR_VERBS
# Sentences of documentation begin with a verb, in the base form or in the third person.
_FIRST = (DOCUMENTATION_VERBS | IRREGULAR_VERBS) - {"be", "do", "have", "show"}
# "Compute the mean." describes a function ("Does not"); "Use a list." is an instruction ("Do not").
_DESCRIBING = (DOCUMENTATION_VERBS | _LISTS["describing"]) - word_set(
    "assume avoid pass specify use"
)
_TOLD = re.compile(r"\byou(?:r|rself)?\b|^Please\b", re.IGNORECASE)
# Verbs whose third person cannot be a plural noun inside a sentence.
_INNER = PLAIN_VERBS - _LISTS["nouns_too"]
# "See the guide" is a reference; negating it does not change the meaning.
_POINTERS = frozenset(("see", "refer"))

_AUXILIARY = re.compile(
    # Without "may": "may not" is ambiguous between possibility and prohibition.
    r"\b(?:is|are|was|were|can|could|should|will|would|must|shall|does|do|did|has|have|had)\b"
    r"(?!['’])(?= )"
)
_NEGATED = word_set("is are was were could should would does do did has have had")
_CONTRACTED = {word: f"{word}n't" for word in _NEGATED} | {"can": "can't", "will": "won't"}
_EXPANDED = {contracted: word for word, contracted in _CONTRACTED.items()} | {
    "mustn't": "must",
    "shan't": "shall",
}
_OUT = re.compile(
    r"\b(?P<support>[Dd]oes|[Dd]o|[Dd]id)(?:n['’]t| not) (?P<verb>[a-z]+)\b"
    r"|\b(?P<cannot>[Cc]an)not\b"
    r"|\b(?P<contracted>[A-Za-z]+n['’]t)\b"
    r"|(?<=[a-z])(?P<not> not)\b(?! only| just| merely|,)"
    r"|\b(?P<never>[Nn]ever )(?=[a-z])"
    r"|\b(?P<without>[Ww]ithout)\b"
)
_NOUN_BEFORE = _LISTS["noun_before"]
_AFTER_PARTICIPLE = _LISTS["after_participle"]
_TO = frozenset(("to", "not", "never", "cannot"))
# "May" and "may not" can both be true.
_POSSIBLE = frozenset(("may", "might"))
# Words that depend on the negation before them: without it they are wrong or say nothing new.
_BOUND = re.compile(
    r"[^.;:,]{0,60}\b(?:any(?:body|more|one|thing|where)?|yet|at all|either|ever|until|but|much|"
    r"nor|necessarily)\b|[^.;:]{0,200}\bonly\b",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"\b(?:neither|nor|no|hardly|scarcely|barely|nobody|nothing|none|fewe?r?|little|less|rarely"
    r"|seldom|only|once|several|followed by|before|an? (?:large |small )?number of)\b|^Not\b",
    re.IGNORECASE,
)
# "Not" does not negate "any of them can", and does not fit into "so dark was it".
_UNDENIABLE = re.compile(r"^(?:So (?!far\b|the\b|it\b)|Such\b|Any\b)")
# A reason, consequence or contrast in the sentence, which contradicts the negated sentence: "it was
# full, so we walked".
_RESTS_ON_IT = re.compile(
    r"\b(?:because|although|though|enough|otherwise|instead|rather|while|whereas|whenever|wherever"
    r"|unlike|since|therefore|hence|thus|why|too|but|even|until|by the time"
    r"|as (?:late|early|long|soon|far) as|fear\w*|hop(?:ed|es|ing)|ensuring|would have|such that"
    r"|due to|except|or not|whose)\b|[,;:] ?(?:so|of which|which|where|by|but|yet|and|then)\b|[;:—]"
    r"|\bso (?!far\b(?! that)|called\b)[a-z]"
    r"|\band (?:so|now|then|later|by far|will|would|can|could|is|are|was|were|has|have|had|still"
    r"|again)\b",
    re.IGNORECASE,
)
# "Whether it is" and "tests if it is" mean the same as "whether it is not".
_ASKED = re.compile(
    r"\bwhether\b[^,]*$"
    r"|\b(?:ask|check|control|decid|determin|find|indicat|know|say|see|specif|tell|test|verif)\w*"
    r" (?:\w+ )?if\b[^,]*$",
    re.IGNORECASE,
)
# Subordinate clauses, which do not carry the statement: "after matches were invented".
_ASIDE = re.compile(r"\b(?:when|after|as|than|where|how|whom)\b[^,]*$", re.IGNORECASE)
# "All of them are not" is ambiguous between all and some.
_OF_ALL = re.compile(r"\b(?:all|every|each|both|half|most|some|many|always)\b", re.IGNORECASE)
_DENIES_NEAR = re.compile(r"(?:n['’]t|\bnot|\bnever)\b[^.;,]*$")
_DENIES_NEXT = re.compile(r" (?:\w+ )?(?:no|not|never|n['’]t)\b")
_NOT_WITHOUT = _LISTS["not_without"]
_INVERTED = _LISTS["inverted"]
_STILTED = _LISTS["stilted"]
_NOUNS_AS_WELL = _LISTS["nouns_as_well"]
# Verbs that can follow the auxiliary "do"; before other words "do" is mostly the main verb ("did
# well", "did yoga").
_DEEDS = (_VERBS | word_set("like need want seem work help matter")) - {"be", "do"}
# Words that show that a preceding "can" or "will" is a noun: "the trash can is full".
_NOUNS_VERBS = AUXILIARIES - word_set("be been being do have had")
# Words before which "did" is the main verb ("did the work").
_DONE = DETERMINERS | OBJECTS | {"everything", "so", "well"}
# Stop words that are verbs after "did not".
_VERBS_TOO = word_set("be do have get let like own last")
_WORD_BEFORE = re.compile(r"([\w'’]+)[\s,\"(]*$")
_WORD_AFTER = re.compile(r"[\s]*([\w'’]+)")
_FIRST_WORD = re.compile(r"[A-Z][a-z]+(?= [\w`\"'(:])")
_INNER_VERB = re.compile(r"(?<=[\w`)] )[a-z]+(?= )")

# (start, end, replacement) of a change to the text.
_Edit = tuple[int, int, str]


def negation(inputs: MethodInput, params: Several, seed: int) -> pa.Table:
    """Removes a negation if the sentence has one, else inserts one.

    The negation is inserted after an auxiliary (as "not" or "n't", by a draw), before a verb at the
    beginning of the sentence, or before a frequent verb. With `per_sentence` above one, several
    places are tried, in the order of the text.
    """
    drawn = seeding.uniforms(seed, "negation", inputs.ids()).tolist()
    output = Output()
    for text, sentence_id, draw in zip(inputs.texts(), inputs.ids().tolist(), drawn, strict=True):
        if text.rstrip().endswith("?"):
            continue
        if _RESTS_ON_IT.search(text):
            continue
        edits = list(_removals(text, params.per_sentence))
        operation = "remove_negation" if edits else "insert_negation"
        for start, end, new in edits or _insertions(text, draw, params.per_sentence):
            raw = _edited(text, start, end, new)
            if raw != text:
                output.add(int(sentence_id), raw, operation, text[start:end].strip(), new)
    return output.table()


def _edited(text: str, start: int, end: int, new: str) -> str:
    raw = replaced(text, start, end, new) if new else text[:start] + text[end:]
    return capitalised(raw) if start == 0 and text[:1].isupper() else raw


def _removals(text: str, limit: int) -> Iterator[_Edit]:
    lowered = text.lower()
    if not any(cue in lowered for cue in ("not", "n't", "n’t", "never", "without")):
        return
    count = 0
    for match in _OUT.finditer(text):
        new = _without_negation(text, match)
        if new is not None:
            count += 1
            yield match.start(), match.end(), new
            if count == limit:
                return


def _without_negation(text: str, match: re.Match[str]) -> str | None:
    kind = match.lastgroup
    if _BOUND.match(text, match.end()) or _ASKED.search(text, 0, match.start()):
        return None
    if kind == "verb":
        return _supported(match["support"], match["verb"])
    if kind == "cannot":
        return match["cannot"]
    if kind == "contracted":
        word = match["contracted"]
        plain = _EXPANDED.get(word.lower().replace("’", "'"))
        return None if plain is None else in_shape_of(word, plain)
    if kind == "not":
        context = around(text, match.start() + 1, match.end())
        last = context.earlier if is_adverb_form(context.before) else context.before
        if last in _POSSIBLE or context.before in _POSSIBLE or context.earlier in _POSSIBLE:
            return None
        return "" if last in AUXILIARIES and context.after != "to" else None
    if kind == "never":
        context = around(text, match.start(), match.end() - 1)
        # Without "never", "Never had she seen it" would be a question.
        if context.before in _POSSIBLE or (context.opens and context.after in AUXILIARIES):
            return None
        return None if text.startswith(("again", "before"), match.end()) else ""
    behind = _WORD_AFTER.match(text, match.end())
    following = behind.group(1) if behind is not None else ""
    if following in _NOT_WITHOUT or following.endswith(("ly", "ing")):
        return None
    return in_shape_of(match["without"], "with")


def _supported(auxiliary: str, verb: str) -> str | None:
    """From "does not return" to "returns"; None if the word after "not" is not a verb."""
    low = auxiliary.lower()
    if verb not in _VERBS_TOO and (verb in STOP_WORDS or is_adverb_form(verb)):
        return None
    if low == "does":
        return in_shape_of(auxiliary, forms_of(verb).third)
    if low == "do":
        return in_shape_of(auxiliary, verb)
    return in_shape_of(auxiliary, forms_of(verb).past) if verb != "be" else f"{auxiliary} {verb}"


def _insertions(text: str, draw: float, limit: int) -> list[_Edit]:
    edits: list[_Edit] = []
    if _DENIED.search(text) or _UNDENIABLE.match(text):
        return edits
    first = _FIRST_WORD.match(text)
    # The first word is a noun before "of": "Log of the input", "List of tensors".
    if first is not None and not text.startswith(" of ", first.end()):
        word = first.group().lower()
        context = around(text, 0, first.end())
        base = _thirds().get(word, word)
        if (
            word in _POINTERS
            or context.after in AUXILIARIES
            or (
                base in DOUBTFUL_OPENERS
                and not (context.after in DETERMINERS or context.after in OBJECTS)
            )
        ):
            pass
        elif word in _FIRST:
            support = "Does" if word in _DESCRIBING and not _TOLD.search(text) else "Do"
            edits.append((0, first.end(), f"{support} not {word}"))
        elif word != base:
            edits.append((0, first.end(), f"Does not {base}"))
    if len(edits) < limit:
        edits += _behind_auxiliaries(text, draw, limit - len(edits))
    if not edits:
        edits += _before_verbs(text, limit)
    return [edit for edit in edits if _reaches_all(text, edit[0], edit[1])]


def _reaches_all(text: str, start: int, end: int) -> bool:
    """Whether a negation here is unambiguous: no second verb follows, no quantifier precedes.

    "Was not cut and sold" leaves open whether it was sold.
    """
    if _ASKED.search(text, 0, start) or _ASIDE.search(text, 0, start):
        return False
    return not (_OF_ALL.search(text, 0, start) or _second_deed().search(text, end))


@cache
def _thirds() -> dict[str, str]:
    """From the third person of verbs that may open a sentence to their base form."""
    return {forms_of(verb).third: verb for verb in sorted(_FIRST)}


@cache
def _pasts() -> dict[str, str]:
    """From unambiguous past forms to their base form; "be" and "have" are negated differently."""
    pasts = {forms_of(verb).past: verb for verb in sorted(_VERBS - {"be", "have"})}
    return {past: verb for past, verb in pasts.items() if past not in (verb, "bit", "ground")}


@cache
def _owned() -> re.Pattern[str]:
    """A pattern for words after "has" which show that it is the main verb; before other function
    words it is mostly an auxiliary."""
    return re.compile(
        r" (?:(?:about|over|around|almost|nearly|roughly|approximately|exactly|just|at least"
        r"|at most|up to|more than|less than|fewer than) )?"
        rf"(?:\d|(?:{'|'.join(sorted(NUMBER_WORDS))}|half|an?)\b)"
        rf"| (?:{'|'.join(sorted((DETERMINERS | OBJECTS) - word_set('all both each')))}"
        r"|to|lots|very|quite|other|much)\b"
        r"| (?:more|less|fewer)\b(?! than\b)"
        rf"| (?:all|both|each) (?!\w+ed\b|(?:{'|'.join(sorted(irregular_participles()))})\b)"
    )


@cache
def _second_deed() -> re.Pattern[str]:
    """A pattern for "and", "or" or a comma before another verb."""
    verbs = sorted({*_pasts(), *irregular_participles(), *_thirds()} - _NOUNS_AS_WELL)
    return re.compile(
        rf"(?:\b(?:and|or)|,) (?:(?:have|has|had|\w+ly|never|not) )?(?:\w+ed|{'|'.join(verbs)})\b"
    )


def _behind_auxiliaries(text: str, draw: float, limit: int) -> list[_Edit]:
    edits: list[_Edit] = []
    for match in _AUXILIARY.finditer(text):
        word = match.group()
        before = _WORD_BEFORE.search(text, max(0, match.start() - 40), match.start())
        after = _WORD_AFTER.match(text, match.end())
        if after is None or before is None:
            continue
        last, following = before.group(1).lower(), after.group(1).lower()
        if last in _NOUN_BEFORE or last in _TO or following in ("not", "never", "no", "only"):
            continue
        if last.endswith(("'d", "'ll", "’d", "’ll")) or last == "d":
            continue
        if last in _INVERTED or following in _STILTED or following.endswith(("n't", "n’t")):
            continue
        # Nouns: "the trash can is", "the king's will was".
        if following in _NOUNS_VERBS or (word in ("can", "will") and last.endswith(("'s", "’s"))):
            continue
        if _is_denied(text, match):
            continue
        owns = _owned().match(text, match.end()) is not None
        new = _negated(word, following, last, owns, draw)
        if new is not None:
            edits.append((match.start(), match.end(), new))
            if len(edits) == limit:
                break
    return edits


def _is_denied(text: str, verb: re.Match[str]) -> bool:
    """Whether the verb already has a negation near it."""
    before = _DENIES_NEAR.search(text, max(0, verb.start() - 14), verb.start())
    return before is not None or _DENIES_NEXT.match(text, verb.end()) is not None


def _negated(word: str, following: str, last: str, owns: bool, draw: float) -> str | None:
    """The negated auxiliary, or None. owns: whether "has" is the main verb."""
    if word in ("has", "have", "had") and (owns or not _is_participle(following)):
        small = following in STOP_WORDS or is_adverb_form(following) or following == "better"
        if last in MODALS or (small and not owns):
            return None
        return {"has": "does not have", "have": "do not have", "had": "did not have"}[word]
    if word in ("do", "does", "did") and following not in _DEEDS:
        return None
    if draw < 0.2 and word in _CONTRACTED:
        return _CONTRACTED[word]
    return "cannot" if word == "can" else f"{word} not"


def _is_participle(word: str) -> bool:
    return (
        word.endswith("ed")
        or (word.endswith("ly") and is_adverb_form(word))
        or word in irregular_participles()
        or word in ("also", "since", "long", "ever")
    )


def _before_verbs(text: str, limit: int) -> list[_Edit]:
    edits: list[_Edit] = []
    for match in _INNER_VERB.finditer(text):
        word = match.group()
        base = _thirds().get(word)
        third = base in _INNER
        base = base if third else _pasts().get(word)
        if base is None:
            continue
        before = _WORD_BEFORE.search(text, max(0, match.start() - 40), match.start())
        last = before.group(1) if before is not None else ""
        if last.lower() in _NOUN_BEFORE or last.lower() in _TO or _is_denied(text, match):
            continue
        context = around(text, match.start(), match.end())
        if not (is_third_person(context) if third else is_past(context)):
            continue
        if word == "did" and context.after not in _DONE:
            continue
        following = _WORD_AFTER.match(text, match.end())
        if (
            word == forms_of(base).participle
            and following is not None
            and following.group(1) in _AFTER_PARTICIPLE
        ):
            continue
        edits.append((match.start(), match.end(), f"{'does' if third else 'did'} not {base}"))
        if len(edits) == limit:
            break
    return edits


METHODS = methods(Method("negation", "negative", "alters", negation, Several))
