"""Pairs of natural language inference (NLI) with their class, none of them left over.

Unlike `pairs`, which keeps what makes triplets, this keeps every entailment and every
contradiction, as a discriminator needs them: a contradiction that no entailment took makes a row of
its own, without a positive.
"""

from collections.abc import Mapping
from typing import Any

from tercet.tasks.corpus.kinds import pairs
from tercet.tasks.corpus.kinds.kind import Bad, Kind, Labelled


def row(values: Mapping[str, Any]) -> Labelled | Bad:
    """The pair, with its class as the word."""
    given = {"anchor": values["premise"], "positive": values["hypothesis"]}
    return pairs.row({**given, "label": values["label"]})


KIND = Kind(
    texts=("premise", "hypothesis"),
    layouts=(
        {"premise": "premise", "hypothesis": "hypothesis", "label": "label"},
        {"premise": "premise", "hypothesis": "hypothesis", "label": "gold_label"},
        {"premise": "sentence1", "hypothesis": "sentence2", "label": "gold_label"},
        {"premise": "sentence1", "hypothesis": "sentence2", "label": "label"},
        {
            "premise": "sentence_A",
            "hypothesis": "sentence_B",
            "label": "entailment_judgment",
        },
    ),
    row=row,
    combine=pairs.COMBINE.format(
        positive="CASE WHEN one.word <> 'contradiction' THEN one.positive END",
        negative="CASE WHEN one.word = 'contradiction' THEN one.positive ELSE denial.positive END",
        reasons="",
        details="",
    ),
)
