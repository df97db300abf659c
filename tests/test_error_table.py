"""Every message in the table of `docs/operations.md` is one that the code can say."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("flows", "tasks", "models", "storage")
TITLE = "## When something fails"


def rows() -> list[tuple[str, str]]:
    """Message and remedy of each line of the table."""
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    table = text.partition(TITLE)[2].partition("\n## ")[0]
    found = re.findall(r"^\| (.+?) \| (.+) \|$", table, re.MULTILINE)
    return [row for row in found if not set(row[0]) <= {"-", " "}][1:]


def messages() -> list[str]:
    """What the table names; several of one row stand with ` / ` between."""
    return [message for cell, _ in rows() for message in cell.split(" / ")]


def _said(node: ast.expr) -> str | None:
    """The text of a string, with NUL for what is filled in; None for what is not a string."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.FormattedValue):
        return "'\0'" if node.conversion == ord("r") else "\0"
    if isinstance(node, ast.JoinedStr):
        return "".join(_said(part) or "\0" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _said(node.left), _said(node.right)
        return None if left is right is None else (left or "\0") + (right or "\0")
    return None


def _strings(tree: ast.AST) -> Iterator[str]:
    """All texts but docstrings."""
    alone = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        said = _said(node) if isinstance(node, ast.expr) and node not in alone else None
        if said:
            yield re.sub(r"\s+", " ", said)


@cache
def sources() -> str:
    """Every text in the code, a line each."""
    found = (
        text
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for text in _strings(ast.parse(path.read_text(encoding="utf-8")))
    )
    return "\n".join(found)


def pattern(message: str) -> str:
    """A regular expression for a message: `…` may be anything, and so may FILE:LINE."""
    filled = re.split("…|FILE:LINE:", message.removeprefix("… "))
    return r"[^\n]*?".join(re.escape(piece) for piece in filled)


def test_the_table_is_read() -> None:
    assert len(messages()) > 60
    assert len(set(messages())) == len(messages())
    assert not re.search(pattern("There is … message"), sources())


@pytest.mark.parametrize("message", messages())
def test_the_code_says_it(message: str) -> None:
    assert re.search(pattern(message), sources()), f"no text in the code is like: {message}"
