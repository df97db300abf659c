"""What a model cannot do is said before anything runs, as far as its files show it."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from failures import fails
from safetensors.numpy import save_file

from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.resolved import Made, Model, Tagged, Weights
from tercet.flows.running.model_files import check_model_files
from tercet.models.discriminators import PairModel, Platt, write
from tercet.models.encoders import encoder
from tercet.tasks.evaluation import evaluate
from tercet.tasks.evaluation.evaluate import EvaluateConfig
from tercet.tasks.scoring import embed
from tercet.tasks.scoring.embed import EmbedConfig
from tercet.tasks.training import (
    count_tokens,
    fit_evaluator,
    pretrain,
    whiten,
)
from tercet.tasks.training.count_tokens import CountTokensConfig
from tercet.tasks.training.fit_evaluator import FitEvaluatorConfig
from tercet.tasks.training.pretrain import PretrainConfig
from tercet.tasks.training.train import STAGE
from tercet.tasks.training.train_settings import TrainConfig
from tercet.tasks.training.whiten import WhitenConfig


def trained(name: str, backbone: Model, pooling: Any = None, **loss: Any) -> Step:
    part = {"name": "p", "rows": "terms", "models": {"entry_matrix": ""}}
    part |= {"loss": {"name": "definition", **loss}}
    config = TrainConfig.model_validate(
        {"phase": {"name": "p", "parts": [part]}, "pooling": pooling}
    )
    return Step(name, STAGE, config, {}, {"backbone": backbone})


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
    (tmp_path / "config.json").write_text("{}")
    tensors = {f"{layer}.{kind}": np.zeros(2) for layer in layers for kind in ("weight", "bias")}
    save_file(tensors, tmp_path / "model.safetensors")
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
    (tmp_path / "config.json").write_text("{}")
    save_file({"lm_head.dense.weight": np.zeros(2)}, tmp_path / "model.safetensors")
    numbers = {"learning_rate": 1e-4, "masked": 0.2}
    masked = PretrainConfig.model_validate({"name": "m", "form": "masked", **numbers})
    made = Step("pretrain.m", pretrain.STAGE, masked, {}, {})
    fits = FitEvaluatorConfig()
    original = {"backbone": Weights(str(tmp_path))}
    evaluator = Step("fit_evaluator", fit_evaluator.STAGE, fits, {}, original)
    first = trained("train.a", Made("pretrain.m"))
    identity = trained("train.b", Made("train.a"), start="identity")
    check_model_files([made, first, identity], {})
    for steps in (
        [made, first, trained("train.d", Made("train.a"))],
        [evaluator, trained("train.d", Made("fit_evaluator"))],
    ):
        with fails("unfit_model", "train.d"):
            check_model_files(steps, {})


@pytest.mark.parametrize("key", ["num_hidden_layers", "n_layers"])
def test_all_layers_cannot_be_frozen(tmp_path: Path, key: str) -> None:
    (tmp_path / "config.json").write_text(f'{{"{key}": 3}}')
    save_file({"weight": np.zeros(2)}, tmp_path / "model.safetensors")

    def frozen(count: int, backbone: Model) -> Step:
        config = TrainConfig.model_validate({"phase": {"name": "p", "frozen_layers": count}})
        return Step(f"train.p{count}", STAGE, config, {}, {"backbone": backbone})

    two = frozen(2, Weights(str(tmp_path)))
    check_model_files([two], {})
    with fails("bad_value", "train.p3", "frozen_layers"):
        check_model_files([two, frozen(3, Made("train.p2"))], {})


def test_a_tag_of_a_judge_of_pairs_is_no_backbone(tmp_path: Path) -> None:
    write(tmp_path, PairModel(np.zeros((4, 3)), 0.0, Platt(1.0, 0.0)))
    config = TrainConfig.model_validate({"phase": {"name": "p"}})
    step = Step("train", STAGE, config, {}, {"backbone": Tagged("judge")})
    with fails("unfit_model"):
        check_model_files([step], {"judge": tmp_path})


def whitened(dimensions: int | None, encoder: Model, **form: Any) -> Step:
    config = WhitenConfig.model_validate({"dimensions": dimensions, **form})
    return Step("whiten", whiten.STAGE, config, {}, {"encoder": encoder})


def test_whitening_keeps_no_more_directions_than_there_are(tiny_backbone: Path) -> None:
    width = json.loads((tiny_backbone / "config.json").read_text())["hidden_size"]
    here = Weights(str(tiny_backbone))
    first = trained("train.a", here, start="identity")
    second = trained("train.b", Made("train.a"), start="identity")
    before = [first, second]
    check_model_files([*before, whitened(width, Made("train.b"))], {})
    check_model_files([whitened(None, here)], {})
    # This form's vectors are as wide as its channels make them.
    pooled = {"pooling": "token_cnn"}
    wide = trained("train.a", here, **pooled, start="identity")
    check_model_files([wide, whitened(width + 1, Made("train.a"), **pooled)], {})
    for steps in ([*before, whitened(width + 1, Made("train.b"))], [whitened(width + 1, here)]):
        with fails("bad_value", "whiten.dimensions", width + 1, width):
            check_model_files(steps, {})


@pytest.mark.parametrize(
    ("modules", "known"),
    [
        (["Transformer", "Pooling", "Normalize"], True),
        (["Transformer", "Pooling", "Dense"], False),
        (["StaticEmbedding"], False),
        (None, False),
    ],
)
def test_a_width_that_the_files_do_not_tell_is_left_to_the_run(
    tmp_path: Path, modules: list[str] | None, known: bool
) -> None:
    listed = [
        {"type": f"sentence_transformers.models.{kind}", "path": f"{number}_{kind}"}
        for number, kind in enumerate(modules or ())
    ]
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean"}')
    (tmp_path / "modules.json").write_text(json.dumps(listed) if modules else "[3]")
    (tmp_path / "config.json").write_text('{"hidden_size": 8}')
    save_file({"weight": np.zeros(2)}, tmp_path / "model.safetensors")
    step = whitened(9, Weights(str(tmp_path)))
    if known:
        with fails("bad_value", "8"):
            check_model_files([step], {})
    else:
        check_model_files([step], {})


@pytest.mark.parametrize(
    ("said", "joined"),
    [
        ({"pooling_mode": "cls"}, False),
        ({"pooling_mode": ["cls", "mean"]}, True),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, False),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, True),
    ],
)
def test_poolings_that_are_joined_are_wider(
    tiny_backbone: Path, tmp_path: Path, said: dict[str, Any], joined: bool
) -> None:
    width = json.loads((tiny_backbone / "config.json").read_text())["hidden_size"]
    check_model_files(
        [whitened(width + 1, Weights(str(tiny_backbone)), pooling=["cls", "mean"])], {}
    )
    encoder.load_encoder(tiny_backbone, "mean").save_pretrained(str(tmp_path / "own"))
    (tmp_path / "own" / "1_Pooling" / "config.json").write_text(json.dumps(said))
    step = whitened(width + 1, Weights(str(tmp_path / "own")))
    if joined:
        check_model_files([step], {})
    else:
        with fails("bad_value", "dimensions"):
            check_model_files([step], {})


def reconstructing(backbone: Model, tokenizer: Model) -> list[Step]:
    counts = CountTokensConfig(tokenizer="x", name="counts", corpora=("all",))
    counting = Step("count_tokens.counts", count_tokens.STAGE, counts, {}, {"tokenizer": tokenizer})
    part = {"name": "p", "rows": "anchors", "loss": "token_reconstruction"}
    part["models"] = {"frequencies": "counts"}
    config = TrainConfig.model_validate({"phase": {"name": "p", "parts": [part]}})
    models = {"backbone": backbone, "p.frequencies": Made("count_tokens.counts")}
    return [counting, Step("train", STAGE, config, {}, models)]


def test_tokens_are_counted_with_the_encoders_own_tokenizer(
    tmp_path: Path, tiny_backbone: Path
) -> None:
    copied = shutil.copytree(tiny_backbone, tmp_path / "copied")
    other = shutil.copytree(tiny_backbone, tmp_path / "other")
    file = other / "tokenizer.json"
    said = json.loads(file.read_text())
    said["model"]["vocab"].popitem()
    file.write_text(json.dumps(said))
    nothing = shutil.copytree(tiny_backbone, tmp_path / "nothing")
    (nothing / "tokenizer.json").unlink()
    masked = PretrainConfig.model_validate(
        {"name": "m", "form": "masked", "learning_rate": 1e-4, "masked": 0.2}
    )
    fresh = Step("pretrain.fresh", pretrain.STAGE, masked, {}, {})
    on = Step("pretrain.on", pretrain.STAGE, masked, {}, {"init": Weights(str(copied))})
    here = Weights(str(tiny_backbone))
    for backbone, tokenizer in [
        (here, here),
        (here, Weights(str(copied))),
        (Made("pretrain.on"), here),
        (Made("pretrain.fresh"), Made("pretrain.fresh")),
        # Whoever loads it knows.
        (here, Weights(str(nothing))),
        (here, Tagged("to be made")),
    ]:
        check_model_files([fresh, on, *reconstructing(backbone, tokenizer)], {})
    for backbone, tokenizer in [
        (here, Weights(str(other))),
        (Made("pretrain.on"), Weights(str(other))),
        (Made("pretrain.fresh"), here),
        (here, Made("pretrain.fresh")),
    ]:
        with fails("unfit_model", "count_tokens.counts", "`tokenizer`"):
            check_model_files([fresh, on, *reconstructing(backbone, tokenizer)], {})


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
        return Step(
            "embed", embed.STAGE, EmbedConfig.model_validate(form), {}, {"evaluator": source}
        )

    same = trained("train.a", here, start="identity")
    by_cnn = trained("train.a", here, "token_cnn", start="identity")
    by_mean = trained("train.a", Tagged("kept"), "mean", start="identity")
    as_it_was = trained("train.a", Tagged("kept"), start="identity")
    made = Made("train.a")
    sound = [[of_encoder(here, inputs=False)], [of_texts(Tagged("kept"))]]
    sound += [[before, of_encoder(made)] for before in (by_cnn, as_it_was)]
    for steps in sound:
        check_model_files(steps, kept)
    masked = PretrainConfig(name="own", form="masked", learning_rate=1e-3, masked=0.2)
    own = Step("pretrain.own", pretrain.STAGE, masked, {}, {})
    from_own = trained("train.a", Made("pretrain.own"), start="identity")
    faulty = [[of_texts(here)], [same, of_encoder(made)], [by_mean, of_encoder(made)]]
    faulty += [[own, from_own, of_encoder(made)]]
    for steps in faulty:
        with fails("unfit_model", "token_cnn"):
            check_model_files(steps, kept)
