"""The knowledge graph in memory: for networkx, and as arrays for fast searches."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tercet.models.runs import begins, pieces, ranges

if TYPE_CHECKING:
    import networkx as nx

Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.uint64]

_GATHERED = 1_000_000  # neighbours in memory at once


def to_networkx(nodes: pa.Table, edges: pa.Table) -> "nx.MultiDiGraph":
    """The graph of the tables kg_nodes and kg_edges for networkx.

    Nodes are node ids with the attributes `kind`, `text` and `count`. An edge's key is its kind,
    hard or soft, since an entity can have both to the same type; its attribute is `count`.
    """
    import networkx as nx

    graph = nx.MultiDiGraph()
    graph.add_nodes_from(
        (row["node_id"], {"kind": row["kind"], "text": row["text"], "count": row["count"]})
        for row in nodes.to_pylist()
    )
    columns = [edges.column(name).to_pylist() for name in ("source", "target", "kind", "count")]
    graph.add_edges_from(
        (source, target, kind, {"count": count})
        for source, target, kind, count in zip(*columns, strict=True)
    )
    return graph


@dataclass(frozen=True)
class Adjacency:
    """Lists of neighbours: row i has ``targets[starts[i]:starts[i + 1]]``, ascending."""

    starts: Ints
    targets: npt.NDArray[np.int32]

    def degrees(self, rows: Ints) -> Ints:
        """The number of neighbours of each row."""
        return self.starts[rows + 1] - self.starts[rows]

    def gather(self, rows: Ints) -> tuple[Ints, Ints]:
        """All neighbours of the rows, concatenated: (index into `rows`, neighbour)."""
        degrees = self.degrees(rows)
        owner = np.repeat(np.arange(len(rows)), degrees)
        return owner, self.targets[ranges(self.starts[rows], degrees)].astype(np.int64)

    def has(self, rows: Ints, targets: Ints) -> npt.NDArray[np.bool_]:
        """Whether each target is a neighbour of its row, by one bisection for all rows at once."""
        low, high = self.starts[rows].copy(), self.starts[rows + 1].copy()
        end = high.copy()
        if not len(self.targets):
            return np.zeros(len(rows), dtype=np.bool_)
        while True:
            going = low < high
            if not going.any():
                break
            middle = (low + high) >> 1
            less = going & (self.targets[np.minimum(middle, len(self.targets) - 1)] < targets)
            low = np.where(less, middle + 1, low)
            high = np.where(going & ~less, middle, high)
        met = self.targets[np.minimum(low, len(self.targets) - 1)] == targets
        return np.asarray((low < end) & met, dtype=np.bool_)

    def meets(self, left: Ints, right: Ints) -> npt.NDArray[np.bool_]:
        """Whether the two rows of each pair have a neighbour in common."""
        swap = self.degrees(left) > self.degrees(right)
        few, many = np.where(swap, right, left), np.where(swap, left, right)
        met = np.zeros(len(few), dtype=np.bool_)
        for some in pieces(self.degrees(few), _GATHERED):
            owner, neighbour = self.gather(few[some])
            both = self.has(many[some][owner], neighbour)
            met[some] = np.bincount(owner[both], minlength=len(few[some])) > 0
        return met


@dataclass(frozen=True)
class Graph:
    """Nodes by number, which is the index of the node's id in the sorted `ids`.

    entity: whether each node is an entity. soft: from an entity to entities of a common sentence
    (T_s, eq. 6). hard: from an entity to its types.
    """

    ids: Ids
    entity: npt.NDArray[np.bool_]
    soft: Adjacency
    hard: Adjacency

    def numbers(self, ids: Ids) -> Ints:
        """The numbers of node ids; -1 for ids that are not in the graph."""
        if not len(self.ids):
            return np.full(len(ids), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[at] == ids, at, -1)


def build(nodes: pa.Table, edges: pa.Table | Iterable[pa.RecordBatch]) -> Graph:
    """The graph's arrays from kg_nodes and kg_edges; edges may come in batches to save memory.

    Quantities and their edges are left out, as are edges to nodes that `nodes` lacks. Soft edges
    are kept between entities only.
    """
    ids = nodes.column("node_id").to_numpy()
    order = np.argsort(ids)
    ids = ids[order].astype(np.uint64)
    kinds = nodes.column("kind").combine_chunks()
    entity = pc.equal(kinds, "entity").to_numpy(zero_copy_only=False)[order]
    is_type = pc.equal(kinds, "type").to_numpy(zero_copy_only=False)[order]
    empty = Adjacency(np.zeros(len(ids) + 1, dtype=np.int64), np.zeros(0, dtype=np.int32))
    numbering = Graph(ids, entity, empty, empty)
    soft, hard = _Lists(len(ids)), _Lists(len(ids))
    for batch in edges.to_batches() if isinstance(edges, pa.Table) else edges:
        source = numbering.numbers(batch.column("source").to_numpy(zero_copy_only=False))
        target = numbering.numbers(batch.column("target").to_numpy(zero_copy_only=False))
        is_hard = pc.equal(batch.column("kind"), "hard").to_numpy(zero_copy_only=False)
        inside = (source >= 0) & (target >= 0)
        inside[inside] = entity[source[inside]]
        to_type, to_entity = inside.copy(), inside.copy()
        to_type[inside] = is_type[target[inside]]
        to_entity[inside] = entity[target[inside]]
        for rows, into in ((to_type & is_hard, hard), (to_entity & ~is_hard, soft)):
            into.add(source[rows], target[rows])
    return Graph(ids, entity, soft.finished(), hard.finished())


class _Lists:
    """Collects edges into an `Adjacency`. Sorted edges, as the graph stage writes them, are kept
    without their sources, which halves the memory."""

    def __init__(self, count: int) -> None:
        self._degrees = np.zeros(count, dtype=np.int64)
        self._targets = bytearray()  # grows where it lies, while a list would be copied at the end
        self._sources: list[npt.NDArray[np.int32]] | None = None
        self._last = -1

    def add(self, source: Ints, target: Ints) -> None:
        """Adds edges, given as numbers of nodes."""
        if not len(source):
            return
        key = source * len(self._degrees) + target
        if self._sources is None and (key[0] <= self._last or (key[1:] <= key[:-1]).any()):
            gathered = np.repeat(np.arange(len(self._degrees), dtype=np.int32), self._degrees)
            self._sources = [gathered]
        self._last = int(key[-1])
        low = int(source.min())
        counts = np.bincount(source - low)
        self._degrees[low : low + len(counts)] += counts
        self._targets += target.astype(np.int32).tobytes()
        if self._sources is not None:
            self._sources.append(source.astype(np.int32))

    def finished(self) -> Adjacency:
        """All edges, each once."""
        count = len(self._degrees)
        targets = np.frombuffer(self._targets, dtype=np.int32)
        degrees = self._degrees
        if self._sources is not None:
            sources = np.concatenate(self._sources).astype(np.int64)
            keys = np.sort(sources * count + targets)
            keys = keys[begins(keys)]
            targets = (keys % count).astype(np.int32)
            degrees = np.bincount(keys // count, minlength=count)
        starts = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(degrees, out=starts[1:])
        return Adjacency(starts, targets)
