"""Reads a recipe from YAML and resolves its names; faults are reported with file and line."""

from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tercet.flows.recipe.checks import check_keys, check_resolved
from tercet.flows.recipe.faults import (
    Faults,
    FaultyRecipe,
    Misplaced,
    Place,
    Source,
    kind_of_fault,
    line_of,
    located,
    without,
)
from tercet.flows.recipe.fitting import fitted, own_name
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.names import (
    EVALUATOR,
    LLM,
    Reference,
    Resolved,
    find_defined,
    find_judges,
    find_models,
    select_corpora,
)
from tercet.flows.recipe.needs import find_wired, settle
from tercet.flows.recipe.secrets import refuse_secrets
from tercet.models.errors import suggest
from tercet.tasks.corpus.sources.discover import describe
from tercet.tasks.scoring.scorers import find_scorers
from tercet.tasks.stage import BadInput
from tercet.tasks.synthesis.methods import method_of

_SHIPPED = Path(str(resources.files("tercet.recipes")))


def shipped() -> list[str]:
    """The names of the recipes shipped with Tercet."""
    return sorted(path.stem for path in _SHIPPED.glob("*.yaml"))


def find(recipe: str) -> Path:
    """The file of a recipe given as a path or as the name of a shipped one.

    Raises: BadInput when there is neither.
    """
    path = Path(recipe)
    if path.is_file():
        return path
    if path.is_dir() and recipe not in shipped():
        raise BadInput(
            "bad_value", f"{recipe} is a directory: give the path of a recipe's YAML file."
        )
    if "/" not in recipe and not recipe.endswith((".yaml", ".yml")):
        path = _SHIPPED / f"{recipe}.yaml"
        if path.is_file():
            return path
    raise BadInput(
        "unknown_name",
        f"There is no recipe {recipe!r}{suggest(recipe, shipped())}: give a YAML file's path "
        f"or one of the shipped names: {', '.join(shipped())}.",
    )


class Loaded(NamedTuple):
    """A valid recipe, and what its names mean.

    content: as a file would have it. chosen: how it was fitted to the corpus, in one line. notes:
    keys without effect, a line each.
    """

    recipe: Recipe
    content: dict[str, Any]
    chosen: str | None
    resolved: Resolved
    source: Source


def load(
    recipe: str,
    overrides: Sequence[str] = (),
    corpus: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
) -> Recipe:
    """The validated recipe; arguments and errors are those of `loaded`."""
    return loaded(recipe, overrides, corpus, limit, seed).recipe


def loaded(
    recipe: str,
    overrides: Sequence[str] = (),
    corpus: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
) -> Loaded:
    """The validated recipe, with `stage.key=value` overrides and the command line's shortcuts.

    A shipped recipe is fitted to the shape of another corpus; of any other recipe, `corpus` only
    takes the place of its domain corpora. Overrides have the last word.

    Raises: BadInput with the file and line of each fault.
    """
    for override in overrides:
        key = override.partition("=")[0]
        refuse_secrets("--set", key)
        refuse_secrets(f"--set {key}", override)
    refuse_secrets("--corpus", corpus)
    refuse_secrets("the recipe's path", recipe)
    path = find(recipe)
    node, content = read_yaml(path, "recipe")
    if not isinstance(content, dict):
        raise BadInput(
            "bad_value", f"{path} is not a recipe: it must be a mapping with the key `corpora`."
        )
    chosen = None
    if corpus is not None:
        if path.resolve().parent == _SHIPPED.resolve():
            content, chosen = fitted(content, describe(corpus, limit), limit)
        else:
            content["corpora"] = _with_corpus(content.get("corpora"), corpus)
    for override in overrides:
        _apply(content, override)
    if "extract_generate" in content and content["extract_generate"] is None:
        # The bare key means the defaults, as it does for methods.
        content["extract_generate"] = {}
    corpora = content.get("corpora")
    if limit is not None and isinstance(corpora, list):
        for entry in corpora:
            if isinstance(entry, dict):
                entry["limit"] = limit
    if seed is not None:
        content["seed"] = seed
    for key, value in content.items():
        refuse_secrets(f"{path}:{line_of(node, (key,))[0]}: {key}", value)
    typed: dict[str, str] = {o.partition("=")[0].strip(): f"--set {o}" for o in overrides}
    typed |= {"corpora": f"--corpus {corpus}"} if corpus is not None else {}
    typed |= {"seed": f"--seed {seed}"} if seed is not None else {}
    source = Source(path, node, content, typed)
    invalid: ValidationError | None = None
    try:
        valid = Recipe.model_validate(content)
    except ValidationError as error:
        invalid = error
    if invalid is not None:
        faults = located(invalid)
        rest, more = _rest(content, [place for _, place in faults])
        kind = kind_of_fault(invalid.errors()[0])
        raise FaultyRecipe(kind, source.lines([*faults, *more]), source, rest)
    try:
        resolved = resolve(valid)
    except Misplaced as error:
        raise FaultyRecipe(error.kind, source.lines(located(error)), source, valid) from None
    return Loaded(resolved.written, content, chosen, resolved, source)


def _rest(
    content: Mapping[str, Any], places: Sequence[Place]
) -> tuple[Recipe | None, list[tuple[ErrorDetails, Place]]]:
    """The recipe without the keys at these places, and the faults that it still has.

    None if a required key is among them.
    """
    rest = deepcopy(dict(content))
    # A corpus that lacks its source is still one that other keys may name.
    sourceless = [place for place in places if (*place[:1], *place[2:]) == ("corpora", "source")]
    without(rest, [place for place in places if place not in sourceless])
    for place in sourceless if "corpora" in rest else ():
        rest["corpora"][place[1]]["source"] = "?"
    try:
        recipe = Recipe.model_validate(rest)
    except ValidationError:
        return None, []
    faults: list[Misplaced] = []
    try:
        resolve(recipe)
    except Misplaced as error:
        faults = [fault for fault in (error, *error.others) if fault.stands_beside(places)]
    more = [one for fault in faults for one in located(fault)[:1]]
    return None if sourceless else recipe, more


def read_yaml(path: Path, what: str) -> tuple[yaml.Node | None, Any]:
    """The file as YAML: its nodes, which carry line numbers, and its content.

    Raises: BadInput for an unreadable file or a duplicate key in a mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput("unreadable", f"{path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise BadInput(
            "unreadable", f"{path} is not UTF-8 text: save the {what} as UTF-8."
        ) from None
    try:
        return parse_yaml(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        problem = getattr(error, "problem", None) or "cannot be read"
        prefix = "" if isinstance(error, Refused) else "not valid YAML: "
        raise BadInput("unreadable", f"{where}: {prefix}{problem}.") from None


# Keys whose mapping may be written as a single value: `loss: info_nce`.
_BARE = {"rows": "from", "loss": "name"}


def _with_corpus(corpora: Any, source: str) -> list[Any]:
    """The corpora, with this one in place of the corpora of role domain, or of all if none has it.

    If all corpora only pretrain and give no sentences, it takes their place.
    """
    listed = corpora if isinstance(corpora, list) else []
    roles = [c.get("role", "domain") if isinstance(c, dict) else None for c in listed]
    role = "pretrain" if "pretrain" in roles and not {"domain", "general"} & {*roles} else "domain"
    others = [c for c, its in zip(listed, roles, strict=True) if its != role]
    beside = others if role in roles else []
    stem = Path(source).name.split(".")[0]
    name = "".join(c if c.isalnum() or c in "_-" else "_" for c in stem) or "corpus"
    return [{"name": own_name(name, beside), "source": source, "role": role}, *beside]


def _apply(content: dict[str, Any], override: str) -> None:
    """Sets one `a.b.c=value` in the recipe's mapping; the value is read as YAML."""
    key, equals, value = override.partition("=")
    if not equals or not key.strip():
        raise BadInput(
            "bad_value", f"--set {override!r} has no value: write --set stage.key=value."
        )
    target: Any = content
    names = key.strip().split(".")
    try:
        for depth, name in enumerate(names[:-1]):
            place: Any = _place(target, names, depth, override)
            if isinstance(target, dict):
                if target.get(name) is None:
                    target[name] = {}
                elif name in _BARE and isinstance(target[name], str):
                    target[name] = {_BARE[name]: target[name]}
            # A copy is changed, since a YAML alias is this mapping in another place, which must not
            # change.
            target[place] = copy(target[place])
            target = target[place]
        _, parsed = parse_yaml(value)
        target[_place(target, names, len(names) - 1, override)] = parsed
    except (ValueError, IndexError, AttributeError, TypeError):
        raise BadInput(
            "unknown_key", f"--set {override!r}: the recipe has no key {key!r}."
        ) from None
    except yaml.YAMLError:
        raise BadInput(
            "bad_value", f"--set {override!r}: {value!r} is not a valid YAML value."
        ) from None


def _place(target: Any, names: Sequence[str], depth: int, override: str) -> str | int:
    """The key, or the number within a list, at this depth of a dotted key.

    Raises: BadInput where a member of a list is named.
    """
    name = names[depth]
    if not isinstance(target, list):
        return name
    if name.removeprefix("-").isdecimal():
        return int(name)
    called = [member.get("name") if isinstance(member, dict) else None for member in target]
    number = called.index(name) if name in called else 0
    numbered = ".".join([*names[:depth], str(number), *names[depth + 1 :]])
    raise BadInput(
        "bad_value", f"--set {override!r}: {'.'.join(names[:depth])} is a list: use {numbered}."
    )


def resolve(recipe: Recipe) -> Resolved:
    """The recipe with its names resolved.

    Raises: Misplaced for unknown names and for keys that do not fit other keys, each with its
    place.
    """
    faults = Faults()
    faults.add(find_wired(recipe))
    written, idle = settle(recipe)
    faults.add(idle)
    faults.add(check_keys(written))
    defined: dict[str, Reference] = {}
    models: dict[Place, Reference] = {}
    with faults.catch():
        defined = find_defined(written)
        models = find_models(written, defined, faults)
    recipe = select_corpora(written, models, faults)
    places = [fault.location for fault in faults.errors]
    faulty = {place[:2] for place in places}
    methods = {
        name: method_of(name, settings)
        for name, settings in recipe.synthesise.items()
        if ("synthesise", name) not in faulty
    }
    score = {name: one for name, one in recipe.score.items() if ("score", name) not in faulty}
    scorers = find_scorers(score, recipe.evaluator is not None)
    if not places or defined:
        models |= find_judges(scorers, defined, faults)
    evaluator = models[EVALUATOR].model if EVALUATOR in models else None
    # A generator answers sentences alone.
    writers = {
        name: str(recipe.synthesise[name].params.get("generator", LLM))
        if method.each == "sentences"
        else LLM
        for name, method in methods.items()
        if method.prompted
    }
    resolved = Resolved(recipe, models, evaluator, scorers, methods, writers, written, faults.notes)
    # Faults that a key at `places` may explain are left out, since these keys are still to be
    # mended.
    faults.add(one for one in check_resolved(resolved) if one.stands_beside(places))
    faults.refuse()
    return resolved


class Refused(yaml.MarkedYAMLError):
    """YAML that PyYAML would read, but that no recipe may hold."""


def parse_yaml(text: str) -> tuple[yaml.Node | None, Any]:
    """The text's nodes, which carry line numbers, and its content, in plain types.

    Raises: yaml.YAMLError, mostly with a place, for what is no YAML; Refused for a key that stands
    twice (PyYAML silently keeps the last), and for what is nested too deeply.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        _refuse_twice(node, set())
        return node, yaml.safe_load(text)
    except RecursionError:
        raise _fault("it is nested too deeply to be read: make it simpler") from None
    except ValueError as error:
        # A day that no month has; a number of thousands of digits.
        raise _fault(str(error).partition(":")[0]) from None


def _refuse_twice(node: yaml.Node | None, visited: set[int]) -> None:
    """Raises Refused for a key that stands twice. visited: nodes that were looked at."""
    if node is None or id(node) in visited:
        return
    visited.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        members = node.value
    elif isinstance(node, yaml.MappingNode):
        members = [member for pair in node.value for member in pair]
        keys: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in keys:
                raise _fault(f"duplicate key {key.value!r}", key)
            keys.add(key.value)
    else:
        return
    for member in members:
        _refuse_twice(member, visited)


def _fault(problem: str, node: yaml.Node | None = None) -> Refused:
    return Refused(problem=problem, problem_mark=None if node is None else node.start_mark)
