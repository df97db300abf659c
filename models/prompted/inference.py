"""What follows from a sentence, and what contradicts it (GenSE): the words of NLI."""

import pyarrow as pa

from tercet.models.generation import Given, Method, Prompted, methods
from tercet.models.prompted import asked
from tercet.models.prompted.asked import Asking


def entailment(given: Given, params: Prompted, seed: int) -> pa.Table:
    """Every sentence, for one that is true wherever it is true."""
    return _each(given, params, "entail")


def contradiction(given: Given, params: Prompted, seed: int) -> pa.Table:
    """Every sentence, for one that is false wherever it is true."""
    return _each(given, params, "contradict")


def _each(given: Given, params: Prompted, operation: str) -> pa.Table:
    return asked.table(
        Asking(sentence_id, {"sentence": text}, {"operation": operation})
        for sentence_id, text in zip(given.ids().tolist(), given.texts(), strict=True)
        for _ in range(params.per_sentence)
    )


METHODS = methods(
    Method(
        "entailment",
        "positive",
        "keeps",
        entailment,
        Prompted,
        prompt="entailment",
        variables=("sentence",),
    ),
    Method(
        "contradiction",
        "negative",
        "alters",
        contradiction,
        Prompted,
        prompt="contradiction",
        variables=("sentence",),
    ),
)
