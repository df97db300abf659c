"""Negatives in which a language model replaces one entity or one number (GCSE, table 6).

The replacement is drawn as the rules draw it: an entity of the same type from the graph (GCSE §3.1,
eqs. 5-8), or another number of the same form. The model fits the rest of the sentence to it, or
puts all of it in other words (`edit`). As the model sees to that, any type of entity will do, and
with random values any number.
"""

from collections.abc import Iterator

import pyarrow as pa
from pydantic import Field

from tercet.models.generation import MethodInput
from tercet.models.knowledge.replacements import Pick
from tercet.models.prompted import asked
from tercet.models.prompted.asked import Edited, PromptRequest
from tercet.models.rules.entity_kinds import Option
from tercet.models.rules.entity_swap import Choice, Place, Swaps, choices, surface
from tercet.models.rules.other_numbers import Value
from tercet.models.rules.quantity_change import Change, changes

# How often a sentence's numbers are drawn again, for each generation that is wanted.
_ROUNDS = 3

_Swap = tuple[Choice, Option, str]  # the entity, its replacement, and how that is written


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


def entity_revision(given: MethodInput, params: EntityRevision, seed: int) -> pa.Table:
    """Sentences with an entity that the graph has a replacement for (T_p, else T_r).

    A further row of a sentence takes another entity, and another replacement when those run out.
    """
    ids, texts = given.ids().tolist(), given.texts()
    types = _types(given)
    return asked.table(
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
            given, params.per_unit, seed, "entity_revision", params.choice
        )
    )


def quantity_revision(given: MethodInput, params: QuantityRevision, seed: int) -> pa.Table:
    """Sentences with a number that another one of its form can stand for.

    A further row of a sentence takes another number of it, and another new one when those run out.
    """
    ids, texts = given.ids().tolist(), given.texts()
    counted, units = _counted(given)
    return asked.table(
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
        for change in drawn_changes(given, params.per_unit, seed, "quantity_revision", params.value)
    )


def swaps(
    given: MethodInput, count: int, seed: int, purpose: str, choice: Pick
) -> Iterator[tuple[int, _Swap]]:
    """Up to `count` swaps of each anchor that has an entity to swap, in the anchors' order."""
    texts = given.texts()
    wanted = Swaps(per_sentence=count, choice=choice, one_kind=False, same_case=choice == "nearest")
    drawn = choices(given, wanted, seed, purpose, given.located("entity"), by_model=True)
    for row, listed in sorted(drawn.items()):
        text = texts[row]
        seen: set[tuple[Place, str]] = set()
        for level in range(max(len(entity.options) for entity in listed)):
            for entity in listed:
                if level >= len(entity.options) or len(seen) == count:
                    continue
                place, option = entity.places[0], entity.options[level]
                new = surface(text, place.start, place.end, entity.lemma, option[1])
                if (place, new) not in seen and new != _old(text, entity):
                    seen.add((place, new))
                    yield row, (entity, option, new)


def swap_detail(text: str, swap: _Swap) -> dict[str, str | int]:
    """What `detail` says of a swap in this text, but for its operation."""
    choice, (node_id, _, pool), new = swap
    return {
        "old": _old(text, choice),
        "new": new,
        "mention_id": choice.places[0].mention_id,
        "node_id": node_id,
        "pool": pool,
    }


def drawn_changes(
    given: MethodInput, count: int, seed: int, purpose: str, value: Value
) -> Iterator[Change]:
    """Up to `count` changed numbers of each anchor that has one, in the anchors' order."""
    return changes(given, seed, purpose, count, 1 + _ROUNDS * (count - 1), value)


def change_detail(change: Change) -> dict[str, str | int]:
    """What `detail` says of a changed number, but for its operation."""
    return {
        "old": change.old,
        "new": change.new,
        "mention_id": change.mention_id,
        "node_id": change.node_id,
    }


def _old(text: str, choice: Choice) -> str:
    return text[choice.places[0].start : choice.places[0].end]


def _types(given: MethodInput) -> dict[int, str]:
    """The types of the anchors' entities, by mention."""
    found = given.located("entity")
    return dict(zip(found["mention_id"].to_pylist(), found["type"].to_pylist(), strict=True))


def _counted(given: MethodInput) -> tuple[dict[int, str], dict[int, str | None]]:
    """What the anchors' quantities count, and their units, by mention."""
    entities, found = given.located("entity"), given.located("quantity")
    texts = dict(zip(entities["mention_id"].to_pylist(), entities["text"].to_pylist(), strict=True))
    ids = found["mention_id"].to_pylist()
    counts = zip(ids, found["of_mention_id"].to_pylist(), strict=True)
    units = dict(zip(ids, found["unit"].to_pylist(), strict=True))
    return {one: texts[other] for one, other in counts if other in texts}, units
