"""Reads what a sentence mentions from a language model's answer.

Nothing is believed: each text must stand in the sentence, each number must be read there.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np

from tercet.models.english.words import singulars
from tercet.models.knowledge import quantities
from tercet.models.knowledge.extraction import Mentions
from tercet.models.knowledge.places import ARTICLE, Fault, Mention, Reader, listed, shown
from tercet.models.knowledge.quantities import Quantity

_OBJECT = re.compile(r'\{\s*"')
# Whole numbers as floats: thousands of digits are infinity, and no error.
_JSON = json.JSONDecoder(parse_int=float, parse_constant=lambda _: None)
# No sentence mentions more; an answer that goes on and on is not read to its end.
_MOST = 200


@dataclass(frozen=True)
class Allowed:
    """What answers may say, and how entities are reduced to their nodes.

    categories, types: the closed lists. nouns: casefolded dictionary forms, by which "dogs" is
        known to be of the node "dog".
    """

    categories: Sequence[str]
    types: Sequence[str]
    nouns: AbstractSet[str]


def read(
    answers: Sequence[str], texts: Sequence[str], allowed: Allowed
) -> tuple[Mentions, list[Fault]]:
    """The mentions that the answers say of the texts, row by row, and what was wrong with others.

    An entity stands at the first free place where its text is whole words: as it is written, else
    in other letter case, else as the beginning of its own plural; scripts without spaces know no
    words. A quantity is what `quantities` reads at such a place, if it has the value that was said
    (of a range, its middle or an end). The longest are placed first, and spans never overlap; a
    quantity that an entity's text begins with is not part of it.
    Whatever an answer holds, nothing is raised.
    """
    mentions: list[tuple[int, list[Mention]]] = []
    categories: list[tuple[int, str]] = []
    faults: list[Fault] = []
    category_of = {name.casefold(): name for name in allowed.categories}
    type_of = {name.casefold(): name for name in allowed.types}
    for row, (answer, text) in enumerate(zip(answers, texts, strict=True)):
        content = _json(answer)
        if content is None:
            faults.append(Fault(row, "not_json", "the answer is no JSON object"))
            continue
        category = listed(content.get("category"), category_of)
        if category is None:
            said = shown(content.get("category"))
            faults.append(Fault(row, "unknown_category", "it is none of the categories", said))
        else:
            categories.append((row, category))
        reader = Reader(row, text, faults)
        items = [
            *reader.entities(_items(content, "entities", row, faults), type_of),
            *reader.quantities(_items(content, "quantities", row, faults)),
        ]
        mentions.append((row, reader.placed(items)))
    return _columns(mentions, categories, texts, allowed.nouns, faults), faults


def _json(answer: str) -> dict[str, Any] | None:
    """The JSON object that the answer is, or the first one inside other words."""
    try:
        content = _JSON.decode(answer)
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict):
        return content
    found = _OBJECT.search(answer)
    if found is None:
        return None
    try:
        content, _ = _JSON.raw_decode(answer, found.start())
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _items(
    content: Mapping[str, Any], key: str, row: int, faults: list[Fault]
) -> Iterator[Mapping[str, Any]]:
    """The first objects of one of the answer's lists that have a text. A list left out is empty."""
    said = content.get(key)
    if said is None:
        return
    if not isinstance(said, list):
        faults.append(Fault(row, "not_json", f"{key!r} is no list", shown(said)))
        return
    if len(said) > _MOST:
        detail = f"of {len(said)} {key} the first {_MOST} are read"
        faults.append(Fault(row, "too_many", detail, key))
    for item in said[:_MOST]:
        if isinstance(item, dict) and isinstance(item.get("text"), str):
            yield item
        else:
            faults.append(Fault(row, "not_json", f"one of {key!r} has no text", shown(item)))


def _columns(
    rows: Sequence[tuple[int, list[Mention]]],
    categories: Sequence[tuple[int, str]],
    texts: Sequence[str],
    nouns: AbstractSet[str],
    faults: list[Fault],
) -> Mentions:
    """All mentions as columns; numbers that need a noun and have none are left out."""
    found: list[tuple[Any, ...]] = []
    for number, mentions in rows:
        text = texts[number]
        forms = [_node(text[m.start : m.end], nouns) if m.item.entity else "" for m in mentions]
        targets = [_counted(mention, mentions, forms, text, nouns) for mention in mentions]
        kept = [
            at
            for at, (mention, target) in enumerate(zip(mentions, targets, strict=True))
            if mention.reading is None or target >= 0 or not mention.reading.needs_noun
        ]
        place = {at: len(found) + nth for nth, at in enumerate(kept)}
        for at, mention in enumerate(mentions):
            reading = mention.reading
            if at not in place:
                detail = "it is a number only before what it counts"
                faults.append(Fault(number, "number_not_there", detail, mention.item.said))
                continue
            words, target = text[mention.start : mention.end], place.get(targets[at], -1)
            if reading is None:
                what: tuple[Any, ...] = (forms[at], mention.item.type, float("nan"), None)
            else:
                year = targets[at] < 0 and quantities.is_year_like(text, reading)
                form = "year" if year else reading.form
                unit = _unit(text, mention, reading, target)
                what = (_folded(words), form, reading.value, unit)
            found.append(
                (number, mention.start, mention.end, words, reading is None, *what, target)
            )
    columns = [list(column) for column in zip(*found, strict=True)] or [[] for _ in range(10)]
    row, start, end, said, entity, node, kind, value, units, counted = columns
    return Mentions(
        row=np.array(row, dtype=np.int64),
        start=np.array(start, dtype=np.int64),
        end=np.array(end, dtype=np.int64),
        text=said,
        entity=np.array(entity, dtype=np.bool_),
        node=node,
        type=kind,
        value=np.array(value, dtype=np.float64),
        unit=units,
        counted=np.array(counted, dtype=np.int64),
        categories=(
            np.array([number for number, _ in categories], dtype=np.int64),
            [name for _, name in categories],
        ),
    )


def _counted(
    mention: Mention,
    mentions: Sequence[Mention],
    forms: Sequence[str],
    text: str,
    nouns: AbstractSet[str],
) -> int:
    """The entity that a quantity counts, the nearest of its name; -1 for none."""
    named = mention.item.counts
    if named is None:
        return -1
    article = ARTICLE.match(named)
    bare = named[article.end() :] if article else named
    names = {_folded(named), _node(named, nouns), _node(bare, nouns)}
    fitting = [
        at
        for at, (other, form) in enumerate(zip(mentions, forms, strict=True))
        if other.item.entity and (form in names or _folded(other.item.said) in names)
    ]
    return min(fitting, key=lambda at: abs(mentions[at].start - mention.end), default=-1)


def _unit(text: str, mention: Mention, reading: Quantity, counted: int) -> str | None:
    """The unit that is read, else the one that is said, if it stands right behind the number."""
    said = mention.item.unit
    if reading.unit is not None or said is None or counted >= 0:
        return reading.unit
    behind = text[mention.end : mention.end + len(said) + 1].lstrip(" -\u00a0")
    return said if behind.startswith(said) else None


def _node(text: str, nouns: AbstractSet[str]) -> str:
    """The dictionary form of an entity's text, as far as the nouns tell it; casefolded."""
    folded = _folded(text)
    head, space, last = folded.rpartition(" ")
    if folded in nouns or last in nouns:
        return folded
    for singular in singulars(last):
        if singular in nouns or head + space + singular in nouns:
            return head + space + singular
    return folded


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
