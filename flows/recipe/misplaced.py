"""Faults in a whole recipe, each with its place."""

from typing import TypeAlias

Place: TypeAlias = tuple[str | int, ...]


class Misplaced(ValueError):
    """A fault in a whole recipe, with the place where a person would mend it."""

    def __init__(self, message: str, *location: str | int) -> None:
        super().__init__(message)
        self.location = location
