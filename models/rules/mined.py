"""The nearest stored text that is not too near: hard negatives from vectors alone.

It is the most similar text below a cap, which is a share of the similarity of the row's own
positive: a text as near as that may be just as right, and is left out (positive-aware mining, de
Souza P. Moreira et al. 2024, arXiv:2407.15831, section 3).
"""

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Vectors: TypeAlias = npt.NDArray[np.float32]
Ids: TypeAlias = npt.NDArray[np.uint64]

# Queries compared with a block of the pool at once.
_QUERIES = 512


def nearest_below(
    queries: Vectors,
    docs: Ids,
    caps: npt.NDArray[np.float32],
    pool: Iterable[tuple[Vectors, Ids]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """For each query and cap the pool's row with the highest cosine below the cap, and that cosine.

    queries: unit vectors (n, dimension). docs: the document of each (n,); its own texts are left
    out. caps: (n, k), NaN where a query has fewer. pool: blocks of unit vectors with their
    documents, in ascending order within each block; rows are counted through all blocks.
    Returns rows and cosines, each (n, k); row -1 and cosine -inf where there is none.
    """
    best = np.full(caps.shape, -np.inf, dtype=np.float32)
    rows = np.full(caps.shape, -1, dtype=np.int64)
    begin = 0
    for vectors, owners in pool:
        low, high = np.searchsorted(owners, docs, "left"), np.searchsorted(owners, docs, "right")
        for start in range(0, len(queries), _QUERIES):
            some = slice(start, start + _QUERIES)
            cosines = queries[some] @ vectors.T
            for place in np.flatnonzero(low[some] < high[some]):
                cosines[place, low[start + place] : high[start + place]] = -np.inf
            for k in range(caps.shape[1]):
                # Comparing with NaN is false: no row is below a cap that is not there.
                better = cosines > best[some, k, None]
                better &= cosines < caps[some, k, None]
                # Few queries find a better one in a later block.
                hits = np.flatnonzero(better.any(axis=1))
                found = np.where(better[hits], cosines[hits], -np.inf).argmax(axis=1)
                best[start + hits, k] = cosines[hits, found]
                rows[start + hits, k] = begin + found
        begin += len(vectors)
    return rows, best
