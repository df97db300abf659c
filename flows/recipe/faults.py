"""Faults of a recipe: what is wrong, and where it stands in the file or on the command line."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tercet.errors import ErrorKind, InvalidSetting, kind_of
from tercet.flows.recipe.model import Recipe, json_schema
from tercet.tasks.stage import BadInput

Place: TypeAlias = tuple[str | int, ...]


# Kinds of faults about a key in relation to other keys.
_OF_OTHERS = ("conflict", "missing_key", "no_effect", "no_rows")


class Misplaced(InvalidSetting):
    """A fault in a whole recipe, with the place where a person would mend it."""

    def __init__(self, kind: ErrorKind, message: str, *location: str | int) -> None:
        super().__init__(kind, message)
        self.location = location
        # The recipe's other faults, if this fault is raised for all of them.
        self.others: Sequence[Misplaced] = ()

    def stands_beside(self, places: Sequence[Place]) -> bool:
        """Whether this stays a fault however the keys at these places are mended.

        A mended key may supply what a fault of `_OF_OTHERS` misses.
        """
        if not places:
            return True
        near = any(self.location[:2] == place[:2] for place in places)
        return self.kind not in _OF_OTHERS and not near


class Idle(Misplaced):
    """A key without effect: a note to the person, and no failure."""

    def __init__(self, message: str, *location: str | int) -> None:
        super().__init__("no_effect", message, *location)


class Faults:
    """The faults of a recipe, collected so that all are reported together."""

    def __init__(self) -> None:
        self.errors: list[Misplaced] = []
        self.notes: list[Misplaced] = []

    def add(self, faults: Iterable[Misplaced]) -> None:
        """Keeps each as an error or as a note."""
        for fault in faults:
            (self.notes if isinstance(fault, Idle) else self.errors).append(fault)

    @contextmanager
    def catch(self) -> Iterator[None]:
        """Keeps a Misplaced that the block raises."""
        try:
            yield
        except Misplaced as fault:
            self.add([fault])

    def refuse(self) -> None:
        """Raises Misplaced if there are errors: the first, which holds the rest and the notes."""
        if self.errors:
            first, *others = self.errors
            first.others = [*others, *self.notes]
            raise first


class FaultyRecipe(BadInput):
    """The faults of a recipe, one per line.

    recipe: None unless its keys and values are valid, so that its corpora can be checked too.
    """

    def __init__(
        self,
        kind: ErrorKind,
        lines: Sequence[str],
        source: "Source | None" = None,
        recipe: Recipe | None = None,
    ) -> None:
        super().__init__(kind, "\n".join(lines))
        self.lines, self.source, self.recipe = lines, source, recipe

    def __str__(self) -> str:
        return "\n".join(self.lines)


@dataclass(frozen=True)
class Source:
    """Where a recipe's keys were written.

    node: of the file, with line numbers. typed: keys set on the command line, each with the option
    to name instead of the file.
    """

    path: Path
    node: yaml.Node | None
    content: Mapping[str, Any]
    typed: Mapping[str, str]

    def lines(self, faults: Iterable[tuple[ErrorDetails, Place]]) -> list[str]:
        """The first fault of each key as one sentence: file, line, key and fault."""
        lines: dict[tuple[str, str], str] = {}
        for fault, place in faults:
            place = _as_written(place, self.content)
            line, named = line_of(self.node, place)
            option = _typed(place, self.typed, in_file=len(named) == len(place))
            if option:
                named = tuple(part for part in place if _KEY.fullmatch(str(part)))
            named = named or place
            key = ".".join(str(part) for part in named) or "recipe"
            where = option or (f"{self.path}:{line}" if line else str(self.path))
            lines.setdefault((where, key), f"{where}: {_wrong(fault, place, key)}.")
        return [*lines.values()]

    def lines_of(self, faults: Iterable[Misplaced]) -> list[str]:
        """A sentence (file, line, key and fault) for each of these faults."""
        return self.lines([one for fault in faults for one in located(fault)[:1]])

    def warnings(self, notes: Iterable[Misplaced]) -> list[dict[str, Any]]:
        """The notes as rows of the table `warnings`."""
        keys = [(".".join(map(str, _as_written(n.location, self.content))), n) for n in notes]
        return [
            {
                **dict.fromkeys(("step", "stage"), "recipe"),
                **{"version": None, "key": key, "kind": note.kind, "count": 1, "total": 1},
                **{"message": f"{key}: {note}", "example": None},
                "remedy": "leave the key out, or write what it lacks",
            }
            for key, note in keys
        ]


def _wrong(fault: ErrorDetails, location: Place, key: str) -> str:
    """The fault of a key, in words."""
    kind, value = fault["type"], fault.get("input")
    if kind == "extra_forbidden":
        near = nearest_key(json_schema(), location[-1])
        return f"unknown key {key!r}" + (f"; the nearest is {near!r}" if near else "")
    if kind == "missing":
        return f"the key {'.'.join(map(str, location))!r} is missing"
    if kind == "value_error":
        return f"{key}: {fault['msg'].removeprefix('Value error, ')}"
    shown = repr(value) if len(repr(value)) < 60 else repr(value)[:57] + "..."
    return f"{key} is {shown}, but {wanted(fault)}"


def located(error: ValidationError | Misplaced) -> list[tuple[ErrorDetails, Place]]:
    """The faults as pydantic tells them, each with its place in the recipe."""
    if isinstance(error, Misplaced):
        return [
            ({"type": "value_error", "loc": (), "msg": str(one), "input": None}, one.location)
            for one in (error, *error.others)
        ]
    faults = [_of_form(fault) for fault in error.errors()]
    # For pydantic, a list with a faulty member is too short as well.
    places = {fault["loc"][:depth] for fault in faults for depth in range(len(fault["loc"]))}
    return [
        (fault, (*fault["loc"], *getattr(fault.get("ctx", {}).get("error"), "location", ())))
        for fault in faults
        if fault["loc"] not in places
    ]


def _of_form(fault: ErrorDetails) -> ErrorDetails:
    """The fault with its place in a generator's settings, whose kind pydantic knows by `form`."""
    location, kind, context = fault["loc"], fault["type"], fault.get("ctx", {})
    if location[:1] != ("models",) or location[2:3] != ("fit_generator",):
        return fault
    if kind == "union_tag_not_found":
        return {**fault, "type": "missing", "loc": (*location, "form")}
    if kind == "union_tag_invalid":
        place, forms = (*location, "form"), str(context["expected_tags"])
        return {**fault, "loc": place, "input": context["tag"], "msg": f"one of {forms}"}
    return {**fault, "loc": (*location[:3], *location[4:])}


def _as_written(location: Place, content: Mapping[str, Any]) -> Place:
    """The location as written: a phase's single part may be written flat."""
    if location[:2] != ("train", "phases") or location[3:5] != ("parts", 0):
        return location
    try:
        parts = "parts" in content["train"]["phases"][location[2]]
    except (KeyError, IndexError, TypeError):
        parts = False
    return location if parts else (*location[:3], *location[5:])


# Names of union members in a location (`constrained-float`, `Quantile`) are not keys.
_KEY = re.compile(r"[a-z0-9_]+")


def _typed(location: Place, typed: Mapping[str, str], in_file: bool) -> str | None:
    """The command-line option that set the value at this location, if any.

    in_file: whether the file has the location; if not, an option for a key below it created it.
    """
    place = ".".join(map(str, location))
    for key, words in typed.items():
        if f"{place}.".startswith(f"{key}."):
            return words
    if in_file:
        return None
    return next((words for key, words in typed.items() if key.startswith(f"{place}.")), None)


def line_of(node: yaml.Node | None, location: Place) -> tuple[int | None, Place]:
    """The line of a location in the YAML, and the part of the location found there.

    Pydantic adds names of union members to locations, which the YAML does not have.
    """
    if node is None:
        return None, location
    line = node.start_mark.line + 1
    named: list[str | int] = []
    for part in location:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(part):
                    node, line = value, key.start_mark.line + 1
                    named.append(part)
                    break
        elif (
            isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value)
        ):
            node = node.value[part]
            line = node.start_mark.line + 1
            named.append(part)
    return line, tuple(named)


# Names that a recipe may give to a model or a phase.
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

# Wording by pydantic's kind of fault; for other kinds pydantic's own message is good.
_WANTED = {
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_parsing", "float_type"), "a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "true or false"),
    **dict.fromkeys(("tuple_type", "list_type"), "a list"),
    **dict.fromkeys(
        ("model_type", "model_attributes_type", "dict_type", "mapping_type"),
        "a mapping of keys to values",
    ),
    "string_type": "text",
    "path_type": "a path",
    "string_too_short": "text of {min_length} or more characters",
    "string_too_long": "text of at most {max_length} characters",
    "too_short": "a list of {min_length} or more",
    "too_long": "a list of at most {max_length}",
}
_DASHED = "letters, digits, dashes and underscores only"
_DOTTED = "letters, digits, dots, dashes and underscores only"
# The demand of each pattern of a recipe's texts, in words.
PATTERNS = {
    r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$": f"may hold {_DOTTED}, with no dot or dash at its beginning",
    r"^[A-Za-z0-9][A-Za-z0-9._-]*$": f"may hold {_DOTTED}, with a letter or a digit first",
    r"^[A-Za-z0-9_.-]+$": f"may hold {_DOTTED}",
    r"^[A-Za-z0-9_-]+$": f"may hold {_DASHED}",
    r"^\d+(\.\d+)?\s?(MB|GB|TB|MiB|GiB|TiB)$": "must be a size such as 2GB or 500MB",
    "^(tag:|ingest@).+$": "must be tag:NAME or ingest@VERSION",
    "^(tag:|graph@).+$": "must be tag:NAME or graph@VERSION",
    "^(tag:|sample@).+$": "must be tag:NAME or sample@VERSION",
}


# The kinds of faults that pydantic's types report; Tercet's validators name their kinds.
_KINDS: Mapping[str, ErrorKind] = {
    "extra_forbidden": "unknown_key",
    "missing": "missing_key",
    "union_tag_not_found": "missing_key",
    "literal_error": "unknown_name",
}


def without(content: Any, places: Iterable[Place]) -> None:
    """Removes the keys at these places, or the nearest key above each; a list is removed whole."""
    # All places are looked up before any key is removed, since the place of a removed key would
    # mean the key above.
    for holder, key in [_holder(content, place) for place in places]:
        holder.pop(key, None)


def _holder(content: Any, place: Place) -> tuple[Any, str | int]:
    """The mapping that holds the key at this place, or the nearest above it; and the key."""
    holder, key, target = content, place[0] if place else "", content
    for part in place:
        if isinstance(target, dict) and part in target:
            holder, key, target = target, part, target[part]
        elif isinstance(target, list) and isinstance(part, int) and part < len(target):
            target = target[part]
    return holder, key


def kind_of_fault(fault: ErrorDetails) -> ErrorKind:
    """The kind of a failure that pydantic found."""
    kind = _KINDS.get(fault["type"], "bad_value")
    return kind_of(fault.get("ctx", {}).get("error"), kind)


def wanted(fault: ErrorDetails) -> str:
    """The words that follow `KEY is VALUE, but`: what the value must be."""
    context = fault.get("ctx", {})
    if fault["type"] == "string_pattern_mismatch":
        return PATTERNS.get(context["pattern"], f"must match {context['pattern']}")
    words = _WANTED.get(fault["type"])
    if words is None:
        return f"must be {fault['msg'].removeprefix('Input should be ')}"
    return f"must be {words.format(**context)}"


def of_parameter(fault: ErrorDetails) -> str:
    """The fault of a parameter of a method or a scorer."""
    name = ".".join(map(str, fault["loc"])) or "params"
    if fault["type"] == "missing":
        return f"the key {name} is missing: add it"
    words = f"is {fault['input']!r}, but {wanted(fault)}"
    if fault["type"] == "extra_forbidden":
        words = "is unknown"
    elif fault["type"] == "value_error":
        words = fault["msg"].removeprefix("Value error, ")
    return f"parameter {name} {words}"


def nearest(name: str, names: Iterable[str], cutoff: float) -> str | None:
    """The known name that this one is most likely a slip of; None for a path or a hub's name.

    cutoff: how alike they must be, from 0 to 1.
    """
    if not NAME.fullmatch(name) or Path(name).exists():
        return None
    alike = difflib.get_close_matches(name, list(names), n=1, cutoff=cutoff)
    return alike[0] if alike else None


def nearest_key(schema: Mapping[str, Any], key: str | int) -> str | None:
    """The key of a recipe that an unknown one most likely is a slip of."""
    places = (schema, *schema["$defs"].values())
    keys = {name for place in places for name in place.get("properties", {})}
    alike = difflib.get_close_matches(str(key), sorted(keys), n=1)
    return alike[0] if alike else None
