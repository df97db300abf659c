"""Loads additions of installed packages to Tercet, by entry points (docs/plugins.md)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar, cast

from tercet.models.errors import Unusable

GROUPS = (
    "tercet.methods",
    "tercet.losses",
    "tercet.scorers",
    "tercet.readers",
    "tercet.executors",
    "tercet.measures",
    "tercet.findings",
)
T = TypeVar("T")


@cache
def installed(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, in the order of their packages' names."""
    points = _all().select(group=group)
    return tuple(sorted(points, key=lambda point: (package(point), point.name)))


def loaded(group: str, kind: type[T]) -> Iterator[tuple[str, T]]:
    """The objects that packages name in entry points of this group, each with how messages name it.

    kind: their class, a dataclass with a field `module`, which is set to the entry point's.
    Raises: Unusable for an entry point that cannot be loaded or is no such object.
    """
    for point in installed(group):
        named = f"{point.name!r} ({group}) of the installed package {package(point)}"
        try:
            value: Any = point.load()
        except Exception as error:
            raise Unusable(
                "unreadable",
                f"{named} cannot be loaded ({type(error).__name__}: {error}): fix that package, or "
                "uninstall it",
            ) from error
        if not isinstance(value, kind):
            raise Unusable(
                "unreadable",
                f"{named} is a {type(value).__name__}, and not a {kind.__name__} of "
                f"{kind.__module__}: fix that package, or uninstall it",
            )
        yield named, replace(cast(Any, value), module=point.module)


def with_installed(group: str, ours: Sequence[T]) -> dict[str, T]:
    """The objects by name: Tercet's (`ours`), then those of installed packages.

    Raises: Unusable as `loaded`, and for a name that is taken.
    """
    objects: dict[str, Any] = {one.name: one for one in cast(Sequence[Any], ours)}
    for named, value in loaded(group, cast(type[Any], type(ours[0]))):
        name: str = value.name
        if name in objects:
            module = objects[name].module
            owner = f"one of {package_of(module)}" if module else "one of ours"
            raise Unusable(
                "conflict",
                f"{named} has the name {name!r}, as has {owner}: rename it, or uninstall the "
                "package",
            )
        objects[name] = value
    return objects


def package(point: EntryPoint) -> str:
    """The name and version of the entry point's package."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "unknown"


def package_of(module: str) -> str:
    """The package whose entry point names this module."""
    points = (point for group in GROUPS for point in installed(group))
    return next(package(point) for point in points if point.module == module)


@cache
def _all() -> Any:
    """All entry points, read once: it takes a tenth of a second."""
    return entry_points()
