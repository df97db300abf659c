"""Which corpora come with Tercet; all others are the user's own."""

from collections.abc import Collection, Mapping
from typing import Any

from tercet.tasks.package_files import PACKAGE

_OF_TERCET = f"{PACKAGE}tercet."


def is_shipped(source: str) -> bool:
    """Whether a corpus's source, or a file of evaluation, comes with Tercet."""
    return source.startswith(_OF_TERCET)


def shipped_corpora(recipe: Mapping[str, Any]) -> list[str]:
    """The names of a recipe's corpora that come with Tercet. recipe: as its run has recorded it."""
    corpora = recipe.get("corpora") or ()
    return [corpus["name"] for corpus in corpora if is_shipped(str(corpus.get("source")))]


def count_apart(documents: Mapping[str, int], shipped: Collection[str]) -> str:
    """Documents by corpus in words: the user's own, and those that come with Tercet.

    Empty where there are only those of one kind.
    """
    of_tercet = sum(count for corpus, count in documents.items() if corpus in shipped)
    own = sum(documents.values()) - of_tercet
    if not own or not of_tercet:
        return ""
    documents_of_yours = "1 document of yours" if own == 1 else f"{own:,} documents of yours"
    come = "1 that comes" if of_tercet == 1 else f"{of_tercet:,} that come"
    return f"{documents_of_yours}, {come} with Tercet"
