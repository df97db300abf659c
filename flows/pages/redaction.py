"""Removes traces of this machine from texts for others: paths, keys, logins."""

import re
from collections.abc import Mapping
from typing import Any

from tercet.flows.recipe.secrets import BEARER, GIVEN, LOGIN, TOKENS, WORDS

REMOVED = "[removed]"

# The start of a word: a path within a web address follows its host, and a closing HTML tag is not
# a path.
_BEFORE = r"(?<![\w:/.<\\-])"
_ABSOLUTE = re.compile(rf"{_BEFORE}(?:file://)?~?(?:/[^\s/'\"`<>|,;:()\[\]]+)+/?")
_WINDOWS = re.compile(rf"{_BEFORE}[A-Za-z]:\\(?:[^\s\\'\"`<>|]+\\?)+")
_ASIDE = re.compile(rf"{_BEFORE}(?:\.\./)+(?:[^\s/'\"`<>|,;:()\[\]]+/)*")
_SECRET_KEY = re.compile(rf"(^|[_-]){WORDS}$", re.IGNORECASE)


def public(text: str) -> str:
    """The text with the names of files in place of absolute paths, and without keys and logins."""
    text = re.sub(LOGIN, "://", re.sub(TOKENS, REMOVED, text))
    for pattern in (GIVEN, BEARER):
        text = re.sub(pattern, rf"\1{REMOVED}", text)
    text = _WINDOWS.sub(lambda found: _last(found[0].replace("\\", "/")), text)
    return _ASIDE.sub("", _ABSOLUTE.sub(lambda found: _last(found[0]), text))


def public_values(value: Any) -> Any:
    """The same for all texts of a JSON value; values whose key names a secret are removed."""
    if isinstance(value, str):
        return public_path(value)
    if isinstance(value, Mapping):
        return {
            key: REMOVED if _SECRET_KEY.search(str(key)) and member else public_values(member)
            for key, member in value.items()
        }
    if isinstance(value, list | tuple):
        return [public_values(member) for member in value]
    return value


def public_path(text: str) -> str:
    """A value that is itself a path, cut to its last name; any other as in `public`."""
    whole = text.strip()
    if whole.startswith(("/", "~/", "file://")) or re.match(r"[A-Za-z]:\\", whole):
        return _last(whole.replace("\\", "/"))
    return public(text)


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2] or REMOVED
