"""From a run's arguments to its steps: the recipe is read, compiled and checked once per run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tercet.flows.pipeline.compile import compile_steps, left_out, steps_to_run
from tercet.flows.pipeline.fingerprints import kept_artifact, tagged_model
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.resolved import Tagged
from tercet.flows.recipe.secrets import refuse_secrets
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.gpus import device
from tercet.flows.running.model_files import check_model_files
from tercet.flows.running.workers import find_workers
from tercet.models.machine import computed_in
from tercet.storage.store import Store, StoreError, open_store
from tercet.tasks.corpus.ingest import check_corpora
from tercet.tasks.corpus.labelled import LabelledConfig, check_labelled
from tercet.tasks.corpus.sources.corpora import IngestConfig
from tercet.tasks.stage import BadInput, Config


@dataclass(frozen=True)
class RunPlan:
    """A valid recipe, its steps, and the arguments that start the same run.

    every: all steps of the recipe. content: the recipe as a file would have it. chosen: how it was
        fitted to the corpus, if it was. idle: lines for keys without effect.
    tried: the method that `tercet try` shows; such a run is never taken for the newest one.
    arm: the name of a study's arm.
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

    @property
    def store(self) -> str:
        """The store's location."""
        return self.arguments.store

    @property
    def notes(self) -> list[str]:
        """Lines for keys without effect and for steps that nothing reads, and for bf16 where this
        processor has none."""
        unread = left_out(self.every, self.steps) if self.arguments.until is None else None
        lines = [line for line in (*self.idle, unread) if line is not None]
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

    checked: corpora that need no further check; those checked here are added.

    Raises: BadInput.
    """
    refuse_secrets("--store", arguments.store)
    loaded = recipe_file.loaded(
        arguments.recipe, arguments.overrides, arguments.corpus, arguments.limit, arguments.seed
    )
    find_workers(loaded.recipe.run)
    every = compile_steps(loaded.resolved)
    steps = steps_to_run(every, arguments.until)
    _check_inputs(steps, [] if checked is None else checked)
    check_models(steps, arguments.store)
    _check_kept(steps, arguments.store)
    return RunPlan(
        loaded.recipe, steps, arguments, every, loaded.content, loaded.chosen, loaded.notes
    )


def check_models(steps: Sequence[Step], location: str) -> None:
    """Raises BadInput for a model that cannot do what a step wants of it.

    As far as its files are here: after models were fetched, this finds more than before.
    """
    check_model_files(steps, _tagged_models(steps, location))


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


def _check_inputs(steps: Sequence[Step], checked: list[Config]) -> None:
    for step in steps:
        if step.config in checked:
            continue
        if isinstance(step.config, IngestConfig):
            check_corpora(step.config)
            checked.append(step.config)
        elif isinstance(step.config, LabelledConfig):
            check_labelled(step.config)
            checked.append(step.config)
