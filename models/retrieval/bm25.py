"""Search by words: BM25 in Lucene's variant, with k1 = 1.5 and b = 0.75 (bm25s).

Words are those of `words.split`. If the first documents are English, judged by the share of its
most frequent words, stop words (bm25s' list) are left out and all other words are stemmed
(Snowball). Documents in another language, or too few to judge, are indexed unchanged. An index is
saved to a directory and loaded without rebuilding.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, fields
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tercet.models.retrieval.rankings import NONE, Places, Scores
from tercet.models.retrieval.words import split
from tercet.models.runs import places_within
from tercet.models.text.languages import is_english

_K1, _B = 1.5, 0.75
# Documents by which the language is judged, and documents whose words are in memory at once.
_SAMPLE, _LOT = 1_000, 8_192


@dataclass(frozen=True)
class Bm25:
    """A BM25 index. index: bm25s' index, None if no document has a word. english: whether stop
    words are left out and all other words stemmed. average: mean number of words of a document."""

    index: Any
    english: bool
    documents: int
    average: float


@dataclass(frozen=True)
class _Counted:
    """Word counts of some documents, as columns sorted by word.

    documents: numbers relative to the first document, `begin`.
    """

    words: npt.NDArray[np.int32]
    documents: npt.NDArray[np.uint16]
    counts: npt.NDArray[np.uint16]
    begin: int


def build(documents: Iterable[str]) -> Bm25:
    """Builds the index of documents, which are numbered in their order.

    The documents are read once. The index takes eight bytes of memory for each distinct word of
    each document, and twice as much while it is built.
    """
    import bm25s

    texts = iter(documents)
    head = list(islice(texts, _SAMPLE))
    english = is_english(head)
    vocabulary: dict[str, int] = {}
    lengths: list[npt.NDArray[np.int64]] = []
    lots: list[_Counted] = []
    count = 0
    rest = chain(head, texts)
    while lot := list(islice(rest, _LOT)):
        words = words_of(lot, english)
        lengths.append(np.array([len(some) for some in words], np.int64))
        lots.append(_count(words, vocabulary, count))
        count += len(lot)
    of_all = np.concatenate([np.empty(0, np.int64), *lengths])
    average = float(of_all.mean()) if count else 0.0
    if not vocabulary:
        return Bm25(None, english, count, average)
    index = bm25s.BM25(method="lucene", k1=_K1, b=_B)
    index.scores = _score_all(lots, len(vocabulary), of_all)
    index.vocab_dict, index.unique_token_ids_set = vocabulary, set(vocabulary.values())
    index.nonoccurrence_array = None
    return Bm25(index, english, count, average)


def _count(words: Sequence[Sequence[str]], vocabulary: dict[str, int], begin: int) -> _Counted:
    """Counts the words of some documents; adds new words to the vocabulary."""
    ids = [vocabulary.setdefault(word, len(vocabulary)) for some in words for word in some]
    documents = np.repeat(np.arange(len(words)), [len(some) for some in words])
    both, counts = np.unique(np.array(ids, np.int64) * _LOT + documents, return_counts=True)
    few = np.minimum(counts, np.iinfo(np.uint16).max).astype(np.uint16)
    return _Counted((both // _LOT).astype(np.int32), (both % _LOT).astype(np.uint16), few, begin)


def _score_all(lots: list[_Counted], words: int, lengths: npt.NDArray[np.int64]) -> dict[str, Any]:
    """The scores by word and document in bm25s' format, a sparse matrix in CSC.

    lots: emptied, so that the memory of each is freed once it is in the matrix.
    """
    having = np.zeros(words, np.int64)
    for lot in lots:
        having += np.bincount(lot.words, minlength=words)
    rarity = np.log(1 + (len(lengths) - having + 0.5) / (having + 0.5))
    norms = _K1 * (1 - _B + _B * lengths / lengths.mean())
    starts = np.concatenate([[0], np.cumsum(having)])
    free = starts[:-1].copy()
    scores, places = np.empty(starts[-1], np.float32), np.empty(starts[-1], np.int32)
    lots.reverse()
    while lots:
        lot = lots.pop()
        counts = np.bincount(lot.words, minlength=words)
        at = free[lot.words] + places_within(counts)
        documents = lot.documents.astype(np.int64) + lot.begin
        scores[at] = rarity[lot.words] * lot.counts / (lot.counts + norms[documents])
        places[at] = documents
        free += counts
    return {"data": scores, "indices": places, "indptr": starts, "num_docs": len(lengths)}


def search(bm25: Bm25, queries: Sequence[str], k: int) -> tuple[Places, Scores]:
    """Numbers and scores of the k best documents of each query, best first, (queries, k) each.

    A document without a word of the query is not found; missing documents are `NONE` with score 0.
    Equal scores are ordered by document number.
    """
    places = np.full((len(queries), k), NONE, dtype=np.int64)
    scores = np.zeros((len(queries), k), dtype=np.float32)
    if bm25.index is None:
        return places, scores
    for row, words in enumerate(words_of(queries, bm25.english)):
        indexed = [word for word in words if word in bm25.index.vocab_dict]
        if not indexed:
            continue
        of_all = bm25.index.get_scores(indexed)
        matching = np.flatnonzero(of_all > 0)
        if len(matching) > k:
            bound = np.partition(of_all[matching], len(matching) - k)[len(matching) - k]
            matching = matching[of_all[matching] >= bound]
        best = matching[np.argsort(-of_all[matching], kind="stable")[:k]]
        places[row, : len(best)] = best
        scores[row, : len(best)] = of_all[best]
    return places, scores


def score(bm25: Bm25, queries: Sequence[str], texts: Sequence[str]) -> Scores:
    """The score of each text for its query, (pairs,), with the statistics of the index.

    An indexed document gets the score of `search`; other texts are scored alike. Words that no
    document has are ignored.
    """
    scores = np.zeros(len(queries), dtype=np.float32)
    if bm25.index is None:
        return scores
    query_words, text_words = words_of(queries, bm25.english), words_of(texts, bm25.english)
    vocabulary, starts = bm25.index.vocab_dict, bm25.index.scores["indptr"]
    for row, (query, text) in enumerate(zip(query_words, text_words, strict=True)):
        counts = Counter(text)
        norm = _K1 * (1 - _B + _B * len(text) / bm25.average)
        for word in query:
            if word in vocabulary and counts[word]:
                having = int(starts[vocabulary[word] + 1] - starts[vocabulary[word]])
                idf = math.log(1 + (bm25.documents - having + 0.5) / (having + 0.5))
                scores[row] += idf * counts[word] / (counts[word] + norm)
    return scores


def words_of(texts: Sequence[str], english: bool) -> list[list[str]]:
    """The words of each text as indexed. english: leave out stop words and stem all other words."""
    from bm25s.stopwords import STOPWORDS_EN
    from Stemmer import Stemmer

    words = [split(text) for text in texts]
    if not english:
        return words
    distinct = list(set(chain.from_iterable(words)).difference(STOPWORDS_EN))
    stems = dict(zip(distinct, Stemmer("english").stemWords(distinct), strict=True))
    return [[stems[word] for word in some if word in stems] for some in words]


_OTHERS, _INDEX = "bm25.json", "index"


def save(bm25: Bm25, folder: Path) -> None:
    """Writes the index into a new directory."""
    folder.mkdir(parents=True)
    others = {f.name: getattr(bm25, f.name) for f in fields(bm25) if f.name != "index"}
    (folder / _OTHERS).write_text(json.dumps(others))
    # There is no index if no document has a word.
    if bm25.index is not None:
        bm25.index.save(folder / _INDEX)


def load(folder: Path) -> Bm25:
    """Loads an index that `save` wrote, with memory-mapped arrays. Raises OSError."""
    import bm25s

    others = json.loads((folder / _OTHERS).read_text())
    has_index = (folder / _INDEX).is_dir()
    return Bm25(bm25s.BM25.load(folder / _INDEX, mmap=True) if has_index else None, **others)


_RUNS = re.compile(r"\w+")
# Characters of a snippet before its first matching word.
_LEAD = 40


def word_places(text: str, sought: Set[str], english: bool) -> Iterator[tuple[int, int, str]]:
    """Start, end and word of each occurrence of the sought words in the text, in order.

    sought: words from `words_of`. english: as in `Bm25`.
    """
    runs = list(_RUNS.finditer(text))
    for run, words in zip(runs, words_of([run[0] for run in runs], english), strict=True):
        if len(words) == 1 and words[0] in sought:
            yield run.start(), run.end(), words[0]
        elif len(words) > 1:
            # A script without spaces, whose words are pairs of letters.
            for place in range(len(run[0])):
                if (pair := run[0][place : place + 2].lower()) in sought:
                    yield run.start() + place, run.start() + place + len(pair), pair


def snippet(text: str, sought: Set[str], english: bool, most: int) -> str:
    """At most `most` characters of the text, around the place with the most sought words."""
    places = list(word_places(text, sought, english)) if len(text) > most else []

    def words_from(begin: int) -> int:
        return len({word for start, end, word in places if begin <= start and end <= begin + most})

    begins = [max(start - _LEAD, 0) for start, _, _ in places]
    begin = max(begins, key=words_from, default=0)
    begin = text.find(" ", begin, begin + _LEAD) + 1 or begin if begin else 0
    piece = f"{'…' if begin else ''}{text[begin:]}"
    return piece if len(piece) <= most else piece[: most - 1].rstrip() + "…"
