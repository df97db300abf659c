"""Stage `select` where probabilities of the roles are known."""

from pathlib import Path

from failures import fails
from selection import Row, selected

from tercet.tasks.scoring.select import MethodConfig


def test_a_swapped_candidate_must_be_as_probable_in_its_new_role(tmp_path: Path) -> None:
    rows: list[Row] = [
        ("x", "positive", "rewrite", "follows", 0.5, 0.97),
        ("y", "positive", "rewrite", "denied", 0.5, 0.02),
        ("z", "positive", "rewrite", "unclear", 0.5, 0.5),
        ("w", "positive", "next_sentences", "on the topic", 0.5, 0.97),
    ]
    result = selected(tmp_path, rows, p_min=0.9, swap_roles=("rewrite", "next_sentences"))
    assert result.texts() == [("w", "w", "on the topic"), ("y", "y", "denied")]
    assert result.reasons() == {"follows": "below_positive_min", "unclear": "below_p_min"}


def test_probability_of_the_role(tmp_path: Path) -> None:
    result = selected(
        tmp_path,
        [
            ("x", "positive", "t5", "sure", 0.95, 0.97),
            ("x", "positive", "t5", "unsure", 0.95, 0.5),
            ("x", "negative", "t5", "false", 0.3, 0.02),
            ("x", "negative", "t5", "true", 0.3, 0.8),
            ("x", "negative", "t5", "unknown", 0.3),
        ],
        p_min=0.9,
    )
    assert result.texts() == [("x", "sure", "false")]
    assert result.reasons() == {
        "unsure": "below_p_min",
        "true": "below_p_min",
        "unknown": "no_score",
    }


def test_a_probability_is_never_asked_of_what_is_on_the_topic_or_unrelated(tmp_path: Path) -> None:
    rows: list[Row] = [
        ("x", "positive", "next_sentences", "paragraph", 0.95, 0.1),
        ("x", "negative", "random", "elsewhere", 0.0),
        ("y", "positive", "cutoff", "shorter", 0.95, 0.5),
        ("y", "negative", "negation", "denied", 0.3, 0.5),
        ("y", "negative", "mined", "near", 0.3),
    ]
    result = selected(tmp_path, rows, pairing="relation", p_min=0.9, per_sentence=2)
    assert [(t["anchor"], t["positive"]) for t in result.triplets] == [("x", "paragraph")]
    refused = {text for text, reason in result.reasons().items() if reason == "below_p_min"}
    assert refused == {"shorter", "denied"}
    assert "no_score" not in result.reasons().values()


def test_the_surest_of_many_comes_first_by_its_probability(tmp_path: Path) -> None:
    rows: list[Row] = [("x", "positive", "cutoff", f"p{i}", 0.95, 0.9 + i / 100) for i in range(4)]
    rows += [("x", "negative", "negation", f"n{i}", 0.5, i / 100) for i in range(3)]
    rows += [("x", "negative", "negation", "unknown", 0.5)]
    for seed in (1, 2, 3):
        result = selected(tmp_path, rows, seed=seed, prefer="p_true", per_sentence=2)
        assert result.texts() == [("x", "p2", "n1"), ("x", "p3", "n0")]
    every = selected(tmp_path, rows, prefer="p_true", per_sentence=4)
    assert ("x", "p0", "unknown") in every.texts()


def test_what_is_unrelated_is_no_surer_negative_than_one_that_denies(tmp_path: Path) -> None:
    rows: list[Row] = [
        ("x", "positive", "next_sentences", "paragraph", 0.95, 0.99),
        ("x", "positive", "cutoff", "shorter", 0.95, 0.8),
        ("x", "negative", "random", "elsewhere", 0.0, 0.0),
        ("x", "negative", "negation", "denied", 0.3, 0.2),
    ]
    result = selected(tmp_path, rows, prefer="p_true", methods={"random": MethodConfig()})
    assert result.texts() == [("x", "shorter", "denied")]


def test_without_a_probability_the_draw_decides(tmp_path: Path) -> None:
    rows: list[Row] = [
        (f"x{i}", "positive", "next_sentences", f"{i} {k}", 0.95) for i in range(40) for k in "ab"
    ]
    drawn = selected(tmp_path, rows, pairing="relation", seed=4)
    ordered = selected(tmp_path, rows, pairing="relation", seed=4, prefer="p_true")
    chosen = {t["positive"] for t in drawn.triplets}
    assert chosen == {t["positive"] for t in ordered.triplets}
    assert {text[-1] for text in chosen} == {"a", "b"}


def test_one_scorer_of_a_measure_counts_and_is_named_where_there_are_several(
    tmp_path: Path,
) -> None:
    rows: list[Row] = [
        ("x", "positive", "half", "good", 0.95),
        ("x", "positive", "half", "bad", 0.5),
        ("x", "negative", "swap", "far", 0.3),
    ]
    # Averages of both would accept neither positive.
    other = [("good", "u", "similarity", 0.1), ("bad", "u", "similarity", 0.99)]
    other += [("far", "u", "similarity", 0.2)]
    for named, text, value in (("t", "good", 0.95), ("u", "bad", 0.99)):
        result = selected(tmp_path, rows, more_scores=other, similarity=named)
        assert result.texts() == [("x", text, "far")]
        assert result.triplets[0]["positive_similarity"] == value
    with fails("bad_value"):
        selected(tmp_path, rows, more_scores=other)
    probable = [("good", "d", "p_true", 0.4), ("bad", "d", "p_true", 0.9)]
    probable += [("far", "d", "p_true", 0.1)]
    result = selected(tmp_path, rows, more_scores=probable, positive_min=0.4, p_min=0.5)
    assert result.texts() == [("x", "bad", "far")]
    assert result.reasons() == {"good": "below_p_min"}
