"""Positives of a sentence alone: in other words, and by what may have stood before it."""

import pyarrow as pa
from pydantic import Field

from tercet.models.generation import Given, Method, Prompted, methods
from tercet.models.prompted import asked
from tercet.models.prompted.asked import Asking


class Preceding(Prompted):
    """Parameters of `precede`."""

    max_words: int = Field(20, ge=1, le=200, description="words of what precedes, at most")


def rewrite(given: Given, params: Prompted, seed: int) -> pa.Table:
    """Every sentence, to be put in other words (GCSE, rewriting 1)."""
    return asked.table(
        Asking(sentence_id, {"sentence": text}, {"operation": "rewrite"})
        for sentence_id, text in zip(given.ids().tolist(), given.texts(), strict=True)
        for _ in range(params.per_sentence)
    )


def precede(given: Given, params: Preceding, seed: int) -> pa.Table:
    """Every sentence, for the sentence that precedes it (GCSE, rewriting 2)."""
    return asked.table(
        Asking(
            sentence_id,
            {"sentence": text, "max_words": params.max_words},
            {"operation": "precede"},
        )
        for sentence_id, text in zip(given.ids().tolist(), given.texts(), strict=True)
        for _ in range(params.per_sentence)
    )


METHODS = methods(
    Method(
        "rewrite", "positive", "keeps", rewrite, Prompted, prompt="rewrite", variables=("sentence",)
    ),
    Method(
        "precede",
        "positive",
        "topic",
        precede,
        Preceding,
        prompt="precede",
        variables=("sentence", "max_words"),
    ),
)
