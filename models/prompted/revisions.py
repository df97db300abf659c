"""Negatives in which a language model replaces one entity or one number.

The replacement is drawn as the rules draw it: a graph neighbour of the entity's type (GCSE §3.1,
eqs. 5-8), or another number of the same form. The model fits the rest of the sentence to it.
"""

from collections.abc import Iterator

import pyarrow as pa

from tercet.models.generation import Given, Method, Prompted, methods
from tercet.models.prompted import asked
from tercet.models.prompted.asked import Asking
from tercet.models.rules.entity_kinds import Option
from tercet.models.rules.entity_swap import (
    Choice,
    Place,
    Swaps,
    choices,
    open_graph,
    surface,
)
from tercet.models.rules.quantity_change import Change, changes

# How often a sentence's numbers are drawn again, for each generation that is wanted.
_ROUNDS = 3

_Swap = tuple[Choice, Option, str]  # the entity, its replacement, and how that is written


def entity_revision(given: Given, params: Prompted, seed: int) -> pa.Table:
    """Sentences with an entity that the graph has a replacement for (T_p, else T_r).

    A further row of a sentence takes another entity, and another replacement when those run out.
    """
    ids, texts = given.ids().tolist(), given.texts()
    types = _types(given)
    return asked.table(
        Asking(
            ids[row],
            {
                "sentence": texts[row],
                "old": _old(texts[row], choice),
                "new": new,
                "type": types[choice.places[0].mention_id],
            },
            {"operation": "revise_entity", **swap_detail(texts[row], (choice, option, new))},
        )
        for row, (choice, option, new) in swaps(given, params.per_sentence, seed, "entity_revision")
    )


def quantity_revision(given: Given, params: Prompted, seed: int) -> pa.Table:
    """Sentences with a number that another one of its form can stand for.

    A further row of a sentence takes another number of it, and another new one when those run out.
    """
    ids, texts = given.ids().tolist(), given.texts()
    counted, units = _counted(given)
    return asked.table(
        Asking(
            ids[change.row],
            {
                "sentence": texts[change.row],
                "old": change.old,
                "new": change.new,
                "counted": counted.get(change.mention_id, ""),
                "unit": units.get(change.mention_id) or "",
            },
            {"operation": "revise_quantity", **change_detail(change)},
        )
        for change in drawn_changes(given, params.per_sentence, seed, "quantity_revision")
    )


def swaps(given: Given, count: int, seed: int, purpose: str) -> Iterator[tuple[int, _Swap]]:
    """Up to `count` swaps of each anchor that has an entity to swap, in the anchors' order."""
    texts = given.texts()
    drawn = choices(given, Swaps(per_sentence=count), seed, purpose, given.located("entity"))
    for row, listed in sorted(drawn.items()):
        text = texts[row]
        seen: set[tuple[Place, str]] = set()
        for level in range(max(len(choice.options) for choice in listed)):
            for choice in listed:
                if level >= len(choice.options) or len(seen) == count:
                    continue
                place, option = choice.places[0], choice.options[level]
                new = surface(text, place.start, place.end, choice.lemma, option[1])
                if (place, new) not in seen and new != _old(text, choice):
                    seen.add((place, new))
                    yield row, (choice, option, new)


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


def drawn_changes(given: Given, count: int, seed: int, purpose: str) -> Iterator[Change]:
    """Up to `count` changed numbers of each anchor that has one, in the anchors' order."""
    return changes(given, seed, purpose, count, 1 + _ROUNDS * (count - 1))


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


def _types(given: Given) -> dict[int, str]:
    """The types of the anchors' entities, by mention."""
    found = given.located("entity")
    return dict(zip(found["mention_id"].to_pylist(), found["type"].to_pylist(), strict=True))


def _counted(given: Given) -> tuple[dict[int, str], dict[int, str | None]]:
    """What the anchors' quantities count, and their units, by mention."""
    entities, found = given.located("entity"), given.located("quantity")
    texts = dict(zip(entities["mention_id"].to_pylist(), entities["text"].to_pylist(), strict=True))
    ids = found["mention_id"].to_pylist()
    counts = zip(ids, found["of_mention_id"].to_pylist(), strict=True)
    units = dict(zip(ids, found["unit"].to_pylist(), strict=True))
    return {one: texts[other] for one, other in counts if other in texts}, units


METHODS = methods(
    Method(
        "entity_revision",
        "negative",
        "alters",
        entity_revision,
        Prompted,
        ("mentions", "graph"),
        open_graph,
        "entity_revision",
        ("sentence", "old", "new", "type"),
    ),
    Method(
        "quantity_revision",
        "negative",
        "alters",
        quantity_revision,
        Prompted,
        ("mentions",),
        prompt="quantity_revision",
        variables=("sentence", "old", "new", "counted", "unit"),
    ),
)
