"""Fills Jinja templates of Markdown: values are escaped, and paths of this machine removed."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tercet.flows.formatting import format_number
from tercet.flows.pages.redaction import public, public_values

if TYPE_CHECKING:
    import jinja2


def render(template: str, metadata: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """A card: front matter between two lines of dashes, then the filled template."""
    front = as_yaml(_filled(public_values(metadata)))
    body = _environment().get_template(f"{template}.md.jinja").render(**values)
    body = re.sub(r"\n{3,}", "\n\n", body).strip()
    return f"---\n{front}---\n\n{public(body)}\n"


def as_yaml(value: Any) -> str:
    """A JSON value as block YAML, in its order."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)


def cell(value: Any) -> str:
    """A value in a cell of a Markdown table: one line, with bars and markup escaped."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    text = " ".join(public_values(str(value)).split())
    return re.sub(r"([\\|<>*_`\[\]])", r"\\\1", text)


def table(titles: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table; empty without rows."""
    names, lines = list(titles), [[cell(value) for value in row] for row in rows]
    if not lines:
        return ""
    made = [names, ["---"] * len(names), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in made)


def _filled(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if value not in (None, [], {}, "")}


@cache
def _environment() -> "jinja2.Environment":
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    environment.filters |= {"cell": cell, "number": format_number}
    environment.globals |= {"table": table}
    return environment
