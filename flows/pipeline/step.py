"""One step of a pipeline, and the selection of steps to run."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa

from tercet.flows.recipe.names import LLM, Made, Model, Weights
from tercet.models.errors import suggest
from tercet.models.llm.settings import LlmSettings, Sampling
from tercet.tasks.stage import REJECTS, BadInput, Config, OnePart, Stage

Inputs: TypeAlias = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Step:
    """A stage within one pipeline.

    inputs: slot to the names of the steps whose rows it reads.
    models: slot to the source of the model.
    keep: the tag or version, as the recipe names it, whose rows are kept.
    """

    name: str
    stage: Stage
    config: Config
    inputs: Inputs = field(default_factory=dict)
    models: Mapping[str, Model] = field(default_factory=dict)
    keep: str | None = None

    @property
    def is_kept(self) -> bool:
        """Whether the version that is kept stands in the place of a new one."""
        cut = self.stage.cut
        return self.keep is not None and not (isinstance(cut, OnePart) and cut.keeps)

    @property
    def method(self) -> str:
        """The method under which the answers of a step that asks are kept and counted."""
        return getattr(self.config, "method", self.stage.method)

    @property
    def needs(self) -> tuple[str, ...]:
        """The names of the steps that must be done first."""
        model_steps = [model.step for model in self.models.values() if isinstance(model, Made)]
        return tuple(
            dict.fromkeys([*(n for names in self.inputs.values() for n in names), *model_steps])
        )


def guarded(table: str, step: str = "ingest") -> dict[str, tuple[str, ...]]:
    """The slots of rows to train on, and of rows that the guard keeps out if it searches them."""
    return {table: (step,), f"guarded_{table}": (f"guard.{table}",)}


def connect(steps: Sequence[Step]) -> list[Step]:
    """The steps without inputs of steps that the recipe does not have, which are optional."""
    names_made = {step.name for step in steps}
    read = [
        {
            slot: tuple(name for name in names if name in names_made)
            for slot, names in step.inputs.items()
        }
        for step in steps
    ]
    return [
        replace(step, inputs={slot: names for slot, names in inputs.items() if names})
        for step, inputs in zip(steps, read, strict=True)
    ]


def without_unread(steps: Sequence[Step], names: Collection[str]) -> tuple[Step, ...]:
    """The steps, each after its inputs, without steps in `names` that no other step reads."""
    read_steps: list[Step] = []
    read: set[str] = set()
    for step in reversed(steps):
        if step.name not in names or step.name in read:
            read_steps.append(step)
            read.update(step.needs)
    return tuple(reversed(read_steps))


def in_order(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps in the given order, but each after the steps that it needs; there is no circle."""
    by_name = {step.name: step for step in steps}
    ordered: dict[str, Step] = {}

    def place(step: Step) -> None:
        for need in step.needs:
            if need in by_name and need not in ordered:
                place(by_name[need])
        ordered.setdefault(step.name, step)

    for step in steps:
        place(step)
    return tuple(ordered.values())


def until(steps: Sequence[Step], target: str) -> tuple[Step, ...]:
    """The steps that a stage, a step or a table needs, itself included.

    Raises: BadInput for an unknown name.
    """
    if target == "rejects":
        names = list(dict.fromkeys(step.stage.name for step in steps))
        raise BadInput(
            "bad_value",
            "--until 'rejects': every stage makes this table. Name the stage whose rejects you "
            f"want, one of {', '.join(names)}.",
        )
    targets = [s for s in steps if target in (s.name, s.stage.name) or target in s.stage.tables]
    if not targets:
        names = sorted({s.stage.name for s in steps} | {t for s in steps for t in s.stage.tables})
        raise BadInput(
            "unknown_name",
            f"--until {target!r} is neither a stage nor a table of this recipe"
            f"{suggest(target, names)}: "
            f"choose one of {', '.join(names)}.",
        )
    by_name = {step.name: step for step in steps}
    keep: set[str] = set()
    open_names = [step.name for step in targets]
    while open_names:
        name = open_names.pop()
        if name not in keep:
            keep.add(name)
            open_names.extend(by_name[name].needs)
    return tuple(step for step in steps if step.name in keep)


def schemas(steps: Sequence[Step]) -> dict[str, pa.Schema]:
    """The tables that these steps make."""
    tables = {name: schema for step in steps for name, schema in step.stage.tables.items()}
    return {**tables, "rejects": REJECTS}


def served(llm: LlmSettings) -> LlmSettings:
    """The model without sampling settings, which are in each step's own parameters."""
    return llm.model_copy(update=Sampling().model_dump())


def weights_of(llm: LlmSettings) -> dict[str, Model]:
    """The language model's weights, if their files are available."""
    return {} if llm.model is None else {"llm": Weights(llm.model)}


def writer(step: Step) -> str | None:
    """Who answers a step's requests: `llm` or a generator's name; None if it asks nothing."""
    if step.stage.asks is None:
        return None
    return getattr(step.config, "generator", None) or LLM
