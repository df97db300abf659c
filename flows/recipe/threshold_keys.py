"""Where a recipe sets a threshold of `select`: generally, or for the texts of one relation."""

from collections.abc import Mapping
from typing import Any


def threshold_keys(name: str, select: Mapping[str, Any]) -> str:
    """The keys to change, joined by "and", such as select.relations.topic.positive_min.

    A relation's or a method's own threshold takes the general one's place for its texts, so that
    changing the general one would do nothing to those.
    name: such as positive_min. select: the settings of `select`, as JSON has them.
    """
    own = [
        f"select.{kind}.{one}.{name}"
        for kind in ("relations", "methods")
        for one, settings in select.get(kind, {}).items()
        if settings.get(name) is not None
    ]
    return " and ".join(own) or f"select.{name}"
