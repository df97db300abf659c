"""Search by words: BM25 as Lucene has it, with k1 = 1.5 and b = 0.75 (bm25s).

Words are letters and digits, two at least, in lower case. English loses its stop words (bm25s'
list) and is stemmed (Snowball); documents in another language are taken as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tercet.models.english.share import is_english
from tercet.models.retrieval.rankings import NONE, Places, Scores

# Documents from which the language is told.
_SAMPLE = 1_000


@dataclass(frozen=True)
class Bm25:
    """An index of documents by their words. english: without stop words, and stemmed."""

    index: Any
    english: bool
    documents: int


def build(documents: Sequence[str]) -> Bm25:
    """The index of these documents; each is found by its place."""
    import bm25s

    english = is_english(documents[:_SAMPLE])
    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    tokens = _words(documents, english)
    if any(tokens):
        index.index(tokens, show_progress=False)
    else:
        index = None
    return Bm25(index, english, len(documents))


def search(bm25: Bm25, queries: Sequence[str], k: int) -> tuple[Places, Scores]:
    """The places of the k best documents of each query and their scores, best first.

    Both of shape (queries, k). A document that shares no word with the query is not found: behind
    the last one stand `NONE` and 0. Of equal scores the smaller place comes first.
    """
    places = np.full((len(queries), k), NONE, dtype=np.int64)
    scores = np.zeros((len(queries), k), dtype=np.float32)
    if bm25.index is None:
        return places, scores
    for row, words in enumerate(_words(queries, bm25.english)):
        known = [word for word in words if word in bm25.index.vocab_dict]
        if not known:
            continue
        of_all = bm25.index.get_scores(known)
        found = np.flatnonzero(of_all > 0)
        if len(found) > k:
            bound = np.partition(of_all[found], len(found) - k)[len(found) - k]
            found = found[of_all[found] >= bound]
        best = found[np.argsort(-of_all[found], kind="stable")[:k]]
        places[row, : len(best)] = best
        scores[row, : len(best)] = of_all[best]
    return places, scores


def _words(texts: Sequence[str], english: bool) -> list[list[str]]:
    import bm25s
    import Stemmer

    words: list[list[str]] = bm25s.tokenize(
        list(texts),
        stopwords="en" if english else [],
        stemmer=Stemmer.Stemmer("english") if english else None,
        return_ids=False,
        show_progress=False,
    )
    return words
