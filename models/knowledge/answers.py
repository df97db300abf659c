"""Reads the mentions of a sentence from a language model's answer.

Answers are verified: each text must occur in the sentence, and each number must be read there.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tercet.models.english.inflection import singulars
from tercet.models.knowledge import quantities
from tercet.models.knowledge.extraction import Mentions
from tercet.models.knowledge.quantities import Quantity
from tercet.models.text.words import inside

_BETWEEN = re.compile(r"\s?[-–—−]\s?|\s(?:to|and)\s")
ARTICLE = re.compile(r"(?:an?|the)\s+(?=[^\W\d_])", re.IGNORECASE)
# Models round fractions: 0.33 for a third.
_NEAR, _NEAR_FRACTION = 1e-6, 1e-2


@dataclass(frozen=True)
class Fault:
    """A part of an answer that cannot be used.

    row: number of the answer. reason: not_json, too_many, not_in_text, number_not_there,
        unknown_type, unknown_category or overlapping. detail: why, in words. text: the faulty part
        verbatim; None for the whole answer.
    """

    row: int
    reason: str
    detail: str
    text: str | None = None


@dataclass
class Item:
    """An entity or a quantity that may become a mention.

    text: as the answer quotes it. spans: places in the sentence, the preferred one first. readings:
    the quantity read at each span; empty for an entity.
    """

    text: str
    spans: list[tuple[int, int]]
    type: str = ""
    readings: Sequence[Quantity] = ()
    unit: str | None = None
    counts: str | None = None

    @property
    def entity(self) -> bool:
        return not self.readings


@dataclass(frozen=True)
class Mention:
    """An item in its place. reading: the quantity read there; None for an entity."""

    start: int
    end: int
    item: Item
    reading: Quantity | None


def listed(value: Any, names: Mapping[str, str]) -> str | None:
    """The name as the closed list spells it, in any letter case; None if it is not in the list."""
    return names.get(value.strip().casefold()) if isinstance(value, str) else None


def shown(value: Any) -> str:
    """A value of an answer as text."""
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return ""


class Reader:
    """Finds the entities and quantities of an answer in one text."""

    def __init__(self, row: int, text: str, faults: list[Fault]) -> None:
        self._row, self._text, self._faults = row, text, faults
        self._lower = _lowered(text)
        self._quantities: list[Quantity] | None = None

    def entities(
        self, items: Iterator[Mapping[str, Any]], type_of: Mapping[str, str]
    ) -> Iterator[Item]:
        """The entities that occur in the text and have a known type."""
        for item in items:
            text = item["text"].strip()
            kind = listed(item.get("type"), type_of)
            spans = self._places(text)
            if not spans and (article := ARTICLE.match(text)):
                spans = self._places(text[article.end() :])
            if not spans:
                self._fault("not_in_text", "the quoted text does not occur in the sentence", text)
            elif kind is None:
                named = shown(item.get("type"))[:80]
                self._fault("unknown_type", f"{named} is none of the types", text)
            else:
                yield Item(text, [self._without_article(span) for span in spans], kind)

    def quantities(self, items: Iterator[Mapping[str, Any]]) -> Iterator[Item]:
        """The quantities that occur in the text with the value of the answer."""
        for item in items:
            text = item["text"].strip()
            around = self._occurrences(text)
            if not around:
                self._fault("not_in_text", "the quoted text does not occur in the sentence", text)
                continue
            if self._quantities is None:
                self._quantities = quantities.find(self._text)
            near = [
                quantity
                for start, end in around
                for quantity in self._quantities
                if start < quantity.end and quantity.start < end
            ]
            value = _number(item.get("value"))
            fitting = [q for q in near if value is not None and _means(self._text, q, value)]
            if not fitting:
                values = ", ".join(dict.fromkeys(f"{q.value:g}" for q in near)) or "no number"
                named = shown(item.get("value"))[:80]
                self._fault("number_not_there", f"{named} is said, {values} is read there", text)
                continue
            unit, counts = (
                one.strip() if isinstance(one := item.get(key), str) and one.strip() else None
                for key in ("unit", "counts")
            )
            if counts is not None:
                # In "two dogs and two cats", cats are counted by the nearest "two" before them.
                counted = [start for start, _ in self._occurrences(counts)]
                fitting.sort(
                    key=lambda q: min((s - q.end for s in counted if s >= q.end), default=math.inf)
                )
            spans = [(quantity.start, quantity.end) for quantity in fitting]
            yield Item(text, spans, readings=fitting, unit=unit, counts=counts)

    def placed(self, items: Sequence[Item]) -> list[Mention]:
        """Mentions without overlaps, by place: the longest items are placed first, then the
        leftmost."""
        mentions: list[Mention] = []
        for item in sorted(
            self._apart(items),
            key=lambda item: (item.spans[0][0] - item.spans[0][1], item.spans[0][0]),
        ):
            for number, (start, end) in enumerate(item.spans):
                if all(end <= other.start or other.end <= start for other in mentions):
                    reading = None if item.entity else item.readings[number]
                    mentions.append(Mention(start, end, item, reading))
                    break
            else:
                self._fault("overlapping", "another mention stands there", item.text)
        return sorted(mentions, key=lambda mention: mention.start)

    def _apart(self, items: Sequence[Item]) -> Iterator[Item]:
        """The items; entities lose a quantity in front of them: "two dogs" becomes "dogs" if the
        answer has "two" as well."""
        # A number with a unit is left out: no entity begins with it.
        counts = {
            (quantity.start, quantity.end)
            for item in items
            for quantity in item.readings
            if quantity.unit is None
        }
        ends = dict(sorted(counts))
        for item in items:
            if item.entity and counts:
                item = replace(item, spans=[self._behind(span, ends) for span in item.spans])
            yield item

    def _behind(self, span: tuple[int, int], ends: Mapping[int, int]) -> tuple[int, int]:
        start, end = span
        number_end = ends.get(start, end)
        at = number_end + 1
        # "Two Rivers" is a name, "two dogs" is not.
        if at >= end or self._text[number_end] not in " \u00a0" or self._text[at].isupper():
            return span
        return at, end

    def _fault(self, reason: str, detail: str, text: str) -> None:
        self._faults.append(Fault(self._row, reason, detail, text))

    def _without_article(self, span: tuple[int, int]) -> tuple[int, int]:
        article = ARTICLE.match(self._text, *span)
        # "The Hague" is a name, "the dog" is not.
        if article is None or self._text[article.end()].isupper():
            return span
        return article.end(), span[1]

    def _places(self, phrase: str) -> list[tuple[int, int]]:
        """Spans of the phrase as whole words, exact letter case first, else spans of its plural."""
        if not any(map(str.isalnum, phrase)):
            return []
        spans = self._occurrences(phrase)
        whole = [
            span
            for span in spans
            if not inside(self._text, span[0]) and not inside(self._text, span[1])
        ]
        if whole:
            return sorted(whole, key=lambda span: self._text[span[0] : span[1]] != phrase)
        last = phrase.rpartition(" ")[2]
        longer = []
        for start, end in spans:
            to = end
            while to < len(self._text) and inside(self._text, to):
                to += 1
            ending = self._text[end - len(last) : to].casefold()
            if not inside(self._text, start) and last.casefold() in singulars(ending):
                longer.append((start, to))
        return longer

    def _occurrences(self, phrase: str) -> list[tuple[int, int]]:
        """Spans of the phrase in any letter case, also inside words."""
        lower = _lowered(phrase)
        spans = []
        at = self._lower.find(lower) if phrase else -1
        while at >= 0:
            spans.append((at, at + len(phrase)))
            at = self._lower.find(lower, at + 1)
        return spans


def _lowered(text: str) -> str:
    """The text in lower case with the same length, so that offsets stay valid."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(one if len(one := char.lower()) == 1 else char for char in text)


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value.replace(",", ""))
        except ValueError:
            return None
    return value if isinstance(value, float) and math.isfinite(value) else None


def _means(text: str, quantity: Quantity, value: float) -> bool:
    """Whether the value is that of the quantity, or of one end of a range."""
    near = _NEAR_FRACTION if quantity.form == "fraction" else _NEAR
    if math.isclose(quantity.value, value, rel_tol=near):
        return True
    if quantity.form != "range":
        return False
    ends = _BETWEEN.split(text[quantity.start : quantity.end])
    return any(math.isclose(q.value, value, rel_tol=near) for e in ends for q in quantities.find(e))


_OBJECT = re.compile(r'\{\s*"')
# Integers are read as floats: thousands of digits then give infinity instead of an error.
_JSON = json.JSONDecoder(parse_int=float, parse_constant=lambda _: None)
# No sentence mentions more; a model that repeats itself may write more.
_MOST = 200


@dataclass(frozen=True)
class Allowed:
    """Allowed values of an answer, and the nouns that reduce entities to their nodes.

    categories, types: the closed lists. nouns: casefolded dictionary forms, which map "dogs" to
        the node "dog".
    """

    categories: Sequence[str]
    types: Sequence[str]
    nouns: AbstractSet[str]


def read(
    answers: Sequence[str], texts: Sequence[str], allowed: Allowed
) -> tuple[Mentions, list[Fault]]:
    """The mentions of the texts according to the answers, row by row, and the faults of unusable
    answers.

    An entity is placed at the first free span where its text occurs as whole words: as written,
    else in another letter case, else as its plural; scripts without spaces have no word boundaries.
    A quantity is accepted if `quantities` reads one at such a span with the answer's value (for a
    range, its middle or an end). The longest items are placed first, and spans never overlap. A
    quantity at the beginning of an entity is cut off the entity. Never raises, whatever an answer
    contains.
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
            stated = shown(content.get("category"))
            faults.append(Fault(row, "unknown_category", "it is none of the categories", stated))
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
    """The answer as a JSON object, or the first object inside other text."""
    try:
        content = _JSON.decode(answer)
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict):
        return content
    match = _OBJECT.search(answer)
    if match is None:
        return None
    try:
        content, _ = _JSON.raw_decode(answer, match.start())
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _items(
    content: Mapping[str, Any], key: str, row: int, faults: list[Fault]
) -> Iterator[Mapping[str, Any]]:
    """The first `_MOST` objects with a text in a list of the answer; a missing list is empty."""
    items = content.get(key)
    if items is None:
        return
    if not isinstance(items, list):
        faults.append(Fault(row, "not_json", f"{key!r} is no list", shown(items)))
        return
    if len(items) > _MOST:
        detail = f"of {len(items)} {key} the first {_MOST} are read"
        faults.append(Fault(row, "too_many", detail, key))
    for item in items[:_MOST]:
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
    """All mentions as columns, without numbers that need a noun and count none."""
    records: list[tuple[Any, ...]] = []
    for number, mentions in rows:
        text = texts[number]
        forms = [_node(text[m.start : m.end], nouns) if m.item.entity else "" for m in mentions]
        targets = [_counted(mention, mentions, forms, text, nouns) for mention in mentions]
        retained = [
            at
            for at, (mention, target) in enumerate(zip(mentions, targets, strict=True))
            if mention.reading is None or target >= 0 or not mention.reading.needs_noun
        ]
        place = {at: len(records) + nth for nth, at in enumerate(retained)}
        for at, mention in enumerate(mentions):
            reading = mention.reading
            if at not in place:
                detail = "it is a number only before what it counts"
                faults.append(Fault(number, "number_not_there", detail, mention.item.text))
                continue
            words, target = text[mention.start : mention.end], place.get(targets[at], -1)
            if reading is None:
                what: tuple[Any, ...] = (forms[at], mention.item.type, float("nan"), None)
            else:
                year = targets[at] < 0 and quantities.is_year_like(text, reading)
                form = "year" if year else reading.form
                unit = _unit(text, mention, reading, target)
                what = (_folded(words), form, reading.value, unit)
            records.append(
                (number, mention.start, mention.end, words, reading is None, *what, target)
            )
    columns = [list(column) for column in zip(*records, strict=True)] or [[] for _ in range(10)]
    row, start, end, mention_texts, entity, node, kind, value, units, counted = columns
    return Mentions(
        row=np.array(row, dtype=np.int64),
        start=np.array(start, dtype=np.int64),
        end=np.array(end, dtype=np.int64),
        text=mention_texts,
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
    """The nearest entity with the name that a quantity counts; -1 for none."""
    named = mention.item.counts
    if named is None:
        return -1
    article = ARTICLE.match(named)
    bare = named[article.end() :] if article else named
    names = {_folded(named), _node(named, nouns), _node(bare, nouns)}
    fitting = [
        at
        for at, (other, form) in enumerate(zip(mentions, forms, strict=True))
        if other.item.entity and (form in names or _folded(other.item.text) in names)
    ]
    return min(fitting, key=lambda at: abs(mentions[at].start - mention.end), default=-1)


def _unit(text: str, mention: Mention, reading: Quantity, counted: int) -> str | None:
    """The unit read from the text, else the answer's, if it is right behind the number."""
    stated = mention.item.unit
    if reading.unit is not None or stated is None or counted >= 0:
        return reading.unit
    behind = text[mention.end : mention.end + len(stated) + 1].lstrip(" -\u00a0")
    return stated if behind.startswith(stated) else None


def _node(text: str, nouns: AbstractSet[str]) -> str:
    """The casefolded text of an entity, its last word singular if that is among the nouns."""
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
