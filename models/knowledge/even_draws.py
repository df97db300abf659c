"""An even draw among the entities that may replace another (GCSE §3.1, eqs. 5-8).

T_r(t) are the entities of t's type, T_p(t) those of them that share a soft neighbour with t. Every
member of T_p is equally likely; the rest of T_r follows, evenly too. T_p is reached by two hops,
which pass through most of the graph where an entity is a hub, and it is never built for all
entities: members of T_r are drawn and kept if they share a neighbour. Only for an entity of which
too few are met that way T_p is listed, which visits no edge twice.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tercet.models import seeding
from tercet.models.knowledge.graph import Graph
from tercet.models.runs import pieces

Ints = npt.NDArray[np.int64]

_TRIES = 12  # members of T_r drawn for each entity that a row wants before T_p is listed
_ROWS = 1024  # rows drawn for in one go
_BUCKET = 8  # least members in a bucket of the ring, on average
_VISITED = 1_000_000  # neighbours of neighbours looked at in one go


def draw(
    graph: Graph,
    ring: seeding.Ids,
    members: Ints,
    nodes: Ints,
    row_ids: seeding.Ids,
    seed: int,
    purpose: str,
    k: int,
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """k entities a row, in an evenly drawn order: those of T_p first, then others of T_r.

    ring, members: (T_r,), places on the hash ring, ascending, and the entities there, by number.
    nodes, row_ids: (rows,), the entity t and the id that the row's draw is seeded by.

    Returns the entities' numbers and whether each is of T_p, of shape (rows, k); -1 where T_r has
    no more. t itself is never drawn.
    """
    chosen = np.full((len(nodes), k), -1, dtype=np.int64)
    preferred = np.zeros((len(nodes), k), dtype=np.bool_)
    listed: dict[int, Ints] = {}
    for low in range(0, len(nodes), _ROWS):
        some = slice(low, low + _ROWS)
        met = _met(ring, members, row_ids[some], seed, purpose, _TRIES * k)
        met[met == nodes[some, None]] = -1
        rows, tries = np.nonzero(met >= 0)
        shared = np.zeros(met.shape, dtype=np.bool_)
        shared[rows, tries] = graph.soft.meets(nodes[some][rows], met[rows, tries])
        for row in range(len(met)):
            at, node = low + row, int(nodes[low + row])

            def ranked(others: Ints, at: int = at) -> Iterator[int]:
                keys = seeding.draws(seed, f"{purpose}.rank", graph.ids[others], row_ids[at])
                return iter(others[np.argsort(keys, kind="stable")].tolist())

            near = dict.fromkeys(met[row, shared[row]].tolist())
            if len(near) < k:
                if node not in listed:
                    listed[node] = _preferred(graph, node, members)
                near |= dict.fromkeys(ranked(listed[node]))
            far: dict[int, None] = {}
            if len(near) < k:
                far = dict.fromkeys(met[row, (met[row] >= 0) & ~shared[row]].tolist())
                if len(near) + len(far) < k:
                    far |= dict.fromkeys(ranked(members[members != node]))
            found = [*near, *(one for one in far if one not in near)][:k]
            chosen[at, : len(found)] = found
            preferred[at, : len(near)] = True
    return chosen, preferred


def _met(
    ring: seeding.Ids, members: Ints, row_ids: seeding.Ids, seed: int, purpose: str, tries: int
) -> Ints:
    """(rows, tries): members drawn evenly and with replacement; -1 where a try meets none.

    A try falls on one of the ring's buckets and on one of its slots, of which all buckets have the
    same number. So a member that joins moves the tries that fall on its bucket, and no others, as
    long as the numbers of buckets and slots stay.
    """
    bits = max(0, (len(members) // _BUCKET).bit_length() - 1)
    shift = np.uint64(63 - bits)
    filled = np.bincount(((ring >> np.uint64(1)) >> shift).astype(np.int64), minlength=1 << bits)
    slots = 1 << (int(filled.max(initial=1)) - 1).bit_length()
    drawn = seeding.draws(seed, purpose, row_ids[:, None], np.arange(tries, dtype=np.uint64))
    bucket = ((drawn >> np.uint64(1)) >> shift).astype(np.int64)
    slot = (drawn & np.uint64(slots - 1)).astype(np.int64)
    first = np.cumsum(filled) - filled
    place = np.minimum(first[bucket] + slot, max(len(members) - 1, 0))
    if not len(members):
        return np.full(drawn.shape, -1, dtype=np.int64)
    return np.where(slot < filled[bucket], members[place], -1)


def _preferred(graph: Graph, node: int, members: Ints) -> Ints:
    """T_p of one entity: all members that share a soft neighbour with it."""
    reached = np.zeros(len(graph.ids), dtype=np.bool_)
    _, near = graph.soft.gather(np.array([node]))
    for some in pieces(graph.soft.degrees(near), _VISITED):
        reached[graph.soft.gather(near[some])[1]] = True
    reached[node] = False
    return members[reached[members]]
