"""Reads a recipe from YAML; what is wrong in it is told with the file and the line."""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from tercet.flows.recipe import Recipe
from tercet.tasks.stage import BadInput

Location = tuple[str | int, ...]


def shipped() -> list[str]:
    """Names of the recipes that come with Tercet."""
    folder = resources.files("tercet.recipes")
    return sorted(
        entry.name.removesuffix(".yaml")
        for entry in folder.iterdir()
        if entry.name.endswith(".yaml")
    )


def find(recipe: str) -> Path:
    """The file of a recipe given as a path or as the name of a shipped one.

    Raises: BadInput when there is neither.
    """
    path = Path(recipe)
    if path.is_file():
        return path
    if "/" not in recipe and not recipe.endswith((".yaml", ".yml")):
        entry = Path(str(resources.files("tercet.recipes"))) / f"{recipe}.yaml"
        if entry.is_file():
            return entry
    raise BadInput(
        f"There is no recipe {recipe!r}: give the path of a YAML file or one of the shipped names: "
        f"{', '.join(shipped())}."
    )


def load(
    recipe: str,
    overrides: Sequence[str] = (),
    corpus: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
) -> Recipe:
    """The validated recipe, with `stage.key=value` overrides and the command line's short cuts.

    Raises: BadInput with the file and the line of the first fault.
    """
    path = find(recipe)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not UTF-8 text: save the recipe as UTF-8.") from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        problem = getattr(error, "problem", None) or "cannot be read"
        raise BadInput(f"{where}: this is not YAML: {problem}.") from None
    if not isinstance(content, dict):
        raise BadInput(f"{path} holds no recipe: it must be a mapping with the key `corpora`.")
    for override in overrides:
        _apply(content, override)
    if corpus is not None:
        content["corpora"] = [{"name": _corpus_name(corpus), "source": corpus}]
    if limit is not None:
        for entry in content.get("corpora") or []:
            if isinstance(entry, dict):
                entry["limit"] = limit
    if seed is not None:
        content["seed"] = seed
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        raise BadInput(_sentence(path, node, error)) from None


def _corpus_name(source: str) -> str:
    name = Path(source).name.split(".")[0] if source != "pydocs" else source
    return "".join(c if c.isalnum() or c in "_-" else "_" for c in name) or "corpus"


def _apply(content: dict[str, Any], override: str) -> None:
    """Sets one `a.b.c=value` in the recipe's mapping; the value is read as YAML."""
    key, equals, value = override.partition("=")
    if not equals or not key.strip():
        raise BadInput(f"--set {override!r} has no value: write --set stage.key=value.")
    target: Any = content
    *parents, last = key.strip().split(".")
    try:
        for name in parents:
            if isinstance(target, list):
                target = target[int(name)]
            else:
                if target.get(name) is None:
                    target[name] = {}
                target = target[name]
        parsed = yaml.safe_load(value)
        if isinstance(target, list):
            target[int(last)] = parsed
        else:
            target[last] = parsed
    except (ValueError, IndexError, AttributeError, TypeError):
        raise BadInput(f"--set {override!r}: the recipe has no place {key!r}.") from None
    except yaml.YAMLError:
        raise BadInput(f"--set {override!r}: {value!r} cannot be read as a YAML value.") from None


def _sentence(path: Path, node: yaml.Node | None, error: ValidationError) -> str:
    """The first fault as one sentence: file, line, key, what is wrong."""
    fault = error.errors()[0]
    location: Location = tuple(fault["loc"])
    line, named = _line(node, location)
    key = ".".join(str(part) for part in named) or "recipe"
    where = f"{path}:{line}" if line else str(path)
    kind, given = fault["type"], fault.get("input")
    if kind == "extra_forbidden":
        return f"{where}: unknown key {key!r}."
    if kind == "missing":
        missing = ".".join(str(p) for p in location)
        return f"{where}: the key {missing!r} is missing."
    message = fault["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    shown = repr(given) if len(repr(given)) < 60 else repr(given)[:57] + "..."
    if kind == "value_error":
        return f"{where}: {key}: {message}."
    return f"{where}: {key} is {shown}, but must be {message}."


def _line(node: yaml.Node | None, location: Location) -> tuple[int | None, Location]:
    """Line of a location in the YAML, and the part of the location that the YAML names.

    Pydantic puts names of union members into a location; those the YAML does not have.
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
    return line, tuple(named) or location
