"""Reads rows of JSON: of files with an object a line, and of files with one list of objects."""

import json
from collections.abc import Iterator
from itertools import chain, starmap
from pathlib import Path
from typing import Any

from tercet.errors import InvalidSetting
from tercet.models.text.words import encodable, fold
from tercet.tasks.corpus.sources.streams import (
    CHUNK,
    SHOWN,
    RowFault,
    fault_of,
    lines,
    open_text,
    text_start,
)
from tercet.tasks.stage import BadInput

# A .json is held in memory, which takes some ten times its bytes.
MOST_BYTES = 200_000_000
DEPTH = 4  # levels of nested objects that are read
# Actions of Elasticsearch's bulk files, lines between the rows.
_ACTIONS = ({"index"}, {"create"}, {"update"}, {"delete"})
_OPTIONS = ("routing", "pipeline", "retry_on_conflict", "require_alias", "dynamic_templates")
_HINT = "write one row a line, as .jsonl, e.g. with jq -c '.[]'"

# (number of a row from 1, values, fault or None).
Numbered = tuple[int, dict[str, Any], RowFault | None]


def of_lines(path: Path, max_bytes: int) -> Iterator[Numbered]:
    """The objects of a .jsonl, numbered by line, without blank lines and Elasticsearch's actions
    (`{"index": {"_id": "7"}}`).
    """
    for line in lines(path, max_bytes):
        shown = line.text[:SHOWN]
        if line.fault:
            yield line.number, {}, fault_of(line, max_bytes)
        elif line.text.strip():
            try:
                value = json.loads(line.text, object_pairs_hook=_object)
            except (ValueError, RecursionError) as error:
                if fold(line.text):  # unless all is invisible
                    yield line.number, {}, ("bad_json", str(error)[:SHOWN], shown)
                continue
            if not _is_action(value):
                yield line.number, *_row(value, "the line", shown)


def of_list(path: Path) -> Iterator[Numbered]:
    """The objects of a .json, numbered in order.

    Raises:
        BadInput: the file is too large for memory, is not JSON, or has no list of objects or
            several.
    """
    for number, value in enumerate(_listed(path, _whole(path)), 1):
        if isinstance(value, ValueError):
            yield number, {}, ("bad_json", str(value)[:SHOWN], "")
        else:
            yield number, *_row(value, "the row", str(value)[:SHOWN])


def _row(value: Any, what: str, shown: str) -> tuple[dict[str, Any], RowFault | None]:
    if isinstance(value, dict):
        return by_path(value), None
    return {}, ("bad_json", f"{what} holds a {type(value).__name__}, not an object", shown)


def _is_action(value: Any) -> bool:
    if not isinstance(value, dict) or set(value) not in _ACTIONS:
        return False
    (held,) = value.values()
    return isinstance(held, dict) and all(key.startswith("_") or key in _OPTIONS for key in held)


def by_path(row: dict[str, Any]) -> dict[str, Any]:
    """The row with members of nested objects by their paths, such as `_source.title`."""
    for _ in range(DEPTH):
        if any(isinstance(held, dict) for held in row.values()):
            row = dict(chain.from_iterable(starmap(_members, row.items())))
    return row


def _members(key: str, held: Any) -> list[tuple[str, Any]]:
    if not isinstance(held, dict):
        return [(key, held)]
    return [(f"{key}.{inner}", value) for inner, value in held.items()]


def _whole(path: Path) -> Any:
    with open_text(path) as stream:
        pieces = [text_start(path, stream.read(CHUNK))]
        held = len(pieces[0])
        while held <= MOST_BYTES and (piece := stream.read(CHUNK)):
            pieces.append(piece)
            held += len(piece)
    if held > MOST_BYTES:
        raise BadInput(
            "limit",
            f"{path} holds more than {MOST_BYTES:,} bytes, and would be held as a whole: {_HINT}",
        )
    try:
        text = b"".join(pieces).decode("utf-8")
    except UnicodeDecodeError:
        raise BadInput("unreadable", f"{path} is damaged: some of it is not UTF-8") from None
    if not fold(text):
        return []
    try:
        return json.loads(text, object_pairs_hook=_object_or_error)
    except (ValueError, RecursionError) as error:
        hint = "look at it there"
        if str(error).startswith("Extra data"):
            hint = "if it has a row a line, let its name end in .jsonl"
        raise BadInput("unreadable", f"{path} is no JSON ({str(error)[:SHOWN]}): {hint}") from None


def _listed(path: Path, value: Any) -> list[Any]:
    """The rows: the value if it is a list, or the only list of objects among its members; else, if
    every member is an object, the members, with their keys as the column `id`.
    """
    if isinstance(value, list):
        return value
    members = value if isinstance(value, dict) else {}
    lists = {
        key: member
        for key, member in members.items()
        if isinstance(member, list) and any(isinstance(one, dict) for one in member)
    }
    if len(lists) == 1:
        return next(iter(lists.values()))
    if lists:
        keys = ", ".join(map(repr, lists))
        raise BadInput(
            "unreadable", f"{path} has several lists of rows ({keys}): write one of them as .jsonl"
        )
    objects = [one for one in members.values() if isinstance(one, dict) and not _is_column(one)]
    if len(objects) == len(members) > 1:
        return [{"id": key, **row} for key, row in zip(members, objects, strict=True)]
    raise BadInput("no_rows", f"{path} holds neither a list of objects nor a key with one: {_HINT}")


def _is_column(member: dict[str, Any]) -> bool:
    """Whether an object is a column: values by the numbers of their rows."""
    return bool(member) and all(key.isdecimal() for key in member)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object with valid keys, none of which has two values."""
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members and members[key] != value:
            raise InvalidSetting("unreadable", f"the key {key!r} occurs twice")
        if not encodable(key):
            raise InvalidSetting("unreadable", f"the key {key!r} is not valid Unicode")
        members[key] = value
    return members


def _object_or_error(pairs: list[tuple[str, Any]]) -> dict[str, Any] | ValueError:
    """The object, or its error, so that other rows of the list can be read."""
    try:
        return _object(pairs)
    except ValueError as error:
        return error
