"""Methods, losses, scorers, readers and measures that installed packages add (docs/plugins.md)."""

from collections.abc import Sequence
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
)
T = TypeVar("T")


@cache
def installed(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, in the order of their packages' names."""
    points = _all().select(group=group)
    return tuple(sorted(points, key=lambda point: (package(point), point.name)))


def with_installed(group: str, builtin: Sequence[T]) -> dict[str, T]:
    """The built-in objects by name, followed by those of installed packages' entry points.

    Raises: Unusable for an entry point that cannot be loaded, has another type than the built-in
    objects, or has a name that is taken.
    """
    kind: type[Any] = type(builtin[0])
    objects: dict[str, Any] = {one.name: one for one in cast(Sequence[Any], builtin)}
    for point in installed(group):
        who = f"{point.name!r} ({group}) of the installed package {package(point)}"
        try:
            loaded: Any = point.load()
        except Exception as error:
            raise Unusable(
                "unreadable",
                f"{who} cannot be loaded ({type(error).__name__}: {error}): fix that package, or "
                "uninstall it",
            ) from error
        if not isinstance(loaded, kind):
            raise Unusable(
                "unreadable",
                f"{who} is a {type(loaded).__name__}, and not a {kind.__name__} of "
                f"{kind.__module__}: fix that package, or uninstall it",
            )
        name: str = loaded.name
        if name in objects:
            other = objects[name].module
            owner = f"one of {package_of(other)}" if other else "one of ours"
            raise Unusable(
                "conflict",
                f"{who} has the name {name!r}, as has {owner}: rename it, or uninstall the package",
            )
        objects[name] = replace(loaded, module=point.module)
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
    """All entry points; reading them takes a tenth of a second."""
    return entry_points()
