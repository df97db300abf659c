"""What a generator or a judge of pairs cannot do is said before anything runs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from failures import fails
from tiny_generators import tiny_causal

from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.resolved import Made, Model, Tagged, Weights
from tercet.flows.running.model_files import check_model_files
from tercet.models.generators import layout
from tercet.models.generators.layout import Layout
from tercet.models.generators.settings import Decoding
from tercet.models.t5 import wording
from tercet.models.t5.wording import Question
from tercet.tasks.evaluation import measure_generators
from tercet.tasks.evaluation.measure_generators import MeasureGeneratorsConfig
from tercet.tasks.scoring import gense
from tercet.tasks.scoring.gense import GenseConfig
from tercet.tasks.synthesis import fitted
from tercet.tasks.synthesis.fitted import FittedConfig
from tercet.tasks.training import (
    fit_generator,
    fit_gense,
)
from tercet.tasks.training.fit_generator import FitGeneratorConfig
from tercet.tasks.training.fit_gense import FitGenseConfig
from tercet.tasks.training.generator_pairs import PairsConfig

LAYOUT = Layout(form="t5", max_length=32, follows_prompts=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with a question, as a model of form gense has it."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").touch()
    wording.write(tmp_path, Question(max_length=32, asked=wording.asked()))
    layout.write(tmp_path, LAYOUT)
    return tmp_path


def writing(method: str, model: Model, like: str | None = None, **params: Any) -> Step:
    config = FittedConfig(
        method=method,
        like=like,
        params={"generator": "t5", **params},
        decoding=Decoding(),
        precision="fp32",
    )
    name = f"synthesise.{method}"
    return Step(name, fitted.STAGE, config, {}, {"generator": model})


def own(method: str) -> dict[str, str]:
    return {"prompt": str(wording.prompt_path(method))}


def test_a_generator_writes_what_it_was_fitted_to(folder: Path) -> None:
    here = Weights(str(folder))
    check_model_files([writing(name, here, **own(name)) for name in wording.asked()], {})
    tagged = writing("paraphrase", Tagged("earlier"))
    # What is to be made, or has not been tagged yet, cannot be looked at.
    check_model_files([tagged, writing("paraphrase", Made("fit_generator.writer"))], {})
    for step in (writing("paraphrase", here), tagged):
        with fails("unfit_model", "synthesise.paraphrase"):
            check_model_files([step], {"earlier": folder})
    second = writing("second", here, like="entailment", **own("entailment"))
    check_model_files([second], {})
    other = folder / "own.jinja"
    other.write_text("So: {{ sentence }}")
    with fails("unfit_model", "prompt"):
        check_model_files([writing("entailment", here, prompt=str(other))], {})
    with fails("unfit_model", "nowhere"):
        check_model_files([writing("entailment", here, prompt="nowhere")], {})


def test_a_judge_has_a_question(folder: Path) -> None:
    def score() -> Step:
        model = {"model": Weights(str(folder))}
        return Step("score.gense", gense.STAGE, GenseConfig(model="x"), {}, model)

    check_model_files([score()], {})
    (folder / wording.FILE).unlink()
    with fails("unfit_model", "score.gense"):
        check_model_files([score()], {})


def test_a_decoder_alone_is_no_start(tmp_path: Path) -> None:
    init = tiny_causal(tmp_path / "gpt", ["red"])
    config = FitGenseConfig(init="x", name="writer", form="gense")
    step = Step("fit_generator.writer", fit_gense.STAGE, config, {}, {"init": Weights(str(init))})
    with fails("unfit_model", "fit_generator.writer", init, "5"):
        check_model_files([step], {})


@pytest.mark.parametrize(
    ("form", "length", "said"),
    [
        ("causal", 64, None),
        ("vaegpt", 64, None),
        ("t5", 64, "T5"),
        ("causal", 4096, "max_length"),
    ],
)
def test_a_generators_init_is_looked_at(
    tmp_path: Path, form: str, length: int, said: str | None
) -> None:
    init = tiny_causal(tmp_path / "gpt", ["red"])
    config = FitGeneratorConfig(
        init="x", name="own", form=form, max_length=length, pairs=PairsConfig()
    )
    step = Step("fit_generator.own", fit_generator.STAGE, config, {}, {"init": Tagged("small")})
    if said is None:
        check_model_files([step], {"small": init})
        return
    with fails("unfit_model", "fit_generator.own", said):
        check_model_files([step], {"small": init})


def test_vaegpt_starts_from_a_gpt2_alone(tmp_path: Path) -> None:
    other = {"model_type": "opt", "architectures": ["OPTForCausalLM"]}
    (tmp_path / "config.json").write_text(json.dumps(other))
    config = FitGeneratorConfig(init="x", name="own", form="vaegpt", pairs=PairsConfig())
    step = Step("fit_generator.own", fit_generator.STAGE, config, {}, {"init": Tagged("opt")})
    with fails("unfit_model", "vaegpt"):
        check_model_files([step], {"opt": tmp_path})
    models = {"init": Tagged("small"), "judge": Tagged("opt")}
    tagged = {"small": tiny_causal(tmp_path / "gpt", ["red"]), "opt": tmp_path}
    with fails("unfit_model", "judge"):
        check_model_files([replace(step, models=models)], tagged)


def test_the_judge_of_generators_is_a_causal_model(tmp_path: Path, tiny_backbone: Path) -> None:
    step = Step(
        "measure_generators",
        measure_generators.STAGE,
        MeasureGeneratorsConfig(),
        {},
        {"encoder": Weights(str(tiny_backbone)), "judge": Weights(str(tiny_backbone))},
    )
    with fails("unfit_model", "measure_generators.judge"):
        check_model_files([step], {})
    right = tiny_causal(tmp_path / "gpt", ["red"])
    models = {**step.models, "judge": Weights(str(right))}
    check_model_files([replace(step, models=models)], {})


def test_a_t5_from_elsewhere_judges_in_words_of_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    (tmp_path / "model.safetensors").touch()
    model = {"model": Weights(str(tmp_path))}

    def score(**given: Any) -> Step:
        return Step("score.gense", gense.STAGE, GenseConfig(model="x", **given), {}, model)

    check_model_files([score(question={"before": "If "})], {})
    with fails("unfit_model", "score.gense.question"):
        check_model_files([score()], {})
    here = Weights(str(tmp_path))
    with fails("unfit_model", "entailment.prompt"):
        check_model_files([writing("entailment", here, **own("entailment"))], {})
    layout.write(tmp_path, LAYOUT)
    check_model_files([writing("entailment", here, prompt=str(tmp_path / "own.jinja"))], {})
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with fails("unfit_model", "BERT"):
        check_model_files([score(question={"before": "If "})], {})
