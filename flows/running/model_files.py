"""What a recipe's models can do, as far as their files show it before anything runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.resolved import Made, Model, Tagged, Weights
from tercet.models import weights
from tercet.models.encoders.settings import CNN, cnn_form
from tercet.models.losses.registry import DONOR, Definition
from tercet.models.losses.word_layer import Layer, is_roberta, layer_of
from tercet.tasks.evaluation.evaluate import EvaluateConfig
from tercet.tasks.stage import BadInput
from tercet.tasks.training.pretrain import PretrainConfig
from tercet.tasks.training.train_settings import TrainConfig


def check_model_files(steps: Sequence[Step], tagged: Mapping[str, Path]) -> None:
    """Raises BadInput or Unusable for a model that is missing or cannot do what a step wants of it.

    tagged: the directories of models by their tags.
    """
    by_name = {step.name: step for step in steps}
    for step in steps:
        for slot, source in step.models.items():
            folder = _folder(step, source, tagged, step.stage.check_model is not None)
            if folder is not None and step.stage.check_model is not None:
                step.stage.check_model(step.config, slot, folder)
    for step in steps:
        _check_cnn(step, by_name, tagged)
        if isinstance(step.config, TrainConfig):
            _check_training(step, by_name, tagged)


def _check_training(step: Step, by_name: Mapping[str, Step], tagged: Mapping[str, Path]) -> None:
    """Raises BadInput where the encoder lacks what the phase trains or starts from."""
    source, trained = _way_back(step.models["backbone"], by_name)
    folder = _folder(step, source, tagged, in_cache=True)
    if folder is None:
        pretrained = by_name[source.step].config if trained and isinstance(source, Made) else None
        if isinstance(pretrained, PretrainConfig) and pretrained.form == "masked":
            # It will have a head, whichever that is.
            _check_head(step, "before the words")
        return
    _check_encoder(step, source, folder)
    layer = _layer(folder)
    if is_roberta(folder) and (layer is None or layer.survives):
        _check_lost_head(step)
    if trained and layer is not None and not layer.survives:
        _check_head(step, layer.name)


def _way_back(source: Model, by_name: Mapping[str, Step]) -> tuple[Model, list[Step]]:
    """The model that training began with, and the steps back to it."""
    steps: list[Step] = []
    while isinstance(source, Made):
        step = by_name[source.step]
        if "backbone" not in step.models:
            break
        source = step.models["backbone"]
        steps.append(step)
    return source, steps


def _check_cnn(step: Step, by_name: Mapping[str, Step], tagged: Mapping[str, Path]) -> None:
    """Raises BadInput where a token_cnn is to pool states that was never trained."""
    pooling = getattr(step.config, "pooling", None)
    # Training draws one, and what it starts from is measured with it.
    draws = "backbone" in step.models or getattr(step.config, "cnn_seed", None) is not None
    if pooling is None or cnn_form(pooling) is None or draws:
        return
    for source in step.models.values():
        source, trained = _way_back(source, by_name)
        forms = [form for other in trained if (form := getattr(other.config, "pooling", None))]
        if isinstance(step.config, EvaluateConfig) and not trained:
            continue
        folder = _folder(step, source, tagged, in_cache=True)
        origin = by_name[source.step].config if isinstance(source, Made) else None
        is_known = bool(forms) or folder is not None or isinstance(origin, PretrainConfig)
        has = cnn_form(forms[0]) is not None if forms else folder is not None and _has_cnn(folder)
        if is_known and not has:
            raise BadInput(
                "unfit_model",
                f"{step.name}: pooling: {CNN} needs an encoder that was trained with it, or its "
                "vectors are random: train that encoder so, or name another pooling here.",
            )


def _has_cnn(folder: Path) -> bool:
    """Whether an encoder's modules.json names a token_cnn."""
    try:
        return f"{CNN}." in (folder / "modules.json").read_text("utf-8")
    except (OSError, ValueError):
        return False  # whoever loads the model says what is wrong with it


def _check_encoder(step: Step, source: Model, folder: Path) -> None:
    """Raises BadInput for a tag of a model that is no transformer, as `fit_pair`'s is none."""
    files = ("modules.json", "config.json")
    if isinstance(source, Tagged) and not any((folder / file).is_file() for file in files):
        raise BadInput(
            "unfit_model", f"{step.name}: the model tag:{source.name} is no encoder: name another."
        )


def _layer(folder: Path) -> Layer | None:
    """The layer before the words that the files have; None for files that cannot be read."""
    from safetensors import SafetensorError

    try:
        return layer_of(folder)
    except (OSError, SafetensorError):
        return None  # whoever loads the model says what is wrong with it


def _check_head(step: Step, layer: str) -> None:
    """Raises BadInput where a phase would copy this layer, which an earlier phase has not kept."""
    config: Any = step.config
    losses = [part.params() for part in config.phase.parts]
    if any(isinstance(loss, Definition) and loss.start == "copied" for loss in losses):
        raise BadInput(
            "unfit_model",
            f"{step.name}: the loss definition starts from the layer {layer} of the original "
            "model, which an encoder trained before no longer has: give the phase `backbone: "
            "base`, or the loss `start: identity`.",
        )


def _check_lost_head(step: Step) -> None:
    """Raises BadInput where a phase would start from a RoBERTa's head, which its files lack."""
    config: Any = step.config
    for part in config.phase.parts:
        loss = part.params()
        if not isinstance(loss, Definition) or (loss.start, loss.activation) != ("copied", "auto"):
            continue
        raise BadInput(
            "unfit_model",
            f"{step.name}: the loss definition starts from the masked-LM head of a RoBERTa, which "
            f"this backbone's files do not have: give the loss `start: {DONOR}` and name a model "
            f"that has it (models: {{{DONOR}: roberta-base}}), or go on without it by `activation: "
            "tanh`, from the files' pooler if they have one.",
        )


def _folder(step: Step, source: Model, tagged: Mapping[str, Path], in_cache: bool) -> Path | None:
    """The model's directory; None for one that is to be made or fetched. Raises BadInput.

    in_cache: also where it has been fetched from the hub before.
    """
    if isinstance(source, Tagged):
        return tagged.get(source.name)
    if not isinstance(source, Weights):
        return None
    try:
        return weights.cached(source.name) if in_cache else weights.locate(source.name)
    except weights.ModelMissing as error:
        key = f"generators.{name}: " if (name := getattr(step.config, "generator", None)) else ""
        raise BadInput(error.kind, f"{key}{error}") from None
