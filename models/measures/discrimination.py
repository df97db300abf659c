"""Measures of a judge of pairs: does the second text follow from the first (1), or not (0)?

Pairs of one first text (the anchor) are not independent of each other, so intervals come from
resampled anchors: a `Measure` of this module counts how often each anchor was drawn, not each pair.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tercet.models.measures.resampling import Counts, Floats, Measure, mean_within

BINS = 20


def auc_of(labels: npt.ArrayLike, scores: npt.ArrayLike, anchors: npt.ArrayLike) -> Measure:
    """Area under the ROC curve: the chance that a true pair has the higher score; ties count half.

    anchors: (pairs,), any labels; pairs with the same one are drawn together. The area of a
    resample without a true or without a false pair is undefined.
    Raises: ValueError for a score that is not finite, other labels than 0 and 1, or one label only.
    """
    value, y = _checked(scores, labels)
    _, group = np.unique(np.asarray(anchors), return_inverse=True)
    order = np.argsort(value, kind="stable")
    ordered = value[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    of, true = group[order], y[order].astype(np.int64)

    def measure(counts: Counts) -> Floats:
        found = np.empty(len(counts))
        # One resample at a time: there are more pairs than anchors.
        for row, drawn in enumerate(counts):
            times = drawn[of].astype(np.int64)
            positive = np.add.reduceat(times * true, starts)
            negative = np.add.reduceat(times * (1 - true), starts)
            below = np.cumsum(negative) - negative
            pairs = float(positive.sum()) * float(negative.sum())
            found[row] = (positive @ (below + negative / 2)) / pairs if pairs else np.nan
        return found

    return measure


def accuracy_of(
    labels: npt.ArrayLike, probabilities: npt.ArrayLike, anchors: npt.ArrayLike
) -> Measure:
    """Percent of the pairs that lie on the right side of 0.5; at 0.5 itself a pair counts half."""
    p, y = _checked(probabilities, labels)
    right = np.where(p == 0.5, 0.5, ((p > 0.5) == (y > 0)).astype(np.float64))
    return mean_within(100.0 * right, anchors)[0]


def log_loss_of(
    labels: npt.ArrayLike, probabilities: npt.ArrayLike, anchors: npt.ArrayLike
) -> Measure:
    """Mean −log of the probability that the label got, in nats."""
    p, y = _checked(probabilities, labels)
    of_label = np.clip(np.where(y > 0, p, 1 - p), 1e-15, 1.0)
    return mean_within(-np.log(of_label), anchors)[0]


def calibration_error_of(
    labels: npt.ArrayLike, probabilities: npt.ArrayLike, anchors: npt.ArrayLike
) -> Measure:
    """Expected calibration error: the mean gap of a bin's probabilities and its share of true.

    In [0, 1], over the bins of `reliability`, each by its number of pairs.
    """
    p, y = _checked(probabilities, labels)
    _, group = np.unique(np.asarray(anchors), return_inverse=True)
    bins = bin_of(p)
    # A bin's gap times its pairs is |sum of (p − label)|, by anchor and bin.
    gaps = np.zeros((int(group.max()) + 1, BINS))
    np.add.at(gaps, (group, bins), p - y)
    sizes = np.bincount(group)
    return lambda counts: np.abs(counts @ gaps).sum(axis=1) / (counts @ sizes)


def bin_of(probabilities: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The bin of each probability: 0 holds [0, 0.05), the last [0.95, 1]."""
    p = np.asarray(probabilities, dtype=np.float64)
    # The nudge keeps 0.15 and the like in the bin that begins there.
    return np.minimum((p * BINS + 1e-9).astype(np.int64), BINS - 1)


def reliability(
    labels: npt.ArrayLike, probabilities: npt.ArrayLike, anchors: npt.ArrayLike
) -> Mapping[int, tuple[int, float, Measure]]:
    """Of each bin that has pairs: how many, their mean probability, and their share of true ones.

    The share is a `Measure` over all anchors, undefined in a resample without a pair of the bin.
    """
    p, y = _checked(probabilities, labels)
    _, group = np.unique(np.asarray(anchors), return_inverse=True)
    bins, n = bin_of(p), int(group.max()) + 1
    found: dict[int, tuple[int, float, Measure]] = {}
    for number in np.unique(bins).tolist():
        inside = bins == number
        found[number] = int(inside.sum()), float(p[inside].mean()), _share(inside, y, group, n)
    return found


def _share(
    inside: npt.NDArray[np.bool_], y: Floats, group: npt.NDArray[np.intp], n: int
) -> Measure:
    sizes = np.bincount(group[inside], minlength=n)
    true = np.bincount(group[inside], y[inside], minlength=n)

    def measure(counts: Counts) -> Floats:
        drawn = counts @ sizes
        return np.where(drawn > 0, (counts @ true) / np.maximum(drawn, 1), np.nan)

    return measure


def _checked(values: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[Floats, Floats]:
    x, y = np.asarray(values, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise ValueError(f"scores and labels differ in length, {x.shape} and {y.shape}")
    if not np.isfinite(x).all():
        raise ValueError("the scores hold NaN or infinity")
    if not np.isin(y, (0.0, 1.0)).all():
        raise ValueError("a pair is true (1) or false (0), and nothing else")
    if y.min(initial=1.0) == y.max(initial=0.0) or not len(y):
        raise ValueError("there must be true pairs and false ones")
    return x, y


# Controls that a judge of pairs must beat: logits of simple classifiers on the same pairs.
# hypothesis: words of the second text alone, so whatever they give away of its label (annotators
#     negate where they contradict; Gururangan et al. 2018).
# pair_words: words that both texts have, that only the first has, and that only the second has,
#     with the shares of words in common.
# cosine: of the evaluator's vectors, with a threshold.
CONTROLS = ("hypothesis", "pair_words", "cosine")
# Words of any script, and parts of them such as n't.
_WORD = re.compile(r"\w+|'\w+")
_FEATURES = 2**18


@dataclass(frozen=True)
class Pairs:
    """Pairs of texts with their labels, 1 true and 0 false, and their cosines if known. (n,)."""

    anchors: Sequence[str]
    texts: Sequence[str]
    labels: npt.NDArray[np.int64]
    cosines: Floats | None = None


def control_logits(
    fit: Pairs, others: Sequence[Pairs], c: float = 1.0
) -> Mapping[str, list[Floats]]:
    """Each control's logits of the other pairs, from a logistic regression on `fit`."""
    from sklearn.linear_model import LogisticRegression

    found = {}
    for name in CONTROLS:
        if name == "cosine" and any(pairs.cosines is None for pairs in (fit, *others)):
            continue
        train, *rest = (_features(name, pairs) for pairs in (fit, *others))
        model = LogisticRegression(C=c, max_iter=1_000, tol=1e-4).fit(train, fit.labels)
        found[name] = [np.asarray(model.decision_function(x), dtype=np.float64) for x in rest]
    return found


def _features(name: str, pairs: Pairs) -> Any:
    if name == "cosine":
        return np.asarray(pairs.cosines, dtype=np.float64)[:, None]
    from sklearn.feature_extraction import FeatureHasher

    rows = _hypothesis(pairs) if name == "hypothesis" else _pair_words(pairs)
    return FeatureHasher(_FEATURES, input_type="pair", alternate_sign=False).transform(rows)


def words(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation."""
    return _WORD.findall(text.lower())


def _hypothesis(pairs: Pairs) -> Iterator[list[tuple[str, float]]]:
    """Words and pairs of neighbours."""
    for text in pairs.texts:
        own = words(text)
        both = {*own, *(" ".join(two) for two in pairwise(own))}
        yield [(word, 1.0) for word in sorted(both)]


def _pair_words(pairs: Pairs) -> Iterator[list[tuple[str, float]]]:
    for anchor, text in zip(pairs.anchors, pairs.texts, strict=True):
        first, second = set(words(anchor)), set(words(text))
        both = first & second
        row = [(f"both {word}", 1.0) for word in sorted(both)]
        row += [(f"gone {word}", 1.0) for word in sorted(first - second)]
        row += [(f"new {word}", 1.0) for word in sorted(second - first)]
        row.append(("share of the first", len(both) / max(len(first), 1)))
        row.append(("share of the second", len(both) / max(len(second), 1)))
        yield row
