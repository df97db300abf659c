"""Measures of a judge of pairs: does the second text follow from the first (1), or not (0)?

Pairs with the same first text (the anchor) are not independent, so the bootstrap resamples anchors:
the counts that a `Measure` of this module takes are per anchor, not per pair.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tercet.models.measures.resampling import Counts, Floats, Measure, mean_within, ratio_of

BINS = 20


def auc_of(labels: npt.ArrayLike, scores: npt.ArrayLike, anchors: npt.ArrayLike) -> Measure:
    """Area under the ROC curve: the chance that a true pair has the higher score; ties count half.

    anchors: (pairs,), any labels; pairs with the same label are drawn together. The area is NaN in
    a resample without true pairs or without false pairs.
    Raises: ValueError for a score that is not finite, other labels than 0 and 1, or one label only.
    """
    value, y = _checked(scores, labels)
    _, group = np.unique(np.asarray(anchors), return_inverse=True)
    order = np.argsort(value, kind="stable")
    ordered = value[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    of, true = group[order], y[order].astype(np.int64)

    def measure(counts: Counts) -> Floats:
        values = np.empty(len(counts))
        # One resample at a time: (resamples, pairs) may not fit into memory.
        for row, drawn in enumerate(counts):
            times = drawn[of].astype(np.int64)
            positive = np.add.reduceat(times * true, starts)
            negative = np.add.reduceat(times * (1 - true), starts)
            below = np.cumsum(negative) - negative
            pairs = float(positive.sum()) * float(negative.sum())
            values[row] = (positive @ (below + negative / 2)) / pairs if pairs else np.nan
        return values

    return measure


def accuracy_of(
    labels: npt.ArrayLike, probabilities: npt.ArrayLike, anchors: npt.ArrayLike
) -> Measure:
    """Percent of pairs on the right side of 0.5; a probability of exactly 0.5 counts half."""
    p, y = _checked(probabilities, labels)
    right = np.where(p == 0.5, 0.5, ((p > 0.5) == (y > 0)).astype(np.float64))
    return mean_within(100.0 * right, anchors)[0]


def log_loss_of(
    labels: npt.ArrayLike, probabilities: npt.ArrayLike, anchors: npt.ArrayLike
) -> Measure:
    """Mean −log of the probability of the true label, in nats."""
    p, y = _checked(probabilities, labels)
    of_label = np.clip(np.where(y > 0, p, 1 - p), 1e-15, 1.0)
    return mean_within(-np.log(of_label), anchors)[0]


def calibration_error_of(
    labels: npt.ArrayLike, probabilities: npt.ArrayLike, anchors: npt.ArrayLike
) -> Measure:
    """Expected calibration error in [0, 1], over the bins of `reliability`.

    The gap between a bin's mean probability and its share of true pairs, weighted by its pairs.
    """
    p, y = _checked(probabilities, labels)
    _, group = np.unique(np.asarray(anchors), return_inverse=True)
    bins = bin_of(p)
    # A bin's gap times its number of pairs is |sum of (p − label)|; summed by anchor and bin.
    gaps = np.zeros((int(group.max()) + 1, BINS))
    np.add.at(gaps, (group, bins), p - y)
    sizes = np.bincount(group)
    return lambda counts: np.abs(counts @ gaps).sum(axis=1) / (counts @ sizes)


def bin_of(probabilities: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The bin of each probability: 0 holds [0, 0.05), the last [0.95, 1]."""
    p = np.asarray(probabilities, dtype=np.float64)
    # 1e-9 keeps a probability on a bin's lower edge in that bin despite rounding.
    return np.minimum((p * BINS + 1e-9).astype(np.int64), BINS - 1)


def reliability(
    labels: npt.ArrayLike, probabilities: npt.ArrayLike, anchors: npt.ArrayLike
) -> Mapping[int, tuple[int, float, Measure]]:
    """For each non-empty bin: number of pairs, mean probability, and the share of true pairs.

    The share is a `Measure` over all anchors; NaN in a resample without a pair of the bin.
    """
    p, y = _checked(probabilities, labels)
    _, group = np.unique(np.asarray(anchors), return_inverse=True)
    bins, n = bin_of(p), int(group.max()) + 1
    by_bin: dict[int, tuple[int, float, Measure]] = {}
    for number in np.unique(bins).tolist():
        inside = bins == number
        sizes = np.bincount(group[inside], minlength=n)
        true = np.bincount(group[inside], y[inside], minlength=n)
        by_bin[number] = int(inside.sum()), float(p[inside].mean()), ratio_of(true, sizes)
    return by_bin


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


# Baselines that a judge of pairs must beat: simple classifiers on the same pairs.
# hypothesis: words of the second text alone, which may give the label away (annotators negate to
#     contradict; Gururangan et al. 2018).
# pair_words: words in both texts, in the first only and in the second only, and the shares of
#     shared words.
# cosine: a threshold on the cosine of the evaluator's vectors.
CONTROLS = ("hypothesis", "pair_words", "cosine")
# Words of any script, and clitics such as 's.
_WORD = re.compile(r"\w+|'\w+")
_FEATURES = 2**18


@dataclass(frozen=True)
class Pairs:
    """n pairs of texts. labels: (n,), 1 true, 0 false. cosines: (n,), if known."""

    anchors: Sequence[str]
    texts: Sequence[str]
    labels: npt.NDArray[np.int64]
    cosines: Floats | None = None


def control_logits(
    fit: Pairs, others: Sequence[Pairs], c: float = 1.0
) -> Mapping[str, list[Floats]]:
    """Logits of each control for the pairs of `others`, by logistic regressions on `fit`."""
    from sklearn.linear_model import LogisticRegression

    logits = {}
    for name in CONTROLS:
        if name == "cosine" and any(pairs.cosines is None for pairs in (fit, *others)):
            continue
        train, *rest = (_features(name, pairs) for pairs in (fit, *others))
        model = LogisticRegression(C=c, max_iter=1_000, tol=1e-4).fit(train, fit.labels)
        logits[name] = [np.asarray(model.decision_function(x), dtype=np.float64) for x in rest]
    return logits


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
    """Unigrams and bigrams of the second text."""
    for text in pairs.texts:
        unigrams = words(text)
        both = {*unigrams, *(" ".join(two) for two in pairwise(unigrams))}
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
