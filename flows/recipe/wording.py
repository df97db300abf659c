"""What a recipe's key may hold, in words, and the key that a misspelt one was meant to be."""

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic_core import ErrorDetails

from tercet.errors import ErrorKind, kind_of

# What people call a model or a phase of theirs.
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

# By pydantic's kinds of faults; those that are not named here it words well itself.
_WANTED = {
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_parsing", "float_type"), "a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "true or false"),
    **dict.fromkeys(("tuple_type", "list_type"), "a list"),
    **dict.fromkeys(
        ("model_type", "model_attributes_type", "dict_type", "mapping_type"),
        "a mapping of keys to values",
    ),
    "string_type": "text",
    "path_type": "a path",
    "string_too_short": "text of {min_length} or more characters",
    "string_too_long": "text of at most {max_length} characters",
    "too_short": "a list of {min_length} or more",
    "too_long": "a list of at most {max_length}",
}
_DASHED = "letters, digits, dashes and underscores only"
_DOTTED = "letters, digits, dots, dashes and underscores only"
# What the patterns of a recipe's texts ask for.
PATTERNS = {
    r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$": f"may hold {_DOTTED}, with no dot or dash at its beginning",
    r"^[A-Za-z0-9][A-Za-z0-9._-]*$": f"may hold {_DOTTED}, with a letter or a digit first",
    r"^[A-Za-z0-9_.-]+$": f"may hold {_DOTTED}",
    r"^[A-Za-z0-9_-]+$": f"may hold {_DASHED}",
    r"^\d+(\.\d+)?\s?(MB|GB|TB|MiB|GiB|TiB)$": "must be a size such as 2GB or 500MB",
    "^(tag:|ingest@).+$": "must be tag:NAME or ingest@VERSION",
    "^(tag:|graph@).+$": "must be tag:NAME or graph@VERSION",
    "^(tag:|sample@).+$": "must be tag:NAME or sample@VERSION",
}


# The kinds of what pydantic's types refuse; our validators name their own.
_KINDS: Mapping[str, ErrorKind] = {
    "extra_forbidden": "unknown_key",
    "missing": "missing_key",
    "union_tag_not_found": "missing_key",
    "literal_error": "unknown_name",
}


def kind_of_fault(fault: ErrorDetails) -> ErrorKind:
    """The kind of a failure that pydantic found."""
    kind = _KINDS.get(fault["type"], "bad_value")
    return kind_of(fault.get("ctx", {}).get("error"), kind)


def wanted(fault: ErrorDetails) -> str:
    """What the value must be instead, after `KEY is VALUE, but`."""
    known = fault.get("ctx", {})
    if fault["type"] == "string_pattern_mismatch":
        return PATTERNS.get(known["pattern"], f"must match {known['pattern']}")
    said = _WANTED.get(fault["type"])
    if said is None:
        return f"must be {fault['msg'].removeprefix('Input should be ')}"
    return f"must be {said.format(**known)}"


def of_parameter(fault: ErrorDetails) -> str:
    """What is wrong with a parameter of a method or a scorer."""
    name = ".".join(map(str, fault["loc"])) or "params"
    if fault["type"] == "missing":
        return f"the key {name} is missing: add it"
    said = f"is {fault['input']!r}, but {wanted(fault)}"
    if fault["type"] == "extra_forbidden":
        said = "is unknown"
    elif fault["type"] == "value_error":
        said = fault["msg"].removeprefix("Value error, ")
    return f"parameter {name} {said}"


def nearest(name: str, known: Iterable[str], cutoff: float) -> str | None:
    """The known name that this one is most likely a slip of; None for a path or a hub's name.

    cutoff: how alike they must be, from 0 to 1.
    """
    if not NAME.fullmatch(name) or Path(name).exists():
        return None
    alike = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return alike[0] if alike else None


def nearest_key(schema: Mapping[str, Any], key: str | int) -> str | None:
    """The key of a recipe that an unknown one most likely is a slip of."""
    places = (schema, *schema["$defs"].values())
    known = {name for place in places for name in place.get("properties", {})}
    alike = difflib.get_close_matches(str(key), sorted(known), n=1)
    return alike[0] if alike else None
