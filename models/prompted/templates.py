"""Prompts as files: Jinja2 in a sandbox, checked before anything is asked.

What a prompt becomes depends on its values alone: it can include no other file, draws nothing at
random, and sees no attribute that reaches out of the values.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tercet.models.llm.errors import Unusable

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
        raise Unusable(f"prompt file {path}, line {error.lineno}: {said}; mend it there") from None
    except (RecursionError, SyntaxError, MemoryError, OverflowError) as error:
        raise Unusable(
            f"prompt file {path} is too deeply nested to be read ({type(error).__name__}): "
            "make it simpler"
        ) from None
    if [*meta.find_referenced_templates(tree)]:
        raise Unusable(f"prompt file {path} names another file: write out what it takes from there")
    named = meta.find_undeclared_variables(tree)
    unknown = sorted(named - set(variables), key=lambda name: (_line(tree, name), name))
    if unknown:
        raise Unusable(
            f"prompt file {path}, line {_line(tree, unknown[0])}: unknown variable "
            f"{unknown[0]!r}; known are {known}"
        )
    if not named:
        raise Unusable(
            f"prompt file {path} names no variable, so that all rows would ask the same: "
            f"put in some of {known}"
        )
    halved = _halved(tree)
    if halved is not None:
        raise Unusable(
            f"prompt file {path}, line {halved}: an escape there is half a character, which no "
            "request can carry: write the character itself"
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
        raise Unusable(f"prompt file {where}: cannot be rendered: {said}; mend it there") from None


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
        raise Unusable(f"there is no prompt file {path}: mend its path") from None
    except OSError as error:
        raise Unusable(f"prompt file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise Unusable(f"prompt file {path}, line {line}: not UTF-8; save it as UTF-8") from None


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
