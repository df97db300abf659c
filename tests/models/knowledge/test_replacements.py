"""The search for replacements against the literal definition (GCSE §3.1, eqs. 5-8)."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.models import seeding
from tercet.models.knowledge import replacements
from tercet.models.knowledge.graph import to_networkx
from tercet.models.knowledge.replacements import POOLS, Replacements

# Sentences as sets of (entity, type).
Said = list[list[tuple[int, int]]]


def _id(kind: str, number: int) -> int:
    return seeding.text_id(kind, str(number))


def _tables(said: Said) -> tuple[pa.Table, pa.Table]:
    """kg_nodes and kg_edges of the sentences, by eqs. 2-4, row by row."""
    kinds: dict[int, str] = {}
    edges: dict[tuple[int, int, str], int] = defaultdict(int)
    for sentence in said:
        rows = [(_id("entity", entity), _id("type", name)) for entity, name in sentence]
        for entity, name in rows:
            kinds[entity], kinds[name] = "entity", "type"
            edges[entity, name, "hard"] += 1
        soft = {
            (entity, end)
            for entity, _ in rows
            for other, name in rows
            if other != entity
            for end in (other, name)
        }
        for source, target in soft:
            edges[source, target, "soft"] += 1
    nodes = pa.table(
        {
            "node_id": pa.array(list(kinds), pa.uint64()),
            "kind": pa.array(list(kinds.values()), pa.string()),
            "text": pa.array(["x"] * len(kinds), pa.string()),
            "count": pa.array([1] * len(kinds), pa.int64()),
        }
    )
    listed = sorted(edges)
    columns = [
        pa.array([edge[0] for edge in listed], pa.uint64()),
        pa.array([edge[1] for edge in listed], pa.uint64()),
        pa.array([edge[2] for edge in listed], pa.string()),
        pa.array([edges[edge] for edge in listed], pa.int64()),
    ]
    return nodes, pa.table(columns, names=["source", "target", "kind", "count"])


def _literal(
    said: Said, entity: int, kind: int | None, row: int, least: int, k: int
) -> tuple[list[int], str]:
    """The first k of T_p in the ring's order from the row's draw, else of T_r, and the pool."""
    types: dict[int, set[int]] = defaultdict(set)
    near: dict[int, set[int]] = defaultdict(set)
    for sentence in said:
        for one, name in sentence:
            types[one].add(name)
            near[one] |= {other for other, _ in sentence if other != one}
    if entity not in types:
        return [], "none"
    every = {name for names in types.values() for name in names}
    wanted = {kind} if kind in every else types[entity]
    ring = [one for one in types if types[one] & wanted]
    place = {
        one: int(seeding.mix(np.array([_id("entity", one)], dtype=np.uint64))[0]) for one in ring
    }
    drawn = int(seeding.draws(7, "swap", np.array([row], dtype=np.uint64))[0])
    ring.sort(key=lambda one: (place[one] < drawn, place[one]))
    same = [one for one in ring if one != entity]
    preferred = [one for one in same if len(near[one] & near[entity]) >= least]
    if preferred:
        return preferred[:k], "T_p"
    return (same[:k], "T_r") if same else ([], "none")


_SAID = st.lists(
    st.lists(st.tuples(st.integers(0, 24), st.integers(0, 3)), min_size=1, max_size=5),
    min_size=1,
    max_size=14,
)


@pytest.mark.parametrize(("rounds", "hubs"), [(32, 256), (1, 64), (2, 0)])
@given(
    said=_SAID,
    rows=st.lists(
        st.tuples(st.integers(0, 26), st.one_of(st.none(), st.integers(0, 4)), st.integers(0, 99)),
        max_size=20,
    ),
    least=st.integers(1, 3),
    k=st.integers(1, 4),
    typed=st.booleans(),
    shuffled=st.booleans(),
)
@settings(max_examples=120, deadline=None)
def test_draws_equal_the_literal_definition(
    rounds: int,
    hubs: int,
    said: Said,
    rows: list[tuple[int, int | None, int]],
    least: int,
    k: int,
    typed: bool,
    shuffled: bool,
) -> None:
    nodes, edges = _tables(said)
    if shuffled:
        edges = edges.take(np.random.default_rng(0).permutation(edges.num_rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replacements, "_ROUNDS", rounds)
        patch.setattr(replacements, "_HUBS", hubs)
        patch.setattr(replacements, "_PATHS", 20)
        found = Replacements(nodes, edges.to_batches(max_chunksize=7))
        ids, pools = found.draw(
            np.array([_id("entity", row[0]) for row in rows], dtype=np.uint64),
            np.array([row[2] for row in rows], dtype=np.uint64),
            7,
            "swap",
            min_shared=least,
            k=k,
            types=[None if row[1] is None else str(row[1]) for row in rows] if typed else None,
        )
    assert ids.shape == pools.shape == ((len(rows),) if k == 1 else (len(rows), k))
    drawn = ids.reshape(len(rows), k)
    for at, (entity, kind, row) in enumerate(rows):
        chosen, pool = _literal(said, entity, kind if typed else None, row, least, k)
        assert [int(one) for one in drawn[at] if one] == [_id("entity", one) for one in chosen]
        given_pools = [POOLS[code] for code in pools.reshape(len(rows), k)[at]]
        assert given_pools == [pool] * len(chosen) + ["none"] * (k - len(chosen))


def test_a_row_draws_alone_and_a_new_member_moves_few_draws() -> None:
    said: Said = [[(number, 0), (1000 + number % 3, 1)] for number in range(200)]
    rows = np.arange(2000, dtype=np.uint64)
    nodes = np.array([_id("entity", number % 200) for number in range(2000)], dtype=np.uint64)
    before, _ = Replacements(*_tables(said)).draw(nodes, rows, 7, "swap")
    one, _ = Replacements(*_tables(said)).draw(nodes[5:6], rows[5:6], 7, "swap")
    assert one[0] == before[5]
    after, _ = Replacements(*_tables([*said, [(500, 0), (1001, 1)]])).draw(nodes, rows, 7, "swap")
    moved = before != after
    assert set(after[moved]) <= {_id("entity", 500)}
    assert 0 < moved.sum() < 60


def test_an_empty_graph_gives_nothing() -> None:
    nodes, edges = _tables([[(1, 1)]])
    found = Replacements(nodes.slice(0, 0), edges.slice(0, 0))
    ids, pools = found.draw(np.ones(2, dtype=np.uint64), np.ones(2, dtype=np.uint64), 1, "p")
    assert ids.tolist() == [0, 0]
    assert pools.tolist() == [0, 0]
    with pytest.raises(ValueError, match="at least 1"):
        found.draw(ids, ids, 1, "p", k=0)


def test_networkx_has_every_node_and_edge() -> None:
    nodes, edges = _tables([[(1, 1), (2, 1)]])
    graph = to_networkx(nodes, edges)
    assert graph.number_of_nodes() == 3
    assert graph.number_of_edges() == edges.num_rows == 6
    assert graph.nodes[_id("entity", 1)]["kind"] == "entity"
    assert set(graph[_id("entity", 1)][_id("type", 1)]) == {"hard", "soft"}
    assert graph[_id("entity", 1)][_id("entity", 2)]["soft"]["count"] == 1
