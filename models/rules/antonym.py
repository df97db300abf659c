"""A negative by a word of the opposite meaning."""

from functools import lru_cache

import pyarrow as pa

from tercet.models.english.words import word_set
from tercet.models.generation import Given, Method, Several, methods
from tercet.models.knowledge.lexicon import load_pairs
from tercet.models.rules.word_exchange import Senses, exchanged, senses_of

# Mostly of another sense, or (with, without) the concern of `negation`.
_SKIPPED = word_set(
    """for against like since over up down off with without about into on out of all none
    some any no"""
)


def antonym(given: Given, params: Several, seed: int) -> pa.Table:
    """One word of the sentence replaced by an antonym in the same form."""
    return exchanged(given, seed, "antonym", "exchange_antonym", _senses(), params.per_sentence, 1)


@lru_cache(maxsize=1)
def _senses() -> Senses:
    return senses_of(
        load_pairs()[1],
        skip=lambda part, word: word in _SKIPPED,
    )


METHODS = methods(Method("antonym", "negative", "alters", antonym, Several))
