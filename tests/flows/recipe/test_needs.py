"""A key without effect is a note and goes; what contradicts or lacks something is told together."""

import re
from pathlib import Path
from typing import Any

import pytest
from failures import fails

from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.faults import Misplaced
from tercet.flows.recipe.file import resolve
from tercet.flows.recipe.model import Recipe, json_schema
from tercet.flows.recipe.needs import as_written
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.tasks.reasons import threshold_keys
from tercet.tasks.scoring.scorers import scorers, unused
from tercet.tasks.scoring.select import SelectConfig
from tercet.tasks.stage import BadInput

Score = dict[str, dict[str, Any] | None]
SYNTHESISED = ("cutoff", "synonym", "entity_swap", "negation")
GENSE: Score = {"gense": {"model": "t5"}}
BOTH: Score = {**GENSE, "pair": {"model": "judge"}}
RANKED: Score = {"round_trip": {}}
PAIRS = {"name": "clicks", "source": "c.csv", "role": "labelled", "kind": "entailment"}
BASE: dict[str, Any] = {
    "name": "n",
    "backbone": "a/b",
    "corpora": [{"name": "field", "source": "field.txt"}, PAIRS],
    "ingest": {"passages": {}},
    "models": {"judge": {"fit_pair": None}},
    "train": {"phases": [{"rows": "anchors", "loss": "nt_xent"}]},
}


def content(
    score: Score,
    synthesised: tuple[str, ...] = SYNTHESISED,
    evaluator: bool = True,
    **select: Any,
) -> dict[str, Any]:
    """A recipe's, with these keys under `select`."""
    made = {**BASE, "score": score, "synthesise": dict.fromkeys(synthesised), "select": select}
    if evaluator:
        return {**made, "evaluator": {"model": "a/b"}}
    return {**made, "models": {}}


def notes(of: dict[str, Any]) -> list[str]:
    """The keys without effect."""
    resolved = resolve(Recipe.model_validate(of))
    return [".".join(map(str, one.location)) for one in resolved.notes]


@pytest.mark.parametrize(
    ("score", "select"),
    [
        ({}, {}),
        ({}, {"methods": {
            "cutoff": {"positive_min": 0.5, "weight": 2.0},
            "synonym": {"positive_min": {"quantile": 0.2}, "negative_max": 0.6},
            "entity_swap": {"negative_max": 0.8, "positive_min": 0.95},
            "random": {"negative_max": 0.5},
        }, "pairing": "role", "both_roles": True}),
        ({}, {"relations": {"alters": {"negative_max": 1.0}, "keeps": {"positive_min": 0.5}}}),
        # What failed as a positive may serve as a negative then.
        ({}, {"relations": {"topic": {"negative_max": 0.5}}, "pairing": "role",
              "both_roles": True}),
        (GENSE, {"p_min": 0.5}),
        (BOTH, {"p_min": 0.5, "p_true": "gense"}),
        # Without an evaluator a judge decides.
        (GENSE, {"evaluator": False, "p_min": 0.9}),
        (GENSE, {"evaluator": False, "relations": {"keeps": {"p_min": 0.9}}}),
        (RANKED, {"synthesised": ("title", "cutoff"), "rank_max": 3, "rank": "fused"}),
    ],
)  # fmt: skip
def test_what_applies_is_not_noted(score: Score, select: dict[str, Any]) -> None:
    assert notes(content(score, **select)) == []


@pytest.mark.parametrize(
    ("score", "select", "place"),
    [
        ({}, {"methods": {"antonym": {}}}, "methods.antonym"),
        ({}, {"methods": {"negation": {"positive_min": 0.5}}}, "methods.negation.positive_min"),
        ({}, {"methods": {"cutoff": {"negative_max": 0.5}}}, "methods.cutoff.negative_max"),
        (
            {},
            {"methods": {"random": {"positive_min": 0.5}}, "pairing": "role", "both_roles": True},
            "methods.random.positive_min",
        ),
        ({}, {"p_min": 0.5}, "p_min"),
        ({}, {"prefer": "p_true"}, "prefer"),
        ({}, {"relations": {"keeps": {"p_min": 0.5}}}, "relations.keeps.p_min"),
        (GENSE, {"relations": {"topic": {"p_min": 0.5}}}, "relations.topic.p_min"),
        ({}, {"methods": {"cutoff": {"p_min": 0.5}}}, "methods.cutoff.p_min"),
        ({}, {"relations": {"alters": {"positive_min": 0.5}}}, "relations.alters.positive_min"),
        ({}, {"relations": {"topic": {"negative_max": 0.5}}}, "relations.topic.negative_max"),
        ({}, {"rank_max": 3}, "rank_max"),
        (RANKED, {"synthesised": ("title",), "rank": "bm25"}, "rank"),
        (GENSE, {"evaluator": False, "p_min": 0.9, "positive_min": 0.0}, "positive_min"),
        (GENSE, {"evaluator": False, "p_min": 0.9, "prefer": "similarity"}, "prefer"),
    ],
)
def test_what_cannot_apply_is_noted(score: Score, select: dict[str, Any], place: str) -> None:
    assert notes(content(score, **select)) == [f"select.{place}"]


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"mine": {}}, "mine"),
        ({"awareness": {"teacher": "x/y"}, "ingest": {"dev": 0.0}}, "awareness"),
        ({"measure_generators": {"encoder": "e"}}, "measure_generators"),
        ({"train": {"phases": []}, "choose": {}}, "choose"),
    ],
)
def test_a_key_without_effect_goes_and_the_rest_stays(changes: dict[str, Any], place: str) -> None:
    of = {**BASE, "evaluator": {"model": "a/b"}, **changes}
    resolved = resolve(Recipe.model_validate(of))
    assert [one.location for one in resolved.notes] in ([(place,)], [("backbone",), (place,)])
    assert getattr(resolved.written, place) is getattr(resolved.recipe, place) is None
    # As it is written then, nothing is left to note.
    assert resolve(Recipe.model_validate(as_written(resolved.written))).notes == []


@pytest.mark.parametrize(("warmup_steps", "noted"), [(99, False), (100, True)])
def test_a_warm_up_as_long_as_its_phase_is_noted(warmup_steps: int, noted: bool) -> None:
    phase = {**BASE["train"]["phases"][0], "max_steps": 100, "warmup_steps": warmup_steps}
    of = {**content({}), "train": {"phases": [phase]}}
    assert ("train.phases.0.warmup_steps" in notes(of)) == noted


def test_a_key_that_goes_takes_those_along_that_need_it() -> None:
    select = {"rank_max": 3, "rank": "bm25"}
    assert notes(content({}, **select)) == ["select.rank_max", "select.rank"]


@pytest.mark.parametrize(
    ("score", "select", "place"),
    [
        ({}, {"methods": {"cutof": {}}}, "select.methods.cutof"),
        ({}, {"similarity": "lexical"}, "select.similarity"),
        ({}, {"p_true": "evaluator"}, "select.p_true"),
        (BOTH, {"p_min": 0.5}, "select.p_true"),
        (GENSE, {"evaluator": False}, "synthesise"),
        ({**GENSE, "evaluator": None}, {"evaluator": False, "p_min": 0.9}, "score.evaluator"),
        (RANKED, {"rank_max": 3}, "score.round_trip"),
        (RANKED, {"synthesised": ("title",), "evaluator": False}, "score.round_trip"),
        ({"round_trip": {"query": 1}}, {"synthesised": ("title",)}, "score.round_trip"),
        ({}, {"by_similarity": False}, "select.by_similarity"),
    ],
)
def test_what_cannot_run_is_refused(score: Score, select: dict[str, Any], place: str) -> None:
    with pytest.raises(Misplaced) as error:
        resolve(Recipe.model_validate(content(score, **select)))
    assert ".".join(map(str, error.value.location)).startswith(place)


def test_all_faults_are_told_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(
        "name: n\nbackbone: a/b\ncorpora: [{name: f, source: pydocs}]\nevaluator: {model: a/b}\n"
        "synthesise:\n  cutof:\nselect:\n  similarity: lexical\n  rank_max: 3\n"
        "train: {}\n"
    )
    with fails("unknown_name") as error:
        recipe_file.load(str(path))
    places = re.findall(r"r.yaml:(\d+): ([\w.]+):", str(error.value))
    assert places == [
        ("6", "synthesise.cutof"),
        ("8", "select.similarity"),
        ("9", "select.rank_max"),
    ]
    path.write_text(path.read_text().replace("name: n", "nam: n").replace("3", "0"))
    with fails("missing_key") as error:
        recipe_file.load(str(path))
    assert all(name in str(error.value) for name in ("'name'", "'nam'", "select.rank_max"))


def test_several_faults_of_one_value_hide_none_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(
        "name: n\nbackbone: a/b\ncorpora: [{name: f, source: pydocs}]\nevaluator: {model: a/b}\n"
        "synthesise:\n  cutoff:\nselect:\n  similarity: lexical\n"
        "  negative_max: {quantil: 0.5}\ntrain: {}\n"
    )
    with fails("bad_value") as error:
        recipe_file.load(str(path))
    assert {line.split(":")[1] for line in str(error.value).splitlines()} == {"8", "9"}


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        # A value that cannot be, a name that does not exist and a file that is not there.
        (
            "evaluator: {model: a/b}\nsample: {rows: -1}\nsynthesise: {cutof: , cutoff: }\n"
            "train: {phases: [{name: x, rows: nowhere}]}\n",
            ["sample.rows", "synthesise.cutof", "train.phases.0.rows", "corpora.0"],
        ),
        # What is lacking may be what is misspelt.
        (
            "evaluater: {model: a/b}\nsynthesise: {cutoff: , cutof: }\ntrain: {}\n",
            ["evaluater", "synthesise.cutof", "corpora.0"],
        ),
        ("synthesise: {cutoff: }\nselect: {pairing: rol}\n", ["select.pairing", "corpora.0"]),
        # Of a phase with a fault nothing more is known.
        (
            "train: {phases: [{name: x, batch_size: 0, rows: nowhere}]}\n",
            ["train.phases.0.batch_size", "corpora.0"],
        ),
        (
            "nam: 3\ntrain: {phases: [{rows: nowhere}]}\n",
            ["nam", "train.phases.0.rows", "corpora.0"],
        ),
    ],
)
def test_faults_of_all_kinds_are_told_together(
    tmp_path: Path, changes: str, places: list[str]
) -> None:
    path = tmp_path / "r.yaml"
    text = "name: n\nbackbone: a/b\ncorpora: [{name: f, source: gone.txt}]\n"
    path.write_text(text + changes)
    with pytest.raises(BadInput) as error:
        prepare(RunArguments(str(path), str(tmp_path / "store")))
    found = re.findall(r"r.yaml:\d+: (?:unknown key ')?([\w.]+)", str(error.value))
    assert [place.rstrip(".") for place in found] == places, str(error.value)


def test_a_corpus_without_a_source_hides_no_fault_in_a_name(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(
        "name: n\nbackbone: a/b\ncorpora:\n- {name: f, source: pydocs}\n- {name: g, sourc: a.txt}\n"
        "train:\n  phases:\n  - {name: x, rows: {from: anchors, corpora: [g]}}\n"
        "  - {name: y, rows: nowhere}\n"
    )
    with fails("missing_key", "source", "sourc", "nowhere") as error:
        recipe_file.load(str(path))
    lines = [int(line.split(":")[1]) for line in str(error.value).splitlines()]
    assert lines == [5, 5, 9]


def test_the_schema_says_what_a_key_needs_and_knows_no_key_of_the_compiler() -> None:
    select = json_schema()["$defs"]["SelectConfig"]["properties"]
    assert "no effect without" in select["rank_max"]["description"]
    assert "by_similarity" not in select


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
