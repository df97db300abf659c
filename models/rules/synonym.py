"""A positive by words of the same meaning."""

from functools import lru_cache

import pyarrow as pa
from pydantic import Field

from tercet.models.english.words import word_set
from tercet.models.generation import Given, Method, Several, methods
from tercet.models.knowledge.lexicon import load_pairs
from tercet.models.rules.word_exchange import Senses, exchanged, senses_of

# One-word prepositions are conjunctions or particles as well ("before he left", "about 50").
_SURE = word_set("despite during via throughout amongst toward towards beneath versus")

# Here a synonym of one sense would mostly meet another one.
_LOOSE = word_set(
    """about also as following give include instead make never occupied order rule seek set too turn
    ever even company cast name fix request"""
)


class Synonyms(Several):
    """Parameters of `synonym`."""

    words: int = Field(3, ge=1, le=50, description="words exchanged in one generation, at most")


def synonym(given: Given, params: Synonyms, seed: int) -> pa.Table:
    """Some words of the sentence replaced by synonyms, each in the same form."""
    copies, words = params.per_sentence, params.words
    return exchanged(given, seed, "synonym", "exchange_synonym", _senses(), copies, words)


@lru_cache(maxsize=1)
def _senses() -> Senses:
    return senses_of(
        load_pairs()[0],
        skip=lambda part, word: (
            word in _LOOSE
            or word == "as well"
            or (part == "preposition" and " " not in word and word not in _SURE)
        ),
    )


METHODS = methods(Method("synonym", "positive", synonym, Synonyms))
