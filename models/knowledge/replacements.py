"""The search for an entity to put in another's place (GCSE §3.1, eqs. 5-8).

T_r(t): entities of t's type. The paper's T_p(t): entities of T_r(t) that share a soft neighbour
with t. With the choice `uniform` one of T_p is drawn evenly, or one of T_r where T_p is empty
(`even_draws`).

On a real graph T_p is nearly all of T_r (78 to 82 % on three corpora), and says nothing. The choice
`nearest` ranks T_r by how much two entities share: the cosine of their sets of soft neighbours, in
which rare neighbours weigh more. Its T_p(t) are those with a cosine of at least `LEAST`, 12 to 20 %
of T_r on the same corpora: so a coarse type ("data", "code") is narrowed down separately for each
entity. The members of T_r stand on a hash ring. A row enters it at its own draw, looks at the next
few and takes the nearest.

Neither pool is ever built for all entities. Both leave t out.
"""

import mmap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.models import seeding
from tercet.models.knowledge import graph as graphs
from tercet.models.knowledge.graph import Graph
from tercet.models.runs import begins, pieces

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int8]
Pick: TypeAlias = Literal["nearest", "uniform"]

POOLS = ("none", "T_r", "T_p")  # by code
NONE, SAME_TYPE, PREFERRED = range(3)

LEAST = 0.15  # cosine to t of what belongs to T_p
# A row looks at the next quarter of its ring's members, within these bounds, so that rows differ.
_FEWEST, _MOST = 16, 64
# Signs that stand for one neighbour, 512 bytes an entity that is met. Chance alone gives two
# entities a cosine of 0 ± 0.06.
_SIGNS = 256
_CHANCE, _FEW = 0.3, 64  # below this cosine, entities of so few neighbours may share none
_ROWS = 512  # rows looked at in one go
_PATHS = 1_000_000  # members of rings in one go
_NEIGHBOURS = 20_000  # neighbours whose signs are drawn and added in one go


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
        # Members of each type, in ring order.
        owner = np.repeat(
            np.arange(len(self.graph.ids)), self.graph.hard.degrees(np.arange(len(self.graph.ids)))
        )
        by_type = np.lexsort((self._rank[owner], self.graph.hard.targets))
        self._members = self._rank[owner[by_type]]
        types = self.graph.hard.targets[by_type]
        self._types, first = np.unique(types, return_index=True)
        self._bounds = np.append(first, len(types))
        self._weights = _weights(self.graph)
        self._known = np.zeros(len(order), dtype=np.bool_)
        self._vectors = _sparse(len(order), _SIGNS)

    def draw(
        self,
        node_ids: seeding.Ids,
        row_ids: seeding.Ids,
        seed: int,
        purpose: str,
        k: int = 1,
        types: Sequence[str | None] | None = None,
        choice: Pick = "nearest",
    ) -> tuple[seeding.Ids, Codes]:
        """Replacements of the entities, and the pool (code into `POOLS`) that each came from.

        node_ids, row_ids: (rows,), the entity t and the id that the row's draw is seeded by.
        k: replacements a row, the nearest or members of T_p first; with a smaller T_r the rest
        stays
            empty.
        types: names of the type that each mention has, where it is known; an entity's T_r is else
            whatever shares any of its types.
        choice: `uniform`: each member of T_p (eq. 7) is equally likely to come first, or each of
            T_r if T_p has none; `nearest`: see the module.

        Returns arrays of shape (rows,), or (rows, k) where k > 1. An empty place has id 0 and the
        pool "none". Raises ValueError for k below 1.
        """
        if k < 1:
            raise ValueError("k is at least 1")
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
        rings = [
            (names, valid[low:high])
            for names, low, high in zip(sets, bounds[:-1], bounds[1:], strict=True)
            if high > low
        ]
        search = self._evenly if choice == "uniform" else self._nearest
        for rows, found, pool in search(rings, nodes, row_ids, seed, purpose, k):
            chosen[rows], pools[rows] = found, pool
        ids = np.zeros((count, k), dtype=np.uint64)
        ids[chosen >= 0] = self.graph.ids[chosen[chosen >= 0]]
        return (ids[:, 0], pools[:, 0]) if k == 1 else (ids, pools)

    def _nearest(
        self,
        grouped: Sequence[tuple[tuple[int, ...], Ints]],
        nodes: Ints,
        row_ids: seeding.Ids,
        seed: int,
        purpose: str,
        k: int,
    ) -> Iterator[tuple[Ints, Ints, Codes]]:
        """Rows, and for each the k nearest of the entities that it meets on its ring: numbers and
        pools.

        grouped: sets of types, and the rows whose T_r has them.
        """
        at = 0
        while at < len(grouped):  # as many rings at once as memory allows
            rings: list[Ints] = []
            ahead, total = at, 0
            while ahead < len(grouped) and (not rings or total < _PATHS):
                rings.append(self._ring_of(grouped[ahead][0]))
                total += len(rings[-1])
                ahead += 1
            listed = [rows for _, rows in grouped[at:ahead]]
            owner = np.repeat(np.arange(len(rings)), [len(rows) for rows in listed])
            sizes = np.array([len(ring) for ring in rings], dtype=np.int64)
            begins = np.cumsum(sizes) - sizes
            start = np.concatenate(
                [
                    seeding.ring_start(self._ring[ring], seed, purpose, row_ids[rows])
                    for ring, rows in zip(rings, listed, strict=True)
                ]
            )
            rows = np.concatenate(listed)
            block = _Rows(nodes[rows], begins[owner], sizes[owner], start)
            yield rows, *self._search(block, self._on_ring[np.concatenate(rings)], k)
            at = ahead

    def _evenly(
        self,
        grouped: Sequence[tuple[tuple[int, ...], Ints]],
        nodes: Ints,
        row_ids: seeding.Ids,
        seed: int,
        purpose: str,
        k: int,
    ) -> Iterator[tuple[Ints, Ints, Codes]]:
        """Rows, and for each k evenly drawn entities, first those of T_p: numbers and pools."""
        for names, rows in grouped:
            ring = self._ring_of(names)
            found, preferred = draw(
                self.graph,
                self._ring[ring],
                self._on_ring[ring],
                nodes[rows],
                row_ids[rows],
                seed,
                purpose,
                k,
            )
            pool = np.where(preferred, PREFERRED, SAME_TYPE)
            yield rows, found, np.where(found >= 0, pool, NONE).astype(np.int8)

    def _type_sets(
        self, nodes: Ints, valid: Ints, types: Sequence[str | None] | None
    ) -> tuple[Ints, list[tuple[int, ...]]]:
        """Each row's set of types by number, and the sets (of type nodes' numbers)."""
        sets: dict[tuple[int, ...], int] = {}
        hard = self.graph.hard
        distinct, inverse = np.unique(nodes[valid], return_inverse=True)
        of_node = [
            sets.setdefault(tuple(hard.targets[low:high].tolist()), len(sets))
            for low, high in zip(hard.starts[distinct], hard.starts[distinct + 1], strict=True)
        ]
        groups = np.full(len(nodes), -1, dtype=np.int64)
        groups[valid] = np.array(of_node, dtype=np.int64)[inverse]
        if types is not None:
            names = sorted({name for name in types if name is not None})
            numbers = self.graph.numbers(seeding.text_ids(["type"] * len(names), names))
            set_of_type = {
                name: sets.setdefault((number,), len(sets))
                for name, number in zip(names, numbers.tolist(), strict=True)
                if number >= 0
            }
            of_row = np.array([set_of_type.get(name, -1) for name in types], dtype=np.int64)  # type: ignore[arg-type]
            groups = np.where((groups >= 0) & (of_row >= 0), of_row, groups)
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
        return np.asarray(merged[begins(merged)])

    def _search(self, rows: _Rows, members: Ints, k: int) -> tuple[Ints, Codes]:
        """For each row the k nearest entities that it meets on its ring: numbers and pools."""
        count = len(rows.node)
        chosen = np.full((count, k), -1, dtype=np.int64)
        pools = np.full((count, k), NONE, dtype=np.int8)
        # One more, since t may be among them.
        width = np.minimum(np.clip(rows.size // 4, _FEWEST, _MOST) + 1, rows.size)
        order = np.argsort(width, kind="stable")
        order = order[np.searchsorted(width[order], 1) :]
        for low in range(0, len(order), _ROWS):
            some = order[low : low + _ROWS]
            steps = np.arange(width[some[-1]])
            met = rows.at(some[:, None], members, steps)
            # (rows, many): cosines of each row's entity to the entities that it meets.
            near = np.einsum("id,ijd->ij", self._near(rows.node[some]), self._near(met))
            near[(steps >= width[some][:, None]) | (met == rows.node[some][:, None])] = -np.inf
            best = np.argsort(-near, axis=1, kind="stable")[:, :k]
            cosine = np.take_along_axis(near, best, axis=1)
            found = np.take_along_axis(met, best, axis=1)
            chosen[some, : best.shape[1]] = np.where(cosine > -np.inf, found, -1)
            shared = cosine >= LEAST
            at = np.nonzero(shared & (cosine < _CHANCE))
            shared[at] = self._have_common(rows.node[some][at[0]], found[at])
            code = np.where(shared, PREFERRED, SAME_TYPE)
            pools[some, : best.shape[1]] = np.where(cosine > -np.inf, code, NONE)
        return chosen, pools

    def _have_common(self, left: Ints, right: Ints) -> npt.NDArray[np.bool_]:
        """Whether both entities of a pair have a soft neighbour in common; of two with more than
        `_FEW` neighbours it is taken for granted."""
        soft = self.graph.soft
        common = np.minimum(soft.degrees(left), soft.degrees(right)) > _FEW
        open_ = np.flatnonzero(~common)
        common[open_] = soft.meets(left[open_], right[open_])
        return common

    def _near(self, nodes: Ints) -> npt.NDArray[np.float32]:
        """The vectors of these entities' neighbourhoods, each of which is made when it is first
        met. Shape of `nodes` and signs."""
        new = np.unique(nodes)
        new = new[~self._known[new]]
        # Vectors are ordered by place on the ring, where entities that a row meets are neighbours.
        self._vectors[self._rank[new]] = _neighbourhoods(self.graph, self._weights, new)
        self._known[new] = True
        return self._vectors[self._rank[nodes]].astype(np.float32)


def _sparse(rows: int, columns: int) -> npt.NDArray[np.float16]:
    """Zeros that take memory only where they are written: not 2 MB around each row, as numpy's own
    do where Linux makes huge pages."""
    held = mmap.mmap(-1, max(rows, 1) * columns * 2)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        held.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(held, dtype=np.float16).reshape(-1, columns)


def _weights(graph: Graph) -> npt.NDArray[np.float32]:
    """How much each node weighs as a neighbour: the logarithm of how rarely it is one."""
    count = len(graph.ids)
    degrees = graph.soft.degrees(np.arange(count))
    return np.asarray(np.log1p(count / np.maximum(degrees, 1)), dtype=np.float32)


def _neighbourhoods(
    graph: Graph, weights: npt.NDArray[np.float32], nodes: Ints
) -> npt.NDArray[np.float16]:
    """(nodes, signs): a unit vector for each entity's set of soft neighbours.

    Each neighbour adds its own signs, drawn from its id, times its weight: so the vectors' cosines
    come near those of the weighted sets, in memory that does not grow with the edges.
    """
    near = np.zeros((len(nodes), _SIGNS), dtype=np.float16)
    degrees = graph.soft.degrees(nodes)
    with_any = np.flatnonzero(degrees)
    for piece in pieces(degrees[with_any], _NEIGHBOURS):
        some = with_any[piece]
        _, neighbours = graph.soft.gather(nodes[some])
        distinct, place = np.unique(neighbours, return_inverse=True)
        starts = np.cumsum(degrees[some]) - degrees[some]
        sums = np.empty((len(some), _SIGNS), dtype=np.float32)
        drawn = _drawn(graph.ids[distinct])
        # A few columns at a time, since some entities have a hundred thousand neighbours.
        for byte in range(_SIGNS // 8):
            ones = np.unpackbits(drawn[:, byte, None], axis=1, bitorder="little").view(np.int8)
            signs = (ones * np.int8(2) - np.int8(1))[place] * weights[neighbours, None]
            sums[:, 8 * byte : 8 * (byte + 1)] = np.add.reduceat(signs, starts, axis=0)
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        near[some] = sums / np.maximum(norms, 1e-9)
    return near


def _drawn(ids: seeding.Ids) -> npt.NDArray[np.uint8]:
    """(ids, signs / 8): a bit for each sign."""
    words = np.arange(_SIGNS // 64, dtype=np.uint64)
    drawn = seeding.draws(0, "neighbour", np.repeat(ids, len(words)), np.tile(words, len(ids)))
    return drawn.astype("<u8").view(np.uint8).reshape(-1, _SIGNS // 8)


# An even draw among the entities that may replace another (GCSE §3.1, eqs. 5-8).
#
# T_r(t) are the entities of t's type, T_p(t) its members that share a soft neighbour with t. Every
# member of T_p is equally likely; the rest of T_r follows, evenly too. T_p is reached by two hops,
# which pass through most of the graph where an entity is a hub, and it is never built for all
# entities: members of T_r are drawn and kept if they share a neighbour. Only for an entity of which
# too few are met that way T_p is listed, which visits no edge twice.

_TRIES = 12  # members of T_r drawn for each entity that a row wants before T_p is listed
_DRAWN_ROWS = 1024  # rows drawn for in one go
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
    """k entities a row, in an evenly drawn order: first members of T_p, then the rest of T_r.

    ring, members: (T_r,), places on the hash ring, ascending, and the entities there, by number.
    nodes, row_ids: (rows,), the entity t and the id that the row's draw is seeded by.

    Returns the entities' numbers and whether each is of T_p, of shape (rows, k); -1 where T_r has
    no more. t itself is never drawn.
    """
    chosen = np.full((len(nodes), k), -1, dtype=np.int64)
    preferred = np.zeros((len(nodes), k), dtype=np.bool_)
    listed: dict[int, Ints] = {}
    for low in range(0, len(nodes), _DRAWN_ROWS):
        some = slice(low, low + _DRAWN_ROWS)
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
    same number. A member that joins therefore moves only the tries that fall on its bucket, as long
    as the numbers of buckets and slots stay.
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
