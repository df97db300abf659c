"""Pairs with a similarity score on any scale (STS: 0 to 5)."""

from collections.abc import Mapping
from typing import Any

from tercet.tasks.corpus.kinds.kind import Bad, Kind, Labelled, number, shown


def row(values: Mapping[str, Any]) -> Labelled | Bad:
    """The pair; the label is the number as given."""
    label = number(values["label"])
    if label is None:
        return Bad("bad_label", f"{shown(values['label'])} is not a finite number")
    return Labelled(values["anchor"], values["positive"], label=label)


_TEXTS = (("sentence1", "sentence2"), ("text1", "text2"), ("anchor", "positive"))

KIND = Kind(
    texts=("anchor", "positive"),
    layouts=(
        *(
            {"anchor": anchor, "positive": positive, "label": label}
            for anchor, positive in _TEXTS
            for label in ("score", "label")
        ),
        {"anchor": "sentence_A", "positive": "sentence_B", "label": "relatedness_score"},
    ),
    row=row,
)
