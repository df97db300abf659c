"""Stage `select`: thresholds, ranks, fallbacks, and a reason for every candidate left out."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from selection import Row, selected

from tercet.tasks.scoring.select import MethodConfig, Quantile, SelectConfig


def test_thresholds_of_the_paper(tmp_path: Path) -> None:
    result = selected(
        tmp_path,
        [
            ("x", "positive", "half", "good", 0.9),
            ("x", "positive", "half", "too far", 0.8999),
            ("x", "negative", "swap", "far enough", 0.75),
            ("x", "negative", "swap", "too near", 0.7501),
            ("x", "negative", "random", "other", 0.1),
        ],
    )
    assert result.texts() == [("x", "good", "far enough")]
    (triplet,) = result.triplets
    assert triplet["positive_method"] == "half"
    assert triplet["negative_method"] == "swap"
    assert (triplet["positive_similarity"], triplet["negative_similarity"]) == (0.9, 0.75)
    assert result.reasons() == {
        "too far": "below_positive_min",
        "too near": "above_negative_max",
        "other": "unused_fallback",
    }
    details = {row["reason"]: row["detail"] for row in result.rejects}
    assert details["below_positive_min"] == "similarity 0.8999, below 0.9000"
    assert details["above_negative_max"] == "similarity 0.7501, above 0.7500"
    assert {row["stage"] for row in result.rejects} == {"select"}


FAILED: list[Row] = [
    ("x", "positive", "half", "too far", 0.2),
    ("x", "negative", "swap", "too near", 0.99),
    ("x", "negative", "random", "other", 0.1),
]


def test_fallbacks_are_visible(tmp_path: Path) -> None:
    (triplet,) = selected(tmp_path, FAILED).triplets
    assert (triplet["anchor"], triplet["positive"], triplet["negative"]) == ("x", "x", "other")
    assert triplet["positive_id"] is None
    assert triplet["positive_method"] == "self"
    assert triplet["negative_method"] == "random"
    assert triplet["negative_similarity"] == 0.1


@pytest.mark.parametrize(
    ("config", "texts", "left"),
    [
        ({"fallback_positive": False}, [], "unused_fallback"),
        ({"fallback_negative": False}, [], "unused_fallback"),
        ({"fallback_positive": False, "positive_min": 0.1}, [("x", "too far", "other")], None),
        (
            {"fallback_negative": False, "negative_max": 1.0},
            [("x", "x", "too near")],
            "unused_fallback",
        ),
        ({"fallback_negative": False, "positive_min": 0.1}, [], "unused_fallback"),
    ],
)
def test_each_fallback_can_be_forbidden(
    tmp_path: Path, config: dict[str, Any], texts: list[tuple[str, str, str]], left: str | None
) -> None:
    result = selected(tmp_path, FAILED, **config)
    assert result.texts() == texts
    assert result.reasons().get("other") == left
    if config.get("positive_min") and not texts:
        assert result.reasons()["too far"] == "no_pair"


def test_no_threshold_applies_to_the_fallback(tmp_path: Path) -> None:
    near: Row = ("x", "negative", "random", "near", 0.9)
    result = selected(tmp_path, [near])
    assert result.texts() == [("x", "x", "near")]
    assert result.acceptance["random"]["accepted"] == 1
    assert result.acceptance["random"]["threshold"] is None
    # One that competes with the others has to pass for one.
    result = selected(tmp_path, [near], methods={"random": MethodConfig()})
    assert result.triplets == []
    assert result.reasons() == {"near": "above_negative_max"}


def test_random_competes_when_the_config_names_it(tmp_path: Path) -> None:
    rows: list[Row] = [(f"x{i}", "negative", "swap", f"swap {i}", 0.5) for i in range(40)]
    rows += [(f"x{i}", "negative", "random", f"random {i}", 0.1) for i in range(40)]
    result = selected(tmp_path, rows, methods={"random": MethodConfig(weight=1.0)})
    counts = Counter(t["negative_method"] for t in result.triplets)
    assert counts.total() == 40
    assert min(counts["swap"], counts["random"]) > 8
    assert set(result.reasons().values()) == {"surplus"}


def test_per_method_and_quantile_thresholds(tmp_path: Path) -> None:
    rows: list[Row] = [(f"x{i}", "positive", "half", f"h{i}", i / 10) for i in range(11)]
    rows += [(f"x{i}", "positive", "same", f"s{i}", 0.99) for i in range(11)]
    rows += [(f"x{i}", "negative", "random", f"r{i}", 0.0) for i in range(11)]
    result = selected(
        tmp_path,
        rows,
        per_sentence=2,
        methods={"half": {"positive_min": {"quantile": 0.3}}, "same": {"positive_min": 1.0}},
    )
    used = {t["positive"] for t in result.triplets if t["positive_id"] is not None}
    assert used == {f"h{i}" for i in range(3, 11)}
    assert result.acceptance["half"]["accepted"] == 8
    assert result.acceptance["half"]["threshold"] == pytest.approx(0.3)
    assert result.acceptance["half"]["similarity_median"] == pytest.approx(0.5)
    assert result.acceptance["same"]["accepted"] == 0
    assert result.acceptance["same"]["candidates"] == 11


def test_negatives_may_have_a_floor(tmp_path: Path) -> None:
    rows: list[Row] = [("x", "negative", "swap", "far", 0.2), ("x", "negative", "swap", "mid", 0.6)]
    result = selected(tmp_path, rows, negative_min=0.5)
    assert result.texts() == [("x", "x", "mid")]
    assert result.reasons() == {"far": "below_negative_min"}


def test_most_similar_first_and_the_rest_is_surplus(tmp_path: Path) -> None:
    rows: list[Row] = [("x", "positive", "half", f"p{i}", 0.9 + i / 100) for i in range(4)]
    rows += [("x", "negative", "swap", f"n{i}", 0.5 + i / 100) for i in range(3)]
    result = selected(tmp_path, rows, prefer="similarity", per_sentence=2)
    assert result.texts() == [("x", "p2", "n1"), ("x", "p3", "n2")]
    assert result.reasons() == {"p0": "surplus", "p1": "surplus", "n0": "surplus"}


def test_the_draw_follows_the_weights_and_not_the_number_of_candidates(tmp_path: Path) -> None:
    rows: list[Row] = []
    for i in range(300):
        rows += [(f"x{i}", "positive", "many", f"many {i} {k}", 0.95) for k in range(5)]
        rows.append((f"x{i}", "positive", "few", f"few {i}", 0.95))
        rows.append((f"x{i}", "positive", "never", f"never {i}", 0.95))
        rows.append((f"x{i}", "negative", "random", f"r{i}", 0.0))
    weights = {"many": 1.0, "few": 3.0, "never": 0.0}
    config = {"methods": {name: {"weight": weight} for name, weight in weights.items()}}
    result = selected(tmp_path, rows, **config)
    counts = Counter(t["positive_method"] for t in result.triplets)
    assert counts["few"] / 300 == pytest.approx(0.75, abs=0.09)
    assert counts["many"] + counts["few"] == 300
    assert result.reasons()["never 0"] == "no_weight"
    assert result.texts() == selected(tmp_path, rows[::-1], parts=3, **config).texts()
    assert result.texts() != selected(tmp_path, rows, seed=2, **config).texts()


def test_roles_are_swapped_only_where_the_config_says_so(tmp_path: Path) -> None:
    rows: list[Row] = [
        ("x", "positive", "rewrite", "drifted", 0.5),
        ("x", "negative", "swap", "stayed", 0.95),
    ]
    assert selected(tmp_path, rows).triplets == []
    result = selected(tmp_path, rows, swap_roles=("rewrite", "swap"))
    assert result.texts() == [("x", "x", "drifted")]
    # what alters the meaning never becomes a positive
    assert result.reasons() == {"stayed": "above_negative_max"}


@pytest.mark.parametrize(
    ("bounds", "swapped"),
    [
        ({"negative_min": 0.6}, ["between"]),
        ({"negative_min": None}, ["between", "far"]),
        ({"negative_max": None}, ["between", "far", "near"]),
        ({"methods": {"rewrite": {"negative_min": 0.6, "negative_max": 0.9}}}, ["between", "near"]),
    ],
)
def test_a_swapped_candidate_is_bound_as_a_negative_is(
    bounds: dict[str, Any], swapped: list[str], tmp_path: Path
) -> None:
    rows: list[Row] = [
        ("x", "positive", "rewrite", "far", 0.5),
        ("y", "positive", "rewrite", "between", 0.7),
        ("z", "positive", "rewrite", "near", 0.85),
    ]
    result = selected(tmp_path, rows, swap_roles=("rewrite",), **bounds)
    assert sorted(negative for _, _, negative in result.texts()) == swapped


def test_a_candidate_without_a_score_is_a_reject(tmp_path: Path) -> None:
    result = selected(
        tmp_path,
        [("x", "positive", "half", "a", None), ("x", "negative", "swap", "b", float("nan"))],
    )
    assert result.reasons() == {"a": "no_score", "b": "no_score"}


def test_thresholds_of_a_method_that_made_nothing_are_no_error(tmp_path: Path) -> None:
    methods = {"quantity": {"negative_max": {"quantile": 0.5}}}
    assert len(selected(tmp_path, FAILED, methods=methods).triplets) == 1


def test_nothing_to_select_from(tmp_path: Path) -> None:
    row: Row = ("x", "positive", "half", "a", 0.95)
    result = selected(tmp_path, [row])
    assert result.triplets == []
    assert result.reasons() == {"a": "no_pair"}


@pytest.mark.parametrize(
    "config",
    [
        {"negative_max": 1.5},
        {"negative_max": -0.1},
        {"positive_min": float("nan")},
        {"methods": {"half": {"positive_min": -2.0}}},
        {"methods": {"half": {"positive_min": {"quantile": 1.5}}}},
        {"positive_min": Quantile},
        {"p_min": -0.1},
        {"per_sentence": 0},
        {"beta": 1},
    ],
)
def test_the_config_is_bounded(config: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SelectConfig.model_validate(config)


def test_a_method_of_weight_zero_serves_in_no_role(tmp_path: Path) -> None:
    rows: list[Row] = [
        ("x", "positive", "rewrite", "drifted", 0.5),
        ("x", "negative", "random", "other", 0.1),
    ]
    never = {"rewrite": MethodConfig(weight=0.0)}
    result = selected(tmp_path, rows, swap_roles=("rewrite",), methods=never)
    assert result.texts() == [("x", "x", "other")]
    assert result.acceptance["rewrite"]["accepted"] == 0


def test_what_two_methods_say_alike_counts_once(tmp_path: Path) -> None:
    rows: list[Row] = [
        ("x", "positive", "light", "same", 0.95),
        ("x", "positive", "heavy", "same", 0.95),
        ("x", "negative", "random", "other", 0.1),
        ("x", "negative", "swap", "other", 0.1),
        ("y", "positive", "light", "same", 0.95),
        ("y", "negative", "random", "other", 0.1),
    ]
    result = selected(tmp_path, rows, per_sentence=3, methods={"heavy": {"weight": 2.0}})
    assert result.texts() == [("x", "same", "other"), ("y", "same", "other")]
    methods = {(t["anchor"], t["positive_method"], t["negative_method"]) for t in result.triplets}
    assert methods == {("x", "heavy", "swap"), ("y", "light", "random")}
    assert [row["reason"] for row in result.rejects] == ["duplicate", "duplicate"]


@given(data=st.data(), per_sentence=st.integers(1, 3), fallback=st.booleans())
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_every_candidate_is_used_or_refused_once(
    tmp_path: Path, data: Any, per_sentence: int, fallback: bool
) -> None:
    made = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(["x", "y", "z"]),
                st.sampled_from(["positive", "negative"]),
                st.sampled_from(["m", "n", "random"]),
                st.sampled_from(["x", "one", "two", "three", "held out"]),
                st.one_of(st.none(), st.floats(0, 1)),
            ),
            min_size=1,
            max_size=14,
            unique_by=lambda row: row[:4],
        )
    )
    rows: list[Row] = list(made)
    result = selected(
        tmp_path,
        rows,
        per_sentence=per_sentence,
        fallback_positive=fallback,
        fallback_negative=fallback,
        positive_min=0.6,
        negative_max=0.5,
        swap_roles=("m",),
        held_out=["Held out."],
    )
    assert all(t["positive"] != t["negative"] != "held out" for t in result.triplets)
    used = {t["negative_id"] for t in result.triplets} | {
        t["positive_id"] for t in result.triplets if t["positive_id"] is not None
    }
    refused = [row["row_id"] for row in result.rejects]
    assert len(refused) == len(set(refused))
    assert used.isdisjoint(refused)
    assert len(used) + len(refused) == len(rows)
    assert max(Counter(t["anchor"] for t in result.triplets).values(), default=0) <= per_sentence
    assert len({t["triplet_id"] for t in result.triplets}) == len(result.triplets)
