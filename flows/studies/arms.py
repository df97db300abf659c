"""A study: arms of one or more recipes, run in one store, in order or several at once.

An arm is an ordinary run, so arms share all identical artifacts, and an interrupted study resumes
where it stopped. `tercet.flows.studies.results` reads the results.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from tercet.flows.pipeline import fingerprints
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe import file as recipe_file
from tercet.flows.results.verdict import judge
from tercet.flows.running import gpus
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.gpus import device
from tercet.flows.running.one_step import Say
from tercet.flows.running.processes import Ended, run_jobs, sendable
from tercet.flows.running.run_plan import RunPlan, prepare
from tercet.flows.running.runner import Listener, Make, StepResult, open_run, run_steps
from tercet.flows.terminal import interrupts
from tercet.flows.terminal.progress import LogLines, Reporter, step_line
from tercet.storage.artifacts import open_artifact
from tercet.storage.store import Store
from tercet.tasks.stage import BadInput, Config, silent

RECIPE_KEY = "recipe"
# Seconds between two lines of an arm about the same step, if several arms run at once.
LINE_SECONDS = 60.0


@dataclass(frozen=True)
class Arm:
    """One variant of a recipe: its name, the recipe, and `key=value` changes to it.

    values: the grid's keys with this arm's values. base: its name in the file of arms, or "".
    """

    name: str
    recipe: str
    overrides: tuple[str, ...]
    values: Mapping[str, Any] = field(default_factory=dict)
    base: str = ""


@dataclass(frozen=True)
class PlannedArm:
    """A validated arm, with the version of each of its steps."""

    arm: Arm
    plan: RunPlan
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Outcome:
    """The outcome of an arm. run_id and steps: as far as it got; error: why it stopped."""

    planned: PlannedArm
    run_id: str | None
    steps: tuple[StepResult, ...]
    error: Exception | None = None


def arms_of(
    recipe: str, vary: Sequence[str] = (), file: str | None = None, common: Sequence[str] = ()
) -> list[Arm]:
    """The arms: each arm of the file with every combination of the values in `vary`.

    vary: `KEY=[V1, V2]`, one for each key. common: changes to every arm, before its own.

    Raises: BadInput for unreadable input and for two arms with the same name.
    """
    named = [Arm("", recipe, tuple(common))] if file is None else _read_arms(file, recipe, common)
    grid = [_parse_vary(text) for text in vary]
    keys = [key for key, _ in grid]
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise BadInput("conflict", f"--vary {twice[0]} is given twice: list all its values in one.")
    short = short_keys(keys)
    arms = []
    for base in named:
        for point in product(*(values for _, values in grid)):
            values = dict(zip(keys, point, strict=True))
            values_text = ", ".join(
                _overrides({short[key]: value for key, value in values.items()})
            )
            name = ", ".join(part for part in (base.name, values_text) if part)
            changes = (*base.overrides, *_overrides(values))
            arms.append(Arm(name, base.recipe, changes, values, base.name))
    if len(arms) < 2:
        raise BadInput(
            "missing_key",
            "A study compares at least two arms: give --vary KEY=[V1, V2] or --arms FILE with two "
            "arms; for a single one use `tercet run`.",
        )
    names = [arm.name for arm in arms]
    if twice := [name for name in names if names.count(name) > 1]:
        raise BadInput("conflict", f"Two arms have the name {twice[0]!r}: list each value once.")
    return arms


def plan_arms(arms: Sequence[Arm], store: Store, arguments: RunArguments) -> list[PlannedArm]:
    """The arms' plans, all validated before anything runs. Raises BadInput naming the arm.

    arguments: the arguments that all arms share, apart from the recipe and its changes.
    """
    planned_arms: list[PlannedArm] = []
    checked: list[Config] = []
    for arm in arms:
        try:
            of_arm = replace(arguments, recipe=arm.recipe, overrides=arm.overrides)
            plan = replace(prepare(of_arm, checked), arm=arm.name)
            prints = fingerprints.fingerprints(plan.steps, plan.recipe.seed, store, fetch=True)
        except BadInput as error:
            raise BadInput(error.kind, f"Arm {arm.name!r}: {error}") from None
        planned = PlannedArm(arm, plan, {name: str(one.version) for name, one in prints.items()})
        for other in planned_arms:
            if other.versions == planned.versions:
                raise BadInput(
                    "conflict",
                    f"Arms {other.arm.name!r} and {arm.name!r} are the same run, since no step "
                    "reads what differs between them: leave one out.",
                )
        planned_arms.append(planned)
    return planned_arms


def step_counts(planned: Sequence[PlannedArm], store: Store) -> list[tuple[str, int, int, int]]:
    """The steps in their order: how many arms have each, how many artifacts it has, how many
    exist."""
    counts = []
    for name in _ordered(planned):
        versions = [arm.versions[name] for arm in planned if name in arm.versions]
        artifacts = [open_artifact(store, name, version) for version in dict.fromkeys(versions)]
        standing = sum(one.manifest() is not None and one.intact() for one in artifacts)
        counts.append((name, len(versions), len(artifacts), standing))
    return counts


def run_arm(planned: PlannedArm, say: Say, listeners: Sequence[Listener]) -> Outcome:
    """Runs one arm; a failure becomes its outcome. KeyboardInterrupt passes through."""
    run_id: str | None = None
    done: list[StepResult] = []

    def note(step: Step, make: Make) -> StepResult:
        done.append(make(silent))
        return done[-1]

    try:
        with open_run(planned.plan, say) as handle:
            run_id = handle.run_id
            run_steps(handle, [*listeners, note])
            judge(handle)
    except Exception as error:
        return Outcome(planned, run_id, tuple(done), error)
    return Outcome(planned, run_id, tuple(done))


def run_apart(
    planned: Sequence[PlannedArm], at_once: int
) -> Generator[tuple[int, str | Outcome], None, None]:
    """Runs `at_once` arms at a time, each in its own process, and on its own GPU if there is one.

    Yields lines and outcomes as they come, each with the arm's place. Closing it ends all arms.
    """
    on = {device(one.plan.recipe.run.device) for one in planned}
    jobs = [(_run_arm_apart, (one,)) for one in planned]
    for place, message in run_jobs(jobs, at_once, gpus.cards() if "cuda" in on else ()):
        if isinstance(message, Ended):
            one = planned[place]
            run_id, steps, error = message.value or (None, (), message.error)
            yield place, Outcome(one, run_id, steps, error)
        else:
            yield place, message


def _run_arm_apart(
    tell: Callable[[str], None], planned: PlannedArm
) -> tuple[str | None, tuple[StepResult, ...], Exception | None]:
    def line(step: Step, make: Make) -> StepResult:
        with Reporter([LogLines(step.name, tell, LINE_SECONDS)]) as progress:
            result = make(progress)
        if result.state != "reused":
            tell(step_line(result))
        return result

    interrupts.listen()
    outcome = run_arm(planned, tell, [line])
    error = None if outcome.error is None else sendable(outcome.error)
    return outcome.run_id, outcome.steps, error


def made_and_reused(outcomes: Sequence[Outcome]) -> dict[str, tuple[int, int]]:
    """For each step, how often it was made (or resumed) and how often reused."""
    counts: dict[str, list[int]] = {}
    for outcome in outcomes:
        for result in outcome.steps:
            tally = counts.setdefault(result.step, [0, 0])
            tally[1 if result.state == "reused" else 0] += 1
    steps = _ordered([outcome.planned for outcome in outcomes])
    return {step: (counts[step][0], counts[step][1]) for step in steps if step in counts}


def as_text(value: Any) -> str:
    """A value as typed on the command line."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


def short_keys(keys: Sequence[str]) -> dict[str, str]:
    """The short name of each key: its last word, or all of it if two keys end alike."""
    ends = [key.rpartition(".")[2] for key in keys]
    return {
        key: key if ends.count(end) > 1 or end.isdigit() else end
        for key, end in zip(keys, ends, strict=True)
    }


def _read_arms(file: str, recipe: str, common: Sequence[str]) -> list[Arm]:
    path = Path(file)
    if not path.is_file():
        raise BadInput(
            "missing_file", f"There is no file of arms {file!r}: give the path of a YAML file."
        )
    _, content = recipe_file.read_yaml(path, "arms")
    if not isinstance(content, dict) or not content:
        raise BadInput(
            "no_rows", f"{path} has no arms: write names, each with the keys that it changes."
        )
    arms = []
    for name, changes in content.items():
        if changes is not None and not isinstance(changes, dict):
            raise BadInput(
                "bad_value",
                f"{path}: arm {str(name)!r} must be a mapping of recipe keys to values, such as "
                "select.negative_max: 0.6.",
            )
        overrides = {str(key): value for key, value in (changes or {}).items()}
        chosen = overrides.pop(RECIPE_KEY, recipe)
        arms.append(Arm(str(name), str(chosen), (*common, *_overrides(overrides))))
    return arms


def _parse_vary(text: str) -> tuple[str, list[Any]]:
    key, equals, listed = text.partition("=")
    try:
        values = recipe_file.parse_yaml(listed)[1] if equals else None
    except yaml.YAMLError:
        values = None
    if not key.strip() or not isinstance(values, list) or not values:
        raise BadInput(
            "bad_value", f"--vary {text!r} does not list values: write --vary KEY=[V1, V2]."
        )
    return key.strip(), values


def _overrides(values: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{key}={as_text(value)}" for key, value in values.items())


def _ordered(planned: Sequence[PlannedArm]) -> list[str]:
    """The steps of all arms, each after the steps that precede it in any arm."""
    order: list[str] = []
    for arm in sorted(planned, key=lambda arm: -len(arm.plan.steps)):
        place = 0
        for step in arm.plan.steps:
            if step.name in order:
                place = order.index(step.name) + 1
            else:
                order.insert(place, step.name)
                place += 1
    return order
