"""Search in the passages of this folder, by its encoder and by BM25 together.

pip install sentence-transformers "bm25s[stem]"
python search.py "what to find"
"""

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import bm25s
import numpy as np
from bm25s.stopwords import STOPWORDS_EN
from sentence_transformers import SentenceTransformer
from Stemmer import Stemmer

from tercet.models.retrieval.words import split

# Passages in each of the two rankings.
DEPTH = 1_000


class Search(NamedTuple):
    """vectors: of the passages in the order of the index, (passages, dimension), of length 1."""

    encoder: Any
    vectors: Any
    index: Any
    weight: float
    english: bool


def load(folder: Path) -> Search:
    """Opens the folder; vectors and passages stay on disk until they are read."""
    settings = json.loads((folder / "search.json").read_text())
    return Search(
        SentenceTransformer(str(folder / "encoder"), trust_remote_code=settings["own_code"]),
        np.load(folder / "vectors.npy", mmap_mode="r"),
        bm25s.BM25.load(folder / "bm25", load_corpus=True, mmap=True),
        settings["weight"],
        settings["english"],
    )


def find(search: Search, query: str, count: int) -> list[dict[str, Any]]:
    """The best passages by cosine plus weight times BM25, each divided by the query's maximum.

    Passages behind the first `DEPTH` by cosine get the cosine of the last of these; passages behind
    the first `DEPTH` by BM25 get no BM25 score.
    """
    cosines = search.vectors @ search.encoder.encode_query(query, normalize_embeddings=True)
    near = best(cosines, DEPTH)
    sums = np.full(len(cosines), cosines[near[-1]], dtype=np.float64)
    sums[near] = cosines[near]
    # Cosines are not divided if none is positive.
    sums /= sums.max() if sums.max() > 0 else 1.0
    words = split(query)
    if search.english:
        words = Stemmer("english").stemWords([w for w in words if w not in STOPWORDS_EN])
    if words := [word for word in words if word in search.index.vocab_dict]:
        scores = search.index.get_scores(words)
        worded = best(scores, DEPTH)
        sums[worded] += search.weight * scores[worded] / (scores.max() or 1.0)
    places = best(sums, count).tolist()
    return [{"score": sums[place], **search.index.corpus[place]} for place in places]


def best(scores: Any, count: int) -> Any:
    """The places of the largest scores; among equal scores the earlier place comes first."""
    return np.argsort(-scores, kind="stable")[:count]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("query")
    parser.add_argument("--count", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.count < 1 or not arguments.query.strip():
        parser.error("give a few words, and a count of 1 or more")
    for rank, row in enumerate(find(load(Path(__file__).parent), **vars(arguments)), start=1):
        print(f"{rank}. {row['context']} ({row['path']})\n{row['text']}\n")
