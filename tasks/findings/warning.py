"""A warning, as an artifact's manifest records it and as people read it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

# Characters of an example that are kept.
SHOWN = 80


@dataclass(frozen=True)
class StageWarning:
    """A warning: `count` of `total` rows of a step are of this kind.

    kind: an identifier, for SQL. key: the method, corpus, set or part, if it is about one. message:
    what was found, as a clause. example: one such row's text, or its fault. remedy: what to do, as
    the end of a sentence.
    """

    kind: str
    key: str | None
    count: int
    total: int
    message: str
    remedy: str
    example: str | None = None


def sentence(row: Mapping[str, Any]) -> str:
    """A row of the table `warnings` as a sentence."""
    text = f"{row['step']}: {row['message']}"
    if row["example"] is not None:
        example = " ".join(row["example"].split())
        text += f", such as {example if len(example) <= SHOWN else example[: SHOWN - 1] + '…'!r}"
    return f"{text}: {row['remedy']}."


def age(created: str) -> str:
    """A date and how long ago it was: `2026-11-20 (7 days old)`. created: in ISO's form."""
    then = datetime.fromisoformat(created)
    days = (datetime.now(then.tzinfo) - then).days
    return f"{then:%Y-%m-%d} ({days:,} {'day' if days == 1 else 'days'} old)"
