import numpy as np
import pytest
import pytrec_eval

from tercet.models.retrieval import rankings
from tercet.models.retrieval.rankings import NONE


def test_measures_are_those_of_trec_eval() -> None:
    """On 1,000 rankings of random depth with graded, negative and missing judgements."""
    rng = np.random.default_rng(7)
    count, documents, depth = 1_000, 300, 150
    ranking = np.full((count, depth), NONE, dtype=np.int64)
    judged: list[dict[int, int]] = []
    runs, qrels = {}, {}
    for row in range(count):
        found = rng.permutation(documents)[: rng.integers(0, depth + 1)]
        ranking[row, : len(found)] = found
        places = rng.permutation(documents)[: rng.integers(1, 60)]
        grades = rng.integers(-1, 4, len(places))
        grades[0] = rng.integers(1, 4)
        judged.append(dict(zip(places.tolist(), grades.tolist(), strict=True)))
        qrels[str(row)] = {str(place): grade for place, grade in judged[-1].items()}
        runs[str(row)] = {str(place): float(-rank) for rank, place in enumerate(found)}
    names = {
        "ndcg@10": "ndcg_cut_10",
        "recall@10": "recall_10",
        "recall@100": "recall_100",
        "map": "map",
    }
    theirs = pytrec_eval.RelevanceEvaluator(
        qrels, {"ndcg_cut.10", "recall.10,100", "map", "recip_rank"}
    ).evaluate(runs)
    ours = rankings.measure(ranking, judged)
    for row in range(count):
        # pytrec_eval says nothing of a query for which nothing was found.
        of_query = theirs.get(str(row), dict.fromkeys([*names.values(), "recip_rank"], 0.0))
        for name, trec in names.items():
            assert ours[name][row] == pytest.approx(of_query[trec], abs=1e-6), name
        cut = of_query["recip_rank"] if of_query["recip_rank"] >= 0.1 - 1e-9 else 0.0
        assert ours["mrr@10"][row] == pytest.approx(cut, abs=1e-6)


def test_a_ranking_shorter_than_the_cuts() -> None:
    found = rankings.measure(np.array([[4, 2, NONE]]), [{2: 1, 9: 1}])
    assert found["recall@10"].tolist() == [0.5]
    assert found["mrr@10"].tolist() == [0.5]


def test_a_query_without_a_relevant_document_has_no_measure() -> None:
    with pytest.raises(ValueError, match="query 1"):
        rankings.measure(np.array([[0], [1]]), [{0: 1}, {1: 0}])


def test_scores_are_fused_as_by_hand() -> None:
    near = (np.array([[5, 7, NONE]]), np.array([[0.8, 0.4, -np.inf]], np.float32))
    worded = (np.array([[7, 1, 3]]), np.array([[4.0, 3.0, 1.0]], np.float32))
    # 7 has 0.4 / 0.8 + w, 5 has 1; 1 and 3 the last cosine, 0.5, and 3 / 4 and 1 / 4 of w.
    assert rankings.fuse(near, worded, 0.6)[0].tolist() == [[7, 5, 1]]
    assert rankings.fuse(near, worded, 0.4)[0].tolist() == [[5, 7, 1]]
    assert rankings.fuse(near, worded, 0.0)[0].tolist() == [[5, 1, 3]]


def test_a_query_without_a_word_in_common_is_ranked_by_cosine() -> None:
    near = (np.array([[9, 2], [2, 9]]), np.array([[0.5, 0.1], [-0.1, -0.2]], np.float32))
    nothing = (np.array([[NONE, NONE]] * 2), np.zeros((2, 2), np.float32))
    assert rankings.fuse(near, nothing)[0].tolist() == [[9, 2], [2, 9]]
    assert (
        rankings.fuse((nothing[0], -np.inf + nothing[1]), nothing)[0].tolist()
        == nothing[0].tolist()
    )


def test_rankings_of_other_queries_are_not_fused() -> None:
    one, two = ((np.zeros((n, 3), np.int64), np.ones((n, 3), np.float32)) for n in (1, 2))
    with pytest.raises(ValueError, match="same queries"):
        rankings.fuse(one, two)


def test_a_group_ranks_where_its_best_document_does() -> None:
    ranking = np.array([[3, 1, 0, 2], [2, rankings.NONE, rankings.NONE, rankings.NONE]])
    groups = np.array([0, 1, 1, 0])
    expected = [[0, 1, rankings.NONE, rankings.NONE], [1] + [rankings.NONE] * 3]
    assert rankings.first_of(ranking, groups).tolist() == expected


def test_one_document_of_each_query_is_left_out() -> None:
    ranking = np.array([[3, 1, 2], [1, 3, NONE], [2, NONE, NONE]])
    scores = np.array([[3.0, 2, 1], [2, 1, 0], [1, 0, 0]], dtype=np.float32)
    places, kept = rankings.without((ranking, scores), [1, NONE, 2])
    assert kept.tolist() == [[3, 1, 0], [2, 1, 0], [0, 0, 0]]
    assert places.tolist() == [[3, 2, NONE], [1, 3, NONE], [NONE, NONE, NONE]]


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
