"""Anchor, positive and negative, with the teacher's cosine of the negative if the file has it."""

from collections.abc import Mapping
from typing import Any

from tercet.tasks.corpus.kinds.kind import Bad, Kind, Labelled, number, shown


def row(values: Mapping[str, Any]) -> Labelled | Bad:
    """The three texts; the label is the cosine, or None if the row has none."""
    if values["positive"] == values["negative"]:
        return Bad("same_text", "the negative is the positive")
    given = values.get("label")
    label = number(given)
    blank = given is None or (isinstance(given, str) and not given.strip())
    # In a table of numbers NaN means a missing value.
    missing = blank or (isinstance(given, float) and given != given)
    if not missing and (label is None or abs(label) > 1):
        return Bad("bad_label", f"{shown(given)} is not a cosine from -1 to 1")
    return Labelled(values["anchor"], values["positive"], values["negative"], label)


KIND = Kind(
    texts=("anchor", "positive", "negative"),
    layouts=(
        {
            "anchor": "anchor",
            "positive": "positive",
            "negative": "negative",
            "label": "negative_similarity",
        },
        {
            "anchor": "sent0",
            "positive": "sent1",
            "negative": "hard_neg",
            "label": "negative_similarity",
        },
    ),
    row=row,
    optional=("label",),
)
