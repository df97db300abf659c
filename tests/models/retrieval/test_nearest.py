import numpy as np
import pytest

from tercet.models.retrieval import rankings
from tercet.models.retrieval.rankings import NONE


def unit(rng: np.random.Generator, count: int, dimension: int = 8) -> rankings.Vectors:
    vectors = rng.standard_normal((count, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("size", [1, 3, 50, 1_000])
def test_blocks_of_any_size_give_what_sorting_all_gives(size: int) -> None:
    rng = np.random.default_rng(3)
    queries, documents = unit(rng, 40), unit(rng, 200)
    # Texts that occur several times: of equal ones the first comes first.
    documents[100:150] = documents[:50]
    cosines = queries @ documents.T
    expected = np.argsort(-cosines.round(6), axis=1, kind="stable")[:, :12]
    blocks = [documents[start : start + size] for start in range(0, 200, size)]
    places, scores = rankings.search_vectors(queries, blocks, 12)
    found = np.take_along_axis(cosines, places, axis=1)
    assert np.allclose(scores, found, atol=1e-6)
    assert np.allclose(found, np.take_along_axis(cosines, expected, axis=1), atol=1e-6)
    assert all(len(set(row)) == 12 for row in places.tolist())


def test_of_equal_cosines_the_smaller_place_comes_first() -> None:
    one = np.array([[1.0, 0.0]], dtype=np.float32)
    documents = np.repeat(one, 9, axis=0)
    for blocks in ([documents], [documents[:2], documents[2:]], list(documents[:, None])):
        places, _ = rankings.search_vectors(one, blocks, 4)
        assert places.tolist() == [[0, 1, 2, 3]]


def test_fewer_documents_than_asked_for() -> None:
    one = np.array([[1.0, 0.0]], dtype=np.float32)
    places, scores = rankings.search_vectors(one, [one], 3)
    assert places.tolist() == [[0, NONE, NONE]]
    assert scores[0, 0] == 1
    assert np.isneginf(scores[0, 1:]).all()
    places, _ = rankings.search_vectors(one, [], 2)
    assert places.tolist() == [[NONE, NONE]]


def test_vectors_with_nan_are_refused() -> None:
    one = np.array([[np.nan, 0.0]], dtype=np.float32)
    with pytest.raises(ValueError, match="NaN"):
        rankings.search_vectors(one, [], 1)
    with pytest.raises(ValueError, match="NaN"):
        rankings.search_vectors(np.zeros((1, 2), np.float32), [one], 1)
