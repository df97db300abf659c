"""Positives in telegram style: without the words that carry no meaning."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

from tercet.models import seeding
from tercet.models.english.context import (
    BE,
    BOUNDARY,
    DETERMINERS,
    HAVE,
    MODALS,
    OBJECTS,
    POSSESSIVES,
    Around,
    around,
    is_adjective_form,
    is_number,
    is_past_form,
    is_plural_subject,
)
from tercet.models.english.inflection import irregular_participles, irregular_verbs
from tercet.models.english.words import (
    MONTH,
    NUMBER_WORDS,
    PREPOSITIONS,
    STOP_WORDS,
    WORD,
    replaced,
    word_lists,
    word_set,
)
from tercet.models.generation import Method, MethodInput, Output, Several, methods
from tercet.models.runs import places_within
from tercet.models.text.word_noise import DELETED, MOST_DELETED, SHORT

DATA_FILES = ("telegram.tsv",)

_LISTS = word_lists(__file__)
_NUMBER = rf"(?:\d|(?:{'|'.join(sorted(NUMBER_WORDS))})\b)"
_UNIT = "(?:seconds?|minutes?|hours?|days?|nights?|weeks?|months?|years?|decades?|centuries)"
_YEAR_ENDS = (
    r"(?:[^\w\s]|$| (?:and|or|but|because|when|where|while|then|which|who|although|if"
    rf"|{'|'.join(sorted(PREPOSITIONS))})\b)"
)
_DAY = "(?:Mondays?|Tuesdays?|Wednesdays?|Thursdays?|Fridays?|Saturdays?|Sundays?)"
_SUBJECT = r"(?:he|she|it|they|we|you|I)\b"
_OPENING = (
    "However|Therefore|Thus|Hence|Moreover|Furthermore|Additionally|Also|Indeed|Nevertheless"
    "|Of course|In fact|In addition|As a result|Consequently|Finally|Here|Now|Similarly|Likewise"
)
_MID = "however|therefore|of course|in fact|indeed|for example|for instance|moreover|in turn"
_PREDICATES = _LISTS["predicates"]
# After these words, and in wishes and suppositions (`_SUPPOSED`), "have done" cannot become "done".
_PERHAPS = re.compile(
    r"\b(?:may|might|can|could|will|would|shall|should|must|to|not|never)\s(?:\w+\s)?$"
)
_SUPPOSED = re.compile(
    r"\b(?:if|wish|wishes|wished|unless|supposing)\b|\bas though\b", re.IGNORECASE
)
_PEOPLE = _LISTS["people"]
_ASKED_FOR = _LISTS["asked_for"]
_FILLERS = _LISTS["fillers"]
_BEFORE_FILLERS = _LISTS["before_fillers"]
_AFTER_FILLERS = _LISTS["after_fillers"]
_QUALITIES = _LISTS["qualities"]
_BEFORE_QUALITIES = (POSSESSIVES | word_set("a an the this that these those and")) - word_set(
    "whose and"
)
# Words of contrast or comparison; a quality must then stay.
_CONTRAST = re.compile(
    r"\b(?:than|unlike|while|whereas|not|no|nor|never|without|but|only|more|most|less|least|all"
    r"|every|each|any|few|other|others|another|same|if|as|both|either|neither|such|too|so|how)\b"
    r"|n['’]t\b|\w\w(?:er|est)\b than",
    re.IGNORECASE,
)
# Words after a participle or adjective that allow omitting "be": "was built in", "are welcome at".
_BEHIND_DONE = PREPOSITIONS - word_set("to as about like") | {BOUNDARY, "and"}
_AFTER_LETTER = _LISTS["after_letter"]
_TIMES = _LISTS["times"]
_PER = _LISTS["per"]


@cache
def _units() -> tuple[re.Pattern[str], ...]:
    """Patterns of words that can be omitted, with the white space behind them; if a pattern has a
    group, only the group is omitted."""
    done = "|".join(sorted(irregular_participles() - {"been", "had"}))
    verbs = irregular_verbs().values()
    same = "|".join(sorted(verb.past for verb in verbs if verb.past == verb.participle))
    patterns = (
        rf"^(?:{_OPENING}),\s(?=[a-z])",
        r"^(?:Please |)[Nn]ote (?:also )?that\s",
        r"^Please\s",
        r"^There (?:is|are|was|were)\s(?=[a-z]+\s)",
        r"^This is\s(?=(?:a|an|the)\b)",
        rf",\s(?:{_MID}),(?=\s)",
        r"\bin order\s(?=to\b)",
        r"\s\((?:e\.g|i\.e|see|for example|such as|for instance)\b[^()]*\)",
        # "The town of Assen".
        r"(?<=[a-z] )the (?:town|city|village|port|island|county|region|month) of\s(?=[A-Z])",
        # "A boat that was built in", "the men who are waiting".
        rf"\b(?P<relative>(?:who|which|that) (?:is|are|was|were)\s)"
        rf"(?=(?:[a-z]+ed|[a-z]+ing|{done})\s)",
        rf"(?<=[a-z] )(?P<that>that\s)(?={_SUBJECT})",
        r"\b(?:said|says|knew|know|thought|think|found|told|believe|believed|ensures?|means"
        r"|assumes?|hoped?|feared|shows?|showed|heard|learned|learnt|noted?|claimed) (that\s)"
        r"(?=(?:the|a|an|his|her|its|their|all|no|each)\b)",
        rf"\b(?P<perfect>(?:has|have|had)\s)(?=(?:[a-z]+[^e]ed|{same})\s"
        rf"(?:the|a|an|its|his|her|their|to|in|by|from|on|at|for|with|into|up|out|over|off"
        rf"|{_NUMBER})\b)",
        rf"\b(?P<during>for\s)"
        rf"(?=(?:more than |almost |nearly |about |at least )?{_NUMBER}[\w-]* {_UNIT}\b"
        rf"(?! (?:{'|'.join(sorted(MODALS | BE | HAVE))})\b))",
        # 1500 is not a year in "in 1500 villages".
        rf"(?<=[a-z] )(?:on\s(?={_DAY}\b)|in\s(?={MONTH}\b|[12]\d\d\d{_YEAR_ENDS}))",
        r"\b(?:all|both|inside|outside) (of\s)"
        r"(?=(?:the|its|their|his|her|these|those|our|my)\b)",
        r"\bboth\s(?=\w+ and\b)",
        rf"\bsome\s(?={_NUMBER})",
    )
    return tuple(map(re.compile, patterns))


@dataclass(frozen=True)
class _Piece:
    """A part text[start:end] that can be omitted. words: how many. article: whether it is one."""

    start: int
    end: int
    words: int
    article: bool


def telegram(inputs: MethodInput, params: Several, seed: int) -> pa.Table:
    """Omits some words that the sentence does not need, as many as `cutoff`.

    First come words before a noun that say nothing about it ("given", "own"), adverbs that only
    stress, "that", an auxiliary before a past participle, and "for" before a duration; then
    articles. The full stop is always omitted. Names, numbers, negations and words of mentions stay.
    A sentence that needs all its words has no row.
    """
    texts, ids = inputs.texts(), inputs.ids()
    spared = inputs.spans("entity", "quantity")
    by_row = [pieces(text, spared.get(row, ())) for row, text in enumerate(texts)]
    counts = np.array([len(each) for each in by_row], dtype=np.int64)
    rows = np.repeat(np.arange(len(texts)), counts)
    place = places_within(counts).astype(np.uint64)
    lengths = np.array([len(text.split()) for text in texts], dtype=np.int64)
    # 1e-9 makes a third of 9 words 3 despite rounding.
    most = np.clip(np.floor(DELETED * lengths + 1e-9).astype(np.int64), 1, MOST_DELETED)
    least = np.clip(lengths // 8, 1, most)
    article = np.array([piece.article for each in by_row for piece in each], dtype=bool)
    firsts = (np.cumsum(counts) - counts).tolist()
    drawn = []
    for copy in range(params.per_sentence):
        keys = seeding.draws(seed, "telegram", ids[rows], place + np.uint64(copy << 32))
        order = place[np.lexsort((keys, article, rows))].tolist()
        times = least + seeding.below(seed, "telegram.times", ids, most - least + 1, copy)
        drawn.append((order, times.tolist()))
    output = Output()
    for row, (text, each, sentence_id) in enumerate(zip(texts, by_row, ids.tolist(), strict=True)):
        if lengths[row] <= SHORT or not each:
            continue
        first, written = firsts[row], set()
        for order, times in drawn:
            ordered = [each[i] for i in order[first : first + len(each)]]
            raw = _without(text, ordered, times[row], int(most[row]))
            if raw not in written:
                written.add(raw)
                output.add(sentence_id, raw, "telegram")
    return output.table()


def _without(text: str, ordered: Sequence[_Piece], times: int, most: int) -> str:
    """The text without the first pieces, up to `times` words; a first piece may have `most`."""
    gone: list[_Piece] = []
    for piece in ordered:
        words = sum(each.words for each in gone)
        if words + piece.words <= (times if gone else most):
            gone.append(piece)
    ends = {piece.end for piece in gone}
    for piece in sorted(gone, key=lambda piece: -piece.start):
        behind = WORD.match(text, piece.end)
        # `replaced` turns "a old" into "an old", unless the article is omitted too.
        if behind is None or piece.article or piece.start in ends:
            text = text[: piece.start] + text[piece.end :]
        else:
            text = replaced(text, piece.start, behind.end(), behind.group())
    return text.rstrip(" .")


def pieces(text: str, spared: Iterable[tuple[int, int]] = ()) -> list[_Piece]:
    """The parts that the text does not need, from left to right, outside the spared spans."""
    candidates = []
    for pattern in _units():
        for match in pattern.finditer(text):
            start, end = match.span(pattern.groups)
            if _can_go(text, match):
                words = len(text[start:end].strip(" ,").split())
                candidates.append(_Piece(start, end, words, False))
    contrast = _CONTRAST.search(text) is not None
    for match in WORD.finditer(text):
        start, end = match.span()
        if text[end : end + 1] == " " and (start == 0 or text[start - 1] in ' "“('):
            kind = _kind(text, match.group(), start, end, contrast)
            if kind:
                candidates.append(_Piece(start, end + 1, 1, kind == "article"))
    spans = list(spared)
    chosen: list[_Piece] = []
    for piece in sorted(candidates, key=lambda piece: (-piece.words, piece.start)):
        if not any(low < piece.end - 1 and piece.start < high for low, high in spans):
            spans.append((piece.start, piece.end))
            chosen.append(piece)
    return sorted(chosen, key=lambda piece: piece.start)


def _can_go(text: str, unit: re.Match[str]) -> bool:
    """Whether the words before the unit allow omitting it."""
    context = around(text, unit.start(), unit.end())
    if unit.lastgroup == "relative":
        # Not relative clauses: "I saw who was driving", "she said that was boring".
        led = context.earlier in DETERMINERS or is_adjective_form(context.earlier)
        named = (led or is_number(context.earlier)) and context.before not in STOP_WORDS
        several = is_plural_subject(context) or context.before in _PEOPLE
        return named or several or text[: unit.start()].endswith(", ")
    if unit.lastgroup == "that":
        # These are no conjunctions that can be omitted: "what is that you hold", "such that it is".
        return context.before not in STOP_WORDS or context.before in OBJECTS | {"out"}
    if unit.lastgroup == "perfect":
        clause = re.split("[,;]", text[: unit.start()])[-1]
        return not (_PERHAPS.search(clause) or _SUPPOSED.search(clause))
    if unit.lastgroup == "during":
        return context.before not in _ASKED_FOR
    return True


def _kind(text: str, word: str, start: int, end: int, contrast: bool) -> str:
    """The kind of a word that can be omitted: article, filler, be or quality; "" if it cannot."""
    low = word.lower()
    if low in ("the", "a", "an") and (word == low or start == 0) and len(word) < 4:
        context = around(text, start, end)
        counted = is_number(context.before) or context.before in _TIMES
        idiom = context.after in _PER or context.before in ("such", "many", "what", "quite", "half")
        letter = low == "a" and context.after in _AFTER_LETTER
        return "" if context.after == BOUNDARY or counted or idiom or letter else "article"
    if word != low:
        return ""
    if low in ("is", "are", "was", "were"):
        context = around(text, start, end)
        return "be" if _can_omit_be(context) else ""
    if low in _FILLERS:
        context = around(text, start, end)
        bare = context.before in _BEFORE_FILLERS or context.after in _AFTER_FILLERS
        stands = context.opens or context.after == BOUNDARY or context.before == BOUNDARY
        bare = bare or context.before.endswith(("n't", "n’t"))
        preferred = context.before == "would" or context.before.endswith(("'d", "’d"))
        bare = bare or (low == "rather" and ("than" in text or preferred))
        bare = bare or (low == "quite" and context.after in DETERMINERS)
        bare = bare or (low in ("even", "just") and context.before in DETERMINERS)
        return "" if bare or stands or context.after in PREPOSITIONS else "filler"
    if low in _QUALITIES and (not contrast or low == "own"):
        context = around(text, start, end)
        after = context.after
        if after == BOUNDARY or after in STOP_WORDS or after in ("and", "ones", "-"):
            return ""
        if not after.isalpha() or text[end + 1].isupper() or is_past_form(after):
            return ""
        if low == "own":
            return "quality" if context.before in POSSESSIVES else ""
        led = context.before in _BEFORE_QUALITIES or (
            is_number(context.before) and context.before != "one"
        )
        generic = text[:start] in ("A ", "An ")
        return "quality" if led and not generic else ""
    return ""


def _can_omit_be(context: Around) -> bool:
    """Whether "is" can be omitted: before a participle without object, or before an adjective."""
    if (
        context.before == BOUNDARY
        or context.before in STOP_WORDS
        or is_adjective_form(context.before)
    ):
        return False
    done = is_past_form(context.after) or context.after in irregular_participles() - {"set"}
    if done or is_adjective_form(context.after) or context.after in _PREDICATES:
        return context.later in _BEHIND_DONE
    return context.after in ("so", "too") and is_adjective_form(context.later)


METHODS = methods(Method("telegram", "positive", "keeps", telegram, Several, ("mentions",)))
