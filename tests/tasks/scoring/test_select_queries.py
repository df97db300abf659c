"""Queries to passages in the stage `select`: each with its passage, none for several."""

from pathlib import Path

from selection import Result, selected

HERONS, GULLS, TERNS, DUCKS = "Herons stand.", "Gulls fly.", "Terns dive.", "Ducks swim."


def of(tmp_path: Path, queries: dict[str, str], **config: object) -> Result:
    """Candidates of these passages' queries."""
    rows = [(text, "positive", "title", text, 0.2) for text in queries]
    config = {"pairing": "relation", "positive_min": 0.1} | config
    return selected(tmp_path, rows, passages=list(queries), anchored=queries, **config)


def test_a_query_is_the_anchor_of_its_passage_and_needs_no_sentence(tmp_path: Path) -> None:
    found = of(tmp_path, {HERONS: "wading birds", GULLS: "flying birds"}).triplets
    assert sorted((row["anchor"], row["positive"], row["negative"]) for row in found) == [
        ("flying birds", GULLS, None),
        ("wading birds", HERONS, None),
    ]
    assert {row["relation"] for row in found} == {"topic"}


def test_one_passage_keeps_a_query_that_three_have(tmp_path: Path) -> None:
    given = {HERONS: "birds?", GULLS: "Birds", TERNS: "birds ", DUCKS: "ducks"}
    found = of(tmp_path, given)
    assert len(found.triplets) == 2
    assert [row["reason"] for row in found.rejects] == ["duplicate", "duplicate"]


def test_no_passage_keeps_a_query_that_more_than_three_have(tmp_path: Path) -> None:
    given = dict.fromkeys((HERONS, GULLS, TERNS, DUCKS), "Introduction")
    found = of(tmp_path, given)
    assert found.triplets == []
    assert {row["reason"] for row in found.rejects} == {"common_query"}


def test_a_sentence_that_is_a_whole_passage_keeps_its_own_rows(tmp_path: Path) -> None:
    """Its id is the passage's, and what was made of the sentence is no query."""
    rows = [
        (HERONS, "positive", "title", HERONS, 0.5),
        *((one, "positive", "next_sentences", "They fish.", 0.5) for one in (HERONS, GULLS)),
    ]
    query = {"anchored": {HERONS: "wading birds"}, "passages": [HERONS]}
    found = selected(tmp_path, rows, pairing="relation", positive_min=0.1, **query)
    assert sorted((row["anchor"], row["positive"]) for row in found.triplets) == [
        (GULLS, "They fish."),
        (HERONS, "They fish."),
        ("wading birds", HERONS),
    ]


def test_a_query_is_bounded_by_the_rank_of_its_passage(tmp_path: Path) -> None:
    given = {HERONS: "wading birds", GULLS: "flying birds", TERNS: "diving birds"}
    ranks = [
        (text, "round_trip", f"rank_{how}", float(rank))
        for how, by_text in (
            ("vectors", {HERONS: 1, GULLS: 3, TERNS: 1_001}),
            ("bm25", {HERONS: 4, GULLS: 3, TERNS: 3}),
        )
        for text, rank in by_text.items()
    ]

    def kept(**config: object) -> set[str]:
        found = of(tmp_path, given, more_scores=ranks, **config)
        assert {row["reason"] for row in found.rejects} <= {"beyond_rank_max"}
        return {row["positive"] for row in found.triplets}

    assert kept() == {HERONS, GULLS, TERNS}
    assert kept(rank_max=3) == {HERONS, GULLS}
    assert kept(rank_max=2) == {HERONS}
    assert kept(rank_max=3, rank="bm25") == {GULLS, TERNS}


def test_what_has_no_rank_loses_nothing_by_it(tmp_path: Path) -> None:
    found = of(tmp_path, {HERONS: "wading birds"}, rank_max=1)
    assert [row["positive"] for row in found.triplets] == [HERONS]


def test_only_a_threshold_for_them_bounds_the_similarity_of_queries(tmp_path: Path) -> None:
    """Theirs is 0.2 here: a question is no rewording of its passage."""
    queries = {HERONS: "wading birds"}
    assert len(of(tmp_path, queries, positive_min=0.9).triplets) == 1
    for key, own in (("relations", "topic"), ("methods", "title")):
        found = of(tmp_path, queries, **{key: {own: {"positive_min": 0.3}}})
        assert [row["reason"] for row in found.rejects] == ["below_positive_min"]
    rows = [(HERONS, "positive", "next_sentences", "They fish.", 0.5)]
    found = selected(tmp_path, rows, pairing="relation", positive_min=0.9, passages=[GULLS])
    assert found.reasons() == {"They fish.": "below_positive_min"}


def test_a_query_that_several_have_stays_with_the_passage_that_it_finds_first(
    tmp_path: Path,
) -> None:
    for first in (HERONS, GULLS, TERNS):
        ranks = [
            (text, "round_trip", "rank_vectors", 1.0 if text == first else 2.0)
            for text in (HERONS, GULLS, TERNS)
        ]
        given = dict.fromkeys((HERONS, GULLS, TERNS), "birds")
        found = of(tmp_path, given, more_scores=ranks, rank_max=3)
        assert [row["positive"] for row in found.triplets] == [first]
