"""The even draw of a replacement (GCSE §3.1, eqs. 5-8), against the pools written out."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompted_given import graph, node

from tercet.models.knowledge import even_draws
from tercet.models.knowledge import graph as graphs
from tercet.models.knowledge.replacements import POOLS
from tercet.models.rules.entity_swap import Entities

# Entities and their types, one mapping a sentence.
Said = Sequence[Mapping[str, str]]

# Two thirds of the things stand beside the hub, of which `seldom` knows nothing: it shares one
# neighbour, shelf, with three others.
SAID: list[dict[str, str]] = [{f"t{n}": "thing", "hub": "place"} for n in range(40)]
SAID += [{f"t{n}": "thing"} for n in range(40, 60)]
SAID += [{name: "thing", "shelf": "place"} for name in ("seldom", "t50", "t51", "t3")]
SAID += [{"alone": "thing", "cellar": "place"}]


def pools(said: Said, entity: str) -> tuple[set[str], set[str]]:
    """T_r and T_p of the entity, by the letter of eqs. 5-7."""
    types: dict[str, set[str]] = {}
    soft: dict[str, set[str]] = {}
    for sentence in said:
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


def test_seeds_are_as_good_as_rows() -> None:
    entities = graph(*SAID)
    counts = Counter(drawn(entities, "seldom", 1, seed=seed)[0][0] for seed in range(600))
    assert counts.keys() == {"t50", "t51", "t3"}
    assert min(counts.values()) > 150


@pytest.mark.parametrize("tries", [1, 12])
def test_the_second_is_as_even_as_the_first_and_the_rest_of_t_r_follows(
    tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(even_draws, "_TRIES", tries)
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
    said=st.lists(
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
def test_pools_are_those_of_the_equations(said: Said, k: int, tries: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(even_draws, "_TRIES", tries)
        patch.setattr(even_draws, "_ROWS", 2)
        patch.setattr(even_draws, "_VISITED", 3)
        patch.setattr(graphs, "_GATHERED", 5)
        entities = graph(*said)
        for entity in sorted({one for sentence in said for one in sentence}):
            same, preferred = pools(said, entity)
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


def test_a_row_draws_alone_and_a_new_member_moves_few_draws() -> None:
    said = [{f"t{n}": "thing", "hub": "place"} for n in range(1000)]
    before = drawn(graph(*said), "t5", 2000)
    ids, row = np.array([node("t5")], dtype=np.uint64), np.array([77], dtype=np.uint64)
    alone, _ = graph(*said).replacements.draw(ids, row, 3, "swap", choice="uniform")
    assert alone[0] == node(before[77][0])
    after = drawn(graph(*said, {"new": "thing", "hub": "place"}), "t5", 2000)
    assert sum(old != new for old, new in zip(before, after, strict=True)) < 60
