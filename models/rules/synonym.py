"""A positive by words of the same meaning."""

from functools import lru_cache

import pyarrow as pa
from pydantic import Field

from tercet.models.generation import Method, MethodInput, Several, methods
from tercet.models.knowledge.lexicon import load_pairs
from tercet.models.rules.word_exchange import Senses, exchanged, senses_of


class Synonyms(Several):
    """Parameters of `synonym`."""

    words: int = Field(3, ge=1, le=50, description="words exchanged in one generation, at most")


def synonym(given: MethodInput, params: Synonyms, seed: int) -> pa.Table:
    """Some words of the sentence replaced by synonyms, each in the same form.

    No word of a mention is: an entity is the field's own term, and its synonyms another thing's.
    """
    copies, words = params.per_sentence, params.words
    spared: dict[int, list[tuple[int, int]]] = {}
    mentions = given.located("entity").select(["row", "start", "end"])
    for row, start, end in zip(*(c.to_pylist() for c in mentions.columns), strict=True):
        spared.setdefault(row, []).append((start, end))
    return exchanged(given, seed, "synonym", "exchange_synonym", _senses(), copies, words, spared)


@lru_cache(maxsize=1)
def _senses() -> Senses:
    return senses_of(load_pairs()[0], skip=lambda part, word: part == "entity")


METHODS = methods(Method("synonym", "positive", "keeps", synonym, Synonyms, ("mentions",)))
