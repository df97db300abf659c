"""Positives that say the sentence in other words: the one method that needs no instruction."""

import pyarrow as pa

from tercet.models.generation import Given, Method, Prompted, methods
from tercet.models.prompted import asked
from tercet.models.prompted.asked import Asking


def paraphrase(given: Given, params: Prompted, seed: int) -> pa.Table:
    """Every sentence, for other sentences of the same meaning.

    A fitted generator reads the bare sentence, a language model the prompt.
    """
    return asked.table(
        Asking(sentence_id, {"sentence": text}, {"operation": "paraphrase"})
        for sentence_id, text in zip(given.ids().tolist(), given.texts(), strict=True)
        for _ in range(params.per_sentence)
    )


METHODS = methods(
    Method(
        "paraphrase",
        "positive",
        "keeps",
        paraphrase,
        Prompted,
        prompt="paraphrase",
        variables=("sentence",),
    )
)
