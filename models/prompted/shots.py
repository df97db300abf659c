"""Worked examples as files: JSON lines of a prompt's variables and the answer that it should get.

They are rendered with the method's own prompt and go before every question, the same for all rows.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tercet.models.generation import Prompted
from tercet.models.llm.errors import Unusable
from tercet.models.llm.messages import Shot
from tercet.models.prompted import templates
from tercet.models.prompted.templates import Template

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


def load(
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
        raise Unusable(f"shots file {path} has no example {what}: add one, or set shots: null")
    return found


def _examples(
    path: Path, template: Template, own: Mapping[str, Any], optional: Sequence[str]
) -> Iterator[Example]:
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except FileNotFoundError:
        raise Unusable(f"there is no shots file {path}: mend its path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable(f"shots file {path} cannot be read ({error}): save it as UTF-8") from None
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
                f"{place}: write a JSON object of the prompt's variables and an answer, as in "
                '{"sentence": "…", "answer": "…"}'
            )
        answer = str(values.pop(_ANSWER)).strip()
        if any(own.get(name, value) != value for name, value in values.items()):
            continue
        given = {**dict.fromkeys(optional, ""), **own}
        values = {**{name: given[name] for name in template.named & given.keys()}, **values}
        missing = sorted(template.named - values.keys())
        if missing:
            raise Unusable(
                f"{place} lacks the variable {missing[0]!r}, which the prompt file "
                f"{template.path} names: add it"
            )
        yield Example(place, values, Shot(templates.render(template, values), answer))
