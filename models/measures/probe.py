"""Logistic regression on frozen vectors, by the protocol of SentEval's transfer tasks.

SentEval (`senteval/tools/validation.py`) has three protocols, depending on the task's splits:

- training data alone (MR, CR, SUBJ, MPQA): nested cross-validation. Each of ten stratified outer
  folds is held out once; C is chosen from 2^-2 … 2^3 by ten inner folds of the remaining nine outer
  folds.
- training and test data (TREC, MRPC): C from 2^-1 … 2^5 by ten folds of the training data.
- training, dev and test data (SST-2): C from 2^-2 … 2^3 on dev; the classifier is fitted on the
  training data alone.

As in SentEval: scikit-learn's `LogisticRegression` without standardisation; folds shuffled with
seed 1111 over the examples in SentEval's order (by length); accuracies compared at two decimals,
with the smallest C among equals; a refit on all training data with the best C.

Unlike SentEval: the vectors are float64, and Newton's method fits to the optimum; the fits of a
grid are warm-started. The optimum is unique, so warm starts change only the time, and the same
vectors give the same figures with any number of threads. SentEval's default solver was liblinear,
which also penalises the intercept and fits six classes one-vs-rest; here scikit-learn's present
default is used. Accuracy is the share of right examples; SentEval averages the folds' rounded
accuracies, which differs by less than 0.01.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[np.int64]
Order = npt.NDArray[np.int64]

FOLDS = 10
FOLD_SEED = 1111
GRID = tuple(2.0**power for power in range(-2, 4))
FOLDS_GRID = tuple(2.0**power for power in range(-1, 6))

# Bound on the largest component of the mean gradient; Newton's last step ends far below it.
_TOLERANCE = 1e-6
_ITERATIONS = 500


@dataclass(frozen=True)
class Sample:
    """Labelled examples: features (n, d), dense or scipy sparse, and labels (n,).

    order: (n,), the order in which examples are dealt to folds; None: as they are.
    """

    features: Any
    labels: Labels
    order: Order | None = None


@dataclass(frozen=True)
class Outcome:
    """Predicted and true class of each test example, in sample order, and each C chosen."""

    predictions: Labels
    labels: Labels
    chosen: tuple[float, ...]

    @property
    def right(self) -> npt.NDArray[np.float64]:
        """1.0 where the prediction is right, else 0.0; of shape (n,)."""
        return np.asarray(self.predictions == self.labels, dtype=np.float64)


def pair_features(first: Any, second: Any) -> Any:
    """|u − v| and u · v elementwise, concatenated to (n, 2d); dense or sparse like the input."""
    if isinstance(first, np.ndarray):
        return np.hstack([np.abs(first - second), first * second])
    from scipy import sparse

    return sparse.hstack([abs(first - second), first.multiply(second)], format="csr")


def accuracy_items(train: Sample, dev: Sample | None = None, test: Sample | None = None) -> Outcome:
    """Runs the protocol that fits the splits: nested folds, folds and test, or dev and test.

    Raises: ValueError for values that are not finite, for a class missing from the training data,
        and for a class too small to be in each fold.
    """
    check(train, FOLDS if dev is None else 1)
    for sample in (dev, test):
        if sample is not None:
            check(sample, 0)
            absent = np.setdiff1d(sample.labels, train.labels)
            if len(absent):
                raise ValueError(f"the training data have no example of class {absent[0]}")
    if test is None:
        if dev is not None:
            raise ValueError("there are dev data and no test data")
        return nested_folds(train)
    if dev is None:
        return folds_then_test(train, test)
    return dev_then_test(train, dev, test)


def check(sample: Sample, least: int) -> None:
    """Raises ValueError for features that cannot be fitted, or a class of fewer than `least`."""
    values = sample.features if isinstance(sample.features, np.ndarray) else sample.features.data
    if not np.isfinite(values).all():
        raise ValueError("the features hold NaN or infinity")
    if sample.features.shape[0] != len(sample.labels) or not len(sample.labels):
        raise ValueError(
            f"there are {sample.features.shape[0]} rows of features and {len(sample.labels)} labels"
        )
    classes, counts = np.unique(sample.labels, return_counts=True)
    if least and len(classes) < 2:
        raise ValueError("the training data hold one class only")
    if least and counts.min() < least:
        scarce = classes[counts.argmin()]
        raise ValueError(f"class {scarce} has {counts.min()} examples where {least} are needed")


def nested_folds(sample: Sample) -> Outcome:
    """Predicts each example by a classifier that was fitted, and whose C was chosen, without it."""
    features, labels, order = _dealt(sample)
    predictions = np.empty_like(labels)
    chosen = []
    for fitted, held in _folds(labels):
        train, train_labels = features[fitted], labels[fitted]
        c = _by_folds(train, train_labels, GRID)
        chosen.append(c)
        predictions[order[held]] = _fit(train, train_labels, c).predict(features[held])
    return Outcome(predictions, sample.labels, tuple(chosen))


def folds_then_test(train: Sample, test: Sample) -> Outcome:
    """Chooses C by folds of the training data, and predicts the test data with one classifier."""
    features, labels, _ = _dealt(train)
    c = _by_folds(features, labels, FOLDS_GRID)
    predictions = _fit(features, labels, c).predict(_wide(test.features))
    return Outcome(predictions, test.labels, (c,))


def dev_then_test(train: Sample, dev: Sample, test: Sample) -> Outcome:
    """Chooses C by the accuracy on dev, and predicts the test data with that classifier."""
    features, held, final = (_wide(sample.features) for sample in (train, dev, test))
    best, c, predictions = -1.0, GRID[0], np.empty(0, dtype=np.int64)
    for value, model in _path(features, train.labels, GRID):
        score = round(100.0 * float((model.predict(held) == dev.labels).mean()), 2)
        if score > best:
            best, c, predictions = score, value, model.predict(final)
    return Outcome(predictions, test.labels, (c,))


def _by_folds(features: Any, labels: Labels, grid: Sequence[float]) -> float:
    """The C of the best mean accuracy over folds; the smallest among equals."""
    scores = np.zeros((FOLDS, len(grid)))
    for fold, (fitted, held) in enumerate(_folds(labels)):
        test = features[held]
        for place, (_, model) in enumerate(_path(features[fitted], labels[fitted], grid)):
            scores[fold, place] = (model.predict(test) == labels[held]).mean()
    rounded = np.round(100.0 * scores.mean(axis=0), 2)
    return grid[int(rounded.argmax())]


def _folds(labels: Labels) -> Iterator[tuple[Order, Order]]:
    """Ten stratified folds, shuffled by SentEval's seed: (kept, held out) of each."""
    from sklearn.model_selection import StratifiedKFold

    folds = StratifiedKFold(n_splits=FOLDS, shuffle=True, random_state=FOLD_SEED)
    with warnings.catch_warnings():
        # With nine examples of a class in the inner data, one of ten folds has none.
        warnings.filterwarnings("ignore", message="The least populated class", append=False)
        yield from folds.split(np.zeros((len(labels), 1)), labels)


def _path(features: Any, labels: Labels, grid: Sequence[float]) -> Iterator[tuple[float, Any]]:
    """A classifier for each C, in the grid's order; each is valid until the next."""
    model = _classifier(warm_start=True)
    for c in grid:
        model.set_params(C=c)
        yield c, model.fit(features, labels)


def _fit(features: Any, labels: Labels, c: float) -> Any:
    return _classifier(C=c).fit(features, labels)


def _classifier(**settings: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(solver="newton-cg", tol=_TOLERANCE, max_iter=_ITERATIONS, **settings)


def _dealt(sample: Sample) -> tuple[Any, Labels, Order]:
    order = np.arange(len(sample.labels)) if sample.order is None else sample.order
    return _wide(sample.features)[order], sample.labels[order], order


def _wide(features: Any) -> Any:
    """The features as float64; sparse features as CSR."""
    if isinstance(features, np.ndarray):
        return np.ascontiguousarray(features, dtype=np.float64)
    return features.tocsr().astype(np.float64)


K = 10


def predicted(
    labelled: npt.NDArray[np.float32],
    labels: npt.NDArray[np.int64],
    queries: npt.NDArray[np.float32],
    k: int = K,
) -> npt.NDArray[np.int64]:
    """The most frequent label among each query's k nearest neighbours by cosine, (m,).

    Among equally frequent labels, the one with the larger sum of cosines wins.

    labelled: (n, d), unit vectors. labels: (n,), from 0. queries: (m, d), unit vectors.
    """
    from sklearn.neighbors import KNeighborsClassifier

    k = min(k, len(labelled))
    # Each neighbour has one vote; the term with the cosine is too small to do more than break ties.
    votes = KNeighborsClassifier(
        k,
        weights=lambda distances: 1 + (1 - distances) / (4 * k),
        algorithm="brute",
        metric="cosine",
    )
    return np.asarray(votes.fit(labelled, labels).predict(queries), dtype=np.int64)
