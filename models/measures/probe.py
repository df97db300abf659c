"""Logistic regression on frozen vectors, by the protocol of SentEval's transfer tasks.

SentEval (`senteval/tools/validation.py`) has three, depending on the splits that a task comes with:

- training data alone (MR, CR, SUBJ, MPQA): nested cross-validation. Of ten stratified outer folds
  each is held out once; C is chosen from 2^-2 … 2^3 by ten inner folds of the other nine.
- training and test data (TREC, MRPC): C from 2^-1 … 2^5 by ten folds of the training data.
- training, dev and test data (SST-2): C from 2^-2 … 2^3 on dev; the classifier is fitted on the
  training data alone.

As there: scikit-learn's `LogisticRegression`, no standardisation, folds shuffled with seed 1111
over the examples in SentEval's order (by length), accuracies compared at two decimals, the smallest
C among equals, and the best C is refitted on all training data.

Ours: the vectors are float64 and the fit is run to the optimum by Newton's method, the fits of a
grid each starting from the one before. The optimum is unique, so this changes seconds and not
classifiers, and the same vectors give the same figures whatever the number of threads. SentEval's
own default was liblinear, which also shrinks the intercept and takes six classes one against the
rest; scikit-learn has since changed its default to what is used here. Accuracy is the share of
right examples; SentEval averages the folds' rounded accuracies, which differs by under 0.01.
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

# Of the mean gradient's largest part. Newton's last step ends far below it.
_TOLERANCE = 1e-6
_ITERATIONS = 500


@dataclass(frozen=True)
class Sample:
    """Labelled examples: features of shape (n, d), dense or scipy's sparse, and labels (n,).

    order: the order in which examples are dealt to folds; by default as given.
    """

    features: Any
    labels: Labels
    order: Order | None = None


@dataclass(frozen=True)
class Outcome:
    """The predicted class of each test example, in sample order, and each C chosen."""

    predictions: Labels
    labels: Labels
    chosen: tuple[float, ...]

    @property
    def right(self) -> npt.NDArray[np.float64]:
        """1.0 where the prediction is right, else 0.0; of shape (n,)."""
        return np.asarray(self.predictions == self.labels, dtype=np.float64)


def pair_features(first: Any, second: Any) -> Any:
    """|u − v| beside u · v elementwise, of shape (n, 2d), dense or sparse as the vectors are."""
    if isinstance(first, np.ndarray):
        return np.hstack([np.abs(first - second), first * second])
    from scipy import sparse

    return sparse.hstack([abs(first - second), first.multiply(second)], format="csr")


def accuracy_items(train: Sample, dev: Sample | None = None, test: Sample | None = None) -> Outcome:
    """The protocol that fits what is there: nested folds, folds and test, or dev and test.

    Raises: ValueError for values that are not finite, for a class that the training data lack,
        and for one too small to be in each fold.
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
    """Raises ValueError for features that cannot be fitted, or under `least` of some class."""
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
    """Each example is judged by a classifier whose fit and whose C never saw it."""
    features, labels, order = _dealt(sample)
    predictions = np.empty_like(labels)
    chosen = []
    for kept, held in _folds(labels):
        train, train_labels = features[kept], labels[kept]
        c = _by_folds(train, train_labels, GRID)
        chosen.append(c)
        predictions[order[held]] = _fit(train, train_labels, c).predict(features[held])
    return Outcome(predictions, sample.labels, tuple(chosen))


def folds_then_test(train: Sample, test: Sample) -> Outcome:
    """C by folds of the training data, one classifier for the test data."""
    features, labels, _ = _dealt(train)
    c = _by_folds(features, labels, FOLDS_GRID)
    said = _fit(features, labels, c).predict(_wide(test.features))
    return Outcome(said, test.labels, (c,))


def dev_then_test(train: Sample, dev: Sample, test: Sample) -> Outcome:
    """C by the accuracy on dev, and the classifier of that C for the test data."""
    features, held, final = (_wide(sample.features) for sample in (train, dev, test))
    best, c, said = -1.0, GRID[0], np.empty(0, dtype=np.int64)
    for value, model in _path(features, train.labels, GRID):
        score = round(100.0 * float((model.predict(held) == dev.labels).mean()), 2)
        if score > best:
            best, c, said = score, value, model.predict(final)
    return Outcome(said, test.labels, (c,))


def _by_folds(features: Any, labels: Labels, grid: Sequence[float]) -> float:
    """The C of the best mean accuracy over folds; the smallest among equals."""
    scores = np.zeros((FOLDS, len(grid)))
    for fold, (kept, held) in enumerate(_folds(labels)):
        test = features[held]
        for place, (_, model) in enumerate(_path(features[kept], labels[kept], grid)):
            scores[fold, place] = (model.predict(test) == labels[held]).mean()
    rounded = np.round(100.0 * scores.mean(axis=0), 2)
    return grid[int(rounded.argmax())]


def _folds(labels: Labels) -> Iterator[tuple[Order, Order]]:
    """Ten stratified folds, shuffled by SentEval's seed: (kept, held out) of each."""
    from sklearn.model_selection import StratifiedKFold

    folds = StratifiedKFold(n_splits=FOLDS, shuffle=True, random_state=FOLD_SEED)
    with warnings.catch_warnings():
        # If a class has nine examples left inside, one fold has none.
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
    """As float64; in rows where sparse."""
    if isinstance(features, np.ndarray):
        return np.ascontiguousarray(features, dtype=np.float64)
    return features.tocsr().astype(np.float64)


K = 10


def predicted(
    known: npt.NDArray[np.float32],
    labels: npt.NDArray[np.int64],
    asked: npt.NDArray[np.float32],
    k: int = K,
) -> npt.NDArray[np.int64]:
    """The commonest label among each vector's k nearest by cosine, of shape (asked,).

    Of labels that are equally common, that whose neighbours are nearer in sum.

    known: (n, d), vectors of length one; labels: (n,), from 0; asked: (m, d), of length one.
    """
    from sklearn.neighbors import KNeighborsClassifier

    k = min(k, len(known))
    # A whole vote each; the cosines, at most k in sum, only decide between equals.
    votes = KNeighborsClassifier(
        k,
        weights=lambda distances: 1 + (1 - distances) / (4 * k),
        algorithm="brute",
        metric="cosine",
    )
    return np.asarray(votes.fit(known, labels).predict(asked), dtype=np.int64)
