"""The nearest text below a cap, against a search row by row."""

import numpy as np
import pytest

from tercet.models.rules import mined
from tercet.models.rules.mined import nearest_below


def unit(rng: np.random.Generator, rows: int) -> np.ndarray:
    vectors = rng.normal(size=(rows, 6)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("block", [1, 7, 40, 100])
def test_it_finds_what_a_search_row_by_row_finds(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mined, "_QUERIES", 5)
    rng = np.random.default_rng(block)
    queries, pool = unit(rng, 23), unit(rng, 60)
    docs = rng.integers(0, 9, 23).astype(np.uint64)
    owners = np.sort(rng.integers(0, 9, 60)).astype(np.uint64)
    caps = rng.uniform(-1, 1, (23, 3)).astype(np.float32)
    caps[4, 2] = np.nan
    blocks = [(pool[i : i + block], owners[i : i + block]) for i in range(0, 60, block)]
    rows, cosines = nearest_below(queries, docs, caps, blocks)
    for i in range(23):
        for k in range(3):
            allowed = {
                j: float(queries[i] @ pool[j])
                for j in range(60)
                if owners[j] != docs[i] and queries[i] @ pool[j] < caps[i, k]
            }
            if not allowed:
                assert rows[i, k] == -1
                assert cosines[i, k] == -np.inf
                continue
            assert rows[i, k] == max(allowed, key=allowed.__getitem__)
            assert cosines[i, k] == pytest.approx(max(allowed.values()), abs=1e-6)
    assert rows[4, 2] == -1


def test_a_text_without_a_vector_is_nobodys_nearest() -> None:
    vectors = np.array([[np.nan, np.nan], [0.6, 0.8]], dtype=np.float32)
    owners = np.array([1, 2], dtype=np.uint64)
    query = np.array([[1.0, 0.0]], dtype=np.float32)
    caps = np.array([[0.9]], dtype=np.float32)
    rows, cosines = nearest_below(query, np.array([7], dtype=np.uint64), caps, [(vectors, owners)])
    assert rows.tolist() == [[1]]
    assert cosines[0, 0] == pytest.approx(0.6)
