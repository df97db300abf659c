"""Finds the entities and quantities that a language model names in their sentence."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tercet.models.english.words import singulars
from tercet.models.knowledge import quantities
from tercet.models.knowledge.quantities import Quantity
from tercet.models.text.patterns import inside

_BETWEEN = re.compile(r"\s?[-–—−]\s?|\s(?:to|and)\s")
ARTICLE = re.compile(r"(?:an?|the)\s+(?=[^\W\d_])", re.IGNORECASE)
# Models round fractions: 0.33 for a third.
_NEAR, _NEAR_FRACTION = 1e-6, 1e-2


@dataclass(frozen=True)
class Fault:
    """Something of an answer that cannot be used.

    row: number of the answer. reason: not_json, too_many, not_in_text, number_not_there,
        unknown_type, unknown_category or overlapping. detail: why, in words. text: what is at
        fault, word for word; None where it is the answer itself.
    """

    row: int
    reason: str
    detail: str
    text: str | None = None


@dataclass
class Item:
    """An entity or a quantity that may become a mention.

    spans: where it may stand, the first choice first; of a quantity each with what is read there.
    """

    said: str
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
    """An item in its place. reading: what is read there, of a quantity."""

    start: int
    end: int
    item: Item
    reading: Quantity | None


def listed(said: Any, names: Mapping[str, str]) -> str | None:
    """The name that is said, as the closed list spells it; None where it is none of them."""
    return names.get(said.strip().casefold()) if isinstance(said, str) else None


def shown(said: Any) -> str:
    """What an answer holds, as text."""
    try:
        return said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    except (ValueError, RecursionError):
        return ""


class Reader:
    """Finds what a model names in one text."""

    def __init__(self, row: int, text: str, faults: list[Fault]) -> None:
        self._row, self._text, self._faults = row, text, faults
        self._lower = _lowered(text)
        self._found: list[Quantity] | None = None

    def entities(
        self, said: Iterator[Mapping[str, Any]], type_of: Mapping[str, str]
    ) -> Iterator[Item]:
        """The entities that stand in the text and have a known type."""
        for item in said:
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

    def quantities(self, said: Iterator[Mapping[str, Any]]) -> Iterator[Item]:
        """The quantities that stand in the text with the value that is said."""
        for item in said:
            text = item["text"].strip()
            around = self._occurrences(text)
            if not around:
                self._fault("not_in_text", "the quoted text does not occur in the sentence", text)
                continue
            if self._found is None:
                self._found = quantities.find(self._text)
            near = [
                quantity
                for start, end in around
                for quantity in self._found
                if start < quantity.end and quantity.start < end
            ]
            value = _number(item.get("value"))
            fitting = [q for q in near if value is not None and _means(self._text, q, value)]
            if not fitting:
                there = ", ".join(dict.fromkeys(f"{q.value:g}" for q in near)) or "no number"
                named = shown(item.get("value"))[:80]
                self._fault("number_not_there", f"{named} is said, {there} is read there", text)
                continue
            unit, counts = (
                one.strip() if isinstance(one := item.get(key), str) and one.strip() else None
                for key in ("unit", "counts")
            )
            if counts is not None:
                # Of "two dogs and two cats" the "two" that stands nearest before "cats".
                counted = [start for start, _ in self._occurrences(counts)]
                fitting.sort(
                    key=lambda q: min((s - q.end for s in counted if s >= q.end), default=math.inf)
                )
            spans = [(quantity.start, quantity.end) for quantity in fitting]
            yield Item(text, spans, readings=fitting, unit=unit, counts=counts)

    def placed(self, items: Sequence[Item]) -> list[Mention]:
        """The items in free places, by place; the longest choose first, then the leftmost."""
        taken: list[Mention] = []
        for item in sorted(
            self._apart(items),
            key=lambda item: (item.spans[0][0] - item.spans[0][1], item.spans[0][0]),
        ):
            for number, (start, end) in enumerate(item.spans):
                if all(end <= other.start or other.end <= start for other in taken):
                    reading = None if item.entity else item.readings[number]
                    taken.append(Mention(start, end, item, reading))
                    break
            else:
                self._fault("overlapping", "another mention stands there", item.said)
        return sorted(taken, key=lambda mention: mention.start)

    def _apart(self, items: Sequence[Item]) -> Iterator[Item]:
        """The items, entities without the quantities that stand before them: of "two dogs" only
        "dogs", if "two" is said as well."""
        # A unit goes with its number, and no entity begins with it.
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
        # "Two Rivers" is a name, "two dogs" are not.
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

    def _places(self, said: str) -> list[tuple[int, int]]:
        """Where the text is whole words: as it is written, else in other letter case, else as
        the beginning of its plural."""
        if not any(map(str.isalnum, said)):
            return []
        spans = self._occurrences(said)
        whole = [
            span
            for span in spans
            if not inside(self._text, span[0]) and not inside(self._text, span[1])
        ]
        if whole:
            return sorted(whole, key=lambda span: self._text[span[0] : span[1]] != said)
        last = said.rpartition(" ")[2]
        longer = []
        for start, end in spans:
            to = end
            while to < len(self._text) and inside(self._text, to):
                to += 1
            ending = self._text[end - len(last) : to].casefold()
            if not inside(self._text, start) and last.casefold() in singulars(ending):
                longer.append((start, to))
        return longer

    def _occurrences(self, said: str) -> list[tuple[int, int]]:
        """Where the text occurs, in any letter case."""
        lower = _lowered(said)
        spans = []
        at = self._lower.find(lower) if said else -1
        while at >= 0:
            spans.append((at, at + len(said)))
            at = self._lower.find(lower, at + 1)
        return spans


def _lowered(text: str) -> str:
    """The text in lower case, character by character, so that offsets stay."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(one if len(one := char.lower()) == 1 else char for char in text)


def _number(said: Any) -> float | None:
    if isinstance(said, str):
        try:
            said = float(said.replace(",", ""))
        except ValueError:
            return None
    return said if isinstance(said, float) and math.isfinite(said) else None


def _means(text: str, quantity: Quantity, value: float) -> bool:
    """Whether the value is that of the quantity."""
    near = _NEAR_FRACTION if quantity.form == "fraction" else _NEAR
    if math.isclose(quantity.value, value, rel_tol=near):
        return True
    if quantity.form != "range":
        return False
    ends = _BETWEEN.split(text[quantity.start : quantity.end])
    return any(math.isclose(q.value, value, rel_tol=near) for e in ends for q in quantities.find(e))
