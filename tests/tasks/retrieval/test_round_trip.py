"""Scorer `round_trip`: where a query's own passage stands, by vectors, by words and by both."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from stages import emitted

from tercet.models.encoders import encoder
from tercet.models.retrieval import bm25
from tercet.models.retrieval.rankings import WEIGHT
from tercet.models.seeding import text_ids
from tercet.models.text.passages import passage_text
from tercet.tasks.retrieval import passage_vectors, round_trip
from tercet.tasks.retrieval.passage_vectors import PASSAGE_VECTORS, PassageVectorsConfig

WORDS = ("heron", "gull", "tern", "duck", "swan", "coot", "wing", "nest", "egg", "reed", "pond")
Scores = dict[tuple[int, str], float]
Scored = Callable[..., tuple[Scores, list[dict[str, Any]]]]


class Corpus:
    """Passages of random words, their vectors, and a query about each of some of them."""

    def __init__(self, passages: int, queries: int, seed: int = 3) -> None:
        draw = np.random.default_rng(seed)
        self.texts = [" ".join(draw.choice(WORDS, size=6)) + f" number{n}" for n in range(passages)]
        self.contexts = ["Birds" if n % 2 else "" for n in range(passages)]
        self.vectors = _unit(draw.normal(size=(passages, 8)))
        self.about = draw.integers(passages, size=queries)
        self.queries = [" ".join(draw.choice(WORDS, size=3)) + f" q{n}" for n in range(queries)]
        self.asked = _unit(self.vectors[self.about] + draw.normal(size=(queries, 8)) * 0.4)

    @property
    def ids(self) -> Any:
        both = zip(self.contexts, self.texts, strict=True)
        return text_ids([passage_text(*one) for one in both])


def _unit(vectors: Any) -> Any:
    vectors = vectors.astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scored:
    """Value by candidate (the query's number) and measure, and rejects."""

    def scored(
        corpus: Corpus, parts: int = 1, more: Sequence[dict[str, Any]] = ()
    ) -> tuple[Scores, list[dict[str, Any]]]:
        known = dict(zip(corpus.queries, corpus.asked, strict=True))

        def encode(model: Any, texts: list[str], *args: Any, side: str, **options: Any) -> Any:
            assert side == "query"
            return np.array([known[text] for text in texts], np.float32).reshape(len(texts), -1)

        monkeypatch.setattr(encoder, "encode", encode)
        monkeypatch.setattr(round_trip, "load_encoder", lambda work, slot: None)
        ids = corpus.ids
        finite = np.isfinite(corpus.vectors).all(axis=1)
        vectors = [ids[finite], corpus.vectors[finite].tolist()]
        columns = {"passage_id": ids, "context": corpus.contexts, "text": corpus.texts}
        inputs = {
            "passages": pa.table(columns),
            "passage_vectors": pa.table(vectors, schema=PASSAGE_VECTORS),
        }
        rows = [
            {"sentence_id": int(ids[about]), "anchor": query}
            for about, query in zip(corpus.about, corpus.queries, strict=True)
        ]
        listed = [{"candidate_id": n, "text": "", **row} for n, row in enumerate([*rows, *more])]
        uint, text = pa.uint64(), pa.string()
        schema = pa.schema(
            {"candidate_id": uint, "sentence_id": uint, "anchor": text, "text": text}.items()
        )
        found: list[dict[str, Any]] = []
        lost: list[dict[str, Any]] = []
        for part in range(parts):
            slots = {"candidates": pa.Table.from_pylist(listed[part::parts], schema), **inputs}
            made = emitted(round_trip.STAGE, PassageVectorsConfig(), slots, tmp_path)
            found += made["scores"].to_pylist()
            lost += made["rejects"].to_pylist()
        assert {row["scorer"] for row in found} <= {"round_trip"}
        scores = {(row["candidate_id"], row["measure"]): row["value"] for row in found}
        assert len(scores) == len(found)
        return scores, lost

    return scored


def reference(corpus: Corpus) -> Scores:
    """The same from whole sorted lists, one query at a time."""
    both = zip(corpus.contexts, corpus.texts, strict=True)
    index = bm25.build([passage_text(*one) for one in both])
    found: Scores = {}
    for number, (about, query) in enumerate(zip(corpus.about, corpus.queries, strict=True)):
        cosines = corpus.vectors @ corpus.asked[number]
        near = sorted(range(len(cosines)), key=lambda n: -cosines[n])
        places, scores = (of[0] for of in bm25.search(index, [query], len(cosines)))
        worded = [n for n in places.tolist() if n >= 0]
        sums = cosines.astype(np.float64) / cosines.max()
        sums[worded] += WEIGHT * scores[: len(worded)] / max(scores.max(), 1e-9)
        fused = sorted(range(len(sums)), key=lambda n: -sums[n])
        for measure, order in (("vectors", near), ("bm25", worded), ("fused", fused)):
            rank = order.index(about) + 1 if about in order else 1_001
            found[number, f"rank_{measure}"] = rank
    return found


@pytest.mark.parametrize("parts", [1, 3])
def test_ranks_are_those_of_whole_sorted_lists(
    scored: Scored, monkeypatch: pytest.MonkeyPatch, parts: int
) -> None:
    monkeypatch.setattr(passage_vectors, "_BLOCK", 37)
    monkeypatch.setattr(round_trip, "_QUERIES", 16)
    corpus = Corpus(300, 50)
    found, lost = scored(corpus, parts)
    assert found == reference(corpus)
    assert lost == []
    assert len({found[n, "rank_vectors"] for n in range(50)}) > 5
    assert any(found[n, "rank_bm25"] == 1_001 for n in range(50))


def test_behind_the_depth_is_one_rank(scored: Scored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_trip, "DEPTH", 20)
    corpus = Corpus(300, 50)
    found, _ = scored(corpus)
    for (number, measure), rank in reference(corpus).items():
        if measure != "rank_fused":
            assert found[number, measure] == min(rank, 21)


def test_twins_share_the_ranks_in_the_order_of_the_passages(scored: Scored) -> None:
    corpus = Corpus(40, 10)
    corpus.about[:] = [4] * 5 + [30] * 5
    corpus.texts[30] = corpus.texts[4].replace("number4", "NUMBER4")
    corpus.vectors[30] = corpus.vectors[4]
    corpus.asked[:] = corpus.vectors[4]
    found, _ = scored(corpus)
    assert [found[n, "rank_vectors"] for n in range(10)] == [1] * 5 + [2] * 5


def test_a_passage_without_a_vector_is_not_found_by_vectors(scored: Scored) -> None:
    corpus = Corpus(40, 10)
    corpus.about[0], corpus.about[1] = 7, 9
    corpus.queries[0] = corpus.texts[7]
    corpus.vectors[7] = np.nan
    found, _ = scored(corpus)
    assert found[0, "rank_vectors"] == 1_001
    assert found[0, "rank_bm25"] == 1
    assert found[1, "rank_vectors"] <= 39
    corpus.vectors[:] = np.nan
    found, _ = scored(corpus)
    assert {found[n, "rank_vectors"] for n in range(10)} == {1_001}


def test_a_query_that_is_no_number_is_a_reject(scored: Scored) -> None:
    corpus = Corpus(40, 10)
    corpus.asked[3] = np.nan
    found, lost = scored(corpus)
    assert {number for number, _ in found} == {*range(10)} - {3}
    assert [(row["row_id"], row["reason"], row["text"]) for row in lost] == [
        (3, "nan_score", corpus.queries[3])
    ]


def test_only_queries_that_do_not_stand_above_their_passage_have_ranks(scored: Scored) -> None:
    corpus = Corpus(4, 1)
    ids = corpus.ids
    corpus.contexts[1] = "Birds > Herons"
    more = [
        {"sentence_id": int(corpus.ids[1]), "anchor": "Herons"},  # a heading
        {"sentence_id": int(ids[2]), "anchor": None},  # of a sentence that is a passage
        {"sentence_id": int(ids[2]), "anchor": corpus.texts[2]},
        {"sentence_id": 5, "anchor": "a passage of some sentence"},
    ]
    found, lost = scored(corpus, more=more)
    assert {number for number, _ in found} == {0}
    assert lost == []
    corpus.queries, corpus.about, corpus.asked = [], corpus.about[:0], corpus.asked[:0]
    assert scored(corpus) == ({}, [])
