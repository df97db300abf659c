"""What a recipe's models can do, as far as their files show it before anything runs."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tercet.flows.pipeline.step import Made, Model, Step, Tagged, Weights
from tercet.models import weights
from tercet.models.losses.definition import Definition, layer_of
from tercet.models.pretraining.forms import form_fault
from tercet.models.t5 import wording
from tercet.tasks.evaluation.measure_generators import MeasureGeneratorsConfig
from tercet.tasks.scoring.gense import GenseConfig
from tercet.tasks.stage import BadInput
from tercet.tasks.synthesis.fitted import SLOT, FittedConfig
from tercet.tasks.training import fit_generator, fit_gense, pretrain
from tercet.tasks.training.fit_generator import FitGeneratorConfig
from tercet.tasks.training.fit_gense import FitGenseConfig
from tercet.tasks.training.pretrain import PretrainConfig
from tercet.tasks.training.train import TrainConfig

# How many layers a model has, by the names that its type has for it.
_LAYERS = ("num_hidden_layers", "num_layers", "n_layers")
_CHECKED = (
    PretrainConfig,
    FitGeneratorConfig,
    FitGenseConfig,
    GenseConfig,
    FittedConfig,
    MeasureGeneratorsConfig,
)


def check_model_files(steps: Sequence[Step], tagged: Mapping[str, Path]) -> None:
    """Raises BadInput for a model that is missing, or that cannot do what a step wants of it.

    tagged: the directories of models by their tags.
    """
    for step in steps:
        for slot, source in step.models.items():
            folder = _folder(source, tagged, isinstance(step.config, _CHECKED))
            if folder is not None:
                _check(step, slot, folder)
    by_name = {step.name: step for step in steps}
    for step in steps:
        if isinstance(step.config, TrainConfig):
            source = step.models["backbone"]
            trained = False
            while isinstance(source, Made) and "backbone" in by_name[source.step].models:
                source, trained = by_name[source.step].models["backbone"], True
            folder = _folder(source, tagged, in_cache=True)
            if folder is not None:
                _check_encoder(step, source, folder)
                _check_frozen(step, folder)
            if trained:
                layer = None if folder is None else layer_of(folder)
                config = by_name[source.step].config if isinstance(source, Made) else None
                if layer is not None and not layer.survives:
                    _check_head(step, layer.name)
                elif isinstance(config, PretrainConfig) and config.form == "masked":
                    # It will have a head, whichever that is.
                    _check_head(step, "before the words")


def _check_encoder(step: Step, source: Model, folder: Path) -> None:
    """Raises BadInput for a tag of a model that is no transformer, as `fit_pair`'s is none."""
    files = ("modules.json", "config.json")
    if isinstance(source, Tagged) and not any((folder / file).is_file() for file in files):
        raise BadInput(f"{step.name}: the model tag:{source.name} is no encoder: name another.")


def _check_frozen(step: Step, original: Path) -> None:
    """Raises BadInput where a phase would freeze all layers of a model."""
    config: Any = step.config
    frozen = config.phase.frozen_layers
    files = [original / "config.json", *original.glob("0_*/config.json")]
    if not frozen or not (found := [file for file in files if file.is_file()]):
        return
    try:
        said = json.loads(found[-1].read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return  # whoever loads the model says what is wrong with it
    counts = [said.get(key) for key in _LAYERS] if isinstance(said, dict) else []
    layers = next((count for count in counts if isinstance(count, int) and count > 0), None)
    if layers is not None and frozen >= layers:
        raise BadInput(
            f"{step.name}: frozen_layers: {frozen} of the encoder's {layers} layers leaves none "
            f"to train: freeze {layers - 1} or fewer."
        )


def _check_head(step: Step, layer: str) -> None:
    """Raises BadInput where a phase would copy this layer, which an earlier phase has not kept."""
    config: Any = step.config
    losses = [part.params() for part in config.phase.parts]
    if any(isinstance(loss, Definition) and loss.start == "copied" for loss in losses):
        raise BadInput(
            f"{step.name}: the loss definition starts from the layer {layer} of the original "
            "model, which an encoder trained before no longer has: give the phase `backbone: "
            "base`, or the loss `start: identity`."
        )


def _folder(source: Model, tagged: Mapping[str, Path], in_cache: bool) -> Path | None:
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
        raise BadInput(str(error)) from None


def _check(step: Step, slot: str, folder: Path) -> None:
    config: Any = step.config
    if isinstance(config, PretrainConfig) and slot == "init":
        pretrain.check_init(folder, config)
    elif isinstance(config, FitGeneratorConfig):
        fit_generator.check_init(folder, config)
    elif isinstance(config, MeasureGeneratorsConfig) and slot == "judge":
        if fault := form_fault(folder, "causal"):
            raise BadInput(f"{step.name}.judge: the model at {folder} cannot judge: {fault}.")
    elif isinstance(config, FitGenseConfig):
        fit_gense.check_init(folder, config.name)
    elif isinstance(config, GenseConfig):
        try:
            wording.read(folder)
        except ValueError as error:
            raise BadInput(f"{step.name}: {error}.") from None
    elif isinstance(config, FittedConfig) and slot == SLOT:
        words = config.params["prompt"]
        own = words is not None and Path(words) != wording.prompt_path(config.method)
        if fault := wording.fault(folder, config.method, own):
            name = config.params["generator"]
            raise BadInput(f"{step.name}: the generator {name!r} cannot be asked this: {fault}.")
