"""Stage `select`: thresholds, ranks, fallbacks, and a reason for every candidate left out."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from failures import fails
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from selection import Result, Row, selected

from tercet.tasks.scoring.select import SelectConfig

Config = dict[str, Any]
Reasons = dict[str, str]


def p(method: str, text: str, similarity: float | None, *p_true: float, of: str = "x") -> Any:
    """A positive of the sentence."""
    return (of, "positive", method, text, similarity, *p_true)


def n(method: str, text: str, similarity: float | None, *p_true: float, of: str = "x") -> Any:
    """A negative of the sentence."""
    return (of, "negative", method, text, similarity, *p_true)


FAILED = [p("half", "too far", 0.2), n("swap", "too near", 0.99), n("random", "other", 0.1)]
BOUND = [
    p("rewrite", "far", 0.5),
    p("rewrite", "between", 0.7, of="y"),
    p("rewrite", "near", 0.85, of="z"),
]
FAR, BETWEEN, NEAR = ("x", "x", "far"), ("y", "y", "between"), ("z", "z", "near")
BOTH_ROLES = {"both_roles": True}
SURE = [
    *(p("cutoff", f"p{i}", 0.95, 0.9 + i / 100) for i in range(4)),
    *(n("negation", f"n{i}", 0.5, i / 100) for i in range(3)),
    n("negation", "unknown", 0.5),
]


@pytest.mark.parametrize(
    ("rows", "config", "triplets", "reasons"),
    [
        # Thresholds of the paper.
        ([p("half", "good", 0.9), p("half", "too far", 0.8999), n("swap", "far enough", 0.75),
          n("swap", "too near", 0.7501), n("random", "other", 0.1)], {},
         [("x", "good", "far enough")],
         {"too far": "below_positive_min", "too near": "above_negative_max",
          "other": "unused_fallback"}),
        (FAILED, {"fallback_positive": False}, [],
         {"too far": "below_positive_min", "too near": "above_negative_max",
          "other": "unused_fallback"}),
        (FAILED, {"fallback_positive": False, "positive_min": 0.1}, [("x", "too far", "other")],
         {"too near": "above_negative_max"}),
        # No threshold applies to the fallback, but one that competes has to pass for one.
        ([n("random", "near", 0.9)], {}, [("x", "x", "near")], {}),
        ([n("random", "near", 0.9)], {"methods": {"random": {}}}, [],
         {"near": "above_negative_max"}),
        # The most similar first; the rest is surplus.
        ([*(p("half", f"p{i}", 0.9 + i / 100) for i in range(4)),
          *(n("swap", f"n{i}", 0.5 + i / 100) for i in range(3))],
         {"prefer": "similarity", "per_sentence": 2}, [("x", "p2", "n1"), ("x", "p3", "n2")],
         dict.fromkeys(("p0", "p1", "n0"), "surplus")),
        # Texts are tried in the other role only where the config says so (GCSE, eqs. 10-11).
        ([p("rewrite", "drifted", 0.5), n("swap", "stayed", 0.95)], BOTH_ROLES,
         [("x", "stayed", "drifted")], {}),
        (BOUND, {}, [], dict.fromkeys(("far", "between", "near"), "below_positive_min")),
        (BOUND, BOTH_ROLES, [FAR, BETWEEN], {"near": "below_positive_min"}),
        (BOUND, {**BOTH_ROLES, "negative_max": None}, [FAR, BETWEEN, NEAR], {}),
        (BOUND, {**BOTH_ROLES, "methods": {"rewrite": {"negative_max": 0.6}}}, [FAR],
         dict.fromkeys(("between", "near"), "below_positive_min")),
        # What passes in neither stands with itself, against its sentence's negative.
        ([p("rewrite", "between", 0.8), n("swap", "changed", 0.85), n("random", "other", 0.1)],
         BOTH_ROLES,
         [("between", "between", "other"), ("changed", "changed", "other"), ("x", "x", "other")],
         {}),
        ([p("rewrite", "kept", 0.95), p("precede", "between", 0.8), n("swap", "denied", 0.5),
          n("random", "other", 0.1)], BOTH_ROLES,
         [("between", "between", "denied"), ("x", "kept", "denied")],
         {"other": "unused_fallback"}),
        # Once, and not where it is the sentence, the negative or an accepted text.
        ([p("rewrite", "twice", 0.8), p("precede", "twice", 0.8), p("rewrite", "other", 0.8),
          p("rewrite", "x", 0.8), p("rewrite", "kept", 0.8), n("swap", "kept", 0.95),
          n("random", "other", 0.1)], BOTH_ROLES,
         [("twice", "twice", "other"), ("x", "kept", "other")], None),
        # What may not be trained on, or has no weight, does not come back; nor does surplus.
        ([p("rewrite", "Held out.", 0.8), p("precede", "weightless", 0.8),
          p("half", "unread", None), p("half", "first", 0.99), p("half", "second", 0.98),
          n("random", "other", 0.1)],
         {**BOTH_ROLES, "methods": {"precede": {"weight": 0.0}}, "held_out": ["Held out."],
          "prefer": "similarity"},
         [("x", "first", "other")],
         {"Held out.": "held_out_text", "weightless": "below_positive_min", "unread": "no_score",
          "second": "surplus"}),
        # A candidate must be as probable in its other role.
        ([p("rewrite", "follows", 0.5, 0.97), p("rewrite", "denied", 0.5, 0.02, of="y"),
          p("rewrite", "unclear", 0.5, 0.5, of="z"),
          p("next_sentences", "on the topic", 0.5, 0.97, of="w")],
         {"p_min": 0.9, **BOTH_ROLES},
         [("w", "w", "on the topic"), ("y", "y", "denied")],
         {"follows": "below_positive_min", "unclear": "below_p_min"}),
        ([p("t5", "sure", 0.95, 0.97), p("t5", "unsure", 0.95, 0.5), n("t5", "false", 0.3, 0.02),
          n("t5", "true", 0.3, 0.8), n("t5", "unknown", 0.3)], {"p_min": 0.9},
         [("x", "sure", "false")],
         {"unsure": "below_p_min", "true": "below_p_min", "unknown": "no_score"}),
        ([p("half", "a", None), n("swap", "b", float("nan"))], {}, [],
         {"a": "no_score", "b": "no_score"}),
        # The surest of many comes first by its probability.
        (SURE, {"prefer": "p_true", "per_sentence": 2}, [("x", "p2", "n1"), ("x", "p3", "n0")],
         dict.fromkeys(("p0", "p1", "n2", "unknown"), "surplus")),
        (SURE, {"prefer": "p_true", "per_sentence": 4},
         [("x", "p3", "n0"), ("x", "p2", "n1"), ("x", "p1", "n2"), ("x", "p0", "unknown")], {}),
        # What is unrelated is no surer negative than what denies.
        ([p("next_sentences", "paragraph", 0.95, 0.99), p("cutoff", "shorter", 0.95, 0.8),
          n("random", "elsewhere", 0.0, 0.0), n("negation", "denied", 0.3, 0.2)],
         {"prefer": "p_true", "methods": {"random": {}}}, [("x", "shorter", "denied")],
         dict.fromkeys(("paragraph", "elsewhere"), "surplus")),
        # Held-out texts in other case and spacing; of the pairs too.
        ([p("half", "Returns   NONE!", 0.95), p("half", "Returns none today.", 0.95),
          n("swap", "the Answer is here", 0.5), n("swap", "the question was here", 0.5),
          n("random", "a query", 0.1)],
         {"held_out": ["Returns none."], "pairs": [("the question?", "The answer: is here.")]},
         [("x", "Returns none today.", "the question was here")],
         {"Returns   NONE!": "held_out_text", "the Answer is here": "held_out_text",
          "a query": "unused_fallback"}),
        # Neither of the joined sentences is held out, but eight words over the seam are.
        ([p("rest", "It reads the file and then it closes the file again", 0.95),
          p("rest", "and then it closes the file again. It reads the file", 0.95),
          n("random", "other", 0.1)],
         {"held_out": ["Mind that IT  reads the file,", "And then it closes a socket."]},
         [("x", "and then it closes the file again. It reads the file", "other")],
         {"It reads the file and then it closes the file again": "held_out_text"}),
    ],
)  # fmt: skip
def test_by_role(
    tmp_path: Path, rows: list[Row], config: Config, triplets: list[Any], reasons: Reasons | None
) -> None:
    result = selected(tmp_path, rows, **config)
    assert set(result.texts()) == set(triplets)
    assert reasons is None or result.reasons() == reasons


def test_a_text_that_is_its_own_positive_has_no_similarity_to_the_negative(tmp_path: Path) -> None:
    """It was compared with its sentence alone, and training has to read both."""
    rows: list[Row] = [p("rewrite", "between", 0.8), n("swap", "denied", 0.5)]
    result = selected(tmp_path, rows, **BOTH_ROLES)
    plain, own = sorted(result.triplets, key=lambda row: str(row["positive_method"]), reverse=True)
    assert (plain["anchor"], plain["negative_similarity"]) == ("x", 0.5)
    assert (own["anchor"], own["positive_method"], own["relation"]) == (
        "between",
        "rewrite",
        "keeps",
    )
    assert (own["positive_similarity"], own["negative_similarity"]) == (1.0, None)
    assert own["sentence_id"] == plain["sentence_id"]
    assert result.acceptance["rewrite"]["accepted"] == 0
    assert result.acceptance["rewrite"]["used"] == 1


def test_a_text_stands_with_itself_once_beside_positives_of_several_anchors(
    tmp_path: Path,
) -> None:
    rows: list[Row] = [p("rewrite", "kept", 0.95), p("rewrite", "answer", 0.95)]
    rows += [p("precede", "between", 0.8), n("swap", "denied", 0.5)]
    result = selected(tmp_path, rows, **BOTH_ROLES, anchored={"answer": "Who asks?"})
    assert result.texts() == [
        ("Who asks?", "answer", "denied"),
        ("between", "between", "denied"),
        ("x", "kept", "denied"),
    ]


def test_both_roles_needs_pairing_by_role() -> None:
    with fails("conflict", "both_roles", "pairing"):
        SelectConfig(both_roles=True)


def by_relation(tmp_path: Path, rows: list[Row], **config: Any) -> Result:
    given = {"positive_min": 0.2, "negative_max": 1.0, "fallback_positive": False, **config}
    return selected(tmp_path, rows, **{"pairing": "relation", **given})


def lines(result: Result) -> list[tuple[str, str, str | None]]:
    found = [(row["relation"], row["positive"], row["negative"]) for row in result.triplets]
    return sorted(found, key=str)


KEPT, SWAPPED = p("rewrite", "kept", 0.9), n("entity_swap", "altered", 0.95)
NEXT, RANDOM = p("next_sentences", "next", 0.5), n("random", "elsewhere", 0.1)
HALF, SWAP = p("half", "either", 0.95), n("swap", "either", 0.95)
ALTERS, TOPIC = ("alters", "kept", "altered"), ("topic", "next", None)
PLACED: Config = {"methods": {"random": {}}}
# Passages that hold the sentence, each with a query of its own.
ASKED = [p("rest_of_paragraph", f"passage {number}", 0.1) for number in (1, 2)]
QUERIES = {"passage 1": "Who?", "passage 2": "Why?"}
WALKED = "Who was the first person that ever walked on the moon?"


@pytest.mark.parametrize(
    ("rows", "config", "triplets", "reasons"),
    [
        # What alters stands against what keeps, and the topic against nothing.
        ([KEPT, SWAPPED, NEXT], {}, [ALTERS, TOPIC], {}),
        ([SWAPPED, NEXT], {}, [TOPIC], {"altered": "no_pair"}),
        ([SWAPPED, NEXT], {"fallback_positive": True}, [("alters", "x", "altered"), TOPIC], {}),
        ([SWAPPED, NEXT], {"pairing": "role"}, [("topic", "next", "altered")], {}),
        ([KEPT, SWAPPED], {"pairing": "role"}, [ALTERS], {}),
        ([HALF, SWAP], {"fallback_positive": True}, [], {"either": "same_text"}),
        # An unrelated text stands against either, but not in place of a change.
        ([NEXT, RANDOM], PLACED, [("topic", "next", "elsewhere")], {}),
        ([KEPT, RANDOM], PLACED, [("keeps", "kept", "elsewhere")], {}),
        ([KEPT, SWAPPED, RANDOM], PLACED, [ALTERS], {"elsewhere": "no_pair"}),
        # Without a place it is kept for pairing by role.
        ([NEXT, RANDOM], {}, [TOPIC], {"elsewhere": "unused_fallback"}),
        # A passage with a query of its own is no negative of the sentence that it holds.
        ([p("next_sentences", "next", 0.95), *ASKED],
         {"pairing": "role", "both_roles": True, "positive_min": 0.9, "anchored": QUERIES}, [],
         {"next": "no_pair", **dict.fromkeys(QUERIES, "below_positive_min")}),
        ([NEXT], {"anchored": {"next": WALKED}, "held_out": [WALKED]}, [],
         {"next": "held_out_text"}),
        # A mined text meets the positive that it is farther than.
        ([p("next_sentences", "near", 0.6), p("rest_of_paragraph", "far", 0.4),
          n("mined", "below near", 0.56), n("mined", "below far", 0.37),
          n("mined", "below none", 0.59)], {"per_sentence": 2, "mined_below": 0.95},
         [("topic", "far", "below far"), ("topic", "near", "below near")],
         {"below none": "surplus"}),
        # Thresholds of a relation come between the general ones and the method's.
        ([p("rewrite", "lost", 0.7), p("next_sentences", "topic", 0.4),
          p("synonym", "also kept", 0.7, of="y")],
         {"positive_min": 0.5,
          "relations": {"keeps": {"positive_min": 0.8}, "topic": {"positive_min": 0.3}},
          "methods": {"synonym": {"positive_min": 0.6}}},
         [("keeps", "also kept", None), ("topic", "topic", None)], {"lost": "below_positive_min"}),
        # A probability is never asked of what is on the topic or unrelated.
        ([p("next_sentences", "paragraph", 0.95, 0.1), n("random", "elsewhere", 0.0),
          p("cutoff", "shorter", 0.95, 0.5, of="y"), n("negation", "denied", 0.3, 0.5, of="y"),
          n("mined", "mined", 0.3, of="y")], {"p_min": 0.9, "per_sentence": 2},
         [("topic", "paragraph", None)],
         {"elsewhere": "unused_fallback", "shorter": "below_p_min", "denied": "below_p_min",
          "mined": "surplus"}),
    ],
)  # fmt: skip
def test_by_relation(
    tmp_path: Path, rows: list[Row], config: Config, triplets: list[Any], reasons: Reasons
) -> None:
    result = by_relation(tmp_path, rows, **config)
    assert lines(result) == sorted(triplets, key=str)
    assert result.reasons() == reasons


JUDGED: list[Row] = [
    p("t5", "follows", None, 0.97),
    p("t5", "unsure", None, 0.5),
    p("t5", "follows too", None, 0.95),
    n("t5", "denies", None, 0.02),
    n("t5", "does not", None, 0.8),
    n("t5", "nobody knows", None),
]
LEFT_OUT = [p("t5", "follows", None, 0.97), p("cutoff", "left out", None, 0.05)]
DENYING = {"pairing": "role", "both_roles": True}


@pytest.mark.parametrize(
    ("rows", "config", "triplets", "reasons"),
    [
        (JUDGED, {}, [("x", "follows", "denies")],
         {"unsure": "below_p_min", "does not": "below_p_min", "nobody knows": "no_score",
          "follows too": "surplus"}),
        # With an evaluator a candidate without its cosine stays refused.
        (JUDGED, {"by_similarity": True}, [], {row[3]: "no_score" for row in JUDGED}),
        ([p("t5", "follows", None, 0.97), n("random", "elsewhere", None),
          p("t5", "follows as well", None, 0.97, of="y"), n("t5", "denies", None, 0.01, of="y"),
          n("random", "somewhere", None, of="y")], {"pairing": "role"},
         [("x", "follows", "elsewhere"), ("y", "follows as well", "denies")],
         {"somewhere": "unused_fallback"}),
        # A refused positive that denies enough becomes a negative.
        (LEFT_OUT, DENYING, [("x", "follows", "left out")], {}),
        (LEFT_OUT, {"p_min": 0.1, **DENYING}, [("x", "follows", "left out")], {}),
    ],
)  # fmt: skip
def test_where_no_scorer_gives_a_similarity_a_probability_decides(
    tmp_path: Path, rows: list[Row], config: Config, triplets: list[Any], reasons: Reasons
) -> None:
    plain = {"by_similarity": False, "negative_max": None, "positive_min": None}
    result = by_relation(tmp_path, rows, **{**plain, "p_min": 0.9, "prefer": "p_true", **config})
    assert result.texts() == triplets
    assert result.reasons() == reasons
    for row in result.triplets:
        assert row["positive_similarity"] is row["negative_similarity"] is None
    for row in result.acceptance.values():
        assert row["threshold"] is row["similarity_median"] is None


def test_per_method_and_quantile_thresholds(tmp_path: Path) -> None:
    rows: list[Row] = [p("half", f"h{i}", i / 10, of=f"x{i}") for i in range(11)]
    rows += [p("same", f"s{i}", 0.99, of=f"x{i}") for i in range(11)]
    rows += [n("random", f"r{i}", 0.0, of=f"x{i}") for i in range(11)]
    thresholds = {"half": {"positive_min": {"quantile": 0.3}}, "same": {"positive_min": 1.0}}
    result = selected(tmp_path, rows, per_sentence=2, methods=thresholds)
    used = {t["positive"] for t in result.triplets if t["positive_id"] is not None}
    assert used == {f"h{i}" for i in range(3, 11)}
    half, same, random = (result.acceptance[name] for name in ("half", "same", "random"))
    assert (half["accepted"], same["accepted"], same["candidates"]) == (8, 0, 11)
    assert half["threshold"] == pytest.approx(0.3)
    assert half["similarity_median"] == pytest.approx(0.5)
    assert (random["accepted"], random["threshold"]) == (11, None)


def test_the_draw_follows_the_weights_and_not_the_number_of_candidates(tmp_path: Path) -> None:
    rows: list[Row] = []
    for i in range(300):
        rows += [p("many", f"many {i} {k}", 0.95, of=f"x{i}") for k in range(5)]
        rows += [p(name, f"{name} {i}", 0.95, of=f"x{i}") for name in ("few", "never")]
        rows.append(n("random", f"r{i}", 0.0, of=f"x{i}"))
    weights = {"many": 1.0, "few": 3.0, "never": 0.0}
    config = {"methods": {name: {"weight": weight} for name, weight in weights.items()}}
    result = selected(tmp_path, rows, **config)
    counts = Counter(t["positive_method"] for t in result.triplets)
    assert counts["few"] / 300 == pytest.approx(0.75, abs=0.09)
    assert counts["many"] + counts["few"] == 300
    assert result.reasons()["never 0"] == "no_weight"
    assert result.texts() == selected(tmp_path, rows[::-1], parts=3, **config).texts()
    assert result.texts() != selected(tmp_path, rows, seed=2, **config).texts()


def test_without_a_probability_the_draw_decides(tmp_path: Path) -> None:
    rows: list[Row] = [
        p("next_sentences", f"{i} {k}", 0.95, of=f"x{i}") for i in range(40) for k in "ab"
    ]
    drawn, ordered = (
        {t["positive"] for t in by_relation(tmp_path, rows, seed=4, **config).triplets}
        for config in ({}, {"prefer": "p_true"})
    )
    assert drawn == ordered
    assert {text[-1] for text in drawn} == {"a", "b"}


def test_what_two_methods_say_alike_counts_once(tmp_path: Path) -> None:
    rows: list[Row] = [
        p("light", "same", 0.95),
        p("heavy", "same", 0.95),
        n("random", "other", 0.1),
        n("swap", "other", 0.1),
        p("light", "same", 0.95, of="y"),
        n("random", "other", 0.1, of="y"),
    ]
    result = selected(tmp_path, rows, per_sentence=3, methods={"heavy": {"weight": 2.0}})
    assert result.texts() == [("x", "same", "other"), ("y", "same", "other")]
    methods = {(t["anchor"], t["positive_method"], t["negative_method"]) for t in result.triplets}
    assert methods == {("x", "heavy", "swap"), ("y", "light", "random")}
    assert [row["reason"] for row in result.rejects] == ["duplicate", "duplicate"]


@given(data=st.data(), per_sentence=st.integers(1, 3), fallback=st.booleans(), both=st.booleans())
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_every_candidate_is_used_or_refused_once(
    tmp_path: Path, data: Any, per_sentence: int, fallback: bool, both: bool
) -> None:
    columns = (
        st.sampled_from(["x", "y", "z"]),
        st.sampled_from(["positive", "negative"]),
        st.sampled_from(["m", "n", "random"]),
        st.sampled_from(["x", "one", "two", "three", "held out"]),
        st.one_of(st.none(), st.floats(0, 1)),
    )
    rows: list[Row] = data.draw(
        st.lists(st.tuples(*columns), min_size=1, max_size=14, unique_by=lambda row: row[:4])
    )
    result = selected(
        tmp_path,
        rows,
        per_sentence=per_sentence,
        fallback_positive=fallback,
        positive_min=0.6,
        negative_max=0.5,
        both_roles=both,
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
    own = [t for t in result.triplets if t["anchor"] == t["positive"] and t["positive_id"]]
    assert both or not own
    anchors = Counter(t["anchor"] for t in result.triplets if t not in own)
    assert max(anchors.values(), default=0) <= per_sentence
    assert len({t["triplet_id"] for t in result.triplets}) == len(result.triplets)


def test_eight_words_over_the_end_of_a_batch_are_found(tmp_path: Path) -> None:
    """Of held-out sentences, and of candidates: more than are read at once."""
    held_out = [f"u{i} v{i} w{i}" for i in range(65_700)]
    rows: list[Row] = [
        p("m", " ".join(held_out[i : i + 3]), 0.95, of=f"x{i}") for i in range(57_000, 65_600)
    ]
    rows.append(p("m", f"{held_out[3]} {held_out[5]} {held_out[7]}", 0.95, of="x57000"))
    reasons = selected(tmp_path, rows, held_out=held_out).reasons()
    assert Counter(reasons.values()) == {"held_out_text": 8_600, "no_pair": 1}


def test_what_has_no_candidate_has_no_id(tmp_path: Path) -> None:
    result = by_relation(tmp_path, [SWAPPED, NEXT], fallback_positive=True)
    alters, topic = sorted(result.triplets, key=lambda row: str(row["relation"]))
    assert (alters["positive_id"], alters["positive_method"]) == (None, "self")
    assert alters["positive_similarity"] == 1.0
    assert topic["negative_id"] is topic["negative_method"] is topic["negative_similarity"] is None
    assert {row["used"] for row in result.acceptance.values()} == {1}


def test_a_candidate_with_an_anchor_of_its_own_meets_no_other(tmp_path: Path) -> None:
    result = by_relation(
        tmp_path,
        [KEPT, SWAPPED, NEXT, RANDOM, *ASKED],
        positive_min=0.1,
        anchored=QUERIES,
        **PLACED,
    )
    found = [(row["anchor"], row["positive"], row["negative"]) for row in result.triplets]
    assert sorted(found, key=str) == [
        ("Who?", "passage 1", None),
        ("Why?", "passage 2", None),
        ("x", "kept", "altered"),
        ("x", "next", "elsewhere"),
    ]
    assert result.rejects == []


def test_each_relation_has_its_own_number_of_rows(tmp_path: Path) -> None:
    rows: list[Row] = [KEPT, *(n("antonym", f"changed {i}", 0.9) for i in range(5))]
    rows += [p("next_sentences", f"topic {i}", 0.5) for i in range(5)]
    result = by_relation(tmp_path, rows, per_sentence=3)
    found = lines(result)
    assert [row[0] for row in found] == ["alters"] * 3 + ["topic"] * 3
    # The one text that keeps the meaning serves each of the three.
    assert {row[1] for row in found[:3]} == {"kept"}
    assert len({row[2] for row in found[:3]}) == 3
    assert [row["reason"] for row in result.rejects] == ["surplus"] * 4


SAME, ELSE = n("swap", "x", 1.0), n("random", "elsewhere", 0.1)


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
    tmp_path: Path, rows: list[Row], config: Config, triplet: Any, lost: list[str]
) -> None:
    result = selected(tmp_path, rows, pairing="role", negative_max=1.0, **config)
    names = ("positive", "positive_method", "negative", "negative_method")
    found = [tuple(row[name] for name in names) for row in result.triplets]
    assert found == ([] if triplet is None else [triplet])
    assert [r["text"] for r in result.rejects if r["reason"] == "same_text"] == lost
    for row in result.triplets:
        assert (row["positive_id"] is None) == (row["positive_method"] == "self")
        assert row["negative_similarity"] == {"random": 0.1, "swap": 0.95}[row["negative_method"]]


def test_one_scorer_of_a_measure_counts_and_is_named_where_there_are_several(
    tmp_path: Path,
) -> None:
    rows: list[Row] = [p("half", "good", 0.95), p("half", "bad", 0.5), n("swap", "far", 0.3)]

    def scores(scorer: str, measure: str, *values: float) -> list[tuple[str, str, str, float]]:
        texts = ("good", "bad", "far")
        return [(t, scorer, measure, value) for t, value in zip(texts, values, strict=True)]

    # Averages of both would accept neither positive.
    other = scores("u", "similarity", 0.1, 0.99, 0.2)
    for named, text, value in (("t", "good", 0.95), ("u", "bad", 0.99)):
        result = selected(tmp_path, rows, more_scores=other, similarity=named)
        assert result.texts() == [("x", text, "far")]
        assert result.triplets[0]["positive_similarity"] == value
    with fails("bad_value"):
        selected(tmp_path, rows, more_scores=other)
    probable = scores("d", "p_true", 0.4, 0.9, 0.1)
    result = selected(tmp_path, rows, more_scores=probable, positive_min=0.4, p_min=0.5)
    assert result.texts() == [("x", "bad", "far")]
    assert result.reasons() == {"good": "below_p_min"}


HERONS, GULLS, TERNS, DUCKS = "Herons stand.", "Gulls fly.", "Terns dive.", "Ducks swim."
BIRDS = {HERONS: "wading birds", GULLS: "flying birds", TERNS: "diving birds"}


def of(tmp_path: Path, queries: dict[str, str], **config: Any) -> Result:
    """Candidates of these passages' queries, whose similarity is 0.2."""
    rows: list[Row] = [p("title", text, 0.2, of=text) for text in queries]
    config = {"pairing": "relation", "positive_min": 0.1} | config
    return selected(tmp_path, rows, passages=list(queries), anchored=queries, **config)


def ranked(how: str, **ranks: float) -> list[tuple[str, str, str, float]]:
    texts = {"herons": HERONS, "gulls": GULLS, "terns": TERNS}
    return [(texts[name], "round_trip", f"rank_{how}", float(r)) for name, r in ranks.items()]


RANKS = [
    *ranked("vectors", herons=1, gulls=3, terns=1_001),
    *ranked("bm25", herons=4, gulls=3, terns=3),
]


@pytest.mark.parametrize(
    ("queries", "config", "kept", "reason"),
    [
        (BIRDS, {}, {HERONS, GULLS, TERNS}, ""),
        (BIRDS, {"more_scores": RANKS, "rank_max": 3}, {HERONS, GULLS}, "beyond_rank_max"),
        (BIRDS, {"more_scores": RANKS, "rank_max": 2}, {HERONS}, "beyond_rank_max"),
        (BIRDS, {"more_scores": RANKS, "rank_max": 3, "rank": "bm25"}, {GULLS, TERNS},
         "beyond_rank_max"),
        # What has no rank loses nothing by it.
        (BIRDS, {"rank_max": 1}, {HERONS, GULLS, TERNS}, ""),
        # A question is no rewording of its passage: only a threshold for them bounds them.
        (BIRDS, {"positive_min": 0.9}, {HERONS, GULLS, TERNS}, ""),
        (BIRDS, {"relations": {"topic": {"positive_min": 0.3}}}, set(), "below_positive_min"),
        (BIRDS, {"methods": {"title": {"positive_min": 0.3}}}, set(), "below_positive_min"),
        # More than three passages have it.
        (dict.fromkeys((HERONS, GULLS, TERNS, DUCKS), "Introduction"), {}, set(), "common_query"),
        # It stays with the passage that it finds first.
        *((dict.fromkeys((HERONS, GULLS, TERNS), "birds"),
           {"more_scores": ranked("vectors", **ranks), "rank_max": 3}, {first},
           "duplicate") for first,
         ranks in ((HERONS, {"herons": 1, "gulls": 2, "terns": 2}),
          (GULLS, {"herons": 2, "gulls": 1, "terns": 2}),
          (TERNS, {"herons": 2, "gulls": 2, "terns": 1}))),
    ],
)  # fmt: skip
def test_a_query_is_the_anchor_of_its_passage(
    tmp_path: Path, queries: dict[str, str], config: Config, kept: set[str], reason: str
) -> None:
    result = of(tmp_path, queries, **config)
    found = {(row["relation"], row["anchor"], row["positive"]) for row in result.triplets}
    assert found == {("topic", queries[text], text) for text in kept}
    assert result.reasons() == dict.fromkeys(set(queries) - kept, reason)


def test_one_passage_keeps_a_query_that_three_have(tmp_path: Path) -> None:
    found = of(tmp_path, {HERONS: "birds?", GULLS: "Birds", TERNS: "birds ", DUCKS: "ducks"})
    assert len(found.triplets) == 2
    assert [row["reason"] for row in found.rejects] == ["duplicate", "duplicate"]


def test_a_sentence_that_is_a_whole_passage_keeps_its_own_rows(tmp_path: Path) -> None:
    """Its id is the passage's, and what was made of the sentence is no query."""
    rows: list[Row] = [p("title", HERONS, 0.5, of=HERONS)]
    rows += [p("next_sentences", "They fish.", 0.5, of=one) for one in (HERONS, GULLS)]
    query = {"anchored": {HERONS: "wading birds"}, "passages": [HERONS]}
    found = by_relation(tmp_path, rows, **query)
    assert sorted((row["anchor"], row["positive"]) for row in found.triplets) == [
        (GULLS, "They fish."),
        (HERONS, "They fish."),
        ("wading birds", HERONS),
    ]
    strict = by_relation(tmp_path, rows[1:2], positive_min=0.9, passages=[GULLS])
    assert strict.reasons() == {"They fish.": "below_positive_min"}
