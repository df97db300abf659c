"""Entities and quantities of many texts at once, as columns (GCSE §3.1, eq. 1, without an LLM)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tercet.models.knowledge import candidates, counting, quantities
from tercet.models.knowledge.candidates import Spans
from tercet.models.knowledge.lexicon import Lexicon
from tercet.models.knowledge.quantities import Quantity
from tercet.models.knowledge.tokens import IDENTIFIER, OTHER, Tokens, tokenise
from tercet.models.runs import begins

Ints = npt.NDArray[np.int64]

IDENTIFIER_TYPE, NAME_TYPE = "identifier", "name"


@dataclass(frozen=True)
class Mentions:
    """What the texts mention, by text and place; spans never overlap.

    row: number of the text. start, end: code points in that text. text: the text's words there.
    entity: True for an entity, False for a quantity. node: the entity's dictionary form, or the
        quantity's text, casefolded. type: an entity's type; a quantity's form (number, year,
        fraction, range, percentage, money, measure).
    value, unit: of quantities; NaN and None elsewhere. counted: a quantity's counted entity, as a
        row of these columns, -1 for none.
    categories: (text's number, its most frequent entity type), for texts with an entity.
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


def extract(
    texts: Sequence[str],
    lexicon: Lexicon,
    *,
    identifiers: bool = True,
    names: bool = True,
    numbers: bool = True,
) -> Mentions:
    """Entities and quantities of the texts. A text's mentions depend on that text alone.

    identifiers, names, numbers: whether names from code, proper names and quantities are sought.
    Where spans overlap, the longest stays, then the leftmost. An entity of several types takes the
    one that most of its text's other entities share, else its first.
    """
    tokens = tokenise(texts, lexicon.phrases.words, identifiers=True)
    none = candidates.Spans(*(np.zeros(0, dtype=np.int64) for _ in range(4)))
    found = [
        candidates.identifiers(tokens) if identifiers else none,
        candidates.nouns(tokens, lexicon),
        candidates.names(tokens) if names else none,
    ]
    spans = Spans(*(np.concatenate(each) for each in zip(*map(_columns, found), strict=True)))
    rank = np.repeat(np.arange(3), [len(each.first) for each in found])
    numeric = _outside_code(quantities.find(tokens.buffer), tokens) if numbers else []

    places = _bounds(tokens, spans, numeric)
    kept = longest_first(*places, np.append(rank, np.full(len(numeric), 3)))
    chosen = kept[kept < len(spans.first)]
    entities = Spans(*(column[chosen] for column in _columns(spans)))
    numeric = [numeric[at - len(spans.first)] for at in kept[kept >= len(spans.first)]]
    numeric, counted = counting.resolve(numeric, tokens, entities.first, entities.last)
    kinds = np.where(entities.entry >= 0, -1, rank[chosen] // 2)
    return _assembled(texts, tokens, lexicon, entities, kinds, numeric, counted)


def longest_first(starts: Ints, ends: Ints, rank: Ints) -> Ints:
    """The spans that stay when the longest wins, then the leftmost, then the lowest rank.

    Returns their numbers by place. Only spans that touch others are looked at one by one.
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
        taken: list[tuple[int, int]] = []
        for at in members:
            span = (int(start[at]), int(end[at]))
            if all(span[1] <= left or right <= span[0] for left, right in taken):
                taken.append(span)
            else:
                keep[at] = False
    return order[keep]


def _columns(spans: Spans) -> tuple[Ints, Ints, Ints, Ints]:
    return spans.first, spans.last, spans.entry, spans.types


def _bounds(tokens: Tokens, spans: Spans, numeric: Sequence[Quantity]) -> tuple[Ints, Ints]:
    """Where entities, and quantities behind them, start and end in the buffer."""
    starts = [quantity.start for quantity in numeric]
    ends = [quantity.end for quantity in numeric]
    return (
        np.append(tokens.starts[spans.first], starts).astype(np.int64),
        np.append(tokens.ends[spans.last], ends).astype(np.int64),
    )


def _outside_code(found: list[Quantity], tokens: Tokens) -> list[Quantity]:
    """Quantities outside links and names from code."""
    if not found or not len(tokens.starts):
        return found
    starts = np.array([quantity.start for quantity in found], dtype=np.int64)
    at = np.maximum(np.searchsorted(tokens.starts, starts, side="right") - 1, 0)
    inside = (tokens.starts[at] <= starts) & (tokens.ends[at] > starts)
    code = (tokens.kind[at] == IDENTIFIER) | (tokens.kind[at] == OTHER)
    return [quantity for quantity, drop in zip(found, inside & code, strict=True) if not drop]


def _assembled(
    texts: Sequence[str],
    tokens: Tokens,
    lexicon: Lexicon,
    entities: Spans,
    kinds: Ints,
    numeric: list[Quantity],
    counted: Ints,
) -> Mentions:
    """Entities and quantities as one set of columns, by place."""
    starts, ends = _bounds(tokens, entities, numeric)
    row = np.searchsorted(tokens.offsets, starts, side="right") - 1
    within, to = starts - tokens.offsets[row], ends - tokens.offsets[row]
    said = [
        texts[number][low:high]
        for number, low, high in zip(row.tolist(), within.tolist(), to.tolist(), strict=True)
    ]
    total = len(entities.first)
    nodes = [
        lexicon.nouns[entry] if entry >= 0 else " ".join(text.casefold().split())
        for entry, text in zip(entities.entry.tolist(), said[:total], strict=True)
    ]
    nodes += [" ".join(text.casefold().split()) for text in said[total:]]
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
        text=[said[at] for at in listed],
        entity=entity[order],
        node=[nodes[at] for at in listed],
        type=[labels[at] for at in listed],
        value=np.array(value, dtype=np.float64)[order],
        unit=[unit[at] for at in listed],
        counted=target[order],
        categories=_categories(row[:total], types, names),
    )


def _voted(row: Ints, nodes: list[str], entities: Spans, kinds: Ints, lexicon: Lexicon) -> Ints:
    """Each entity's type: of its types, the one most of its text's distinct entities have."""
    if not len(row):
        return np.zeros(0, dtype=np.int64)
    numbers: dict[str, int] = {}
    node = np.array([numbers.setdefault(text, len(numbers)) for text in nodes], dtype=np.int64)
    key = row * len(numbers) + node
    _, index, inverse = np.unique(key, return_index=True, return_inverse=True)
    own = entities.types[index]
    width = len(lexicon.types) + 2
    listed = own >= 0
    at = np.where(listed, own, 0)
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
    # The highest vote, then the earliest of the entity's own order.
    best = np.maximum.reduceat((votes << 16) | (0xFFFF - nth), starts)
    picked = starts + (0xFFFF - (best & 0xFFFF))
    return np.asarray(choice[picked][inverse], dtype=np.int64)


def _categories(row: Ints, types: Ints, names: Sequence[str]) -> tuple[Ints, list[str]]:
    """Each text's most frequent type; of equally frequent ones, the one that came first."""
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
