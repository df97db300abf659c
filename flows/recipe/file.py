"""Reads a recipe from YAML; what is wrong in it is told with the file and the line."""

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, TypeGuard

import yaml
from pydantic import ValidationError

from tercet.flows.recipe.model import Misplaced, Recipe
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
    if path.is_dir() and recipe not in shipped():
        raise BadInput(f"{recipe} is a directory: give the path of a recipe's YAML file.")
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
    node, content = read_yaml(path, "recipe")
    if not isinstance(content, dict):
        raise BadInput(f"{path} holds no recipe: it must be a mapping with the key `corpora`.")
    for override in overrides:
        _apply(content, override)
    if "extract_generate" in content and content["extract_generate"] is None:
        # As with a method, the key alone means its defaults.
        content["extract_generate"] = {}
    if corpus is not None:
        content["corpora"] = [{"name": _corpus_name(corpus), "source": corpus}]
    corpora = content.get("corpora")
    if limit is not None and isinstance(corpora, list):
        for entry in corpora:
            if isinstance(entry, dict):
                entry["limit"] = limit
    if seed is not None:
        content["seed"] = seed
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        typed: dict[str, str] = {o.partition("=")[0].strip(): f"--set {o}" for o in overrides}
        typed |= {"corpora": f"--corpus {corpus}"} if corpus is not None else {}
        typed |= {"seed": f"--seed {seed}"} if seed is not None else {}
        raise BadInput(_sentence(path, node, error, typed)) from None


def read_yaml(path: Path, what: str) -> tuple[yaml.Node | None, Any]:
    """The file as YAML: its nodes, which know their lines, and its content.

    Raises: BadInput for a file that cannot be read, and where a mapping has a key twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not UTF-8 text: save the {what} as UTF-8.") from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        problem = getattr(error, "problem", None) or "cannot be read"
        raise BadInput(f"{where}: this is not YAML: {problem}.") from None
    _no_key_twice(path, node)
    return node, content


def _no_key_twice(path: Path, node: yaml.Node | None) -> None:
    """YAML's reader would let the last of two equal keys win without a word."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                line = key.start_mark.line + 1
                raise BadInput(f"{path}:{line}: the key {key.value!r} stands twice.")
            seen.add(key.value)
            _no_key_twice(path, value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _no_key_twice(path, value)


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


def _sentence(
    path: Path, node: yaml.Node | None, error: ValidationError, typed: Mapping[str, str]
) -> str:
    """The first fault as one sentence: file, line, key, what is wrong.

    typed: keys that the command line gave, with the words that gave them, told for the file.
    """
    fault = error.errors()[0]
    raised = fault.get("ctx", {}).get("error")
    location: Location = (*fault["loc"], *(raised.location if _misplaced(raised) else ()))
    line, named = _line(node, location)
    said = _typed(location, typed, in_file=len(named) == len(location))
    if said:
        named = tuple(part for part in location if _KEY.fullmatch(str(part)))
    named = named or location
    key = ".".join(str(part) for part in named) or "recipe"
    where = said or (f"{path}:{line}" if line else str(path))
    kind, given = fault["type"], fault.get("input")
    if kind == "extra_forbidden":
        return f"{where}: unknown key {key!r}."
    if kind == "missing":
        missing = ".".join(str(p) for p in location)
        return f"{where}: the key {missing!r} is missing."
    message = fault["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if kind in _MAPPINGS:
        message = "a mapping of keys to values"
    shown = repr(given) if len(repr(given)) < 60 else repr(given)[:57] + "..."
    if kind == "value_error":
        return f"{where}: {key}: {message}."
    return f"{where}: {key} is {shown}, but must be {message}."


# Names of union members in a location are no keys: `constrained-float`, `Quantile`.
_KEY = re.compile(r"[a-z0-9_]+")
_MAPPINGS = ("model_type", "model_attributes_type", "dict_type", "mapping_type")


def _misplaced(error: object) -> TypeGuard[Misplaced]:
    return isinstance(error, Misplaced)


def _typed(location: Location, typed: Mapping[str, str], in_file: bool) -> str | None:
    """The words of the command line that gave what stands at this place.

    in_file: whether the file has the place itself; if not, a key typed below it made it.
    """
    for given, words in typed.items():
        if _within(location, given):
            return words
    if in_file:
        return None
    place = ".".join(str(part) for part in location)
    return next((words for given, words in typed.items() if given.startswith(f"{place}.")), None)


def _within(location: Location, key: str) -> bool:
    """Whether a place in the recipe is the one of this dotted key, or lies in it."""
    parts = key.split(".")
    return [str(part) for part in location[: len(parts)]] == parts


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
    return line, tuple(named)
