"""Entities and quantities of many texts at once, as columns (GCSE §3.1, eq. 1, without an LLM)."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tercet.models.english.words import AFTER_OF, NUMBER_WORDS
from tercet.models.knowledge import quantities
from tercet.models.knowledge.lexicon import MAX_WORDS, Lexicon
from tercet.models.knowledge.quantities import Quantity, is_year_like
from tercet.models.knowledge.tokens import (
    CAPITALISED,
    CAPITALS,
    IDENTIFIER,
    LOWER,
    OTHER,
    ROMAN,
    Tokens,
    tokenise,
)
from tercet.models.runs import begins

Flags = npt.NDArray[np.bool_]

MAX_NAME = 6  # words; a longer run of capitals is a headline

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Spans:
    """Candidate entities as columns: first and last token, entry and set of types in the lexicon
    (-1 for identifiers and names)."""

    first: Ints
    last: Ints
    entry: Ints
    types: Ints


def _nouns(tokens: Tokens, lexicon: Lexicon) -> Spans:
    """Every phrase of the lexicon that occurs in the texts, of any length.

    The last word may be a plural. A match never begins or ends with a closed-class word and is
    never part of a hyphenated word. A single word after a pronoun or a modal is a verb, not a noun.
    """
    count = len(tokens.starts)
    word = (tokens.kind == LOWER) | (tokens.kind == CAPITALISED) | (tokens.kind == CAPITALS)
    inner = word & ~tokens.stop
    tied_before = np.zeros(count, dtype=np.bool_)
    tied_before[1:] = (tokens.tied & ~_any_of(tokens, NUMBER_WORDS))[:-1]
    verb = np.zeros(count, dtype=np.bool_)
    verb[1:] = (tokens.before_verb & tokens.joined)[:-1]
    verb &= tokens.kind == LOWER
    columns: list[tuple[Ints, Ints, Ints, Ints]] = []
    begin = np.flatnonzero(inner & ~tied_before & ((tokens.surface >= 0) | (tokens.lemma >= 0)))
    node = np.full(len(begin), -1, dtype=np.int64)
    for length in range(1, MAX_WORDS + 1):
        last = begin + length - 1
        if length == 1:
            surface, lemma = tokens.surface[last], tokens.lemma[last]
        else:
            surface = lexicon.phrases.step(node, tokens.surface[last])
            lemma = lexicon.phrases.step(node, tokens.lemma[last])
        ends = inner[last] & ~tokens.tied[last]
        if length == 1:
            ends &= ~verb[last] & ~tokens.weak[last]
        entry = lexicon.phrases.entry(surface)
        types = _types(tokens, lexicon, begin, last, entry)
        other = lexicon.phrases.entry(lemma)
        other_types = _types(tokens, lexicon, begin, last, other)
        plain = types >= 0
        entry, types = np.where(plain, entry, other), np.where(plain, types, other_types)
        matched = ends & (types >= 0)
        columns.append((begin[matched], last[matched], entry[matched], types[matched]))
        further = (surface >= 0) & tokens.joined[last] & (last + 1 < count)
        begin, node = begin[further], surface[further]
    parts = [np.concatenate(each) for each in zip(*columns, strict=True)]
    return Spans(*parts)


def identifiers(tokens: Tokens) -> Spans:
    """Names from code: snake_case, CamelCase, dotted.names, call(), --flags."""
    return _plain(np.flatnonzero((tokens.kind == IDENTIFIER) & ~tokens.stop))


def _names(tokens: Tokens) -> Spans:
    """Runs of capitalised words, possibly linked by words such as "of", and acronyms.

    The first word of a text is always capitalised. It counts only if it is an acronym, or if a
    capitalised word follows and it is neither in the lexicon nor a verb that opens docstrings.
    Texts in title case or capitals have no names.
    """
    count = len(tokens.starts)
    if not count:
        return _plain(np.zeros(0, dtype=np.int64))
    capital = (tokens.kind == CAPITALISED) | (tokens.kind == CAPITALS)
    initial = (tokens.ends - tokens.starts == 1) & capital & tokens.dotted
    abroad = _any_of(tokens, {"us"})
    name = capital & (~tokens.stop | initial | (abroad & (tokens.kind == CAPITALS)))
    sizes = np.bincount(tokens.text)
    headline = (np.bincount(tokens.text, weights=capital) > 0.7 * sizes) & (sizes >= 6)
    name &= ~headline[tokens.text]

    near = (tokens.joined | (tokens.dotted & (initial | tokens.title)))[:-1]
    linked = np.zeros(count, dtype=np.bool_)  # whether a token belongs with the next one
    goes_on = name | (tokens.kind == ROMAN)
    linked[:-1] = near & name[:-1] & goes_on[1:]
    the = _any_of(tokens, {"the"})
    for gap in ((tokens.link,), (tokens.link, the)):
        width = len(gap) + 1
        bridge = name[:-width] & name[width:]
        for place, inside in enumerate(gap, start=1):
            bridge &= inside[place : count - width + place]
        for place in range(width):
            bridge &= near[place : count - width + place]
        at = np.flatnonzero(bridge)
        for place in range(width):
            linked[at + place] = True
    begins = linked.copy()
    begins[1:] &= ~linked[:-1]
    alone = name & ~linked
    alone[1:] &= ~linked[:-1]
    last = np.flatnonzero(~linked)
    first = np.flatnonzero(begins | alone)
    last = last[np.searchsorted(last, first)]

    ordinary = (tokens.surface >= 0) | (tokens.lemma >= 0) | tokens.inflected | tokens.opener
    opening = tokens.first[first] & (tokens.kind[first] == CAPITALISED)
    second = np.minimum(first + 1, count - 1)
    unlisted = ~ordinary[first] & (last > first) & name[second]
    following = np.append(np.flatnonzero(name), count)
    moved = following[np.searchsorted(following, first + 1)]
    first = np.where(opening & ~unlisted, moved, first)
    fits = (first <= last) & (last - first < MAX_NAME)
    first, last = first[fits], last[fits]
    lone_initial = (first == last) & (tokens.ends[first] - tokens.starts[first] == 1)
    return _plain(first[~lone_initial], last[~lone_initial])


def _any_of(tokens: Tokens, words: Set[str]) -> Flags:
    """Whether each token is one of the casefolded words."""
    return np.array([fold in words for fold in tokens.folded], dtype=np.bool_)[tokens.code]


def _plain(first: Ints, last: Ints | None = None) -> Spans:
    none = np.full(len(first), -1, dtype=np.int64)
    return Spans(first, first if last is None else last, none, none)


def _types(tokens: Tokens, lexicon: Lexicon, first: Ints, last: Ints, entry: Ints) -> Ints:
    """The set of types of each span's entry, chosen by the span's letter case; -1 for none."""
    listed = entry >= 0
    at = np.where(listed, entry, 0)
    upper = (tokens.kind[first] >= CAPITALISED) & (tokens.kind[last] >= CAPITALISED)
    capitals = (tokens.kind[first] == CAPITALS) & (tokens.kind[last] == CAPITALS)
    ordinary, proper = lexicon.ordinary[at], lexicon.proper[at]
    opening = tokens.first[first] & (first == last) & ~capitals
    doubtful = opening & tokens.inflected[first]
    named = np.where(opening & (ordinary >= 0), ordinary, np.where(doubtful, -1, proper))
    named = np.where(lexicon.capitals[at] & ~capitals, -1, named)
    return np.where(listed, np.where(upper, named, ordinary), -1)


IDENTIFIER_TYPE, NAME_TYPE = "identifier", "name"


@dataclass(frozen=True)
class Mentions:
    """Mentions of texts as columns, sorted by text and place; spans never overlap.

    row: number of the text. start, end: code points in that text. text: the text of the span.
    entity: True for an entity, False for a quantity. node: the entity's dictionary form, or the
        quantity's text, casefolded. type: an entity's type, or a quantity's form (number, year,
        fraction, range, percentage, money, measure).
    value, unit: of quantities; NaN and None for entities. counted: the entity that a quantity
        counts, as a row of these columns; -1 for none.
    categories: (number of the text, its most frequent entity type), for texts with an entity.
    """

    row: Ints
    start: Ints
    end: Ints
    text: list[str]
    entity: npt.NDArray[np.bool_]
    node: list[str]
    type: list[str]
    value: npt.NDArray[np.float64]
    unit: list[str | None]
    counted: Ints
    categories: tuple[Ints, list[str]]


def extract(texts: Sequence[str], lexicon: Lexicon) -> Mentions:
    """Entities and quantities of the texts. The mentions of a text depend on that text alone.

    Among overlapping spans the longest stays, then the leftmost. An entity with several types gets
    the type that most entities of its text share, and on a tie its first type.
    """
    tokens = tokenise(texts, lexicon.phrases.words, identifiers=True)
    groups = [identifiers(tokens), _nouns(tokens, lexicon), _names(tokens)]
    spans = Spans(*(np.concatenate(each) for each in zip(*map(_columns, groups), strict=True)))
    rank = np.repeat(np.arange(3), [len(each.first) for each in groups])
    numeric = outside_code(quantities.find(tokens.buffer), tokens)

    places = _bounds(tokens, spans, numeric)
    winners = longest_first(*places, np.append(rank, np.full(len(numeric), 3)))
    chosen = winners[winners < len(spans.first)]
    entities = Spans(*(column[chosen] for column in _columns(spans)))
    numeric = [numeric[at - len(spans.first)] for at in winners[winners >= len(spans.first)]]
    numeric, counted = resolve(numeric, tokens, entities.first, entities.last)
    kinds = np.where(entities.entry >= 0, -1, rank[chosen] // 2)
    return _assembled(texts, tokens, lexicon, entities, kinds, numeric, counted)


def longest_first(starts: Ints, ends: Ints, rank: Ints) -> Ints:
    """The spans that remain if, among overlapping spans, the longest, leftmost, lowest rank wins.

    Returns the spans' numbers, sorted by place. Only overlapping spans are compared one by one.
    """
    order = np.lexsort((rank, starts))
    start, end = starts[order], ends[order]
    if not len(order):
        return order
    reach = np.maximum.accumulate(end)
    opens = np.ones(len(order), dtype=np.bool_)
    opens[1:] = start[1:] >= reach[:-1]
    bounds = np.append(np.flatnonzero(opens), len(order))
    keep = np.ones(len(order), dtype=np.bool_)
    for first in np.flatnonzero(np.diff(bounds) > 1):
        low, high = int(bounds[first]), int(bounds[first + 1])
        members = sorted(
            range(low, high), key=lambda at: (start[at] - end[at], start[at], rank[order[at]])
        )
        spans: list[tuple[int, int]] = []
        for at in members:
            span = (int(start[at]), int(end[at]))
            if all(span[1] <= left or right <= span[0] for left, right in spans):
                spans.append(span)
            else:
                keep[at] = False
    return order[keep]


def _columns(spans: Spans) -> tuple[Ints, Ints, Ints, Ints]:
    return spans.first, spans.last, spans.entry, spans.types


def _bounds(tokens: Tokens, spans: Spans, numeric: Sequence[Quantity]) -> tuple[Ints, Ints]:
    """Starts and ends in the buffer, first of all entities, then of all quantities."""
    starts = [quantity.start for quantity in numeric]
    ends = [quantity.end for quantity in numeric]
    return (
        np.append(tokens.starts[spans.first], starts).astype(np.int64),
        np.append(tokens.ends[spans.last], ends).astype(np.int64),
    )


def outside_code(quantities: list[Quantity], tokens: Tokens) -> list[Quantity]:
    """The quantities outside links and identifiers."""
    if not quantities or not len(tokens.starts):
        return quantities
    starts = np.array([quantity.start for quantity in quantities], dtype=np.int64)
    at = np.maximum(np.searchsorted(tokens.starts, starts, side="right") - 1, 0)
    inside = (tokens.starts[at] <= starts) & (tokens.ends[at] > starts)
    code = (tokens.kind[at] == IDENTIFIER) | (tokens.kind[at] == OTHER)
    return [quantity for quantity, drop in zip(quantities, inside & code, strict=True) if not drop]


def _assembled(
    texts: Sequence[str],
    tokens: Tokens,
    lexicon: Lexicon,
    entities: Spans,
    kinds: Ints,
    numeric: list[Quantity],
    counted: Ints,
) -> Mentions:
    """Entities and quantities as one set of columns, sorted by place."""
    starts, ends = _bounds(tokens, entities, numeric)
    row = np.searchsorted(tokens.offsets, starts, side="right") - 1
    within, to = starts - tokens.offsets[row], ends - tokens.offsets[row]
    spellings = [
        texts[number][low:high]
        for number, low, high in zip(row.tolist(), within.tolist(), to.tolist(), strict=True)
    ]
    total = len(entities.first)
    nodes = [
        lexicon.nouns[entry] if entry >= 0 else " ".join(text.casefold().split())
        for entry, text in zip(entities.entry.tolist(), spellings[:total], strict=True)
    ]
    nodes += [" ".join(text.casefold().split()) for text in spellings[total:]]
    names = (*lexicon.types, IDENTIFIER_TYPE, NAME_TYPE)
    types = _voted(row[:total], nodes[:total], entities, kinds, lexicon)
    labels = [names[number] for number in types.tolist()]
    labels += [quantity.form for quantity in numeric]
    entity = np.arange(len(starts)) < total
    order = np.argsort(starts, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    target = np.concatenate([np.full(total, -1, dtype=np.int64), counted])
    target = np.where(target >= 0, place[target] if len(place) else target, -1)
    value = [float("nan")] * total + [quantity.value for quantity in numeric]
    unit: list[str | None] = [None] * total
    unit += [quantity.unit for quantity in numeric]
    listed = order.tolist()
    return Mentions(
        row=row[order],
        start=within[order],
        end=to[order],
        text=[spellings[at] for at in listed],
        entity=entity[order],
        node=[nodes[at] for at in listed],
        type=[labels[at] for at in listed],
        value=np.array(value, dtype=np.float64)[order],
        unit=[unit[at] for at in listed],
        counted=target[order],
        categories=_categories(row[:total], types, names),
    )


def _voted(row: Ints, nodes: list[str], entities: Spans, kinds: Ints, lexicon: Lexicon) -> Ints:
    """The type of each entity: of its types, the most common among entities of its text."""
    if not len(row):
        return np.zeros(0, dtype=np.int64)
    numbers: dict[str, int] = {}
    node = np.array([numbers.setdefault(text, len(numbers)) for text in nodes], dtype=np.int64)
    key = row * len(numbers) + node
    _, index, inverse = np.unique(key, return_index=True, return_inverse=True)
    type_sets = entities.types[index]
    width = len(lexicon.types) + 2
    listed = type_sets >= 0
    at = np.where(listed, type_sets, 0)
    sizes = np.where(listed, lexicon.set_starts[at + 1] - lexicon.set_starts[at], 1)
    starts = np.cumsum(sizes) - sizes
    owner = np.repeat(np.arange(len(index)), sizes)
    nth = np.arange(len(owner)) - starts[owner]
    choice = np.where(
        listed[owner],
        lexicon.set_types[np.where(listed[owner], lexicon.set_starts[at][owner] + nth, 0)],
        len(lexicon.types) + kinds[index][owner],
    )
    cell = row[index][owner] * width + choice
    votes = np.bincount(cell)[cell]
    # The highest vote wins; on a tie, the type that comes first in the entity's order.
    best = np.maximum.reduceat((votes << 16) | (0xFFFF - nth), starts)
    picked = starts + (0xFFFF - (best & 0xFFFF))
    return np.asarray(choice[picked][inverse], dtype=np.int64)


def _categories(row: Ints, types: Ints, names: Sequence[str]) -> tuple[Ints, list[str]]:
    """The most frequent type of each text; on a tie, the type that comes first."""
    if not len(row):
        return np.zeros(0, dtype=np.int64), []
    order = np.argsort(row, kind="stable")
    row, types = row[order], types[order]
    cell = row * len(names) + types
    votes = np.bincount(cell)[cell]
    starts = np.flatnonzero(begins(row))
    place = np.arange(len(row)) - np.repeat(starts, np.diff(np.append(starts, len(row))))
    best = np.maximum.reduceat((votes << 24) | (0xFFFFFF - place), starts)
    picked = starts + (0xFFFFFF - (best & 0xFFFFFF))
    return row[starts], [names[number] for number in types[picked].tolist()]


_ADJECTIVES = 2  # words that may stand between the number and the noun
_CHAIN = 4  # nouns in a row that are looked at: "two stone garden walls"


def resolve(
    quantities: list[Quantity], tokens: Tokens, first: Ints, last: Ints
) -> tuple[list[Quantity], Ints]:
    """The quantities that remain, and for each the entity that it counts (-1 for none).

    first, last: first and last token of each entity, sorted by place. A number that counts nothing
    and looks like a year becomes a year. A number that is a quantity only before a noun is dropped
    if it counts nothing.
    """
    if not quantities:
        return [], np.zeros(0, dtype=np.int64)
    reader = _Reader(tokens, first, last)
    resolved: list[Quantity] = []
    counted: list[int] = []
    starts = np.array([max(quantity.end, quantity.unit_end) for quantity in quantities])
    after = np.searchsorted(tokens.starts, starts).tolist()
    units = np.searchsorted(
        tokens.starts, np.array([quantity.unit_start for quantity in quantities])
    ).tolist()
    for quantity, token, unit in zip(quantities, after, units, strict=True):
        entity = reader.counted(quantity, token, unit)
        if entity < 0:
            if quantity.needs_noun:
                continue
            if is_year_like(tokens.buffer, quantity):
                quantity = replace(quantity, form="year")
        resolved.append(quantity)
        counted.append(entity)
    return resolved, np.array(counted, dtype=np.int64)


class _Reader:
    """Reads the tokens after a quantity. It reads them one by one, hence plain lists."""

    def __init__(self, tokens: Tokens, first: Ints, last: Ints) -> None:
        self._tokens = tokens
        self._starts, self._ends = tokens.starts.tolist(), tokens.ends.tolist()
        self._last = last
        at = np.full(len(self._starts) + 1, -1, dtype=np.int64)
        at[first] = np.arange(len(first))
        self._entity = at

    def counted(self, quantity: Quantity, token: int, unit: int) -> int:
        """The entity that the quantity counts, -1 for none."""
        if quantity.form in ("year", "money"):
            return -1
        place = max(quantity.end, quantity.unit_end)
        share = quantity.form in ("fraction", "percentage")
        has_unit = quantity.unit_end > quantity.end
        of = self._word(token) == "of" and self._gap(place, token)
        if of:
            place, token = self._ends[token], token + 1
        if (of or share) and self._word(token) in AFTER_OF and self._gap(place, token):
            place, token = self._ends[token], token + 1
        if of or not has_unit:
            noun = self._noun(place, token, quantity, any_number=share or (of and has_unit))
            if noun >= 0 or not has_unit:
                return noun
        if unit < len(self._starts) and self._starts[unit] == quantity.unit_start:
            return int(self._entity[unit])
        return -1

    def _word(self, token: int) -> str:
        return self._tokens.folded[self._tokens.code[token]] if token < len(self._starts) else ""

    def _gap(self, place: int, token: int) -> bool:
        """Whether the token follows the place after exactly one space or hyphen."""
        return (
            token < len(self._starts)
            and self._starts[token] == place + 1
            and self._tokens.buffer[place] in " -"
        )

    def _noun(self, place: int, token: int, quantity: Quantity, *, any_number: bool) -> int:
        hyphen = self._tokens.buffer[place] == "-"
        for _ in range(_ADJECTIVES + 1):
            if not self._gap(place, token) or self._tokens.stop[token]:
                return -1
            if self._entity[token] >= 0:
                break
            if self._tokens.kind[token] != LOWER:
                return -1
            place, token, hyphen = self._ends[token], token + 1, False
        else:
            return -1
        chain = [int(self._entity[token])]
        while len(chain) < _CHAIN:
            end = int(self._last[chain[-1]])
            token = end + 1
            if not self._gap(self._ends[end], token) or self._entity[token] < 0:
                break
            chain.append(int(self._entity[token]))
        if hyphen:
            return chain[0]
        if any_number or quantity.value == 1:
            return chain[-1]
        for entity in chain:
            if self._tokens.plural[self._last[entity]]:
                return entity
        return -1
