"""Why rows are left out: the reasons in `rejects`, in words, and what keeps more such rows.

The report, `docs/sql.md` and the remedies of findings come from `reasons.tsv`: a new reason is a
line there. No stage imports this: a wording that is mended makes no artifact anew.
"""

import csv
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Reason(NamedTuple):
    """A reason of some stages.

    text: a clause about the row. remedy: what keeps more such rows; a threshold of `select` stands
    there as `{positive_min}`. spare: "spare" if the row has no fault and was merely not needed.
    """

    stages: str
    name: str
    text: str
    remedy: str = ""
    spare: str = ""


with Path(__file__).with_suffix(".tsv").open(encoding="utf-8") as _file:
    REASONS = [Reason(*row) for row in list(csv.reader(_file, delimiter="\t"))[1:]]
_BY_STAGE = {(stage, one.name): one for one in REASONS for stage in one.stages.split(", ")}
_BY_NAME = {one.name: one for one in reversed(REASONS)}
SPARE = frozenset(one.name for one in REASONS if one.spare)
# Reasons of rows that do not meet a threshold of `select`.
BY_THRESHOLD = tuple(one.name for one in REASONS if "{" in one.remedy)


def reason_of(name: str, stage: str) -> Reason:
    """The reason of that stage, else the first of that name. A plug-in's has its name as text."""
    unlisted = Reason(stage, name, name.replace("_", " "))
    return _BY_STAGE.get((stage, name)) or _BY_NAME.get(name, unlisted)


def remedies(
    names: Iterable[str], stage: str, select: Mapping[str, Any] | None = None
) -> list[str]:
    """Remedies that keep more of the rows left out for these reasons, each remedy once.

    select: the settings of `select`, as JSON has them.
    """
    texts = dict.fromkeys(reason_of(name, stage).remedy for name in names)
    return [
        re.sub(r"\{(\w+)\}", lambda match: threshold_keys(match[1], select or {}), text)
        for text in texts
        if text
    ]


def threshold_keys(name: str, select: Mapping[str, Any]) -> str:
    """The general key of a threshold, and the keys of relations and methods that set it.

    Such a key replaces the general key for the relation's or method's texts, so that changing the
    general key would not affect them.
    name: such as positive_min. select: the settings of `select`, as JSON has them.
    """
    keys = [
        f"select.{kind}.{one}.{name}"
        for kind in ("relations", "methods")
        for one, settings in select.get(kind, {}).items()
        if settings.get(name) is not None
    ]
    listed = " and ".join(keys)
    return f"select.{name}" + (f" (where they count instead, {listed})" if keys else "")
