"""Secrets, refused where texts are kept (recipes, overrides, the parameters of flows), and removed
from published texts, with everything else that tells of this machine.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tercet.tasks.stage import BadInput

# Tokens in the form that the issuing services write.
TOKENS = (
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}"
    r"|github_pat_\w{20,}|glpat-[\w-]{20,}|xox[a-z]-[\w-]{10,}|AIza[\w-]{35}"
    r"|AKIA[0-9A-Z]{16}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"
    r"|hooks\.slack\.com/\w+/[\w/-]{20,}|discord(?:app)?\.com/api/webhooks/\d+/[\w-]{20,}"
    # A login in a header, recognised as base64.
    r"|(?i:Basic)\s+(?=\S*\d)(?=\S*[a-z])(?=\S*[A-Z])[A-Za-z0-9+/]{16,}={0,2})"
)
# User and password of an address.
LOGIN = r"://[^\s/]*@"
WORDS = r"(?:api[_-]?key|token|password|passwd|secret|authorization)"
# Secrets in the query of an address, and in a header.
GIVEN = rf"([?&](?:[\w-]*[_-])?(?i:{WORDS}|key|sig|signature)=)[^&#\s'\"`<>]+"
BEARER = r"(\b(?i:Bearer)\s+)[\w.~+/=-]{8,}"
# A secret by the name of its key. `token` is left out, since it may be a tokenizer's.
_SET = r"(?:[^=]*[._-])?(?i:api[_-]?key|password|passwd|secret|authorization)=\s*[^\s]"
# A published page loses nothing if these words are removed, but a recipe may name the Slovak half
# of a corpus (cs-sk-opensubtitles2018), or bearer securities.
_NO_SK = r"(?!sk-(?![\w-]*[A-Za-z0-9]{20}))"
_NO_BEARER = r"(?=\w+\s+\S*\d)"
_HELD = "|".join((_NO_SK + TOKENS, LOGIN, GIVEN, _NO_BEARER + BEARER))

# A pattern of JSON schemas: texts, and overrides `KEY=VALUE`, without a secret.
WITHOUT = rf"^(?!{_SET})(?![\s\S]*(?:{_HELD}))"

_WITHOUT = re.compile(WITHOUT)


def refuse_secrets(where: str, value: Any) -> None:
    """Raises BadInput if the value is, or holds at any depth, a secret. where: its place."""
    for text in _texts("", value):
        if not _WITHOUT.match(text):
            raise BadInput(
                "secret",
                f"{where} must not hold a password, key or token, since it would be kept word for "
                "word: put it into the environment, as TERCET_LLM_KEY for endpoints "
                "(run.llm.key_env names another variable) or HF_TOKEN for the hub.",
            )


def _texts(key: str, value: Any) -> Iterator[str]:
    """The texts in a value; a text below a key is written as `KEY=VALUE`."""
    if isinstance(value, str):
        yield f"{key}={value}" if key else value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from _texts(str(name), member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _texts(key, member)


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
    text = _WINDOWS.sub(lambda match: _last(match[0].replace("\\", "/")), text)
    return _ASIDE.sub("", _ABSOLUTE.sub(lambda match: _last(match[0]), text))


def public_values(value: Any) -> Any:
    """A JSON value with `public` applied to its texts, and without values of secret keys."""
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
