"""Stage `select`: thresholds, ranks, fallbacks, and a reason for every candidate left out."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from selection import Result, Row, selected

from tercet.tasks.corpus import held_out as held_out_texts
from tercet.tasks.scoring import select as candidates
from tercet.tasks.scoring.select import MethodConfig


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
    assert (triplet["positive_method"], triplet["negative_method"]) == ("half", "swap")
    assert (triplet["positive_similarity"], triplet["negative_similarity"]) == (0.9, 0.75)
    assert result.reasons() == {
        "too far": "below_positive_min",
        "too near": "above_negative_max",
        "other": "unused_fallback",
    }


FAILED: list[Row] = [
    ("x", "positive", "half", "too far", 0.2),
    ("x", "negative", "swap", "too near", 0.99),
    ("x", "negative", "random", "other", 0.1),
]


@pytest.mark.parametrize(
    ("config", "texts", "left"),
    [
        ({"fallback_positive": False}, [], "unused_fallback"),
        ({"fallback_positive": False, "positive_min": 0.1}, [("x", "too far", "other")], None),
    ],
)
def test_the_positive_may_be_forbidden_to_fall_back(
    tmp_path: Path, config: dict[str, Any], texts: list[tuple[str, str, str]], left: str | None
) -> None:
    result = selected(tmp_path, FAILED, **config)
    assert result.texts() == texts
    assert result.reasons().get("other") == left


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
        ({}, ["between", "far"]),
        ({"negative_max": None}, ["between", "far", "near"]),
        ({"methods": {"rewrite": {"negative_max": 0.6}}}, ["far"]),
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


def test_a_join_that_says_what_a_held_out_document_says_is_refused(tmp_path: Path) -> None:
    before, middle, after = "It reads the file", "(see above)", "and then it closes the file again"
    rows: list[Row] = [
        (middle, "positive", "rest", f"{before} {after}", 0.95),
        (middle, "positive", "rest", f"{after}. {before}", 0.95),
        (middle, "negative", "random", "other", 0.1),
    ]
    # Neither of the joined sentences is held out, but eight words over the seam are.
    held_out = ["Mind that IT  reads the file,", "And then it closes a socket."]
    result = selected(tmp_path, rows, held_out=held_out)
    assert result.reasons() == {f"{before} {after}": "held_out_text"}
    assert result.texts() == [(middle, f"{after}. {before}", "other")]


def test_eight_words_over_the_end_of_a_batch_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_out_texts, "BATCH_ROWS", 2)
    monkeypatch.setattr(candidates, "_ROWS", 2)
    held_out = [f"u{i} v{i} w{i}" for i in range(9)]
    rows: list[Row] = [
        (f"x{i}", "positive", "m", " ".join(held_out[i : i + 3]), 0.95) for i in range(7)
    ]
    rows.append(("x0", "positive", "m", f"{held_out[3]} {held_out[5]} {held_out[7]}", 0.95))
    reasons = selected(tmp_path, rows, held_out=held_out).reasons()
    assert Counter(reasons.values()) == {"held_out_text": 7, "no_pair": 1}


def test_a_held_out_text_in_other_case_and_spacing_is_refused(tmp_path: Path) -> None:
    rows: list[Row] = [
        ("x", "positive", "half", "Returns   NONE!", 0.95),
        ("x", "positive", "half", "Returns none today.", 0.95),
        ("x", "negative", "swap", "the Answer is here", 0.5),
        ("x", "negative", "swap", "the question was here", 0.5),
        ("x", "negative", "random", "a query", 0.1),
    ]
    pairs = [("the question?", "The answer: is here.")]
    result = selected(tmp_path, rows, held_out=["Returns none."], pairs=pairs)
    assert result.texts() == [("x", "Returns none today.", "the question was here")]
    assert result.reasons() == {
        "Returns   NONE!": "held_out_text",
        "the Answer is here": "held_out_text",
        "a query": "unused_fallback",
    }


def by_relation(tmp_path: Path, rows: list[Row], **config: Any) -> Result:
    given = {"positive_min": 0.2, "negative_max": 1.0, "fallback_positive": False, **config}
    return selected(tmp_path, rows, pairing="relation", **given)


def lines(result: Result) -> list[tuple[str, str, str | None]]:
    found = [(row["relation"], row["positive"], row["negative"]) for row in result.triplets]
    return sorted(found, key=str)


KEPT: Row = ("x", "positive", "rewrite", "said otherwise", 0.9)
SWAPPED: Row = ("x", "negative", "entity_swap", "another town", 0.95)
NEXT: Row = ("x", "positive", "next_sentences", "what follows", 0.5)


def test_what_alters_stands_against_what_keeps_and_the_topic_against_nothing(
    tmp_path: Path,
) -> None:
    result = by_relation(tmp_path, [KEPT, SWAPPED, NEXT])
    assert lines(result) == [
        ("alters", "said otherwise", "another town"),
        ("topic", "what follows", None),
    ]
    topic = next(row for row in result.triplets if row["relation"] == "topic")
    assert topic["negative_id"] is topic["negative_method"] is topic["negative_similarity"] is None
    assert result.rejects == []
    assert {row["used"] for row in result.acceptance.values()} == {1}


def test_a_candidate_with_an_anchor_of_its_own_meets_no_other(tmp_path: Path) -> None:
    asked: list[Row] = [("x", "positive", "next_sentences", f"passage {n}", 0.5) for n in (1, 2)]
    random: Row = ("x", "negative", "random", "something else", 0.1)
    result = by_relation(
        tmp_path,
        [KEPT, SWAPPED, NEXT, random, *asked],
        anchored={"passage 1": "Who?", "passage 2": "Why?"},
        methods={"random": {}},
    )
    found = [(row["anchor"], row["positive"], row["negative"]) for row in result.triplets]
    assert sorted(found, key=str) == [
        ("Who?", "passage 1", None),
        ("Why?", "passage 2", None),
        ("x", "said otherwise", "another town"),
        ("x", "what follows", "something else"),
    ]
    assert result.rejects == []


def test_an_anchor_of_its_own_is_kept_apart_from_dev_and_test(tmp_path: Path) -> None:
    held_out = "Who was the first person that ever walked on the moon?"
    result = by_relation(tmp_path, [NEXT], anchored={"what follows": held_out}, held_out=[held_out])
    assert (result.triplets, result.reasons()) == ([], {"what follows": "held_out_text"})


def test_an_altered_text_never_meets_a_text_that_is_only_on_the_topic(tmp_path: Path) -> None:
    result = by_relation(tmp_path, [SWAPPED, NEXT])
    assert lines(result) == [("topic", "what follows", None)]
    assert result.reasons() == {"another town": "no_pair"}


def test_without_a_kept_text_the_sentence_itself_may_stand_in(tmp_path: Path) -> None:
    result = by_relation(tmp_path, [SWAPPED, NEXT], fallback_positive=True)
    assert lines(result) == [("alters", "x", "another town"), ("topic", "what follows", None)]
    strict = next(row for row in result.triplets if row["relation"] == "alters")
    assert (strict["positive_id"], strict["positive_method"]) == (None, "self")
    assert strict["positive_similarity"] == 1.0


def test_each_relation_has_its_own_number_of_rows(tmp_path: Path) -> None:
    rows: list[Row] = [KEPT]
    rows += [("x", "negative", "antonym", f"changed {n}", 0.9) for n in range(5)]
    rows += [("x", "positive", "next_sentences", f"topic {n}", 0.5) for n in range(5)]
    result = by_relation(tmp_path, rows, per_sentence=3)
    found = lines(result)
    assert [row[0] for row in found] == ["alters"] * 3 + ["topic"] * 3
    # The one text that keeps the meaning serves each of the three.
    assert {row[1] for row in found[:3]} == {"said otherwise"}
    assert len({row[2] for row in found[:3]}) == 3
    assert [row["reason"] for row in result.rejects] == ["surplus"] * 4


def test_an_unrelated_text_may_stand_against_either_but_not_in_place_of_a_change(
    tmp_path: Path,
) -> None:
    random: Row = ("x", "negative", "random", "elsewhere", 0.1)
    placed = {"methods": {"random": {}}}
    assert lines(by_relation(tmp_path, [NEXT, random], **placed)) == [
        ("topic", "what follows", "elsewhere")
    ]
    assert lines(by_relation(tmp_path, [KEPT, random], **placed)) == [
        ("keeps", "said otherwise", "elsewhere")
    ]
    assert ("alters", "said otherwise", "another town") in lines(
        by_relation(tmp_path, [KEPT, SWAPPED, random], **placed)
    )
    # Without a place it is kept for pairing by role.
    result = by_relation(tmp_path, [NEXT, random])
    assert lines(result) == [("topic", "what follows", None)]
    assert result.reasons() == {"elsewhere": "unused_fallback"}


def test_a_mined_text_meets_the_positive_that_it_is_farther_than(tmp_path: Path) -> None:
    rows: list[Row] = [
        ("x", "positive", "next_sentences", "near", 0.6),
        ("x", "positive", "rest_of_paragraph", "far", 0.4),
        ("x", "negative", "mined", "below near", 0.56),
        ("x", "negative", "mined", "below far", 0.37),
        ("x", "negative", "mined", "below none", 0.59),
    ]
    result = by_relation(tmp_path, rows, per_sentence=2, mined_below=0.95)
    assert lines(result) == [("topic", "far", "below far"), ("topic", "near", "below near")]
    assert result.reasons() == {"below none": "surplus"}
    similarity = {row["positive"]: row["negative_similarity"] for row in result.triplets}
    assert similarity == {"near": 0.56, "far": 0.37}


def test_a_rewrite_that_failed_its_threshold_is_unrelated_where_it_may_change_roles(
    tmp_path: Path,
) -> None:
    failed: Row = ("x", "positive", "rewrite", "something else", 0.1)
    result = by_relation(tmp_path, [NEXT, failed], swap_roles=("rewrite",))
    assert lines(result) == [("topic", "what follows", "something else")]


def test_thresholds_of_a_relation_come_between_the_general_ones_and_the_methods(
    tmp_path: Path,
) -> None:
    rows: list[Row] = [
        ("x", "positive", "rewrite", "kept", 0.7),
        ("x", "positive", "next_sentences", "topic", 0.4),
        ("y", "positive", "synonym", "also kept", 0.7),
    ]
    relations = {"keeps": {"positive_min": 0.8}, "topic": {"positive_min": 0.3}}
    methods = {"synonym": {"positive_min": 0.6}}
    result = by_relation(tmp_path, rows, positive_min=0.5, relations=relations, methods=methods)
    assert lines(result) == [("keeps", "also kept", None), ("topic", "topic", None)]
    assert result.reasons() == {"kept": "below_positive_min"}


def test_by_role_any_positive_meets_any_negative_and_the_row_says_what_it_is(
    tmp_path: Path,
) -> None:
    config = {"positive_min": 0.2, "negative_max": 1.0, "fallback_positive": False}
    topic = selected(tmp_path, [SWAPPED, NEXT], pairing="role", **config)
    assert lines(topic) == [("topic", "what follows", "another town")]
    strict = selected(tmp_path, [KEPT, SWAPPED], pairing="role", **config)
    assert lines(strict) == [("alters", "said otherwise", "another town")]


HALF: Row = ("x", "positive", "half", "either", 0.95)
SWAP: Row = ("x", "negative", "swap", "either", 0.95)
SAME: Row = ("x", "negative", "swap", "x", 1.0)
ELSE: Row = ("x", "negative", "random", "elsewhere", 0.1)


@pytest.mark.parametrize(
    ("rows", "config", "triplet", "lost"),
    [
        ([HALF, SWAP, ELSE], {}, ("either", "half", "elsewhere", "random"), ["either"]),
        ([HALF, SWAP], {}, ("x", "self", "either", "swap"), ["either"]),
        ([HALF, SWAP], {"fallback_positive": False}, None, ["either", "either"]),
        # The positive says what the random one says, and the negative what the sentence says.
        ([HALF, (*ELSE[:3], "either", 0.1)], {}, ("x", "self", "either", "random"), ["either"]),
        ([SAME, ELSE], {}, ("x", "self", "elsewhere", "random"), ["x"]),
        ([SAME], {}, None, ["x"]),
    ],
)
def test_by_role_one_text_on_both_sides_gives_way_to_a_fallback(
    tmp_path: Path,
    rows: list[Row],
    config: dict[str, Any],
    triplet: tuple[str, str, str, str] | None,
    lost: list[str],
) -> None:
    result = selected(tmp_path, rows, pairing="role", negative_max=1.0, **config)
    names = ("positive", "positive_method", "negative", "negative_method")
    found = [tuple(row[name] for name in names) for row in result.triplets]
    assert found == ([] if triplet is None else [triplet])
    assert [r["text"] for r in result.rejects if r["reason"] == "same_text"] == lost
    for row in result.triplets:
        assert (row["positive_id"] is None) == (row["positive_method"] == "self")
        assert row["negative_similarity"] == {"random": 0.1, "swap": 0.95}[row["negative_method"]]


def test_a_swapped_candidate_with_an_anchor_of_its_own_is_no_negative(tmp_path: Path) -> None:
    """It is the passage that holds the sentence."""
    asked: list[Row] = [
        ("x", "positive", "rest_of_paragraph", f"passage {number}", 0.1) for number in (1, 2)
    ]
    result = by_relation(
        tmp_path,
        [NEXT, *asked],
        swap_roles=["rest_of_paragraph"],
        anchored={"passage 1": "Who?", "passage 2": "Why?"},
    )
    assert lines(result) == [("topic", "what follows", None)]
    assert result.reasons() == {"passage 1": "no_pair", "passage 2": "no_pair"}


def test_by_relation_a_pair_of_one_text_twice_is_refused(tmp_path: Path) -> None:
    result = by_relation(tmp_path, [HALF, SWAP], fallback_positive=True)
    assert result.triplets == []
    assert result.reasons() == {"either": "same_text"}
