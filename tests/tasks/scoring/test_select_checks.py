"""What a recipe says of scorers and selection is refused where it applies to nothing."""

from typing import Any

import pytest

from tercet.tasks.scoring.evaluator import EvaluatorConfig
from tercet.tasks.scoring.score import SCORES, STAGE_NAME, Measure, Scorer
from tercet.tasks.scoring.scorers import SCORERS
from tercet.tasks.scoring.select import SelectConfig
from tercet.tasks.scoring.select_checks import find_faults, scorers, unused
from tercet.tasks.stage import Stage, Work
from tercet.tasks.synthesis.methods import method_of

SYNTHESISED = ("cutoff", "synonym", "entity_swap", "negation")


def found(
    score: dict[str, dict[str, Any] | None] | None = None,
    synthesised: tuple[str, ...] = SYNTHESISED,
    evaluator: bool = True,
    **select: Any,
) -> list[str]:
    """Place of each fault."""
    if not evaluator:
        # As the recipe's defaults are then.
        select = {"positive_min": None, "negative_max": None, **select}
    methods = {name: method_of(name) for name in synthesised}
    given = find_faults(score or {}, SelectConfig(**select), methods, evaluator)
    return [".".join(place) for _, place in given]


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two more scorers: `lexical` gives similarities, `guess` gives probabilities."""

    def nothing(work: Work) -> None:
        raise AssertionError("nobody is scored here")

    measures: dict[str, Measure] = {"lexical": "similarity", "guess": "p_true"}
    for name, measure in measures.items():
        stage = Stage(STAGE_NAME, EvaluatorConfig, {"scores": SCORES}, nothing)
        monkeypatch.setitem(SCORERS, name, Scorer(name, measure, stage))  # type: ignore[arg-type]


def test_what_applies_is_not_refused() -> None:
    assert found() == []
    methods = {
        "cutoff": {"positive_min": 0.5, "weight": 2.0},
        "synonym": {"positive_min": {"quantile": 0.2}, "negative_max": 0.6},
        "entity_swap": {"negative_max": 0.8},
        "random": {"negative_max": 0.5},
    }
    assert found(methods=methods, swap_roles=["synonym"]) == []
    relations = {"alters": {"negative_max": 1.0}, "keeps": {"positive_min": 0.5}}
    assert found(relations=relations) == []
    # What failed as a positive may serve as a negative then.
    topic = {"topic": {"negative_max": 0.5}}
    assert found(relations=topic, swap_roles=["synonym"]) == []
    # Where a file's triplets are trained on, nothing is synthesised and nothing selected.
    assert found(methods={"cutoff": {"positive_min": 0.5}}, synthesised=()) == []


@pytest.mark.parametrize(
    ("select", "place"),
    [
        ({"methods": {"cutof": {}}}, "methods.cutof"),
        ({"methods": {"antonym": {}}}, "methods.antonym"),
        ({"methods": {"negation": {"positive_min": 0.5}}}, "methods.negation.positive_min"),
        ({"methods": {"cutoff": {"negative_max": 0.5}}}, "methods.cutoff.negative_max"),
        ({"swap_roles": ["cutof"]}, "swap_roles"),
        ({"swap_roles": ["negation"]}, "swap_roles"),
        ({"swap_roles": ["word_shuffle"]}, "swap_roles"),
        ({"p_min": 0.5}, "p_min"),
        ({"prefer": "p_true"}, "prefer"),
        ({"relations": {"keeps": {"p_min": 0.5}}}, "relations.keeps.p_min"),
        ({"methods": {"cutoff": {"p_min": 0.5}}}, "methods.cutoff.p_min"),
        ({"similarity": "lexical"}, "similarity"),
        ({"p_true": "evaluator"}, "p_true"),
        ({"relations": {"alters": {"positive_min": 0.5}}}, "relations.alters.positive_min"),
        ({"relations": {"topic": {"negative_max": 0.5}}}, "relations.topic.negative_max"),
        ({"rank_max": 3}, "rank_max"),
    ],
)
def test_what_cannot_apply_is_refused(select: dict[str, Any], place: str) -> None:
    assert found(**select) == [f"select.{place}"]


def test_an_evaluator_is_a_scorer_wherever_there_is_one() -> None:
    assert scorers({}, True) == scorers({"evaluator": None}, True) == ["evaluator"]
    assert scorers({"gense": None}, False) == ["gense"]


GENSE = {"gense": {"model": "t5"}}


def test_without_an_evaluator_a_judge_decides() -> None:
    assert found(GENSE, evaluator=False) == ["synthesise"]
    assert found(GENSE, evaluator=False, p_min=0.9) == []
    assert found(GENSE, evaluator=False, relations={"keeps": {"p_min": 0.9}}) == []
    # A model that only makes others, or a training on labelled rows, scores nothing.
    assert found(synthesised=(), evaluator=False) == []


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


@pytest.mark.parametrize("name", ["evaluator", "pair"])
def test_a_scorer_that_reads_vectors_needs_an_evaluator(name: str) -> None:
    config = {"model": "judge"} if name == "pair" else None
    given = {**GENSE, name: config}
    assert f"score.{name}" in found(given, evaluator=False, p_min=0.9, p_true="gense")


@pytest.mark.usefixtures("others")
def test_several_scorers_of_a_measure_are_told_apart_by_name() -> None:
    score: dict[str, dict[str, Any] | None] = {"lexical": None}
    assert found(score) == ["select.similarity"]
    assert found(score, similarity="lexical") == []
    assert found(score, similarity="evaluator") == []


@pytest.mark.usefixtures("others")
def test_a_probability_may_be_asked_for_where_somebody_gives_it() -> None:
    assert found({"guess": None}, p_min=0.5) == []
    assert found({"guess": None}, p_min=0.5, p_true="guess") == []


@pytest.mark.usefixtures("others")
def test_a_probability_that_nothing_selects_by_is_named() -> None:
    said = unused({"guess": None, "lexical": None}, SelectConfig())
    assert said is not None
    assert ("guess" in said, "lexical" in said, "select.p_min" in said) == (True, False, True)
    methods = {"cutoff": {"p_min": 0.5}}
    assert unused({"guess": None}, SelectConfig.model_validate({"methods": methods})) is None
    relations = {"keeps": {"p_min": 0.5}}
    assert unused({"guess": None}, SelectConfig.model_validate({"relations": relations})) is None
    assert unused({"guess": None}, SelectConfig(p_min=0.5)) is None
    assert unused({"lexical": None}, SelectConfig()) is None


def test_ranks_need_queries_an_evaluator_and_no_settings() -> None:
    ranked: dict[str, dict[str, Any] | None] = {"round_trip": {}}
    asked = ("title", "cutoff")
    assert found(ranked, asked, rank_max=3, rank="fused") == []
    assert found(ranked, rank_max=3) == ["score.round_trip"]
    assert found(ranked, ("title",), evaluator=False) == ["score.round_trip"]
    (place,) = found({"round_trip": {"precision": "bf16"}}, asked)
    assert place.startswith("score.round_trip")
    assert found({"round_trip": {}}, ("title",), rank="bm25") == ["select.rank"]
    assert "select.rank_max" in str(unused({"round_trip": None}, SelectConfig()))
    assert unused({"round_trip": None}, SelectConfig(rank_max=1)) is None
