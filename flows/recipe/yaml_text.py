"""YAML from people: within bounds, whatever it says."""

from typing import Any

import yaml

# Values that a text may say, each alias counted with all that it stands for.
MOST_VALUES = 100_000


class Refused(yaml.MarkedYAMLError):
    """YAML that PyYAML reads."""


def parse(text: str) -> tuple[yaml.Node | None, Any]:
    """The text's nodes, which carry line numbers, and its content, in plain types.

    Raises: yaml.YAMLError, mostly with a place, for what is no YAML; Refused for a key that stands
    twice (PyYAML silently keeps the last), and for what is nested too deeply or, by its aliases,
    holds more than `MOST_VALUES`.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            _count(node, {})
        return node, yaml.safe_load(text)
    except RecursionError:
        raise _fault("it is nested too deeply to be read: make it simpler") from None
    except ValueError as error:
        # A day that no month has; a number of thousands of digits.
        raise _fault(str(error).partition(":")[0]) from None


def _count(node: yaml.Node, counts: dict[int, int]) -> int:
    """How many values a node stands for. counts: those known; 0 while a node is counted."""
    if id(node) in counts:
        if not counts[id(node)]:
            raise _fault("an alias stands within what it names: write it out", node)
        return counts[id(node)]
    counts[id(node)] = 0
    members = []
    if isinstance(node, yaml.MappingNode):
        _refuse_twice(node)
        members = [member for pair in node.value for member in pair]
    elif isinstance(node, yaml.SequenceNode):
        members = node.value
    total = 1 + sum(_count(member, counts) for member in members)
    if total > MOST_VALUES:
        raise _fault(f"its aliases make more than {MOST_VALUES:,} values of it: use fewer", node)
    counts[id(node)] = total
    return total


def _refuse_twice(node: yaml.MappingNode) -> None:
    seen: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            if key.value in seen:
                raise _fault(f"duplicate key {key.value!r}", key)
            seen.add(key.value)


def _fault(problem: str, node: yaml.Node | None = None) -> Refused:
    return Refused(problem=problem, problem_mark=None if node is None else node.start_mark)
