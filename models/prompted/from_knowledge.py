"""Sentences written from a record of what a sentence speaks of (GCSE, rewriting 3).

The record as it is gives a positive; with one entity or one number changed, a negative.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pydantic import Field

from tercet.models import seeding
from tercet.models.generation import MethodInput, Prompted
from tercet.models.knowledge import quantities
from tercet.models.knowledge.replacements import Pick
from tercet.models.prompted import asked
from tercet.models.prompted.asked import PromptRequest
from tercet.models.prompted.revisions import change_detail, drawn_changes, swap_detail, swaps
from tercet.models.rules.entity_swap import surface
from tercet.models.rules.other_numbers import Value

# The variables of a prompt about a record.
RECORD = ("sentence", "category", "entities", "quantities")
# Below it every whole number is a float of its own.
_EXACT = 2.0**53
_CHANGED = "from_changed_knowledge"


class ChangedRecord(Prompted):
    """Parameters of `from_changed_knowledge`."""

    choice: Pick = Field("nearest", description="of an entity, as for entity_revision")
    value: Value = Field("near", description="of a number, as for quantity_revision")


@dataclass(frozen=True)
class _Entity:
    mention_id: int
    node_id: int
    text: str
    type: str


@dataclass(frozen=True)
class _Quantity:
    mention_id: int
    text: str
    value: float | None
    unit: str | None
    of_mention_id: int | None


@dataclass
class _Record:
    """What one sentence is about ("" where that is not known) and mentions, by place."""

    category: str
    entities: list[_Entity] = field(default_factory=list)
    quantities: list[_Quantity] = field(default_factory=list)

    def values(self, sentence: str, said: Mapping[int, str]) -> dict[str, Any]:
        """The prompt's variables. said: for mentions what is said in the place of their text.

        Of an entity mentioned twice the record names the first mention.
        """
        distinct = {entity.node_id: entity for entity in reversed(self.entities)}
        texts = {one.mention_id: said.get(one.mention_id, one.text) for one in self.entities}
        return {
            "sentence": sentence,
            "category": self.category,
            "entities": [
                {"text": texts[one.mention_id], "type": one.type}
                for one in self.entities
                if distinct[one.node_id] is one
            ],
            "quantities": [
                {
                    "text": said.get(one.mention_id, one.text),
                    "value": _read(said[one.mention_id])
                    if one.mention_id in said
                    else _plain(one.value),
                    "unit": one.unit,
                    "counts": texts.get(one.of_mention_id or 0),
                }
                for one in self.quantities
            ],
        }


def from_knowledge(given: MethodInput, params: Prompted, seed: int) -> pa.Table:
    """Sentences with mentions, to be rewritten from their own record."""
    ids, texts = given.ids().tolist(), given.texts()
    return asked.table(
        PromptRequest(
            ids[row], record.values(texts[row], {}), {"operation": "write_from_knowledge"}
        )
        for row, record in sorted(_records(given).items())
        for _ in range(params.per_unit)
    )


def from_changed_knowledge(given: MethodInput, params: ChangedRecord, seed: int) -> pa.Table:
    """Sentences with mentions, to be rewritten from a record in which one thing is changed.

    That is an entity, in all its mentions, or a number; which one comes first is drawn, and
    further rows of the sentence alternate, as long as there are changes that none before has made.
    """
    return asked.table(_changed(given, params, seed))


@dataclass(frozen=True)
class _Edit:
    """One change of a record: what mentions say after it, and what it puts in place of what."""

    said: Mapping[int, str]
    detail: Mapping[str, Any]


def _changed(given: MethodInput, params: ChangedRecord, seed: int) -> Iterator[PromptRequest]:
    texts, ids, count = given.texts(), given.ids(), params.per_unit
    entity: dict[int, list[_Edit]] = {}
    number: dict[int, list[_Edit]] = {}
    for row, swap in swaps(given, count, seed, _CHANGED, params.choice):
        choice, (_, new, _), _ = swap
        said = {
            place.mention_id: surface(texts[row], place.start, place.end, choice.lemma, new)
            for place in choice.places
        }
        entity.setdefault(row, []).append(_Edit(said, swap_detail(texts[row], swap)))
    for change in drawn_changes(given, count, seed, _CHANGED, params.value):
        edit = _Edit({change.mention_id: change.said}, change_detail(change))
        number.setdefault(change.row, []).append(edit)
    number_first = seeding.below(seed, f"{_CHANGED}.kind", ids, 2).tolist()
    records = _records(given)
    for row in sorted(entity.keys() | number.keys()):
        kinds = [entity.get(row, []), number.get(row, [])]
        if number_first[row]:
            kinds.reverse()
        turns = [edit for pair in itertools.zip_longest(*kinds) for edit in pair if edit]
        for edit in turns[:count]:
            values = records[row].values(texts[row], edit.said)
            values |= {"old": edit.detail["old"], "new": edit.detail["new"]}
            detail = {"operation": "write_from_changed_knowledge", **edit.detail}
            yield PromptRequest(int(ids[row]), values, detail)


def _records(given: MethodInput) -> dict[int, _Record]:
    """What the anchors with mentions speak of, by anchor."""
    category = given.category()
    records: dict[int, _Record] = {}
    entities = given.located("entity")
    columns = [entities[name].to_pylist() for name in ("row", "mention_id", "node_id")]
    columns += [entities[name].to_pylist() for name in ("text", "type")]
    for row, *one in zip(*columns, strict=True):
        records.setdefault(row, _Record(category[row])).entities.append(_Entity(*one))
    numbers = given.located("quantity")
    columns = [numbers[name].to_pylist() for name in ("row", "mention_id", "text")]
    columns += [numbers[name].to_pylist() for name in ("value", "unit", "of_mention_id")]
    for row, *one in zip(*columns, strict=True):
        records.setdefault(row, _Record(category[row])).quantities.append(_Quantity(*one))
    return records


def _read(text: str) -> int | float | None:
    """The value of a quantity as it is written; None where it does not stand for one alone."""
    found = quantities.find(text)
    return _plain(found[0].value) if len(found) == 1 else None


def _plain(value: float | None) -> int | float | None:
    """A whole number without its ".0"; None for what JSON cannot say."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if abs(value) < _EXACT and value == int(value) else value
