"""Where a recipe sets a threshold of `select`: generally, or for the texts of one relation."""

from collections.abc import Mapping
from typing import Any


def threshold_keys(name: str, select: Mapping[str, Any]) -> str:
    """The general key, and those of relations and methods that have a threshold of their own.

    Their own takes the general one's place for their texts, so that changing the general one would
    do nothing to those.
    name: such as positive_min. select: the settings of `select`, as JSON has them.
    """
    own = [
        f"select.{kind}.{one}.{name}"
        for kind in ("relations", "methods")
        for one, settings in select.get(kind, {}).items()
        if settings.get(name) is not None
    ]
    listed = " and ".join(own)
    return f"select.{name}" + (f" (where they count instead, {listed})" if own else "")
