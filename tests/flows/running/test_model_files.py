"""What a model cannot do is said before anything runs, as far as its files show it."""

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from failures import fails
from safetensors.numpy import save_file
from tiny_generators import tiny_causal

from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.names import Made, Model, Tagged, Weights
from tercet.flows.running.run_plan import check_model_files
from tercet.models.discriminators import PairModel, Platt, write
from tercet.models.encoders import encoder
from tercet.models.generators import layout
from tercet.models.generators.layout import Layout
from tercet.models.generators.settings import Decoding
from tercet.models.t5 import wording
from tercet.models.t5.wording import Question
from tercet.tasks.evaluation import evaluate, measure_generators
from tercet.tasks.evaluation.evaluate import EvaluateConfig
from tercet.tasks.evaluation.measure_generators import MeasureGeneratorsConfig
from tercet.tasks.scoring import embed, gense
from tercet.tasks.scoring.embed import EmbedConfig
from tercet.tasks.scoring.gense import GenseConfig
from tercet.tasks.synthesis import fitted
from tercet.tasks.synthesis.methods import SynthesiseConfig
from tercet.tasks.training import (
    fit_evaluator,
    fit_generator,
    fit_gense,
    pretrain,
)
from tercet.tasks.training.fit_evaluator import FitEvaluatorConfig
from tercet.tasks.training.fit_generator import FitGeneratorConfig
from tercet.tasks.training.fit_gense import FitGenseConfig
from tercet.tasks.training.generator_pairs import PairsConfig
from tercet.tasks.training.pretrain import PretrainConfig
from tercet.tasks.training.train import STAGE
from tercet.tasks.training.train_settings import TrainConfig


def trained(name: str, backbone: Model, pooling: Any = None, **loss: Any) -> Step:
    models = {"entry_matrix": "", **({"donor": ""} if loss.get("start") == "donor" else {})}
    part = {"name": "p", "rows": "terms", "models": models, "loss": {"name": "definition", **loss}}
    phase = {"name": "p", "parts": [part]}
    config = TrainConfig.model_validate({"phase": phase, "pooling": pooling})
    return Step(name, STAGE, config, {}, {"backbone": backbone})


def pretrained(name: str, **models: Model) -> Step:
    numbers = {"learning_rate": 1e-4, "masked": 0.2}
    config = PretrainConfig.model_validate({"name": "m", "form": "masked", **numbers})
    return Step(name, pretrain.STAGE, config, {}, models)


def model(folder: Path, config: dict[str, Any], *layers: str) -> Path:
    """A directory with this config and a weight of each layer."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {f"{layer}.weight": np.zeros(2) for layer in (*layers, "embeddings")}
    save_file(tensors, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("layers", "lost"),
    [
        (("roberta.pooler.dense", "lm_head.dense"), "lm_head.dense"),
        (("vocab_transform",), "vocab_transform"),
        (("head.dense",), "head.dense"),
        (("albert.pooler",), None),
        (("bert.pooler.dense", "cls.predictions.transform.dense"), None),
        ((), None),
    ],
)
def test_a_head_that_training_has_lost_is_not_copied(
    tmp_path: Path, layers: tuple[str, ...], lost: str | None
) -> None:
    model(tmp_path, {}, *layers)
    first = trained("train.a", Weights(str(tmp_path)))
    fresh = trained("train.b", Weights(str(tmp_path)))
    identity = trained("train.c", Made("train.a"), start="identity")
    check_model_files([first, fresh, identity], {})
    again = [first, trained("train.d", Made("train.a")), trained("train.e", Made("train.d"))]
    if lost is None:
        check_model_files(again, {})
        return
    for steps in (again[:2], [again[0], identity, trained("train.d", Made("train.c"))]):
        with fails("unfit_model", "train.d", lost):
            check_model_files(steps, {})


def test_nor_one_of_a_model_that_the_run_pretrains_or_an_evaluator_that_it_fits(
    tmp_path: Path,
) -> None:
    original = {"backbone": Weights(str(model(tmp_path, {}, "lm_head.dense")))}
    made = pretrained("pretrain.m")
    evaluator = Step("fit_evaluator", fit_evaluator.STAGE, FitEvaluatorConfig(), {}, original)
    first = trained("train.a", Made("pretrain.m"))
    identity = trained("train.b", Made("train.a"), start="identity")
    check_model_files([made, first, identity], {})
    for steps in (
        [made, first, trained("train.d", Made("train.a"))],
        [evaluator, trained("train.d", Made("fit_evaluator"))],
    ):
        with fails("unfit_model", "train.d"):
            check_model_files(steps, {})


def test_a_roberta_without_its_masked_head_is_refused(tmp_path: Path) -> None:
    for number, layers in enumerate((("pooler.dense",), ())):
        lost = Weights(str(model(tmp_path / str(number), {"model_type": "roberta"}, *layers)))
        with fails("unfit_model"):
            check_model_files([trained("train", lost)], {})
        for loss in ({"start": "donor"}, {"start": "identity"}, {"activation": "tanh"}):
            check_model_files([trained("train", lost, **loss)], {})
    for kind, layer in (("roberta", "lm_head.dense"), ("bert", "pooler.dense")):
        whole = model(tmp_path / kind, {"model_type": kind}, layer)
        check_model_files([trained("train", Weights(str(whole)))], {})


def test_a_tag_of_a_judge_of_pairs_is_no_backbone(tmp_path: Path) -> None:
    write(tmp_path, PairModel(np.zeros((4, 3)), 0.0, Platt(1.0, 0.0)))
    config = TrainConfig.model_validate({"phase": {"name": "p"}})
    step = Step("train", STAGE, config, {}, {"backbone": Tagged("judge")})
    with fails("unfit_model"):
        check_model_files([step], {"judge": tmp_path})


def test_states_are_not_pooled_by_a_cnn_that_was_never_trained(
    tiny_backbone: Path, tmp_path: Path
) -> None:
    here, form = Weights(str(tiny_backbone)), {"pooling": "token_cnn"}
    has_one = encoder.load_encoder(tiny_backbone, "token_cnn", cnn_seed=0)
    encoder.save_encoder(has_one, tmp_path / "kept")
    kept = {"kept": tmp_path / "kept"}

    def of_encoder(source: Model, inputs: bool = True) -> Step:
        slots = {"baseline": ("evaluate.base",)} if inputs else {}
        config = EvaluateConfig.model_validate(form)
        return Step("evaluate.encoder", evaluate.STAGE, config, slots, {"model": source})

    def of_texts(source: Model) -> Step:
        config = EmbedConfig.model_validate(form)
        return Step("embed", embed.STAGE, config, {}, {"evaluator": source})

    same = trained("train.a", here, start="identity")
    by_cnn = trained("train.a", here, "token_cnn", start="identity")
    by_mean = trained("train.a", Tagged("kept"), "mean", start="identity")
    as_it_was = trained("train.a", Tagged("kept"), start="identity")
    made = Made("train.a")
    sound = [[of_encoder(here, inputs=False)], [of_texts(Tagged("kept"))]]
    sound += [[before, of_encoder(made)] for before in (by_cnn, as_it_was)]
    for steps in sound:
        check_model_files(steps, kept)
    own = pretrained("pretrain.own")
    from_own = trained("train.a", Made("pretrain.own"), start="identity")
    faulty = [[of_texts(here)], [same, of_encoder(made)], [by_mean, of_encoder(made)]]
    faulty += [[own, from_own, of_encoder(made)]]
    for steps in faulty:
        with fails("unfit_model", "token_cnn"):
            check_model_files(steps, kept)


LAYOUT = Layout(form="t5", max_length=32, follows_prompts=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with a question, as a model of form gense has it."""
    model(tmp_path, {})
    wording.write(tmp_path, Question(max_length=32, templates=wording.builtin_templates()))
    layout.write(tmp_path, LAYOUT)
    return tmp_path


def writing(method: str, generator: Model, **params: Any) -> Step:
    config = SynthesiseConfig(
        method=method,
        params={"generator": "t5", **params},
        decoding=Decoding(),
        precision="fp32",
    )
    name = f"synthesise.{method}"
    return Step(name, fitted.STAGE, config, {}, {"generator": generator})


def own(method: str) -> dict[str, str]:
    return {"prompt": str(wording.prompt_path(method))}


def test_a_generator_writes_what_it_was_fitted_to(folder: Path) -> None:
    here = Weights(str(folder))
    check_model_files(
        [writing(name, here, **own(name)) for name in wording.builtin_templates()], {}
    )
    tagged = writing("paraphrase", Tagged("earlier"))
    # What is to be made, or has not been tagged yet, cannot be looked at.
    check_model_files([tagged, writing("paraphrase", Made("fit_generator.writer"))], {})
    for step in (writing("paraphrase", here), tagged):
        with fails("unfit_model", "synthesise.paraphrase"):
            check_model_files([step], {"earlier": folder})
    other = folder / "own.jinja"
    other.write_text("So: {{ sentence }}")
    with fails("unfit_model", "prompt"):
        check_model_files([writing("entailment", here, prompt=str(other))], {})
    with fails("unfit_model", "nowhere"):
        check_model_files([writing("entailment", here, prompt="nowhere")], {})


def judging(folder: Path, **given: Any) -> Step:
    config = GenseConfig(model="x", **given)
    return Step("score.gense", gense.STAGE, config, {}, {"model": Weights(str(folder))})


def test_a_judge_has_a_question(folder: Path) -> None:
    check_model_files([judging(folder)], {})
    (folder / wording.FILE).unlink()
    with fails("unfit_model", "score.gense"):
        check_model_files([judging(folder)], {})


def test_a_decoder_alone_is_no_start(tmp_path: Path) -> None:
    init = tiny_causal(tmp_path / "gpt", ["red"])
    config = FitGenseConfig(init="x", name="writer", form="gense")
    step = Step("fit_generator.writer", fit_gense.STAGE, config, {}, {"init": Weights(str(init))})
    with fails("unfit_model", "fit_generator.writer", init, "5"):
        check_model_files([step], {})


@pytest.mark.parametrize(
    ("form", "length", "name"),
    [("causal", 64, None), ("vaegpt", 64, None), ("t5", 64, "T5"), ("causal", 4096, "max_length")],
)
def test_a_generators_init_is_looked_at(
    tmp_path: Path, form: str, length: int, name: str | None
) -> None:
    init = tiny_causal(tmp_path / "gpt", ["red"])
    config = FitGeneratorConfig(
        init="x", name="own", form=form, max_length=length, pairs=PairsConfig()
    )
    step = Step("fit_generator.own", fit_generator.STAGE, config, {}, {"init": Tagged("small")})
    with nullcontext() if name is None else fails("unfit_model", "fit_generator.own", name):
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
        MeasureGeneratorsConfig(encoder="e"),
        {},
        {"encoder": Weights(str(tiny_backbone)), "judge": Weights(str(tiny_backbone))},
    )
    with fails("unfit_model", "measure_generators.judge"):
        check_model_files([step], {})
    right = tiny_causal(tmp_path / "gpt", ["red"])
    models = {**step.models, "judge": Weights(str(right))}
    check_model_files([replace(step, models=models)], {})


def test_a_t5_from_elsewhere_judges_in_words_of_the_recipe(tmp_path: Path) -> None:
    asked = judging(model(tmp_path, {"model_type": "t5"}), question={"before": "If "})
    check_model_files([asked], {})
    with fails("unfit_model", "score.gense.question"):
        check_model_files([judging(tmp_path)], {})
    here = Weights(str(tmp_path))
    with fails("unfit_model", "entailment.prompt"):
        check_model_files([writing("entailment", here, **own("entailment"))], {})
    layout.write(tmp_path, LAYOUT)
    check_model_files([writing("entailment", here, prompt=str(tmp_path / "own.jinja"))], {})
    model(tmp_path, {"model_type": "bert"})
    with fails("unfit_model", "BERT"):
        check_model_files([asked], {})
