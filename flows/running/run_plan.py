"""From a run's arguments to its steps: the recipe is read, compiled and checked once per run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.pipeline.fingerprints import tagged
from tercet.flows.pipeline.step import Step, Tagged, Weights, until
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.model import Recipe
from tercet.flows.running.arguments import RunArguments
from tercet.models import weights
from tercet.storage.store import StoreError, open_store
from tercet.tasks.corpus.ingest import IngestConfig, check_corpora
from tercet.tasks.corpus.labelled import LabelledConfig, check_labelled
from tercet.tasks.stage import BadInput, Config
from tercet.tasks.training.pretrain import PretrainConfig, check_init


@dataclass(frozen=True)
class RunPlan:
    """A valid recipe, its steps, and the arguments that start the same run.

    content: the recipe as a file would have it. chosen: how it was fitted to the corpus, if it was.
    """

    recipe: Recipe
    steps: tuple[Step, ...]
    arguments: RunArguments
    content: Mapping[str, Any] = field(default_factory=dict)
    chosen: str | None = None

    @property
    def store(self) -> str:
        """The store's location."""
        return self.arguments.store


def prepare(arguments: RunArguments, checked: list[Config] | None = None) -> RunPlan:
    """The plan of a run with these arguments.

    Checks that corpora are readable and that local weights exist. Nothing is fetched, digested or
    written: a faulty recipe must not leave a store behind.

    checked: corpora that need no further check; those checked here are added.

    Raises: BadInput.
    """
    recipe, content, chosen = recipe_file.loaded(
        arguments.recipe, arguments.overrides, arguments.corpus, arguments.limit, arguments.seed
    )
    steps = compile_steps(recipe)
    if arguments.until is not None:
        steps = until(steps, arguments.until)
    _check_inputs(steps, [] if checked is None else checked)
    _check_tags(steps, arguments.store)
    return RunPlan(recipe, steps, arguments, content, chosen)


def _check_tags(steps: Sequence[Step], location: str) -> None:
    """Tags must name models in the store, which need not exist where there are none."""
    names = [m.name for step in steps for m in step.models.values() if isinstance(m, Tagged)]
    if not names:
        return
    try:
        store = open_store(location, create=False)
    except StoreError as error:
        raise BadInput(f"The recipe takes tag:{names[0]} from the store: {error}") from None
    tagged(steps, store)


def _check_inputs(steps: Sequence[Step], checked: list[Config]) -> None:
    for step in steps:
        if step.config in checked:
            continue
        if isinstance(step.config, IngestConfig):
            check_corpora(step.config)
            checked.append(step.config)
        elif isinstance(step.config, PretrainConfig):
            _check_init(step, step.config)
        elif isinstance(step.config, LabelledConfig):
            check_labelled(step.config)
            checked.append(step.config)
    sources = dict.fromkeys(source for step in steps for source in step.models.values())
    for source in sources:
        if isinstance(source, Weights):
            try:
                weights.locate(source.name)
            except weights.ModelMissing as error:
                raise BadInput(str(error)) from None


def _check_init(step: Step, config: PretrainConfig) -> None:
    """What the model to start from is can be seen before anything runs, if it is here."""
    source = step.models.get("init")
    try:
        folder = weights.cached(source.name) if isinstance(source, Weights) else None
    except weights.ModelMissing as error:
        raise BadInput(str(error)) from None
    if folder is not None:
        check_init(folder, config)
