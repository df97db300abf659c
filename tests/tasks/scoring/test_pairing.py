"""Which accepted candidates meet in a triplet when pairing goes by relation."""

from pathlib import Path
from typing import Any

import pytest
from selection import Result, Row, selected


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
    assert topic["negative_id"] is None
    assert topic["negative_method"] is None
    assert topic["negative_similarity"] is None
    assert result.rejects == []
    assert {name: row["used"] for name, row in result.acceptance.items()} == {
        "rewrite": 1,
        "entity_swap": 1,
        "next_sentences": 1,
    }


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


def test_what_keeps_and_meets_no_altered_text_has_a_row_of_its_own(tmp_path: Path) -> None:
    assert lines(by_relation(tmp_path, [KEPT])) == [("keeps", "said otherwise", None)]


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
        (
            [HALF, SWAP, ELSE],
            {"fallback_negative": False},
            ("x", "self", "either", "swap"),
            ["either"],
        ),
        (
            [HALF, SWAP, ELSE],
            {"fallback_positive": False},
            ("either", "half", "elsewhere", "random"),
            ["either"],
        ),
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


def test_by_relation_a_pair_of_one_text_twice_is_refused(tmp_path: Path) -> None:
    result = by_relation(tmp_path, [HALF, SWAP], fallback_positive=True)
    assert result.triplets == []
    assert result.reasons() == {"either": "same_text"}


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
