"""What a recipe says of scorers and selection is refused where it applies to nothing."""

import re
from typing import Any

import pytest

from tercet.tasks.reasons import threshold_keys
from tercet.tasks.scoring.select import SelectConfig
from tercet.tasks.scoring.select_checks import find_faults, scorers, unused
from tercet.tasks.synthesis.methods import method_of

Score = dict[str, dict[str, Any] | None]
SYNTHESISED = ("cutoff", "synonym", "entity_swap", "negation")
GENSE: Score = {"gense": {"model": "t5"}}
BOTH: Score = {**GENSE, "pair": {"model": "judge"}}
RANKED: Score = {"round_trip": {}}


def found(
    score: Score, synthesised: tuple[str, ...] = SYNTHESISED, evaluator: bool = True, **select: Any
) -> list[str]:
    """Place of each fault."""
    if not evaluator:
        # As the recipe's defaults are then.
        select = {"positive_min": None, "negative_max": None, **select}
    methods = {name: method_of(name) for name in synthesised}
    given = find_faults(score, SelectConfig(**select), methods, evaluator)
    return [".".join(place) for _, place in given]


@pytest.mark.parametrize(
    ("score", "select"),
    [
        ({}, {}),
        ({}, {"methods": {
            "cutoff": {"positive_min": 0.5, "weight": 2.0},
            "synonym": {"positive_min": {"quantile": 0.2}, "negative_max": 0.6},
            "entity_swap": {"negative_max": 0.8}, "random": {"negative_max": 0.5},
        }, "swap_roles": ["synonym"]}),
        ({}, {"relations": {"alters": {"negative_max": 1.0}, "keeps": {"positive_min": 0.5}}}),
        # What failed as a positive may serve as a negative then.
        ({}, {"relations": {"topic": {"negative_max": 0.5}}, "swap_roles": ["synonym"]}),
        # Where a file's triplets are trained on, nothing is synthesised and nothing selected.
        ({}, {"methods": {"cutoff": {"positive_min": 0.5}}, "synthesised": ()}),
        (GENSE, {"p_min": 0.5}),
        (BOTH, {"p_min": 0.5, "p_true": "gense"}),
        # Without an evaluator a judge decides.
        (GENSE, {"evaluator": False, "p_min": 0.9}),
        (GENSE, {"evaluator": False, "relations": {"keeps": {"p_min": 0.9}}}),
        # A model that only makes others, or a training on labelled rows, scores nothing.
        ({}, {"evaluator": False, "synthesised": ()}),
        (RANKED, {"synthesised": ("title", "cutoff"), "rank_max": 3, "rank": "fused"}),
    ],
)  # fmt: skip
def test_what_applies_is_not_refused(score: Score, select: dict[str, Any]) -> None:
    assert found(score, **select) == []


@pytest.mark.parametrize(
    ("score", "select", "place"),
    [
        ({}, {"methods": {"cutof": {}}}, "methods.cutof"),
        ({}, {"methods": {"antonym": {}}}, "methods.antonym"),
        ({}, {"methods": {"negation": {"positive_min": 0.5}}}, "methods.negation.positive_min"),
        ({}, {"methods": {"cutoff": {"negative_max": 0.5}}}, "methods.cutoff.negative_max"),
        ({}, {"swap_roles": ["cutof"]}, "swap_roles"),
        ({}, {"swap_roles": ["negation"]}, "swap_roles"),
        ({}, {"swap_roles": ["word_shuffle"]}, "swap_roles"),
        ({}, {"p_min": 0.5}, "p_min"),
        ({}, {"prefer": "p_true"}, "prefer"),
        ({}, {"relations": {"keeps": {"p_min": 0.5}}}, "relations.keeps.p_min"),
        ({}, {"methods": {"cutoff": {"p_min": 0.5}}}, "methods.cutoff.p_min"),
        ({}, {"similarity": "lexical"}, "similarity"),
        ({}, {"p_true": "evaluator"}, "p_true"),
        (BOTH, {"p_min": 0.5}, "p_true"),
        ({}, {"relations": {"alters": {"positive_min": 0.5}}}, "relations.alters.positive_min"),
        ({}, {"relations": {"topic": {"negative_max": 0.5}}}, "relations.topic.negative_max"),
        ({}, {"rank_max": 3}, "rank_max"),
        (RANKED, {"synthesised": ("title",), "rank": "bm25"}, "rank"),
    ],
)
def test_what_cannot_apply_is_refused(score: Score, select: dict[str, Any], place: str) -> None:
    assert found(score, **select) == [f"select.{place}"]


@pytest.mark.parametrize(
    ("score", "select", "place"),
    [
        (GENSE, {"evaluator": False}, "synthesise"),
        (BOTH, {"evaluator": False, "p_min": 0.9, "p_true": "gense"}, "score.pair"),
        ({**GENSE, "evaluator": None}, {"evaluator": False, "p_min": 0.9}, "score.evaluator"),
        (RANKED, {"rank_max": 3}, "score.round_trip"),
        (RANKED, {"synthesised": ("title",), "evaluator": False}, "score.round_trip"),
        ({"round_trip": {"precision": "bf16"}}, {"synthesised": ("title",)}, "score.round_trip"),
    ],
)
def test_a_scorer_that_lacks_what_it_reads_is_refused(
    score: Score, select: dict[str, Any], place: str
) -> None:
    (fault,) = found(score, **select)
    assert fault.startswith(place)


@pytest.mark.parametrize(
    ("select", "place"),
    [
        ({"positive_min": 0.0}, "positive_min"),
        ({"negative_max": {"quantile": 0.5}}, "negative_max"),
        ({"relations": {"keeps": {"positive_min": 0.5}}}, "relations.keeps.positive_min"),
        ({"methods": {"negation": {"negative_max": 0.1}}}, "methods.negation.negative_max"),
        ({"prefer": "similarity"}, "prefer"),
    ],
)
def test_what_compares_cosines_is_refused_without_an_evaluator(
    select: dict[str, Any], place: str
) -> None:
    assert found(GENSE, evaluator=False, p_min=0.9, **select) == [f"select.{place}"]
    assert found(GENSE, p_min=0.9, **select) == []


def test_an_evaluator_is_a_scorer_wherever_there_is_one() -> None:
    assert scorers({}, True) == scorers({"evaluator": None}, True) == ["evaluator"]
    assert scorers({"gense": None}, False) == ["gense"]


@pytest.mark.parametrize(
    ("score", "select", "names"),
    [
        (GENSE, {}, ["gense", "select.p_min"]),
        (GENSE, {"methods": {"cutoff": {"p_min": 0.5}}}, []),
        (GENSE, {"relations": {"keeps": {"p_min": 0.5}}}, []),
        (GENSE, {"p_min": 0.5}, []),
        ({"evaluator": None}, {}, []),
        (RANKED, {}, ["select.rank_max"]),
        (RANKED, {"rank_max": 1}, []),
    ],
)
def test_a_measure_that_nothing_selects_by_is_named(
    score: Score, select: dict[str, Any], names: list[str]
) -> None:
    message = unused(score, SelectConfig.model_validate(select))
    assert (message is None) == (not names)
    assert [name for name in names if name not in str(message)] == []


def test_a_warning_names_beside_the_general_key_each_that_takes_its_place() -> None:
    relations = {"topic": {"positive_min": 0.2}, "keeps": {"positive_min": 0.5}}
    methods = {"cutoff": {"positive_min": 0.4}, "negation": {"weight": 2.0}}
    config = SelectConfig.model_validate({"relations": relations, "methods": methods})
    keys = threshold_keys("positive_min", config.model_dump(mode="json"))
    assert re.findall(r"select[\w.]+", keys) == [
        "select.positive_min",
        "select.relations.topic.positive_min",
        "select.relations.keeps.positive_min",
        "select.methods.cutoff.positive_min",
    ]
