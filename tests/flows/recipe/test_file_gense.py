"""A recipe's GenSE model: its steps, and what is refused before anything runs."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from failures import fails

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.file import resolve
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.resolved import Made
from tercet.models.t5 import wording
from tercet.tasks.stage import BadInput
from tercet.tasks.training import fit_gense

ASKED = {"generator": "t5", "per_unit": 4}
FIT: dict[str, Any] = {"form": "gense", "init": "some/t5", "pairs": {"corpora": ["nli"]}}
CONTENT: dict[str, Any] = {
    "name": "gense",
    "backbone": "some/encoder",
    "corpora": [
        {"name": "field", "source": "field.txt"},
        {"name": "nli", "source": "nli.csv", "role": "labelled", "kind": "triplets"},
        {"name": "sts", "source": "sts.csv", "role": "labelled", "kind": "scored"},
    ],
    "models": {"writer": {"fit_generator": FIT}},
    "generators": {"t5": {"model": "writer", "top_p": 0.9, "beams": 1}},
    "synthesise": {"entailment": ASKED, "contradiction": ASKED},
    "evaluator": {"model": "some/encoder"},
    "score": {"gense": {"model": "writer"}},
    "select": {"p_min": 0.9},
    "train": {},
}


def load(tmp_path: Path, *overrides: str, **changes: Any) -> Recipe:
    path = tmp_path / "gense.yaml"
    path.write_text(yaml.safe_dump({**CONTENT, **changes}, sort_keys=False), encoding="utf-8")
    return recipe_file.load(str(path), overrides)


def steps(recipe: Recipe) -> dict[str, Step]:
    return {step.name: step for step in compile_steps(resolve(recipe))}


def fitted(**changes: Any) -> dict[str, Any]:
    return {"models": {"writer": {"fit_generator": {**FIT, **changes}}}}


def test_one_model_writes_and_judges(tmp_path: Path) -> None:
    found = steps(load(tmp_path, evaluate={"suite": "suite"}))
    fit = found["fit_generator.writer"]
    assert fit.stage is fit_gense.STAGE
    assert fit.inputs == {"labelled": ("labelled",), "guarded_labelled": ("guard.labelled",)}
    assert fit.config.pairs.corpora == ("nli",)  # type: ignore[attr-defined]
    for method in ("entailment", "contradiction"):
        config: Any = found[f"synthesise.{method}"].config
        assert found[f"synthesise.{method}"].models == {"generator": Made("fit_generator.writer")}
        # It is asked in its own few words, not in those for a language model.
        assert config.params["prompt"] == str(wording.prompt_path(method))
        assert (config.decoding.top_p, config.decoding.beams) == (0.9, 1)
    score = found["score.gense"]
    assert score.models == {"model": Made("fit_generator.writer")}
    assert set(score.inputs) == {"candidates", "sentences"}
    assert found["select"].inputs["scores"] == ("score.evaluator", "score.gense")


def test_a_model_fitted_to_words_of_the_recipe_is_asked_in_them(tmp_path: Path) -> None:
    found = steps(load(tmp_path, **fitted(prompts={"entailment": "own.jinja"})))
    prompts = [found[f"synthesise.{method}"].config for method in ("entailment", "contradiction")]
    asked = [config.params["prompt"] for config in prompts]  # type: ignore[attr-defined]
    assert asked == ["own.jinja", str(wording.prompt_path("contradiction"))]


def test_vllm_is_refused_before_anything_is_fitted(tmp_path: Path) -> None:
    served = {"t5": {"model": "writer", "backend": "vllm"}}
    with fails("unfit_model", "'t5'"):
        steps(load(tmp_path, generators=served))


def test_a_language_model_is_asked_at_length(tmp_path: Path) -> None:
    llm = {"model": str(tmp_path)}
    found = steps(load(tmp_path, llm=llm, synthesise={"entailment": None, "contradiction": None}))
    config: Any = found["synthesise.entailment"].config
    assert config.params["prompt"] is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (fitted(batch_size=2), ["models.writer.fit_generator.batch_size"]),
        (fitted(pairs={"corpora": ["sts"]}), ["writer.fit_generator.pairs.corpora", "scored"]),
        (fitted(pairs={"corpora": ["nl"]}), ["'nl'", "nli, sts"]),
        (
            {"synthesise": {"paraphrase": {"generator": "t5"}}},
            ["synthesise.paraphrase.generator", "entailment", "contradiction"],
        ),
        (
            {"synthesise": {"entailment": {"generator": "t5", "prompt": "own.jinja"}}},
            ["synthesise.entailment.prompt", "prompts.entailment"],
        ),
        (
            {"score": {"gense": {"model": "writer", "question": {"before": "If "}}}},
            ["score.gense.question", "fit_generator.question"],
        ),
        (
            {"generators": {"t5": {"model": "writer", "temperature": 0}}},
            ["per_unit", "4 times"],
        ),
        (
            {**fitted(form="t5"), "synthesise": {"paraphrase": {"generator": "t5"}}},
            ["score.gense.model", "'writer'", "fit_generator"],
        ),
        ({"measure_generators": {"encoder": "some/encoder"}}, ["measure_generators"]),
        (
            {
                "models": {
                    "writer": {"fit_generator": {**FIT, "init": "gpt"}},
                    "gpt": {"pretrain": {"form": "causal"}},
                }
            },
            ["models.writer.fit_generator.init", "causal", "t5"],
        ),
    ],
)
def test_faults_are_one_sentence_with_the_line(
    tmp_path: Path, changes: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(BadInput) as caught:
        load(tmp_path, **changes)
    told = str(caught.value)
    assert told.startswith(f"{tmp_path}/gense.yaml:"), told
    assert all(word in told for word in words), told
    assert "\n" not in told


def test_a_missing_form_and_a_typed_fault_have_their_place(tmp_path: Path) -> None:
    with fails("missing_key", "'models.writer.fit_generator.form'"):
        load(tmp_path, models={"writer": {"fit_generator": {"init": "some/t5"}}})
    key = "models.writer.fit_generator.epochs"
    with fails("bad_value", "--set", key, "0"):
        load(tmp_path, f"{key}=0")
