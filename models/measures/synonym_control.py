"""The rule `synonym` as a control of generators: what exchanging words by a lexicon alone gives."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from tercet.models.generation import MethodInput
from tercet.models.rules.synonym import Synonyms, synonym
from tercet.models.seeding import Ids

# How many words of a sentence are exchanged, at most.
WORDS = {"synonym_1": 1, "synonym_2": 2, "synonym_4": 4}
SYNONYMS = tuple(WORDS)
# The rule makes no more of one sentence.
_MOST = 16

_NO_MENTIONS = pa.schema(
    [
        ("sentence_id", pa.uint64()),
        ("kind", pa.string()),
        ("start", pa.int32()),
        ("end", pa.int32()),
    ]
)


def synonyms(
    ids: Ids, sources: Sequence[str], copies: int, seed: int
) -> Mapping[str, list[list[str]]]:
    """Texts by arm, (rows, copies): the rule's, in turn where it makes fewer than copies.

    A source without a word that has a synonym stays as it is. Nothing is spared as a field's term.
    """
    given = MethodInput(
        pa.table({"sentence_id": pa.array(ids, pa.uint64()), "text": pa.array(sources)}),
        np.arange(len(sources)),
        _NO_MENTIONS.empty_table(),
    )
    found: dict[str, list[list[str]]] = {}
    for name, words in WORDS.items():
        params = Synonyms(per_sentence=min(copies, _MOST), words=words)
        made: dict[int, list[str]] = {}
        table = synonym(given, params, seed).select(["sentence_id", "raw"])
        for row_id, text in zip(*(column.to_pylist() for column in table.columns), strict=True):
            made.setdefault(row_id, []).append(text)
        several = [made.get(row, [text]) for row, text in zip(ids.tolist(), sources, strict=True)]
        found[name] = [[texts[copy % len(texts)] for copy in range(copies)] for texts in several]
    return found
