"""How well definitions find their entries: ranks, and the figures made of them."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tercet.models.measures.resampling import Measure, mean_of

Ranks: TypeAlias = npt.NDArray[np.float64]
Scores: TypeAlias = npt.NDArray[np.float32]


def ranks(
    scores: Callable[[slice], Scores], owners: Sequence[Sequence[int]], block: int = 64
) -> Ranks:
    """The rank from 1 of each definition's best own entry, as expected where entries tie.

    scores: of some definitions with all entries, (definitions, entries). owners: each definition's
    own entries, at least one; the others among them count neither for nor against the best.
    """
    found = np.empty(len(owners))
    for start in range(0, len(owners), block):
        some = slice(start, min(start + block, len(owners)))
        for place, row in enumerate(scores(some), start):
            own = np.asarray(owners[place])
            best = row[own].max()
            higher = (row > best).sum()
            # Own entries that tie with the best take no place of others.
            tied = (row == best).sum() - (row[own] == best).sum()
            found[place] = 1 + higher + tied / 2
    return found


def figures(found: Ranks) -> dict[str, Measure | float]:
    """Measures of recall@1, recall@10 and MRR in percent, and the median rank."""
    return {
        "recall@1": mean_of(100.0 * (found <= 1)),
        "recall@10": mean_of(100.0 * (found <= 10)),
        "mrr": mean_of(100.0 / found),
        "median_rank": float(np.median(found)),
    }
