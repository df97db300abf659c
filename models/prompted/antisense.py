"""A negative by a sentence that contradicts the given one (GCSE, table 6: syntactic antisense)."""

import pyarrow as pa

from tercet.models.generation import Given, Method, methods
from tercet.models.prompted import asked
from tercet.models.prompted.asked import Asking, Edited


def antisense(given: Given, params: Edited, seed: int) -> pa.Table:
    """Every sentence, to be contradicted."""
    return asked.table(
        Asking(sentence_id, {"sentence": text, "edit": params.edit}, {"operation": "contradict"})
        for sentence_id, text in zip(given.ids().tolist(), given.texts(), strict=True)
        for _ in range(params.per_sentence)
    )


METHODS = methods(
    Method(
        "antisense",
        "negative",
        "alters",
        antisense,
        Edited,
        prompt="antisense",
        variables=("sentence", "edit"),
    )
)
