"""What makes two runs differ: recipe keys, and of each step the config, files, code and inputs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tercet.flows.pipeline import fingerprints
from tercet.storage.artifacts import open_artifact
from tercet.storage.store import Store

_REMOVED = "what it was made from is not known: its artifact was removed"


@dataclass(frozen=True)
class StepDifference:
    """A step that two runs do not share.

    a, b: its version in each; None where that run has not reached it.
    why: what differs in the step itself, in the words of `tercet plan`.
    after: the steps whose rows or models it reads and that differ.
    """

    step: str
    a: str | None
    b: str | None
    why: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def compare_recipes(
    a: Mapping[str, Any], b: Mapping[str, Any]
) -> list[tuple[str, str | None, str | None]]:
    """Key, value in A and value in B of each leaf that differs; None where there is no such key."""
    one, other = dict(_leaves(a)), dict(_leaves(b))
    return [
        (key, one.get(key), other.get(key))
        for key in dict.fromkeys([*one, *other])
        if one.get(key) != other.get(key)
    ]


def compare_steps(store: Store, a: Mapping[str, Any], b: Mapping[str, Any]) -> list[StepDifference]:
    """The steps of which the runs have different versions, or only one any; in their order.

    a, b: runs as `storage.runs` has them.
    """
    one, other = (
        {entry["step"]: str(entry["version"]) for entry in run["steps"]} for run in (a, b)
    )
    differ = [step for step in dict.fromkeys([*one, *other]) if one.get(step) != other.get(step)]
    names = {versions[step]: step for versions in (one, other) for step in differ & versions.keys()}
    return [_compare(store, step, one.get(step), other.get(step), names) for step in differ]


def describe_step(found: StepDifference) -> str:
    """What differs, in one line."""
    if found.a is None or found.b is None:
        return f"only {'A' if found.b is None else 'B'} has it"
    after = [f"reads {', '.join(found.after)}"] if found.after else []
    return "; ".join([*found.why, *after]) or "made in another way"


def _compare(
    store: Store, step: str, a: str | None, b: str | None, names: Mapping[str, str]
) -> StepDifference:
    """names: the step of each version that the runs do not share."""
    if a is None or b is None:
        return StepDifference(step, a, b)
    one, other = (open_artifact(store, step, version).manifest() for version in (a, b))
    if one is None or other is None:
        return StepDifference(step, a, b, (_REMOVED,))
    read: dict[str, None] = {}
    own = []
    for manifest in (one, other):
        components = dict(manifest["components"])
        models = components.get("models") or {}
        versions = [*_texts(components.pop("inputs", None)), *_texts(models)]
        read |= dict.fromkeys(names[version] for version in versions if version in names)
        components["models"] = {slot: m for slot, m in models.items() if m not in names}
        own.append(components)
    modules = (manifest.get("modules") or {} for manifest in (one, other))
    return StepDifference(step, a, b, tuple(fingerprints.changes(*own, *modules)), tuple(read))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping | list):
        for member in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(member)
    elif value is not None:
        yield str(value)


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, member in value.items():
            yield from _leaves(member, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list) and any(isinstance(member, Mapping | list) for member in value):
        for number, member in enumerate(value):
            yield from _leaves(member, f"{place}.{number}")
    elif isinstance(value, list):
        yield place, ", ".join(str(member) for member in value) or "none"
    else:
        yield place, "null" if value is None else str(value)
