"""The search for an entity to put in another's place (GCSE §3.1, eqs. 5-8).

T_r(t): entities of t's type. T_p(t): those of T_r(t) that share a soft neighbour with t, the pool
to be preferred; by eq. 8 alone the union is T_r and soft edges would have no effect. Both leave t
out. T_p is never built: it grows to nearly all of T_r, over billions of paths. The members of T_r
stand on a hash ring; a row enters it at its own draw and takes the first member of T_p it meets.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.models import seeding
from tercet.models.knowledge import graph as graphs
from tercet.models.knowledge.graph import Graph

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int8]

POOLS = ("none", "T_r", "T_p")  # by code
NONE, SAME_TYPE, PREFERRED = range(3)

_ROUNDS = 32  # steps on the ring before a row's T_p is worked out
_HUBS = 256  # entities with the most neighbours, whose edges lie in bits
_PATHS = 1_000_000  # neighbours looked at in one go


@dataclass(frozen=True)
class _Rows:
    """Rows to draw for: t's number, the row's ring (first place and size) and where it enters."""

    node: Ints
    base: Ints
    size: Ints
    start: Ints

    def at(self, rows: Ints, members: Ints, step: Ints | int) -> Ints:
        """The member that each of these rows meets `step` places after it enters."""
        return members[self.base[rows] + (self.start[rows] + step) % self.size[rows]]


class Replacements:
    """Draws replacement entities from a knowledge graph."""

    def __init__(self, nodes: pa.Table, edges: pa.Table | Iterable[pa.RecordBatch]) -> None:
        """nodes, edges: kg_nodes and kg_edges; edges may come in batches, which takes less memory.

        Soft edges between entities stand in both directions, as eq. 4 has them.
        """
        self.graph: Graph = graphs.build(nodes, edges)
        place = seeding.mix(self.graph.ids)
        order = np.argsort(place)
        self._ring = place[order]
        self._on_ring = order
        self._rank = np.empty(len(order), dtype=np.int64)
        self._rank[order] = np.arange(len(order))
        self._bits = _hub_bits(self.graph)
        # Members of each type, in ring order.
        owner = np.repeat(
            np.arange(len(self.graph.ids)), self.graph.hard.degrees(np.arange(len(self.graph.ids)))
        )
        by_type = np.lexsort((self._rank[owner], self.graph.hard.targets))
        self._members = self._rank[owner[by_type]]
        types = self.graph.hard.targets[by_type]
        self._types, first = np.unique(types, return_index=True)
        self._bounds = np.append(first, len(types))

    def draw(
        self,
        node_ids: seeding.Ids,
        row_ids: seeding.Ids,
        seed: int,
        purpose: str,
        min_shared: int = 1,
        k: int = 1,
        types: Sequence[str | None] | None = None,
    ) -> tuple[seeding.Ids, Codes]:
        """Replacements of the entities, and the pool (code into `POOLS`) that each came from.

        node_ids, row_ids: (rows,), the entity t and the id that the row's draw is seeded by.
        min_shared: soft neighbours that a member of T_p shares with t at least, >= 1.
        k: replacements a row. They are T_p's first k on the ring; of a smaller T_p all, the rest
            staying empty; T_r's first k where T_p is empty.
        types: names of the type that each mention has, where it is known; an entity's T_r is else
            whatever shares any of its types.

        Returns arrays of shape (rows,), or (rows, k) where k > 1. An empty place has id 0 and the
        pool "none". Raises ValueError for k or min_shared below 1.
        """
        if k < 1 or min_shared < 1:
            raise ValueError("k and min_shared are at least 1")
        count = len(node_ids)
        chosen = np.full((count, k), -1, dtype=np.int64)
        pools = np.zeros((count, k), dtype=np.int8)
        nodes = self.graph.numbers(np.asarray(node_ids, dtype=np.uint64))
        valid = np.flatnonzero(nodes >= 0)
        valid = valid[self.graph.entity[nodes[valid]]]
        groups, sets = self._type_sets(nodes, valid, types)
        order = np.argsort(groups[valid], kind="stable")
        valid = valid[order]
        bounds = np.searchsorted(groups[valid], np.arange(len(sets) + 1))
        at = 0
        while at < len(sets):  # as many rings at once as memory allows
            rings: list[Ints] = []
            ahead, total = at, 0
            while ahead < len(sets) and (not rings or total < _PATHS):
                used = bounds[ahead + 1] > bounds[ahead]
                rings.append(self._ring_of(sets[ahead] if used else ()))
                total += len(rings[-1])
                ahead += 1
            rows = valid[bounds[at] : bounds[ahead]]
            sizes = np.array([len(ring) for ring in rings], dtype=np.int64)
            begins = np.cumsum(sizes) - sizes
            members = np.concatenate(rings)
            start = np.zeros(len(rows), dtype=np.int64)
            for number, ring in enumerate(rings):
                low, high = bounds[at + number] - bounds[at], bounds[at + number + 1] - bounds[at]
                start[low:high] = seeding.ring_start(
                    self._ring[ring], seed, purpose, row_ids[rows[low:high]]
                )
            local = groups[rows] - at
            block = _Rows(nodes[rows], begins[local], sizes[local], start)
            found, pool = self._search(block, self._on_ring[members], min_shared, k)
            chosen[rows], pools[rows] = found, pool
            at = ahead
        ids = np.zeros((count, k), dtype=np.uint64)
        ids[chosen >= 0] = self.graph.ids[chosen[chosen >= 0]]
        return (ids[:, 0], pools[:, 0]) if k == 1 else (ids, pools)

    def _type_sets(
        self, nodes: Ints, valid: Ints, types: Sequence[str | None] | None
    ) -> tuple[Ints, list[tuple[int, ...]]]:
        """Each row's set of types by number, and the sets (of type nodes' numbers)."""
        sets: dict[tuple[int, ...], int] = {}
        hard = self.graph.hard
        distinct, inverse = np.unique(nodes[valid], return_inverse=True)
        own = [
            sets.setdefault(tuple(hard.targets[low:high].tolist()), len(sets))
            for low, high in zip(hard.starts[distinct], hard.starts[distinct + 1], strict=True)
        ]
        groups = np.full(len(nodes), -1, dtype=np.int64)
        groups[valid] = np.array(own, dtype=np.int64)[inverse]
        if types is not None:
            names = sorted({name for name in types if name is not None})
            numbers = self.graph.numbers(seeding.text_ids(["type"] * len(names), names))
            given = {
                name: sets.setdefault((number,), len(sets))
                for name, number in zip(names, numbers.tolist(), strict=True)
                if number >= 0
            }
            said = np.array([given.get(name, -1) for name in types], dtype=np.int64)  # type: ignore[arg-type]
            groups = np.where((groups >= 0) & (said >= 0), said, groups)
        return groups, list(sets)

    def _ring_of(self, types: tuple[int, ...]) -> Ints:
        """Entities of any of the types, as places on the ring of all nodes, ascending."""
        parts = []
        for number in types:
            at = int(np.searchsorted(self._types, number))
            if at < len(self._types) and self._types[at] == number:
                parts.append(self._members[self._bounds[at] : self._bounds[at + 1]])
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return np.zeros(0, dtype=np.int64)
        merged = np.sort(np.concatenate(parts), kind="stable")  # merges what is sorted in runs
        return np.asarray(merged[np.append(True, merged[1:] != merged[:-1])])

    def _search(self, rows: _Rows, members: Ints, min_shared: int, k: int) -> tuple[Ints, Codes]:
        """For each row the first k of T_p on its ring, else of T_r: (rows, k) numbers and pools."""
        count = len(rows.node)
        chosen = np.full((count, k), -1, dtype=np.int64)
        filled = np.zeros(count, dtype=np.int64)
        active = np.flatnonzero(rows.size > 0)
        for step in range(_ROUNDS):
            met = rows.at(active, members, step)
            fits = met != rows.node[active]
            fits[fits] = self._share(rows.node[active[fits]], met[fits], min_shared)
            hit = active[fits]
            chosen[hit, filled[hit]] = met[fits]
            filled[hit] += 1
            active = active[(filled[active] < k) & (step + 1 < rows.size[active])]
            if not len(active):
                break
        if len(active):
            chosen[active] = self._exact(rows, active, members, min_shared, k)
        pools = np.where(chosen >= 0, PREFERRED, NONE).astype(np.int8)
        bare = np.flatnonzero((chosen[:, 0] < 0) & (rows.size > 0))
        self._same_type(rows, bare, members, chosen)
        pools[bare] = np.where(chosen[bare] >= 0, SAME_TYPE, NONE)
        return chosen, pools

    def _same_type(self, rows: _Rows, bare: Ints, members: Ints, chosen: Ints) -> None:
        """Fills `chosen` of rows without T_p with the first of T_r on the ring."""
        k = chosen.shape[1]
        filled = np.zeros(len(chosen), dtype=np.int64)
        for step in range(k + 1):
            going = bare[(step < rows.size[bare]) & (filled[bare] < k)]
            met = rows.at(going, members, step)
            fits = met != rows.node[going]
            chosen[going[fits], filled[going[fits]]] = met[fits]
            filled[going[fits]] += 1

    def _share(self, left: Ints, right: Ints, least: int) -> npt.NDArray[np.bool_]:
        """Whether both entities of a pair have at least `least` soft neighbours in common."""
        common = np.bitwise_count(self._bits[left] & self._bits[right]).sum(axis=1, dtype=np.int64)
        shares = common >= least
        open_ = np.flatnonzero(~shares)
        soft = self.graph.soft
        few, many = left[open_], right[open_]
        swap = soft.degrees(few) > soft.degrees(many)
        few, many = np.where(swap, many, few), np.where(swap, few, many)
        degrees = soft.degrees(few)
        possible = degrees >= least
        open_, few, many = open_[possible], few[possible], many[possible]
        for low, high in _chunks(degrees[possible]):
            owner, neighbour = soft.gather(few[low:high])
            both = soft.has(many[low:high][owner], neighbour)
            shares[open_[low:high]] = np.bincount(owner[both], minlength=high - low) >= least
        return np.asarray(shares, dtype=np.bool_)

    def _exact(self, rows: _Rows, active: Ints, members: Ints, least: int, k: int) -> Ints:
        """The first k of T_p of rows whose walk was long, from T_p itself: (len(active), k)."""
        chosen = np.full((len(active), k), -1, dtype=np.int64)
        soft = self.graph.soft
        place = np.full(len(self.graph.ids), -1, dtype=np.int64)
        order = np.lexsort((rows.node[active], rows.base[active]))
        base, node = rows.base[active[order]], rows.node[active[order]]
        opens = np.flatnonzero(np.append(True, (base[1:] != base[:-1]) | (node[1:] != node[:-1])))
        closes = np.append(opens[1:], len(order))
        around, ring = _paths(self.graph, node[opens]), -1
        for low, high in _chunks(around):
            owner, middle = soft.gather(node[opens[low:high]])
            second, end = soft.gather(middle)
            pair = owner[second] * len(place) + end  # ascending by owner
            if least > 1:
                pair = np.sort(pair)
                first = np.flatnonzero(np.append(True, pair[1:] != pair[:-1]))
                shared = np.diff(np.append(first, len(pair)))
                pair = pair[first[shared >= least]]
            cuts = np.searchsorted(pair // len(place), np.arange(high - low + 1))
            ends = pair % len(place)
            for number in range(low, high):
                first_row = int(opens[number])
                if base[first_row] != ring:
                    ring = int(base[first_row])
                    size = int(rows.size[active[order[first_row]]])
                    place[:] = -1
                    place[members[ring : ring + size]] = np.arange(size)
                own = int(place[node[first_row]])
                at = place[ends[cuts[number - low] : cuts[number - low + 1]]]
                at = at[(at >= 0) & (at != own)]
                mine = order[first_row : closes[number]]
                if k == 1 and len(at):
                    for row, start in zip(mine, rows.start[active[mine]], strict=True):
                        nearest = at[np.argmin((at - start) % size)]
                        chosen[row, 0] = members[ring + nearest]
                    continue
                there = np.zeros(size, dtype=np.bool_)
                there[at] = True
                at = np.flatnonzero(there)
                entered = np.searchsorted(at, rows.start[active[mine]])
                for nth in range(min(k, len(at))):
                    chosen[mine, nth] = members[ring + at[(entered + nth) % len(at)]]
        return chosen


def _chunks(sizes: Ints) -> Iterable[tuple[int, int]]:
    """Consecutive ranges whose sizes add up to about `_PATHS` at most."""
    reach = np.cumsum(sizes)
    low = 0
    while low < len(sizes):
        used = int(reach[low - 1]) if low else 0
        high = max(low + 1, int(np.searchsorted(reach, used + _PATHS, side="right")))
        yield low, high
        low = high


def _paths(graph: Graph, nodes: Ints) -> Ints:
    """How many paths of two soft edges begin at each node."""
    result = np.zeros(len(nodes), dtype=np.int64)
    for low, high in _chunks(graph.soft.degrees(nodes)):
        owner, middle = graph.soft.gather(nodes[low:high])
        weights = graph.soft.degrees(middle).astype(np.float64)
        result[low:high] = np.bincount(owner, weights=weights, minlength=high - low)
    return result


def _hub_bits(graph: Graph) -> npt.NDArray[np.uint64]:
    """Bit h of a node's row: whether it has a soft edge to the h-th best connected entity."""
    count = len(graph.ids)
    bits = np.zeros((count, _HUBS // 64), dtype=np.uint64)
    degrees = graph.soft.degrees(np.arange(count))
    hubs = np.argsort(-degrees, kind="stable")[: min(_HUBS, count)]
    for number, hub in enumerate(hubs.tolist()):
        # Soft edges stand in both directions, so that a hub's own list names whom it bounds.
        linked = graph.soft.targets[graph.soft.starts[hub] : graph.soft.starts[hub + 1]]
        bits[linked, number // 64] |= np.uint64(1) << np.uint64(number % 64)
    return bits
