"""From a run's arguments to its steps: the recipe is read, compiled and checked once per run."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tercet.errors import TercetError
from tercet.flows.pipeline.compile import compile_steps, left_out, steps_to_run
from tercet.flows.pipeline.fingerprints import kept_artifact, tagged_model
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.faults import FaultyRecipe, Misplaced
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.names import Made, Model, Tagged, Weights
from tercet.flows.recipe.secrets import refuse_secrets
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.gpus import device
from tercet.flows.running.workers import find_workers
from tercet.models import weights
from tercet.models.encoders.settings import CNN, cnn_form
from tercet.models.errors import Unusable
from tercet.models.losses.registry import DONOR, Definition
from tercet.models.losses.word_layer import Layer, is_roberta, layer_of
from tercet.models.machine import computed_in
from tercet.storage.store import Store, StoreError, open_store
from tercet.tasks.corpus.ingest import check_corpora
from tercet.tasks.corpus.labelled import LabelledConfig, check_labelled
from tercet.tasks.corpus.sources.corpora import IngestConfig
from tercet.tasks.evaluation.evaluate import EvaluateConfig
from tercet.tasks.stage import BadInput, Config
from tercet.tasks.training.pretrain import PretrainConfig
from tercet.tasks.training.train_settings import TrainConfig


@dataclass(frozen=True)
class RunPlan:
    """A valid recipe, its steps, and the arguments that start the same run.

    every: all steps of the recipe. content: the recipe as a file would have it. chosen: how it was
        fitted to the corpus, if it was. idle: lines for keys without effect.
    tried: the method that `tercet try` shows; such a run is never taken for the newest one.
    arm: the name of a study's arm. warnings: what `idle` says, as rows of the table `warnings`.
    """

    recipe: Recipe
    steps: tuple[Step, ...]
    arguments: RunArguments
    every: tuple[Step, ...] = ()
    content: Mapping[str, Any] = field(default_factory=dict)
    chosen: str | None = None
    idle: Sequence[str] = ()
    tried: str | None = None
    arm: str | None = None
    warnings: Sequence[Mapping[str, Any]] = ()

    @property
    def store(self) -> str:
        """The store's location."""
        return self.arguments.store

    @property
    def notes(self) -> list[str]:
        """Lines for steps that nothing reads, and for bf16 where this processor has none."""
        unread = left_out(self.every, self.steps) if self.arguments.until is None else None
        lines = [] if unread is None else [unread]
        asks = any(getattr(step.config, "precision", None) == "bf16" for step in self.steps)
        if asks and computed_in("bf16", device(self.recipe.run.device)) == "fp32":
            lines.append(
                "This processor has no fast bf16: everything but vLLM computes in fp32 instead."
            )
        return lines


def prepare(arguments: RunArguments, checked: list[Config] | None = None) -> RunPlan:
    """The plan of a run with these arguments.

    Checks that corpora are readable and that local weights exist. Nothing is fetched, digested or
    written: a faulty recipe must not leave a store behind.

    checked: corpora that need no further check; corpora that are checked here are added.

    Raises: BadInput, of a recipe with all its faults; Unusable for a model that cannot do what a
        step wants of it.
    """
    refuse_secrets("--store", arguments.store)
    try:
        loaded = recipe_file.loaded(
            arguments.recipe, arguments.overrides, arguments.corpus, arguments.limit, arguments.seed
        )
    except FaultyRecipe as error:
        if error.recipe is None or error.source is None:
            raise
        with suppress(TercetError):
            names = [corpus.name for corpus in error.recipe.corpora]
            more = [*_unreadable(error.recipe, names)]
            error.lines = [*error.lines, *error.source.lines_of(more)]
        raise
    recipe = loaded.recipe
    find_workers(recipe.run)
    every = compile_steps(loaded.resolved)
    steps = steps_to_run(every, arguments.until)
    checked = [] if checked is None else checked
    reading = [
        step.config
        for step in steps
        if isinstance(step.config, IngestConfig | LabelledConfig) and step.config not in checked
    ]
    names = [corpus.name for config in reading for corpus in config.corpora]
    errors: list[TercetError] = []
    if unreadable := [*_unreadable(recipe, names)]:
        lines = loaded.source.lines_of(unreadable)
        errors.append(FaultyRecipe(unreadable[0].kind, lines))
    checked += reading
    for check in (check_models, _check_kept):
        try:
            check(steps, arguments.store)
        except (BadInput, Unusable) as error:
            errors.append(error)
    _refuse(errors)
    return RunPlan(
        *(recipe, steps, arguments, every, loaded.content, loaded.chosen),
        idle=loaded.source.lines_of(loaded.resolved.notes),
        warnings=loaded.source.warnings(loaded.resolved.notes),
    )


def check_models(steps: Sequence[Step], location: str) -> None:
    """Raises BadInput or Unusable for models that cannot do what the steps want of them.

    Only models whose files are here can be checked, so this finds more once models are fetched.
    """
    check_model_files(steps, _tagged_models(steps, location))


def check_model_files(steps: Sequence[Step], tagged: Mapping[str, Path]) -> None:
    """Like `check_models`. tagged: the directories of models by their tags."""
    _refuse([*_find_unfit(steps, tagged)])


def _refuse(errors: Sequence[TercetError]) -> None:
    """Raises the only error, or one error with the sentences of all."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        lines = [line for error in errors for line in getattr(error, "lines", [str(error)])]
        raise FaultyRecipe(errors[0].kind, [*dict.fromkeys(lines)])


def _unreadable(recipe: Recipe, names: Collection[str]) -> Iterator[Misplaced]:
    """A fault for each of the corpora of these names that cannot be read."""
    longest = recipe.ingest.max_line_bytes
    for index, corpus in enumerate(recipe.corpora):
        if corpus.name not in names:
            continue
        try:
            if corpus.role == "labelled":
                check_labelled(LabelledConfig(corpora=[corpus], max_line_bytes=longest))
            else:
                check_corpora(recipe.ingest.model_copy(update={"corpora": [corpus]}))
        except BadInput as error:
            yield Misplaced(error.kind, str(error).rstrip("."), "corpora", index)


def _check_kept(steps: Sequence[Step], location: str) -> None:
    """Raises BadInput for a version that is to be kept and is not there."""
    for step in steps:
        if step.keep is not None:
            kept_artifact(_existing(location, step.keep), step.name, step.keep)


def _existing(location: str, ref: str) -> Store:
    """The store that a recipe takes something from. Raises BadInput where there is none."""
    try:
        return open_store(location, create=False)
    except StoreError as error:
        raise BadInput(error.kind, f"The recipe takes {ref} from the store: {error}") from None


def _tagged_models(steps: Sequence[Step], location: str) -> dict[str, Path]:
    """The directories of models by their tags; without tags the store need not exist.

    Raises BadInput for a tag that names no model in it.
    """
    names = [m.name for step in steps for m in step.models.values() if isinstance(m, Tagged)]
    if not names:
        return {}
    store = _existing(location, f"tag:{names[0]}")
    folders = {name: tagged_model(store, name).model_dir() for name in dict.fromkeys(names)}
    return {name: folder for name, folder in folders.items() if folder is not None}


def _find_unfit(steps: Sequence[Step], tagged: Mapping[str, Path]) -> Iterator[BadInput | Unusable]:
    """A fault for each step with a model that is missing or cannot do what the step wants of it.

    tagged: the directories of models by their tags.
    """
    by_name = {step.name: step for step in steps}
    for step in steps:
        try:
            for slot, source in step.models.items():
                folder = _folder(step, source, tagged, step.stage.check_model is not None)
                if folder is not None and step.stage.check_model is not None:
                    step.stage.check_model(step.config, slot, folder)
            _check_cnn(step, by_name, tagged)
            if isinstance(step.config, TrainConfig):
                _check_training(step, by_name, tagged)
        except (BadInput, Unusable) as error:
            yield error


def _check_training(step: Step, by_name: Mapping[str, Step], tagged: Mapping[str, Path]) -> None:
    """Raises BadInput if the encoder lacks weights that the phase trains or starts from."""
    source, trained = _way_back(step.models["backbone"], by_name)
    folder = _folder(step, source, tagged, in_cache=True)
    if folder is None:
        pretrained = by_name[source.step].config if trained and isinstance(source, Made) else None
        if isinstance(pretrained, PretrainConfig) and pretrained.form == "masked":
            # A masked model will have a head, but it is not known yet which.
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
    # Training draws a token_cnn, and the untouched encoder is measured with the drawn one.
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
