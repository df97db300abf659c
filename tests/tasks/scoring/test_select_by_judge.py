"""The stage `select` where no scorer gives a similarity, so that a probability decides alone."""

from pathlib import Path
from typing import Any

import pytest
from selection import Result, Row, selected

ROWS: list[Row] = [
    ("x", "positive", "t5", "follows", None, 0.97),
    ("x", "positive", "t5", "unsure", None, 0.5),
    ("x", "positive", "t5", "follows too", None, 0.95),
    ("x", "negative", "t5", "denies", None, 0.02),
    ("x", "negative", "t5", "does not", None, 0.8),
    ("x", "negative", "t5", "nobody knows", None),
    ("y", "positive", "t5", "no pair", None, 0.99),
]


def judged(tmp_path: Path, rows: list[Row] = ROWS, **config: Any) -> Result:
    return selected(
        tmp_path,
        rows,
        **{
            "by_similarity": False,
            "positive_min": None,
            "negative_max": None,
            "p_min": 0.9,
            "pairing": "relation",
            "fallback_positive": False,
            "prefer": "p_true",
            **config,
        },
    )


def test_the_judge_alone_decides(tmp_path: Path) -> None:
    result = judged(tmp_path)
    (triplet,) = (row for row in result.triplets if row["relation"] == "alters")
    assert (triplet["positive"], triplet["negative"]) == ("follows", "denies")
    assert triplet["positive_similarity"] is triplet["negative_similarity"] is None
    assert result.reasons() == {
        "unsure": "below_p_min",
        "does not": "below_p_min",
        "nobody knows": "no_score",
        "follows too": "surplus",
    }


def test_acceptance_has_no_threshold_and_no_quantiles(tmp_path: Path) -> None:
    row = judged(tmp_path).acceptance["t5"]
    known = ("threshold", "similarity_p10", "similarity_median", "similarity_p90")
    assert [row[name] for name in known] == [None] * 4


def test_an_unrelated_text_falls_back_without_a_cosine(tmp_path: Path) -> None:
    rows: list[Row] = [
        ("x", "positive", "t5", "follows", None, 0.97),
        ("x", "negative", "random", "elsewhere", None),
        ("y", "positive", "t5", "follows as well", None, 0.97),
        ("y", "negative", "t5", "denies", None, 0.01),
        ("y", "negative", "random", "somewhere", None),
    ]
    result = judged(tmp_path, rows, pairing="role")
    assert result.texts() == [("x", "follows", "elsewhere"), ("y", "follows as well", "denies")]
    assert [row["reason"] for row in result.rejects] == ["unused_fallback"]


@pytest.mark.parametrize("p_min", [0.9, 0.1])
def test_a_refused_positive_that_denies_enough_becomes_a_negative(
    tmp_path: Path, p_min: float
) -> None:
    rows: list[Row] = [
        ("x", "positive", "t5", "follows", None, 0.97),
        ("x", "positive", "cutoff", "left out", None, 0.05),
    ]
    result = judged(tmp_path, rows, p_min=p_min, pairing="role", swap_roles=("cutoff",))
    assert result.texts() == [("x", "follows", "left out")]


def test_with_an_evaluator_a_candidate_without_its_cosine_stays_refused(tmp_path: Path) -> None:
    assert judged(tmp_path, by_similarity=True).triplets == []
