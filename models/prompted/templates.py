"""Prompts and worked examples as files, checked before anything is asked.

A prompt is Jinja2 in a sandbox. It becomes what its values make of it alone: it can include no
other file, draws nothing at random, and sees no attribute that reaches out of the values.

Worked examples are JSON lines of a prompt's variables and the answer that it should get. They are
rendered with the method's own prompt and go before every question, the same for all rows.
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
    """A prompt file, ready to be rendered. named: the variables in it."""

    path: Path
    compiled: "jinja2.Template"
    named: frozenset[str]


def prompt_path(name: str) -> Path:
    """Our own prompt file of that name."""
    return _PROMPTS / f"{name}.jinja"


def load(path: Path, variables: Collection[str]) -> Template:
    """The prompt file, which may name these variables and no others.

    Raises Unusable for a file that cannot be read or is not UTF-8, is no template, names another
    file, a variable that is not known, or none at all, or writes half a character.
    """
    from jinja2 import TemplateSyntaxError, meta

    text = _text(path)
    environment = _environment()
    known = ", ".join(sorted(variables))
    try:
        tree = environment.parse(text, path.name, str(path))
        # Compiling changes the tree, hence another one.
        code = environment.compile(environment.parse(text), path.name, str(path))
    except TemplateSyntaxError as error:
        said = " ".join(str(error.message).split()).rstrip(".")
        raise Unusable(
            "unreadable", f"prompt file {path}, line {error.lineno}: {said}; correct it there"
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
            f"{unknown[0]!r}; known are {known}",
        )
    if not named:
        raise Unusable(
            "no_rows",
            f"prompt file {path} names no variable, so that all rows would ask the same: "
            f"put in some of {known}",
        )
    halved = _halved(tree)
    if halved is not None:
        raise Unusable(
            "unreadable",
            f"prompt file {path}, line {halved}: an escape there is half a character, which no "
            "request can carry: write the character itself",
        )
    compiled = environment.template_class.from_code(environment, code, environment.globals)
    return Template(path, compiled, frozenset(named))


def render(template: Template, values: Mapping[str, Any]) -> str:
    """The prompt with these values, as it is asked.

    Raises Unusable where the values cannot be put in: a filter that does not fit them, an
    attribute that they lack or that the sandbox refuses; and where no UTF-8 comes of it.
    """
    try:
        text = template.compiled.render(values)
        # Half a character could be neither sent nor kept.
        text.encode()
        return text
    except Exception as error:  # a filter may raise anything
        said = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        where = f"{template.path}{_place(error, template.path)}"
        raise Unusable(
            "unreadable", f"prompt file {where}: cannot be rendered: {said}; correct it there"
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
        # White space at the end adds nothing, and keeps a base model from its first word.
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
    """The first line that names the variable."""
    from jinja2 import nodes

    lines = [node.lineno for node in tree.find_all(nodes.Name) if node.name == name]
    return min(lines, default=1)


def _halved(tree: "nodes.Template") -> int | None:
    """The line of a written text that holds a lone surrogate; None without one."""
    from jinja2 import nodes

    for node in tree.find_all(nodes.Const):
        if isinstance(node.value, str) and any("\ud800" <= c <= "\udfff" for c in node.value):
            return node.lineno
    return None


def _place(error: Exception, path: Path) -> str:
    """Where in the file a rendering failed, as ", line 3"; "" where the traceback does not say."""
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f", line {line}"


_SHOTS = Path(__file__).parent / "shots"
_ANSWER, _QUERY = "answer", "query"


class Example(NamedTuple):
    """A line of a shots file. place: file and line, for messages. values: the variables."""

    place: str
    values: Mapping[str, Any]
    shot: Shot


def shots_path(method: str) -> Path:
    """Our own shots of this method."""
    return _SHOTS / f"{method}.jsonl"


def load_shots(
    path: Path, template: Template, own: Mapping[str, Any], optional: Sequence[str] = ()
) -> list[Example]:
    """The examples in a file. Their answer may be called query, as those of people's own are.

    own: the method's parameters, of which those that are its own stand for variables of their name
        that a line leaves out. A line that gives one another value (`edit`) is for other methods
        and left out. optional: variables that are empty where a line leaves them out.

    Raises Unusable where the file cannot be read, or a line is no JSON object of variables and a
    text `answer`, or lacks a variable that the prompt names; and where no line is for this method.
    """
    own = {name: value for name, value in own.items() if name not in Prompted.model_fields}
    found = list(_examples(path, template, own, optional))
    if not found:
        what = f"of kind {own['kind']}" if "kind" in own else "for this method"
        raise Unusable(
            "unknown_name", f"shots file {path} has no example {what}: add one, or set shots: null"
        )
    return found


def _examples(
    path: Path, template: Template, own: Mapping[str, Any], optional: Sequence[str]
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
        if any(own.get(name, value) != value for name, value in values.items()):
            continue
        given = {**dict.fromkeys(optional, ""), **own}
        values = {**{name: given[name] for name in template.named & given.keys()}, **values}
        missing = sorted(template.named - values.keys())
        if missing:
            raise Unusable(
                "bad_row",
                f"{place} lacks the variable {missing[0]!r}, which the prompt file "
                f"{template.path} names: add it",
            )
        yield Example(place, values, Shot(render(template, values), answer))
