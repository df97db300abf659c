"""Measures of an encoder on numpy arrays: ranks, correlation, precision and geometry.

Intervals come from `tercet.models.measures.resampling`. Products of all rows with all rows are
computed in blocks of bounded size.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Vectors = npt.NDArray[np.float32]

# Numbers in one block of a product; 16 MB in float32.
_BLOCK = 1 << 22

# Cosines closer than this count as equal. In fp32 the same product differs by about 1e-7 between
# two shapes of block, which must not decide the rank of equal vectors.
TIE = 1e-6


def spearman(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Spearman's rank correlation in [-1, 1]; ties get their mean rank.

    Raises: ValueError for unequal lengths, fewer than two values, values that are not finite, and
        a constant side, for which the correlation is undefined.
    """
    from scipy.stats import spearmanr

    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"Spearman needs two columns of equal length, got {a.shape} and {b.shape}")
    if len(a) < 2:
        raise ValueError(f"Spearman needs at least two pairs of values, got {len(a)}")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("Spearman needs finite numbers, got NaN or infinity")
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        raise ValueError(f"Spearman is undefined: all {len(a)} values of one side are equal")
    return float(spearmanr(a, b).statistic)


def answer_ranks(
    queries: Vectors, answers: Vectors, targets: npt.NDArray[np.int64], block: int = _BLOCK
) -> npt.NDArray[np.int32]:
    """Rank of each query's target among all answers by inner product, 1 the best.

    queries: (q, d), and answers: (a, d), unit vectors. targets: (q,), the row in `answers` of each
    query's answer. Returns (q,). Ties count against the query: its rank is one more than the number
    of other answers at least as near (to within `TIE`), so an encoder that gives all texts the same
    vector ranks every target last. The answers should be distinct texts.

    Raises: ValueError if a vector is not finite or a row of `targets` does not exist.
    """
    _check_finite(queries, answers)
    if len(targets) != len(queries) or (
        len(targets) and not (targets.min() >= 0 and targets.max() < len(answers))
    ):
        raise ValueError("every query needs the row of its answer")
    ranks = np.ones(len(queries), dtype=np.int32)
    columns = max(min(len(answers), block), 1)
    rows = max(block // columns, 1)
    for start in range(0, len(queries), rows):
        part = queries[start : start + rows]
        part_targets = targets[start : start + rows]
        floor = np.einsum("qd,qd->q", part, answers[part_targets])[:, None] - np.float32(TIE)
        for left in range(0, len(answers), columns):
            products = part @ answers[left : left + columns].T
            inside = np.flatnonzero((part_targets >= left) & (part_targets < left + columns))
            products[inside, part_targets[inside] - left] = -np.inf
            ranks[start : start + rows] += np.count_nonzero(products >= floor, axis=1).astype(
                np.int32
            )
    return ranks


def recall_at(ranks: npt.ArrayLike, k: int) -> Floats:
    """1.0 for each query whose answer is among the first k, else 0.0."""
    return (np.asarray(ranks) <= k).astype(np.float64)


def reciprocal_ranks(ranks: npt.ArrayLike) -> Floats:
    """1 / rank of each query, in (0, 1]; the mean is the MRR."""
    return 1.0 / np.asarray(ranks, dtype=np.float64)


def alignment(first: Vectors, second: Vectors) -> float:
    """Mean squared distance of paired vectors, E‖f(s) − f(s⁺)‖², in [0, 4] for unit vectors.

    Wang and Isola's measure with exponent 2. GenSE's eq. 4 means the same: as printed, it has a
    superfluous minus and lacks the square.
    """
    _check_finite(first, second)
    if len(first) == 0 or first.shape != second.shape:
        raise ValueError("alignment needs at least one pair of vectors")
    return float(np.square(first - second).sum(axis=1, dtype=np.float64).mean())


def uniformity(vectors: Vectors, t: float = 2.0, block: int = _BLOCK) -> float:
    """log E e^{−t‖f(s) − f(u)‖²} over all unordered pairs of different rows; at most 0.

    GenSE's eq. 5, with the square that is missing in print. Time is quadratic in the rows.
    """
    _check_finite(vectors)
    count = len(vectors)
    if count < 2:
        raise ValueError("uniformity needs at least two vectors")
    norms = np.square(vectors).sum(axis=1, dtype=np.float64)
    rows = max(block // count, 1)
    total = 0.0
    for start in range(0, count, rows):
        part = vectors[start : start + rows]
        distances = norms[start : start + rows, None] + norms[None, start:]
        distances -= 2.0 * (part @ vectors[start:].T)
        weights = np.exp(-t * np.maximum(distances, 0.0))
        # Pairs within the block are in it twice, and each row with itself once.
        inner = weights[:, : len(part)]
        total += weights[:, len(part) :].sum() + (inner.sum() - np.trace(inner)) / 2
    return float(np.log(total / (count * (count - 1) / 2)))


def isotropy(vectors: Vectors) -> float:
    """How evenly the vectors spread over directions, in [0, 1]; 1 if alike in all directions.

    Mu and Viswanath's measure (All-but-the-Top, ICLR 2018, section 2.2): the smallest divided by
    the largest partition function Z(a) = sum over v of exp(a·v), where a runs over the eigenvectors
    of VᵀV. The sign of an eigenvector is arbitrary, so both signs are used. For unit vectors the
    minimum is e⁻².
    """
    _check_finite(vectors)
    if len(vectors) == 0:
        raise ValueError("isotropy needs at least one vector")
    rows = vectors.astype(np.float64)
    _, directions = np.linalg.eigh(rows.T @ rows)
    least, most = np.inf, 0.0
    for start in range(0, rows.shape[1], step := max(_BLOCK // len(rows), 1)):
        products = rows @ directions[:, start : start + step]
        sums = np.concatenate([np.exp(products).sum(axis=0), np.exp(-products).sum(axis=0)])
        least, most = min(least, float(sums.min())), max(most, float(sums.max()))
    return least / most


def average_precision(labels: npt.ArrayLike, scores: npt.ArrayLike) -> float:
    """Mean of the precision at the score of each positive, in (0, 1].

    This is the area under the step function of precision over recall. Equal scores are one
    threshold, so the order of rows does not matter. labels: 0 or 1 (or False, True).

    Raises: ValueError for unequal lengths, no positive, another label, a score that is not finite.
    """
    from sklearn.metrics import average_precision_score

    label, value = np.asarray(labels), np.asarray(scores, dtype=np.float64)
    if label.shape != value.shape or label.ndim != 1:
        raise ValueError(f"labels and scores differ in length, {label.shape} and {value.shape}")
    if not np.isfinite(value).all():
        raise ValueError("average precision needs finite numbers, got NaN or infinity")
    if not np.isin(label, (0, 1)).all():
        raise ValueError("average precision needs labels of 0 and 1")
    if not label.any():
        raise ValueError(f"average precision is undefined: none of {len(label)} labels is 1")
    return float(average_precision_score(label, value))


def in_order(anchors: Vectors, near: Vectors, far: Vectors) -> Floats:
    """1 where `near` is nearer to its anchor than `far`, 0 where it is not, 0.5 for a tie.

    All arguments are unit vectors (n, d); the result is (n,). Cosines within `TIE` are a tie.
    Raises: ValueError if a vector is not finite.
    """
    _check_finite(anchors, near, far)
    gap = np.einsum("nd,nd->n", anchors, near) - np.einsum("nd,nd->n", anchors, far)
    return np.where(np.abs(gap) <= TIE, 0.5, (gap > 0).astype(np.float64))


def _check_finite(*arrays: Vectors) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        raise ValueError("the vectors hold NaN or infinity")
