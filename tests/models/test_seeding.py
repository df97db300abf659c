"""Ids and draws: functions of content, seed and purpose alone."""

import hashlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tercet.models import seeding

IDS = np.arange(2000, dtype=np.uint64)


def test_an_id_is_the_lower_half_of_md5_as_duckdb_has_it() -> None:
    import duckdb

    texts = ["", "a", "Größe", "two words"]
    (rows,) = duckdb.sql(
        "SELECT list(md5_number_lower(t)) FROM unnest($1) AS _(t)", params=[texts]
    ).fetchall()
    assert [seeding.text_id(text) for text in texts] == rows[0]
    assert seeding.text_ids(texts).tolist() == rows[0]
    assert seeding.text_id("a", "b") == int.from_bytes(
        hashlib.md5(b"a\x1fb").digest()[8:], "little"
    )
    assert seeding.text_ids(["a"], ["b"]).tolist() == [seeding.text_id("a", "b")]
    assert seeding.text_id("ab", "") != seeding.text_id("a", "b")


@given(st.permutations(range(40)), st.integers(1, 39))
def test_a_draw_depends_on_neither_order_nor_partition(order: list[int], cut: int) -> None:
    ids = np.array(order, dtype=np.uint64)
    whole = seeding.draws(7, "purpose", ids)
    parts = [seeding.draws(7, "purpose", part) for part in (ids[:cut], ids[cut:])]
    assert np.concatenate(parts).tolist() == whole.tolist()
    assert whole[np.argsort(ids)].tolist() == seeding.draws(7, "purpose", IDS[:40]).tolist()


def test_seed_purpose_and_counter_give_other_draws() -> None:
    drawn = [
        seeding.draws(1, "one", IDS),
        seeding.draws(2, "one", IDS),
        seeding.draws(1, "two", IDS),
        seeding.draws(1, "one", IDS, 1),
    ]
    assert len(set(np.concatenate(drawn).tolist())) == 4 * len(IDS)
    counters = np.ones(len(IDS), dtype=np.uint64)
    assert seeding.draws(1, "one", IDS, counters).tolist() == drawn[3].tolist()


def test_draws_are_even() -> None:
    values = seeding.uniforms(3, "even", np.arange(50_000, dtype=np.uint64))
    assert values.min() >= 0
    assert values.max() < 1
    counts = np.histogram(values, 10, (0, 1))[0]
    # Five standard deviations of a count of 5,000.
    assert np.abs(counts - 5000).max() < 5 * np.sqrt(5000 * 0.9)


def test_below_stays_below() -> None:
    limits = (IDS % 7 + 1).astype(np.int64)
    found = seeding.below(3, "below", IDS, limits)
    assert (found >= 0).all()
    assert (found < limits).all()
    assert set(found[limits == 7].tolist()) == set(range(7))
    assert seeding.choice(["only"], 1, "x", 5) == "only"


def test_a_ring_that_grows_changes_few_draws() -> None:
    members = np.sort(seeding.mix(np.arange(1000, dtype=np.uint64)))
    grown = np.sort(seeding.mix(np.arange(1010, dtype=np.uint64)))
    ids = np.arange(20_000, dtype=np.uint64)
    before = members[seeding.ring_start(members, 1, "ring", ids)]
    after = grown[seeding.ring_start(grown, 1, "ring", ids)]
    changed = before != after
    assert 0 < changed.mean() < 0.02
    assert set(after[changed].tolist()) <= set(grown.tolist()) - set(members.tolist())
    assert seeding.ring_start(members[:0], 1, "ring", ids[:3]).tolist() == [0, 0, 0]
