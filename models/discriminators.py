"""The discriminator `pair`: whether the second text of a pair follows from the first.

`pair` is a logistic regression on frozen unit vectors u and v, which an evaluator gives for the
first and the second text. Its features are v, v − u, |v − u| and u · v elementwise: those of
Conneau et al. 2017 (section 3.2), but with v − u in place of u, so that the penalty weighs what
changed instead of what both texts say. On a quarter of the anchors of SNLI-like triplets this
raised the AUC from 0.911 to 0.916. Platt scaling turns its logits into probabilities.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

_STEPS = 100
_TOLERANCE = 1e-10
# Almost no penalty; without any, logits that are all equal would have no optimum.
_UNPENALISED = 1e9


@dataclass(frozen=True)
class Platt:
    """P(true) = 1 / (1 + e^−(slope · logit + shift)) (Platt 1999, section 2).

    With shift 0, `1 / slope` is the temperature of temperature scaling.
    """

    slope: float
    shift: float

    def logits(self, logits: npt.ArrayLike) -> Floats:
        """The calibrated logits."""
        return self.slope * np.asarray(logits, dtype=np.float64) + self.shift

    def probabilities(self, logits: npt.ArrayLike) -> Floats:
        """P(true), in [0, 1]."""
        # The sigmoid in a form that cannot overflow.
        return 0.5 * (1.0 + np.tanh(0.5 * self.logits(logits)))


def fitted_platt(logits: npt.ArrayLike, labels: npt.ArrayLike) -> Platt:
    """Maximum-likelihood slope and shift for these labels; the slope is at least 0.

    If the best slope is negative, which means that the judge is wrong more often than right, the
    slope is set to 0, and every pair gets the share of true pairs as its probability.

    The targets are Platt's (N₊ + 1) / (N₊ + 2) and 1 / (N₋ + 2): the slope stays finite even if
    the logits separate the labels perfectly.
    Raises: ValueError for a logit that is not finite, other labels than 0 and 1, or one label only.
    """
    from sklearn.linear_model import LogisticRegression

    x, y = np.asarray(logits, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    if not np.isfinite(x).all():
        raise ValueError("the logits hold NaN or infinity")
    if x.shape != y.shape or not np.array_equal(np.unique(y), [0.0, 1.0]):
        raise ValueError("a calibration needs a label for each logit, some true and some false")
    mean, scale = float(x.mean()), float(x.std()) or 1.0
    z = np.tile((x - mean) / scale, 2)[:, None]
    positive = float(y.sum())
    high, low = (positive + 1) / (positive + 2), 1 / (len(y) - positive + 2)
    target = np.where(y > 0, high, low)
    # Each row is fitted twice, as true and as false, weighted by its target.
    model = LogisticRegression(
        C=_UNPENALISED, solver="newton-cholesky", tol=_TOLERANCE, max_iter=_STEPS
    )
    model.fit(z, np.repeat([1, 0], len(x)), np.concatenate([target, 1 - target]))
    standardised, shift = float(model.coef_[0, 0]), float(model.intercept_[0])
    if standardised < 0:
        share = float(target.mean())
        return Platt(0.0, float(np.log(share / (1 - share))))
    slope = standardised / scale
    return Platt(slope, shift - slope * mean)


WEIGHTS, NUMBERS = "pair.safetensors", "pair.json"
# Candidates for C, the inverse strength of the penalty, on standardised features.
GRID = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
_ITERATIONS = 1_000


@dataclass(frozen=True)
class PairModel:
    """weights: (4, d), for v, v − u, |v − u| and u · v. calibration: applied to the logits."""

    weights: Floats
    bias: float
    calibration: Platt

    @property
    def dimension(self) -> int:
        """Width of the vectors."""
        return int(self.weights.shape[1])

    def logits(self, first: npt.ArrayLike, second: npt.ArrayLike) -> Floats:
        """Uncalibrated logits of pairs of vectors, each (n, d) and of any norm but zero."""
        u, v = _unit(first), _unit(second)
        of_v, of_change, of_gap, of_product = self.weights
        change = v - u
        logits: Floats = v @ of_v + change @ of_change + np.abs(change) @ of_gap
        logits += (u * v) @ of_product + self.bias
        return logits

    def probabilities(self, first: npt.ArrayLike, second: npt.ArrayLike) -> Floats:
        """P(true) of pairs of vectors, (n, d) each; NaN for a pair with a zero vector."""
        return self.calibration.probabilities(self.logits(first, second))


@dataclass(frozen=True)
class Vectors:
    """Pairs of vectors by row number, so that each text's vector is in memory only once.

    vectors: (texts, d). first, second: (pairs,), rows of `vectors`. labels: (pairs,), 1 for true.
    """

    vectors: npt.NDArray[np.float32]
    first: npt.NDArray[np.int64]
    second: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]


def fitted(fit: Vectors, validation: Vectors, grid: Sequence[float] = GRID) -> PairModel:
    """The regression with the C of the lowest log-loss on `validation`, calibrated on it.

    Raises: ValueError where a vector of `fit` is not finite or is zero, and where `validation`
        cannot be calibrated on.
    """
    from sklearn.linear_model import LogisticRegression

    norms = np.linalg.norm(fit.vectors, axis=1)
    if not np.isfinite(norms).all():
        raise ValueError("the evaluator gives NaN or infinity")
    if not norms.all():
        raise ValueError("the evaluator gives a text the vector zero: take another evaluator")
    features = _features(fit)
    # Standardised in place: 50,000 pairs take 600 MB at 768 dimensions.
    mean, scale = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
    scale[scale == 0] = 1.0
    features -= mean.astype(np.float32)
    features /= scale.astype(np.float32)
    best: tuple[float, PairModel] | None = None
    model = LogisticRegression(max_iter=_ITERATIONS, warm_start=True)
    for c in grid:
        model.set_params(C=c).fit(features, fit.labels)
        weights = np.asarray(model.coef_[0], dtype=np.float64) / scale
        bias = float(model.intercept_[0]) - float(weights @ mean)
        bare = PairModel(weights.reshape(4, -1), bias, Platt(1.0, 0.0))
        logits = pair_logits(bare, validation)
        platt = fitted_platt(logits, validation.labels)
        calibrated = platt.logits(logits)
        loss = float((np.logaddexp(0.0, calibrated) - validation.labels * calibrated).mean())
        if best is None or loss < best[0]:
            best = loss, PairModel(bare.weights, bias, platt)
    assert best is not None
    return best[1]


def pair_logits(model: PairModel, pairs: Vectors, block: int = 8_192) -> Floats:
    """Uncalibrated logits, (pairs,), computed in blocks of pairs."""
    logits = np.empty(len(pairs.first))
    for start in range(0, len(logits), block):
        rows = slice(start, start + block)
        first, second = pairs.vectors[pairs.first[rows]], pairs.vectors[pairs.second[rows]]
        logits[rows] = model.logits(first, second)
    return logits


def cosines(pairs: Vectors, block: int = 8_192) -> Floats:
    """The cosine of each pair."""
    similarities = np.empty(len(pairs.first))
    for start in range(0, len(similarities), block):
        rows = slice(start, start + block)
        u, v = (_unit(pairs.vectors[side[rows]]) for side in (pairs.first, pairs.second))
        similarities[rows] = np.einsum("nd,nd->n", u, v)
    return similarities


def write(directory: Path, model: PairModel) -> None:
    """Writes the model's numbers as safetensors and JSON; the directory must exist."""
    from safetensors.numpy import save_file

    save_file({"weights": model.weights, "bias": np.array([model.bias])}, directory / WEIGHTS)
    numbers = {
        "form": "pair",
        "dimension": model.dimension,
        "slope": model.calibration.slope,
        "shift": model.calibration.shift,
    }
    (directory / NUMBERS).write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")


def read(directory: Path) -> PairModel:
    """The model in this directory. Raises ValueError if there is none."""
    from safetensors.numpy import load_file

    if not (directory / WEIGHTS).is_file() or not (directory / NUMBERS).is_file():
        raise ValueError(f"{directory} holds no discriminator of pairs: {NUMBERS} is missing")
    arrays = load_file(directory / WEIGHTS)
    numbers = json.loads((directory / NUMBERS).read_text(encoding="utf-8"))
    platt = Platt(float(numbers["slope"]), float(numbers["shift"]))
    return PairModel(arrays["weights"], float(arrays["bias"][0]), platt)


def _features(pairs: Vectors) -> npt.NDArray[np.float32]:
    """(pairs, 4 d)"""
    d = pairs.vectors.shape[1]
    features = np.empty((len(pairs.first), 4 * d), dtype=np.float32)
    u, v = _unit(pairs.vectors[pairs.first]), _unit(pairs.vectors[pairs.second])
    features[:, :d] = v
    np.subtract(v, u, out=features[:, d : 2 * d])
    np.abs(features[:, d : 2 * d], out=features[:, 2 * d : 3 * d])
    np.multiply(u, v, out=features[:, 3 * d :])
    return features


def _unit(vectors: npt.ArrayLike) -> npt.NDArray[np.floating]:
    array = np.asarray(vectors)
    with np.errstate(invalid="ignore", divide="ignore"):
        unit: npt.NDArray[np.floating] = array / np.linalg.norm(array, axis=1, keepdims=True)
    return unit
