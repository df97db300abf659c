"""What a card may say of the machine that it was written on: nothing."""

import re
from collections.abc import Mapping
from typing import Any

REMOVED = "[removed]"

# Where a word begins: a path inside an address on the web has its host before it, and what closes
# a tag of HTML is none.
_BEFORE = r"(?<![\w:/.<\\-])"
_ABSOLUTE = re.compile(rf"{_BEFORE}(?:file://)?~?(?:/[^\s/'\"`<>|,;:()\[\]]+)+/?")
_WINDOWS = re.compile(rf"{_BEFORE}[A-Za-z]:\\(?:[^\s\\'\"`<>|]+\\?)+")
_ASIDE = re.compile(rf"{_BEFORE}(?:\.\./)+(?:[^\s/'\"`<>|,;:()\[\]]+/)*")
_TOKENS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}"
    r"|AKIA[0-9A-Z]{16}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)"
)
_LOGIN = re.compile(r"(?<=://)[^\s/]*@")
_WORDS = r"(?:api[_-]?key|token|password|passwd|secret|authorization)"
_SECRET_KEY = re.compile(rf"(^|[_-]){_WORDS}$", re.IGNORECASE)
# In an address's query, and as a header says it.
_GIVEN = re.compile(
    rf"([?&](?:[\w-]*[_-])?(?:{_WORDS}|key|sig|signature)=)[^&#\s'\"`<>]+", re.IGNORECASE
)
_BEARER = re.compile(r"(\bBearer\s+)[\w.~+/=-]{8,}", re.IGNORECASE)


def public(text: str) -> str:
    """The text with the names of files in place of absolute paths, and without keys and logins."""
    text = _LOGIN.sub("", _TOKENS.sub(REMOVED, text))
    for pattern in (_GIVEN, _BEARER):
        text = pattern.sub(rf"\1{REMOVED}", text)
    text = _WINDOWS.sub(lambda found: _last(found[0].replace("\\", "/")), text)
    return _ASIDE.sub("", _ABSOLUTE.sub(lambda found: _last(found[0]), text))


def public_values(value: Any) -> Any:
    """The same for all texts of a JSON value; what a key calls a secret is taken out."""
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
    """A value that is a path as a whole, blanks and all, by its last name; else as `public`."""
    whole = text.strip()
    if whole.startswith(("/", "~/", "file://")) or re.match(r"[A-Za-z]:\\", whole):
        return _last(whole.replace("\\", "/"))
    return public(text)


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2] or REMOVED
