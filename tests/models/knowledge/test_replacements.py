"""The search for replacements (GCSE §3.1, eqs. 5-8)."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompted_given import graph, node

from tercet.models import seeding
from tercet.models.knowledge import graph as graphs
from tercet.models.knowledge import replacements
from tercet.models.knowledge.graph import to_networkx
from tercet.models.knowledge.replacements import POOLS, Replacements
from tercet.models.rules.entity_swap import Entities

# Sentences as sets of (entity, type).
Said = list[list[tuple[int, int]]]


def _id(kind: str, number: int) -> int:
    return seeding.text_id(kind, str(number))


def _tables(sentences: Said) -> tuple[pa.Table, pa.Table]:
    """kg_nodes and kg_edges of the sentences, by eqs. 2-4, row by row."""
    kinds: dict[int, str] = {}
    edges: dict[tuple[int, int, str], int] = defaultdict(int)
    for sentence in sentences:
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


def _drawn(
    found: Replacements, entities: list[int], rows: list[int], **options: Any
) -> tuple[np.ndarray, np.ndarray]:
    ids = np.array([_id("entity", entity) for entity in entities], dtype=np.uint64)
    return found.draw(ids, np.array(rows, dtype=np.uint64), 7, "swap", **options)


_SAID = st.lists(
    st.lists(st.tuples(st.integers(0, 24), st.integers(0, 3)), min_size=1, max_size=5),
    min_size=1,
    max_size=14,
)


@given(
    sentences=_SAID,
    rows=st.lists(
        st.tuples(st.integers(0, 26), st.one_of(st.none(), st.integers(0, 4)), st.integers(0, 99)),
        max_size=20,
    ),
    k=st.integers(1, 4),
    typed=st.booleans(),
    shuffled=st.booleans(),
)
@settings(max_examples=120, deadline=None)
def test_draws_are_others_of_the_type_the_nearest_first(
    sentences: Said,
    rows: list[tuple[int, int | None, int]],
    k: int,
    typed: bool,
    shuffled: bool,
) -> None:
    nodes, edges = _tables(sentences)
    if shuffled:
        edges = edges.take(np.random.default_rng(0).permutation(edges.num_rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replacements, "_PATHS", 20)
        patch.setattr(replacements, "_ROWS", 3)
        found = Replacements(nodes, edges.to_batches(max_chunksize=7))
        ids, pools = _drawn(
            found,
            [row[0] for row in rows],
            [row[2] for row in rows],
            k=k,
            types=[None if row[1] is None else str(row[1]) for row in rows] if typed else None,
        )
    assert ids.shape == pools.shape == ((len(rows),) if k == 1 else (len(rows), k))
    types: dict[int, set[int]] = defaultdict(set)
    for sentence in sentences:
        for one, name in sentence:
            types[_id("entity", one)].add(name)
    every = {name for names in types.values() for name in names}
    for at, (entity, kind, _) in enumerate(rows):
        own = _id("entity", entity)
        wanted = {kind} if typed and kind in every else types.get(own, set())
        others = {one for one, names in types.items() if names & wanted and one != own}
        if own not in types:
            others = set()
        drawn = [int(one) for one in ids.reshape(len(rows), k)[at] if one]
        # Rings this small are looked at whole.
        assert len(set(drawn)) == len(drawn) == min(k, len(others))
        assert set(drawn) <= others
        codes = pools.reshape(len(rows), k)[at].tolist()
        assert codes[len(drawn) :] == [0] * (k - len(drawn))
        # T_p first, then T_r.
        assert sorted(codes[: len(drawn)], reverse=True) == codes[: len(drawn)]


def test_what_shares_its_neighbours_comes_first_and_hubs_count_little() -> None:
    # Twins share three neighbours that few have; strangers only a hub that all have.
    sentences: Said = [[(number, 0), (900, 2)] for number in range(60)]
    sentences += [[(twin, 0), (100 + other, 1)] for twin in (1, 2) for other in range(3)]
    sentences += [[(3, 0), (200 + other, 1)] for other in range(3)]
    found = Replacements(*_tables(sentences))
    ids, pools = _drawn(found, [1] * 200, list(range(200)))
    twin = ids == _id("entity", 2)
    # A row looks at a quarter of the ring: those that meet the twin take it.
    assert 30 < twin.sum() < 80
    assert {POOLS[code] for code in pools[twin]} == {"T_p"}
    assert _id("entity", 1) not in ids
    assert len(set(ids.tolist())) > 5


def test_a_row_draws_alone_and_a_new_member_moves_few_draws() -> None:
    sentences: Said = [[(number, 0), (1000 + number % 3, 1)] for number in range(200)]
    rows = list(range(2000))
    entities = [number % 200 for number in range(2000)]
    before, _ = _drawn(Replacements(*_tables(sentences)), entities, rows)
    one, _ = _drawn(Replacements(*_tables(sentences)), entities[5:6], rows[5:6])
    assert one[0] == before[5]
    grown = Replacements(*_tables([*sentences, [(500, 0), (1001, 1)]]))
    after, _ = _drawn(grown, entities, rows)
    moved = before != after
    assert 0 < moved.sum() < 200
    assert (after[moved] == _id("entity", 500)).sum() > moved.sum() / 3


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


# Entities and their types, one mapping a sentence.
Marked = Sequence[Mapping[str, str]]

# Two thirds of the things stand beside the hub, of which `seldom` knows nothing: it shares one
# neighbour, shelf, with three others.
SAID: list[dict[str, str]] = [{f"t{n}": "thing", "hub": "place"} for n in range(40)]
SAID += [{f"t{n}": "thing"} for n in range(40, 60)]
SAID += [{name: "thing", "shelf": "place"} for name in ("seldom", "t50", "t51", "t3")]
SAID += [{"alone": "thing", "cellar": "place"}]


def pools(sentences: Marked, entity: str) -> tuple[set[str], set[str]]:
    """T_r and T_p of the entity, by the letter of eqs. 5-7."""
    types: dict[str, set[str]] = {}
    soft: dict[str, set[str]] = {}
    for sentence in sentences:
        for one, kind in sentence.items():
            types.setdefault(one, set()).add(kind)
            soft.setdefault(one, set()).update(sentence.keys() - {one})
    same = {one for one in types if types[one] & types[entity] and one != entity}
    return same, {one for one in same if soft[one] & soft[entity]}


def drawn(
    entities: Entities, entity: str, count: int, k: int = 1, seed: int = 3
) -> list[list[str]]:
    """The texts that `count` rows draw in the place of the entity; "" for none."""
    ids = np.full(count, node(entity), dtype=np.uint64)
    rows = np.arange(count, dtype=np.uint64)
    found, _ = entities.replacements.draw(ids, rows, seed, "swap", k, choice="uniform")
    texts = iter(entities.texts_of(found.reshape(-1)))
    return [[next(texts) or "" for _ in range(k)] for _ in range(count)]


def chi_square(counts: Counter[str], members: set[str]) -> float:
    """Over its degrees of freedom: near 1 for an even draw."""
    expected = counts.total() / len(members)
    return sum((counts[one] - expected) ** 2 / expected for one in members) / (len(members) - 1)


@pytest.mark.parametrize("entity", ["t0", "seldom", "t50", "alone"])
def test_each_of_t_p_is_equally_likely_and_each_of_t_r_where_it_is_empty(entity: str) -> None:
    same, preferred = pools(SAID, entity)
    members = preferred or same
    # Met by tries, listed, and empty.
    assert len(preferred) == {"t0": 39, "seldom": 3, "t50": 3, "alone": 0}[entity]
    assert len(same) == 61
    entities = graph(*SAID)
    counts = Counter(row[0] for row in drawn(entities, entity, 6000))
    assert counts.keys() == members
    # The chance of a draw this uneven is below one in 10,000.
    assert chi_square(counts, members) < {39: 2.0, 61: 1.8, 3: 9.5}[len(members)]


@pytest.mark.parametrize("tries", [1, 12])
def test_the_second_is_as_even_as_the_first_and_the_rest_of_t_r_follows(
    tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacements, "_TRIES", tries)
    entities = graph(*SAID)
    same, preferred = pools(SAID, "seldom")
    orders = Counter(tuple(row) for row in drawn(entities, "seldom", 3000, k=3))
    assert len(orders) == 6
    assert chi_square(Counter(map(str, orders.elements())), set(map(str, orders))) < 5.5
    for row in drawn(entities, "seldom", 50, k=70):
        assert set(row[:3]) == preferred
        assert set(row[:61]) == same
        assert row[61:] == [""] * 9
    fourth = Counter(row[3] for row in drawn(entities, "seldom", 6000, k=4))
    assert fourth.keys() == same - preferred
    assert chi_square(fourth, same - preferred) < 1.8


@given(
    sentences=st.lists(
        st.dictionaries(
            st.sampled_from([f"e{n}" for n in range(20)]),
            st.sampled_from(["a", "b"]),
            min_size=1,
            max_size=5,
        ),
        min_size=1,
        max_size=14,
    ),
    k=st.integers(1, 25),
    tries=st.sampled_from([1, 3, 12]),
)
@settings(max_examples=60, deadline=None)
def test_pools_are_those_of_the_equations(sentences: Marked, k: int, tries: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replacements, "_TRIES", tries)
        patch.setattr(replacements, "_ROWS", 2)
        patch.setattr(replacements, "_VISITED", 3)
        patch.setattr(graphs, "_GATHERED", 5)
        entities = graph(*sentences)
        for entity in sorted({one for sentence in sentences for one in sentence}):
            same, preferred = pools(sentences, entity)
            ids = np.full(3, node(entity), dtype=np.uint64)
            rows = np.arange(3, dtype=np.uint64)
            found, codes = entities.replacements.draw(ids, rows, 1, "p", k, choice="uniform")
            found, codes = found.reshape(3, k), codes.reshape(3, k)
            for numbers, pool in zip(found, codes, strict=True):
                texts = [text for text in entities.texts_of(numbers) if text]
                assert len(set(texts)) == len(texts) == min(k, len(same))
                assert set(texts) <= same
                said_of = [POOLS[code] for code in pool]
                near = min(k, len(preferred))
                assert said_of == [
                    *["T_p"] * near,
                    *["T_r"] * (len(texts) - near),
                    *["none"] * (k - len(texts)),
                ]
                assert all((text in preferred) == (n < near) for n, text in enumerate(texts))


def test_an_even_draw_is_a_rows_own_and_a_new_member_moves_few() -> None:
    sentences = [{f"t{n}": "thing", "hub": "place"} for n in range(1000)]
    before = drawn(graph(*sentences), "t5", 2000)
    ids, row = np.array([node("t5")], dtype=np.uint64), np.array([77], dtype=np.uint64)
    alone, _ = graph(*sentences).replacements.draw(ids, row, 3, "swap", choice="uniform")
    assert alone[0] == node(before[77][0])
    after = drawn(graph(*sentences, {"new": "thing", "hub": "place"}), "t5", 2000)
    assert sum(old != new for old, new in zip(before, after, strict=True)) < 60
