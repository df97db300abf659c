"""Requests for sentences from a record of a sentence's entities and quantities (GCSE, rewriting 3).

An unchanged record gives a positive; a record with one changed entity or number gives a negative.
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
from tercet.models.prompted import prompt_requests
from tercet.models.prompted.prompt_requests import Edited, PromptRequest
from tercet.models.rules.entity_swap import Choice, Option, Place, Swaps, choices, surface
from tercet.models.rules.other_numbers import Value
from tercet.models.rules.quantity_change import Change, changes

# The variables of a prompt about a record.
RECORD = ("sentence", "category", "entities", "quantities")
# Below this, floats represent whole numbers exactly.
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
    """The category of a sentence ("" if unknown) and its mentions in order."""

    category: str
    entities: list[_Entity] = field(default_factory=list)
    quantities: list[_Quantity] = field(default_factory=list)

    def values(self, sentence: str, changed: Mapping[int, str]) -> dict[str, Any]:
        """The prompt's variables; an entity with several mentions is listed once.

        changed: new texts of mentions, by mention_id.
        """
        distinct = {entity.node_id: entity for entity in reversed(self.entities)}
        texts = {one.mention_id: changed.get(one.mention_id, one.text) for one in self.entities}
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
                    "text": changed.get(one.mention_id, one.text),
                    "value": _read(changed[one.mention_id])
                    if one.mention_id in changed
                    else _plain(one.value),
                    "unit": one.unit,
                    "counts": texts.get(one.of_mention_id or 0),
                }
                for one in self.quantities
            ],
        }


def from_knowledge(inputs: MethodInput, params: Prompted, seed: int) -> pa.Table:
    """Requests to rewrite each sentence that has mentions from its record."""
    ids, texts = inputs.ids().tolist(), inputs.texts()
    return prompt_requests.table(
        PromptRequest(
            ids[row], record.values(texts[row], {}), {"operation": "write_from_knowledge"}
        )
        for row, record in sorted(_records(inputs).items())
        for _ in range(params.per_unit)
    )


def from_changed_knowledge(inputs: MethodInput, params: ChangedRecord, seed: int) -> pa.Table:
    """Requests to rewrite each sentence that has mentions from a record with one change.

    The change is an entity, in all its mentions, or a number. The kind of the first request is
    drawn; further requests of the sentence alternate, each with a new change, while there are any.
    """
    return prompt_requests.table(_changed(inputs, params, seed))


@dataclass(frozen=True)
class _Edit:
    """One change of a record: new texts of mentions, by mention_id, and the row's `DETAIL`."""

    texts: Mapping[int, str]
    detail: Mapping[str, Any]


def _changed(inputs: MethodInput, params: ChangedRecord, seed: int) -> Iterator[PromptRequest]:
    texts, ids, count = inputs.texts(), inputs.ids(), params.per_unit
    entity: dict[int, list[_Edit]] = {}
    number: dict[int, list[_Edit]] = {}
    for row, swap in swaps(inputs, count, seed, _CHANGED, params.choice):
        choice, (_, new, _), _ = swap
        changed = {
            place.mention_id: surface(texts[row], place.start, place.end, choice.lemma, new)
            for place in choice.places
        }
        entity.setdefault(row, []).append(_Edit(changed, swap_detail(texts[row], swap)))
    for change in drawn_changes(inputs, count, seed, _CHANGED, params.value):
        edit = _Edit({change.mention_id: change.mention}, change_detail(change))
        number.setdefault(change.row, []).append(edit)
    number_first = seeding.below(seed, f"{_CHANGED}.kind", ids, 2).tolist()
    records = _records(inputs)
    for row in sorted(entity.keys() | number.keys()):
        kinds = [entity.get(row, []), number.get(row, [])]
        if number_first[row]:
            kinds.reverse()
        turns = [edit for pair in itertools.zip_longest(*kinds) for edit in pair if edit]
        for edit in turns[:count]:
            values = records[row].values(texts[row], edit.texts)
            values |= {"old": edit.detail["old"], "new": edit.detail["new"]}
            detail = {"operation": "write_from_changed_knowledge", **edit.detail}
            yield PromptRequest(int(ids[row]), values, detail)


def _records(inputs: MethodInput) -> dict[int, _Record]:
    """The records of anchors with mentions, by the anchor's row."""
    category = inputs.category()
    records: dict[int, _Record] = {}
    entities = inputs.located("entity")
    columns = [entities[name].to_pylist() for name in ("row", "mention_id", "node_id")]
    columns += [entities[name].to_pylist() for name in ("text", "type")]
    for row, *one in zip(*columns, strict=True):
        records.setdefault(row, _Record(category[row])).entities.append(_Entity(*one))
    numbers = inputs.located("quantity")
    columns = [numbers[name].to_pylist() for name in ("row", "mention_id", "text")]
    columns += [numbers[name].to_pylist() for name in ("value", "unit", "of_mention_id")]
    for row, *one in zip(*columns, strict=True):
        records.setdefault(row, _Record(category[row])).quantities.append(_Quantity(*one))
    return records


def _read(text: str) -> int | float | None:
    """The value of a quantity's text; None unless the text has exactly one quantity."""
    values = [quantity.value for quantity in quantities.find(text)]
    return _plain(values[0]) if len(values) == 1 else None


def _plain(value: float | None) -> int | float | None:
    """A whole number as an int; None for NaN and infinity, which JSON does not have."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if abs(value) < _EXACT and value == int(value) else value


# Negatives in which a language model replaces one entity or one number (GCSE, table 6).
#
# The replacement is drawn as in the rules: an entity of the same type from the graph (GCSE §3.1,
# eqs. 5-8), or another number of the same form. The model adapts the rest of the sentence, or
# rewrites all of it (`edit`), so entities of any type can be replaced and, with random values, any
# number.

# Rounds of draws of a sentence's numbers, for each generation after the first.
_ROUNDS = 3

_Swap = tuple[Choice, Option, str]  # the entity, its replacement, and the replacement's text


class EntityRevision(Edited):
    """Parameters of `entity_revision`."""

    choice: Pick = Field(
        "nearest",
        description="nearest: the most alike in the graph of some of the type; uniform (GCSE): "
        "each of T_p is equally likely, or each of the type if T_p is empty",
    )


class QuantityRevision(Edited):
    """Parameters of `quantity_revision`."""

    value: Value = Field(
        "near",
        description="near: numbers that quantity_change changes, for one of a like size; random "
        "(GCSE): any number of the sentence, for one of one digit to four",
    )


def entity_revision(inputs: MethodInput, params: EntityRevision, seed: int) -> pa.Table:
    """Requests to replace an entity of each sentence by one from the graph (T_p, else T_r).

    Further requests of a sentence use other entities, then other replacements.
    """
    ids, texts = inputs.ids().tolist(), inputs.texts()
    mentions = inputs.located("entity").select(["mention_id", "type"])
    types = dict(zip(*(column.to_pylist() for column in mentions.columns), strict=True))
    return prompt_requests.table(
        PromptRequest(
            ids[row],
            {
                "sentence": texts[row],
                "old": _old(texts[row], choice),
                "new": new,
                "type": types[choice.places[0].mention_id],
                "edit": params.edit,
            },
            {"operation": "revise_entity", **swap_detail(texts[row], (choice, option, new))},
        )
        for row, (choice, option, new) in swaps(
            inputs, params.per_unit, seed, "entity_revision", params.choice
        )
    )


def quantity_revision(inputs: MethodInput, params: QuantityRevision, seed: int) -> pa.Table:
    """Requests to replace a number of each sentence by another one of the same form.

    Further requests of a sentence use other numbers, then other replacements.
    """
    ids, texts = inputs.ids().tolist(), inputs.texts()
    counted, units = _counted(inputs)
    return prompt_requests.table(
        PromptRequest(
            ids[change.row],
            {
                "sentence": texts[change.row],
                "old": change.old,
                "new": change.new,
                "counted": counted.get(change.mention_id, ""),
                "unit": units.get(change.mention_id) or "",
                "edit": params.edit,
            },
            {"operation": "revise_quantity", **change_detail(change)},
        )
        for change in drawn_changes(
            inputs, params.per_unit, seed, "quantity_revision", params.value
        )
    )


def swaps(
    inputs: MethodInput, count: int, seed: int, purpose: str, choice: Pick
) -> Iterator[tuple[int, _Swap]]:
    """Up to `count` swaps per anchor that has an entity to swap, in the order of the anchors."""
    texts = inputs.texts()
    params = Swaps(per_sentence=count, choice=choice, one_kind=False, same_case=choice == "nearest")
    drawn = choices(inputs, params, seed, purpose, inputs.located("entity"), by_model=True)
    for row, listed in sorted(drawn.items()):
        text = texts[row]
        used: set[tuple[Place, str]] = set()
        for level in range(max(len(entity.options) for entity in listed)):
            for entity in listed:
                if level >= len(entity.options) or len(used) == count:
                    continue
                place, option = entity.places[0], entity.options[level]
                new = surface(text, place.start, place.end, entity.lemma, option[1])
                if (place, new) not in used and new != _old(text, entity):
                    used.add((place, new))
                    yield row, (entity, option, new)


def swap_detail(text: str, swap: _Swap) -> dict[str, str | int]:
    """The fields of `DETAIL` for a swap in this text, without the operation."""
    choice, (node_id, _, pool), new = swap
    return {
        "old": _old(text, choice),
        "new": new,
        "mention_id": choice.places[0].mention_id,
        "node_id": node_id,
        "pool": pool,
    }


def drawn_changes(
    inputs: MethodInput, count: int, seed: int, purpose: str, value: Value
) -> Iterator[Change]:
    """Up to `count` changed numbers per anchor that has a number, in the order of the anchors."""
    return changes(inputs, seed, purpose, count, 1 + _ROUNDS * (count - 1), value)


def change_detail(change: Change) -> dict[str, str | int]:
    """The fields of `DETAIL` for a changed number, without the operation."""
    return {
        "old": change.old,
        "new": change.new,
        "mention_id": change.mention_id,
        "node_id": change.node_id,
    }


def _old(text: str, choice: Choice) -> str:
    return text[choice.places[0].start : choice.places[0].end]


def _counted(inputs: MethodInput) -> tuple[dict[int, str], dict[int, str | None]]:
    """The counted entities and the units of the anchors' quantities, by mention id."""
    entities, numbers = inputs.located("entity"), inputs.located("quantity")
    texts = dict(zip(entities["mention_id"].to_pylist(), entities["text"].to_pylist(), strict=True))
    ids = numbers["mention_id"].to_pylist()
    counts = zip(ids, numbers["of_mention_id"].to_pylist(), strict=True)
    units = dict(zip(ids, numbers["unit"].to_pylist(), strict=True))
    return {one: texts[other] for one, other in counts if other in texts}, units
