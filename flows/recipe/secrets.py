"""What looks like a secret where texts are kept: recipes, overrides, the parameters of flows."""

import re
from collections.abc import Iterator
from typing import Any

from tercet.tasks.stage import BadInput

# As the services write them that give them out.
TOKENS = (
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}"
    r"|github_pat_\w{20,}|glpat-[\w-]{20,}|xox[a-z]-[\w-]{10,}|AIza[\w-]{35}"
    r"|AKIA[0-9A-Z]{16}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"
    r"|hooks\.slack\.com/\w+/[\w/-]{20,}|discord(?:app)?\.com/api/webhooks/\d+/[\w-]{20,}"
    # A login in a header, by what base64 looks like.
    r"|(?i:Basic)\s+(?=\S*\d)(?=\S*[a-z])(?=\S*[A-Z])[A-Za-z0-9+/]{16,}={0,2})"
)
# User and password of an address.
LOGIN = r"://[^\s/]*@"
WORDS = r"(?:api[_-]?key|token|password|passwd|secret|authorization)"
# In the query of an address, and in a header.
GIVEN = rf"([?&](?:[\w-]*[_-])?(?i:{WORDS}|key|sig|signature)=)[^&#\s'\"`<>]+"
BEARER = r"(\b(?i:Bearer)\s+)[\w.~+/=-]{8,}"
# A value whose key says so; a token may be one of a tokenizer.
_SET = r"(?:[^=]*[._-])?(?i:api[_-]?key|password|passwd|secret|authorization)=\s*[^\s]"
# A page is no worse without them, but a recipe may name the Slovak half of a corpus
# (cs-sk-opensubtitles2018), or bearer securities.
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
                f"{where} must not hold a password, key or token, since it would be kept word for "
                "word: put it into the environment, as TERCET_LLM_KEY for endpoints "
                "(run.llm.key_env names another variable) or HF_TOKEN for the hub."
            )


def _texts(key: str, value: Any) -> Iterator[str]:
    """The texts of a value, those behind a key as `KEY=VALUE`."""
    if isinstance(value, str):
        yield f"{key}={value}" if key else value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from _texts(str(name), member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _texts(key, member)
