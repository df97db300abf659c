"""Loads and checks prompt files and worked examples.

A prompt is a sandboxed Jinja2 template whose text depends on its values alone: it cannot include
other files, draw at random, or access attributes outside the values.

Worked examples are JSON lines with the prompt's variables and the expected answer. They are
rendered with the method's prompt and sent before every request.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tercet.models.errors import Unusable
from tercet.models.generation import Prompted
from tercet.models.llm.messages import Shot

if TYPE_CHECKING:
    import jinja2
    from jinja2 import nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment

_PROMPTS = Path(__file__).parent / "prompts"
_AT_RANDOM = ("lipsum", "random")


@dataclass(frozen=True)
class Template:
    """A compiled prompt file. named: the variables that it uses."""

    path: Path
    compiled: "jinja2.Template"
    named: frozenset[str]


def prompt_path(name: str) -> Path:
    """The built-in prompt file of that name."""
    return _PROMPTS / f"{name}.jinja"


def load(path: Path, variables: Collection[str]) -> Template:
    """Compiles a prompt file, which may use only these variables.

    Raises Unusable for a file that is not readable as UTF-8 or not a template, includes another
    file, or uses an unknown variable or none.
    """
    from jinja2 import TemplateSyntaxError, meta

    text = _text(path)
    environment = _environment()
    names = ", ".join(sorted(variables))
    try:
        tree = environment.parse(text, path.name, str(path))
        # Parse again, since compiling changes the tree.
        code = environment.compile(environment.parse(text), path.name, str(path))
    except TemplateSyntaxError as error:
        message = " ".join(str(error.message).split()).rstrip(".")
        raise Unusable(
            "unreadable", f"prompt file {path}, line {error.lineno}: {message}; correct it there"
        ) from None
    except (RecursionError, SyntaxError, MemoryError, OverflowError) as error:
        raise Unusable(
            "unreadable",
            f"prompt file {path} is too deeply nested to be read ({type(error).__name__}): "
            "make it simpler",
        ) from None
    if [*meta.find_referenced_templates(tree)]:
        raise Unusable(
            "bad_value",
            f"prompt file {path} includes another file: copy the text into this one",
        )
    named = meta.find_undeclared_variables(tree)
    unknown = sorted(named - set(variables), key=lambda name: (_line(tree, name), name))
    if unknown:
        raise Unusable(
            "unknown_name",
            f"prompt file {path}, line {_line(tree, unknown[0])}: unknown variable "
            f"{unknown[0]!r}; known are {names}",
        )
    if not named:
        raise Unusable(
            "no_rows",
            f"prompt file {path} names no variable, so that all rows would ask the same: "
            f"put in some of {names}",
        )
    compiled = environment.template_class.from_code(environment, code, environment.globals)
    return Template(path, compiled, frozenset(named))


def render(template: Template, values: Mapping[str, Any]) -> str:
    """Renders the prompt with these values.

    Raises Unusable if a filter does not fit the values, an attribute is missing or forbidden, or
    the result cannot be encoded as UTF-8.
    """
    try:
        text = template.compiled.render(values)
        # A lone surrogate could be neither sent nor stored.
        text.encode()
        return text
    except Exception as error:  # a filter may raise anything
        message = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        where = f"{template.path}{_place(error, template.path)}"
        raise Unusable(
            "unreadable", f"prompt file {where}: cannot be rendered: {message}; correct it there"
        ) from None


@lru_cache(maxsize=1)
def _environment() -> "ImmutableSandboxedEnvironment":
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True
    )
    for name in _AT_RANDOM:
        environment.globals.pop(name, None)
        environment.filters.pop(name, None)
    return environment


def _text(path: Path) -> str:
    try:
        # Trailing white space would change the first token of a base model's answer.
        return path.read_bytes().decode("utf-8-sig").rstrip()
    except FileNotFoundError:
        raise Unusable(
            "missing_file", f"there is no prompt file {path}: correct its path"
        ) from None
    except OSError as error:
        raise Unusable(
            "unreadable", f"prompt file {path} cannot be read: {error.strerror}"
        ) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise Unusable(
            "unreadable", f"prompt file {path}, line {line}: not UTF-8; save it as UTF-8"
        ) from None


def _line(tree: "nodes.Template", name: str) -> int:
    """The first line that uses the variable."""
    from jinja2 import nodes

    lines = [node.lineno for node in tree.find_all(nodes.Name) if node.name == name]
    return min(lines, default=1)


def _place(error: Exception, path: Path) -> str:
    """The line of the file where rendering failed, as ", line 3"; "" if unknown."""
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f", line {line}"


_SHOTS = Path(__file__).parent / "shots"
_ANSWER, _QUERY = "answer", "query"


class Example(NamedTuple):
    """A line of a shots file. place: file and line, for messages. values: by variable."""

    place: str
    values: Mapping[str, Any]
    shot: Shot


def shots_path(method: str) -> Path:
    """The built-in shots file of this method."""
    return _SHOTS / f"{method}.jsonl"


def load_shots(
    path: Path, template: Template, params: Mapping[str, Any], optional: Sequence[str] = ()
) -> list[Example]:
    """The examples of a shots file. Their answers have the key `answer` or `query`.

    params: the method's parameters. Parameters that not every prompted method has are variables,
        with these values as defaults. A line with another value of a parameter (such as `edit`) is
        skipped, since it is for another method. optional: variables with the default "".

    Raises Unusable if the file cannot be read, a line is not a JSON object of variables and a text
    `answer`, a line lacks a variable of the prompt, or no line is for this method.
    """
    params = {name: value for name, value in params.items() if name not in Prompted.model_fields}
    examples = list(_examples(path, template, params, optional))
    if not examples:
        what = f"of kind {params['kind']}" if "kind" in params else "for this method"
        raise Unusable(
            "unknown_name", f"shots file {path} has no example {what}: add one, or set shots: null"
        )
    return examples


def _examples(
    path: Path, template: Template, params: Mapping[str, Any], optional: Sequence[str]
) -> Iterator[Example]:
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except FileNotFoundError:
        raise Unusable("missing_file", f"there is no shots file {path}: correct its path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable(
            "unreadable", f"shots file {path} cannot be read ({error}): save it as UTF-8"
        ) from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"shots file {path}, line {number}"
        try:
            values = json.loads(line)
        except ValueError:
            values = None
        if isinstance(values, dict) and _ANSWER not in values and _QUERY in values:
            values[_ANSWER] = values.pop(_QUERY)
        if not isinstance(values, dict) or not str(values.get(_ANSWER) or "").strip():
            raise Unusable(
                "bad_row",
                f"{place}: write a JSON object of the prompt's variables and an answer, as in "
                '{"sentence": "…", "answer": "…"}',
            )
        answer = str(values.pop(_ANSWER)).strip()
        if any(params.get(name, value) != value for name, value in values.items()):
            continue
        defaults = {**dict.fromkeys(optional, ""), **params}
        values = {**{name: defaults[name] for name in template.named & defaults.keys()}, **values}
        missing = sorted(template.named - values.keys())
        if missing:
            raise Unusable(
                "bad_row",
                f"{place} lacks the variable {missing[0]!r}, which the prompt file "
                f"{template.path} names: add it",
            )
        yield Example(place, values, Shot(render(template, values), answer))
