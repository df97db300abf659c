"""Whether one entity can stand where another stood, by what their texts show."""

import re
from functools import lru_cache
from typing import TypeAlias

from tercet.models.english.words import OPENERS, of_one_kind
from tercet.models.knowledge.lexicon import load_pairs
from tercet.models.knowledge.replacements import POOLS, PREFERRED
from tercet.models.rules.whole_mentions import name_class

_PARTS = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{3,}(?![a-z])")
_ACRONYM = re.compile(r"[A-Z0-9]*[A-Z][A-Z0-9]+s?")
_LONGEST_ACRONYM = 5
_CAMEL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}")

Option: TypeAlias = tuple[int, str, str]  # node, text, pool


def of_kind(kind: str | None, old: str, option: Option) -> bool:
    """Whether the option is of the narrow kind, the class or the family of the old entity."""
    _, new, pool = option
    if of_one_kind(old, new):
        return True
    if kind == "name":
        near = pool == POOLS[PREFERRED]
        return near and name_class(old) != "" and name_class(old) == name_class(new)
    if kind == "identifier":
        return pool == POOLS[PREFERRED] and _of_one_family(old, new)
    return False


def _of_one_family(old: str, new: str) -> bool:
    """Whether two identifiers are names from one place, as "np.sum" and "np.mean", or begin or end
    with the same word, as "fit_mean" and "fit_transform"."""
    if "." in old or "." in new:
        return "." in old and old.rpartition(".")[0] == new.rpartition(".")[0]
    mine, others = _PARTS.findall(old), _PARTS.findall(new)
    if old.casefold().rstrip("s") == new.casefold().rstrip("s"):
        return False
    # A function for a function: "set_dtype" stands for no "own_dtype".
    if (not OPENERS.isdisjoint(mine[:1])) != (not OPENERS.isdisjoint(others[:1])):
        return False
    return len(mine) > 1 < len(others) and (mine[0] == others[0] or mine[-1] == others[-1])


def same(lemma: str | None, text: str) -> bool:
    """Whether two entities' texts are known to name one thing: "film" and "movie"."""
    return lemma is not None and text.casefold() in _synonyms().get(lemma.casefold(), ())


@lru_cache(maxsize=1)
def _synonyms() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for group in load_pairs()[0]:
        if group.pos in ("noun", "entity"):
            for word in group.words:
                found.setdefault(word, set()).update(group.words)
    return found


def shape(text: str) -> str:
    """How an identifier or a name is written: "DataFrame" is "camel", "np.array()" "dotted()"."""
    core = text.removesuffix("()")
    if core.startswith("--"):
        kind = "flag"
    elif _ACRONYM.fullmatch(core.replace(".", "")):
        kind = "acronym" if len(core) <= _LONGEST_ACRONYM else "capitals"
    elif "." in core and " " not in core:
        kind = "dotted class" if core.rpartition(".")[2][:1].isupper() else "dotted"
    elif "_" in core:
        kind = "constant" if core.isupper() else "snake"
    elif " " not in core and _CAMEL.search(core):
        kind = "camel"
    elif core[:1].isupper():
        kind = f"capital {name_class(core)}".strip()
    else:
        kind = "plain"
    return kind + text[len(core) :]


def is_name(text: str) -> bool:
    """Whether a text has a capital letter."""
    return text != text.lower()
