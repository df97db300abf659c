"""A RoBERTa without its masked-LM head, from which the loss `definition` would start."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from failures import fails
from safetensors.numpy import save_file

from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.resolved import Weights
from tercet.flows.running.model_files import check_model_files
from tercet.tasks.training.phases import PartConfig
from tercet.tasks.training.train import STAGE
from tercet.tasks.training.train_settings import TrainConfig


def part(models: dict[str, str], **loss: Any) -> dict[str, Any]:
    return {"name": "p", "rows": "terms", "models": models, "loss": {"name": "definition", **loss}}


def trained(folder: Path, **loss: Any) -> Step:
    models = {"entry_matrix": "", **({"donor": ""} if loss.get("start") == "donor" else {})}
    config = TrainConfig.model_validate({"phase": {"name": "p", "parts": [part(models, **loss)]}})
    models_of_step = {"backbone": Weights(str(folder))}
    return Step("train", STAGE, config, {}, models_of_step)


def model(folder: Path, kind: str, *layers: str) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    tensors = {f"{layer}.weight": np.zeros(2) for layer in (*layers, "embeddings")}
    save_file(tensors, folder / "model.safetensors")
    return folder


def test_it_is_said_and_not_replaced_in_silence(tmp_path: Path) -> None:
    for number, layers in enumerate((("pooler.dense",), ())):
        lost = model(tmp_path / str(number), "roberta", *layers)
        with fails("unfit_model"):
            check_model_files([trained(lost)], {})
        for loss in ({"start": "donor"}, {"start": "identity"}, {"activation": "tanh"}):
            check_model_files([trained(lost, **loss)], {})
    check_model_files([trained(model(tmp_path / "raw", "roberta", "lm_head.dense"))], {})
    check_model_files([trained(model(tmp_path / "bert", "bert", "pooler.dense"))], {})


def test_a_donor_is_named_where_it_is_asked_for() -> None:
    given = part({"entry_matrix": "base", "donor": "roberta-base"}, start="donor")
    assert PartConfig.model_validate(given).resolved().slots == ("entry_matrix", "donor")
    assert PartConfig.model_validate(part({"entry_matrix": "base"})).resolved().slots == (
        "entry_matrix",
    )
    with fails("missing_key", "donor"):
        PartConfig.model_validate(part({"entry_matrix": "base"}, start="donor"))
