"""Keys of a recipe that do not fit each other are refused before anything runs."""

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from failures import fails

from tercet.errors import ErrorKind
from tercet.flows.pipeline.compile import compile_steps, steps_to_run
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.file import resolve
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.names import Weights

STS = {"name": "sts", "source": "sts.csv", "role": "labelled", "kind": "scored"}


# A judge decides, so that no candidate needs a cosine.
JUDGED: dict[str, Any] = {
    "name": "j",
    "backbone": "a/b",
    "corpora": [{"name": "field", "source": "field.txt"}],
    "generators": {"t5": {"model": "some/t5"}},
    "synthesise": {"entailment": {"generator": "t5"}, "contradiction": {"generator": "t5"}},
    "score": {"gense": {"model": "some/t5"}},
    "select": {"p_min": 0.9},
    "train": {"phases": [{"name": "synthetic", "rows": "triplets", "loss": "info_nce"}]},
}


def recipe(corpora: list[dict[str, str]], train: dict[str, Any]) -> Recipe:
    field = {"name": "field", "source": "field.txt"}
    content = {"name": "c", "backbone": "a/b", "corpora": [field, *corpora], "train": train}
    return resolve(Recipe.model_validate(content)).recipe


@pytest.mark.parametrize("loss", ["info_nce", "nt_xent"])
def test_no_phase_takes_every_scored_pair_for_a_positive(loss: str) -> None:
    phase: dict[str, Any] = {"name": "pairs", "rows": "sts", "loss": loss}
    with fails("conflict", "'sts'", loss):
        recipe([STS], {"phases": [phase]})
    assert recipe([{**STS, "kind": "pairs"}], {"phases": [phase]})
    # A text that is its own positive needs no label.
    rows = {"from": "sts", "positive": "anchor"}
    assert recipe([STS], {"phases": [{**phase, "rows": rows}]})


def test_no_step_is_chosen_by_other_weights_than_are_left() -> None:
    pairs = {**STS, "name": "nli", "kind": "pairs"}
    phase = {"name": "pairs", "rows": "nli", "loss": "info_nce", "weight_interpolation": 0.3}
    with fails("conflict") as error:
        recipe([pairs], {"phases": [phase], "choose": {"by": "STS-B"}})
    assert error.value.location[-1] == "weight_interpolation"
    assert recipe([pairs], {"phases": [phase]})


def test_where_a_judge_decides_nothing_is_embedded() -> None:
    found = by_name(JUDGED)
    assert not {"embed", "score.evaluator"} & set(found)
    assert found["select"].inputs["scores"] == ("score.gense",)
    config: Any = found["select"].config
    assert (config.by_similarity, config.positive_min, config.negative_max) == (False, None, None)
    # With one, both are there, whoever decides.
    found = by_name({**JUDGED, "evaluator": {"model": "a/b"}})
    assert found["select"].inputs["scores"] == ("score.evaluator", "score.gense")
    config = found["select"].config
    assert (config.by_similarity, config.positive_min, config.negative_max) == (True, 0.9, 0.75)


def test_the_guard_compares_triplets_without_stored_vectors() -> None:
    measured = {**JUDGED, "evaluate": {"suite": "suite"}}
    guard = by_name(measured)["guard.triplets"]
    assert (guard.inputs, guard.models) == ({"triplets": ("select",)}, {})
    guard = by_name({**measured, "guard": {"encoder": "a/guard"}})["guard.triplets"]
    assert guard.models == {"encoder": Weights("a/guard")}


GAUSSIAN = {"name": "decayed", "rows": "triplets"}


@pytest.mark.parametrize(
    "changes",
    [
        {"train": {"phases": [GAUSSIAN]}},
        {"negatives": {}, "ingest": {"passages": {}}},
    ],
)
def test_what_reads_vectors_of_candidates_is_refused_without_an_evaluator(
    changes: dict[str, Any],
) -> None:
    with fails("missing_key", "evaluator"):
        resolve(Recipe.model_validate({**JUDGED, **changes}))
    assert resolve(Recipe.model_validate({**JUDGED, **changes, "evaluator": {"model": "a/b"}}))


def test_without_decay_no_cosine_is_needed() -> None:
    flat = {"loss": {"name": "gaussian_decay", "sigma_cosine": 0}}
    for phase in (flat, {"models": {"teacher": "a/teacher"}}):
        assert resolve(Recipe.model_validate({**JUDGED, "train": {"phases": [GAUSSIAN | phase]}}))
    guard = {"encoder": "a/guard", "embedding_min": 0.9}
    assert resolve(Recipe.model_validate({**JUDGED, "guard": guard}))


@pytest.mark.parametrize("declared", [{"as_anchor": True}, {"unit": "passage"}])
def test_pairing_by_role_is_refused_where_an_anchor_is_no_sentence(
    declared: dict[str, Any],
) -> None:
    role = {**JUDGED, "llm": {"model": "a/b"}, "select": {**JUDGED["select"], "pairing": "role"}}
    own = {**declared, "relation": "topic", "prompt": "ask.jinja"}
    with fails("conflict") as error:
        resolve(Recipe.model_validate({**role, "synthesise": {"mine": own}}))
    assert error.value.location == ("synthesise", "mine", *declared)


def test_pairing_by_role_knows_no_topic_to_mine_for() -> None:
    topical = {"synthesise": {"rest_of_paragraph": None}, "evaluator": {"model": "a/b"}}
    content = {**JUDGED, **topical, "score": {}, "mine": {}, "select": {"pairing": "role"}}
    with fails("conflict", "pairing") as error:
        resolve(Recipe.model_validate(content))
    assert error.value.location == ("mine",)


ASKED: dict[str, Any] = {
    "name": "q",
    "backbone": "a/b",
    "corpora": [{"name": "field", "source": "field.txt"}],
    "ingest": {"passages": {}},
    "synthesise": {"title": {}},
    "train": {"phases": [{"name": "found", "rows": "queries", "loss": "info_nce"}]},
}


def asked(**changes: Any) -> Any:
    return resolve(Recipe.model_validate(ASKED | changes))


def test_queries_alone_need_no_evaluator_and_are_read_with_their_passages() -> None:
    found = by_name(asked(sample={"passages": 9}))
    assert found["synthesise.title"].inputs == dict.fromkeys(
        ("passages", "every_passage"), ("passages",)
    )
    assert "embed" not in found
    assert {"triplets", "passages"} <= found["train"].inputs.keys()
    assert "passages" in found["select"].inputs
    assert found["sample"].config.passages is None


@pytest.mark.parametrize(
    ("changes", "kind", "name"),
    [
        ({"ingest": {}}, "missing_key", "`ingest"),
        ({"synthesise": {}}, "missing_key", "'found'"),
        (
            {"train": {"phases": [{"rows": "triplets", "loss": "info_nce"}]}},
            "missing_key",
            "triplets",
        ),
        ({"select": {"pairing": "role"}}, "conflict", "select.pairing"),
        (
            {"train": {"phases": [{"rows": {"from": "queries", "relation": "topic"}}]}},
            "no_effect",
            "relation",
        ),
    ],
)
def test_what_queries_need_is_said(changes: dict[str, Any], kind: ErrorKind, name: str) -> None:
    with fails(kind, name):
        asked(**changes)


PAIRS = {"from": "document_pairs", "negatives": 2}


def steps(
    rows: Any = PAIRS, loss: Any = "info_nce", without: str = "", **changes: Any
) -> tuple[Step, ...]:
    """Of a recipe that trains on these rows, without a key of its own."""
    content: dict[str, Any] = {
        "name": "n",
        "backbone": "a/b",
        "corpora": [
            {"name": "field", "source": "field.csv", "query": "q", "answer": "a"},
            {"name": "clicks", "source": "c.csv", "role": "labelled", "kind": "pairs"},
            {"name": "other", "source": "o.csv", "role": "labelled", "kind": "pairs"},
        ],
        "ingest": {"passages": {}},
        "evaluator": {"model": "a/b"},
        "synthesise": {"title": None},
        "negatives": {"k": 3},
        "train": {"phases": [{"name": "p", "rows": rows, "loss": loss}]},
        **changes,
    }
    content.pop(without, None)
    return compile_steps(resolve(Recipe.model_validate(content)))


def by_name(of: Any) -> dict[str, Step]:
    """The steps of this content, or of a recipe that is resolved."""
    resolved = resolve(Recipe.model_validate(of)) if isinstance(of, dict) else of
    return {step.name: step for step in compile_steps(resolved)}


@pytest.mark.parametrize(
    ("given", "kind", "name", "place"),
    [
        ({"without": "ingest", "synthesise": {}}, "missing_key", "`ingest`", "negatives"),
        ({"without": "evaluator"}, "missing_key", "`evaluator`", "by"),
        ({"without": "negatives"}, "missing_key", "`negatives: {}`", "rows"),
        ({"rows": {**PAIRS, "negatives": 4}}, "conflict", "negatives.k to 4", "rows"),
        ({"loss": "pairwise_logistic"}, "conflict", "pairwise_logistic", "rows"),
        ({"loss": "nt_xent"}, "no_effect", "nt_xent", "rows"),
        (
            {"rows": {**PAIRS, "negatives": 1}, "loss": "gaussian_decay"},
            "conflict",
            "label",
            "rows",
        ),
    ],
)
def test_what_does_not_fit_is_refused(given: Any, kind: ErrorKind, name: str, place: str) -> None:
    with fails(kind, name) as error:
        steps(**given)
    assert place in error.value.location


@pytest.mark.parametrize("source", ["anchors", "triplets"])
def test_rows_of_sentences_have_none(source: str) -> None:
    with fails("no_effect", source):
        steps({"from": source, "negatives": 1})
    assert steps({**PAIRS, "negatives": 1}, "pairwise_logistic")


def test_each_source_has_a_step_of_its_own() -> None:
    parts = [
        {"name": name, "rows": {"from": name, "negatives": 2}, "loss": "info_nce"}
        for name in ("queries", "document_pairs", "clicks", "other")
    ]
    found = {step.name: step for step in steps(train={"phases": [{"parts": parts}]})}
    mined = {name: step for name, step in found.items() if name.startswith("negatives")}
    assert {(name, step.config.source) for name, step in mined.items()} == {
        ("negatives", "queries"),
        ("negatives.document_pairs", "document_pairs"),
        ("negatives.labelled", "labelled"),
    }
    assert mined["negatives.labelled"].config.corpora == ("clicks", "other")
    assert found["train"].inputs["negatives"] == tuple(mined)
    by_words = {step.name: step for step in steps(negatives={"by": "bm25"}, without="evaluator")}
    assert by_words["negatives.document_pairs"].models == {}
    assert "passage_vectors.evaluator" not in by_words
    vectors = found["passage_vectors.evaluator"]
    for step in mined.values():
        assert step.models == vectors.models
        assert step.inputs["passage_vectors"] == (vectors.name,)


def test_what_no_part_reads_is_made_on_demand_alone() -> None:
    every, mined = steps("queries"), {"negatives", "passage_vectors.evaluator"}
    assert not mined & {step.name for step in steps_to_run(every)}
    assert mined <= {step.name for step in steps_to_run(every, "negatives")}


@pytest.fixture
def french(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder that says of itself what a French pipeline says."""
    (tmp_path / "config.cfg").touch()
    meta = {"lang": "fr", "spacy_version": ">=3.8.0", "pipeline": ["ner"]}
    (tmp_path / "meta.json").write_text(json.dumps(meta))
    monkeypatch.setattr(metadata, "version", lambda name: "3.8.18")
    return str(tmp_path)


def test_rules_of_english_are_refused_for_a_pipeline_of_another_language(french: str) -> None:
    content = {**JUDGED, "llm": {"model": "some/llm"}, "extract": {"pipeline": french}}
    content["synthesise"] = {"entity_swap": None, "word_repetition": None, "paraphrase": None}
    assert resolve(Recipe.model_validate(content))
    unknown = ("negation", "cutoff", "number_form")
    wanted = {**content["synthesise"], **dict.fromkeys(unknown)}
    with fails("conflict", *unknown, "'fr'", "extract.pipeline") as error:
        resolve(Recipe.model_validate({**content, "synthesise": wanted}))
    assert "paraphrase" not in str(error.value)


def test_a_pipeline_that_is_not_there_is_refused_with_its_key() -> None:
    content = {**JUDGED, "extract": {"pipeline": "no_such_pipeline"}}
    with fails("missing_package", "no_such_pipeline") as error:
        resolve(Recipe.model_validate(content))
    assert error.value.location == ("extract", "pipeline")


def test_awareness_goes_with_no_pipeline(french: str) -> None:
    with fails("conflict", "extract.pipeline") as error:
        resolve(
            Recipe.model_validate(
                {
                    **JUDGED,
                    "ingest": {"dev": 0.1},
                    "awareness": {"teacher": "some/teacher"},
                    "extract": {"pipeline": french},
                    "synthesise": {"entity_swap": None},
                }
            )
        )
    assert error.value.location == ("awareness",)


def test_entities_come_from_one_source(french: str) -> None:
    with fails("conflict"):
        Recipe.model_validate({**JUDGED, "extract": {"pipeline": french, "lexicon": "own.tsv"}})


def test_only_methods_that_read_mentions_depend_on_the_language(french: str) -> None:
    content = {**JUDGED, "extract": {"pipeline": french}}
    content["synthesise"] = {"entity_swap": None, "word_repetition": None}
    steps = by_name(content)
    assert steps["synthesise.entity_swap"].config.language == "fr"
    assert steps["synthesise.word_repetition"].config.language is None
    content["synthesise"] = {"word_repetition": None}
    assert "extract" not in {
        step.name for step in steps_to_run(compile_steps(resolve(Recipe.model_validate(content))))
    }
