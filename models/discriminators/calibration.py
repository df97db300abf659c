"""From a discriminator's logit to the probability that the second text follows from the first."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

# Newton's method on two numbers; it doubles its digits in each step.
_STEPS = 100
_TOLERANCE = 1e-10


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
        # A form of the sigmoid that overflows nowhere.
        return 0.5 * (1.0 + np.tanh(0.5 * self.logits(logits)))


def fitted_platt(logits: npt.ArrayLike, labels: npt.ArrayLike) -> Platt:
    """The slope, at least 0, and shift of the highest likelihood of these labels.

    A judge that is wrong more often than right is not turned round: its slope is 0, and all pairs
    get the share of the true ones.

    The targets are Platt's (N₊ + 1) / (N₊ + 2) and 1 / (N₋ + 2), so that logits which separate the
    labels get a finite slope.
    Raises: ValueError for a logit that is not finite, other labels than 0 and 1, or one label only.
    """
    x, y = np.asarray(logits, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    if not np.isfinite(x).all():
        raise ValueError("the logits hold NaN or infinity")
    if x.shape != y.shape or not np.array_equal(np.unique(y), [0.0, 1.0]):
        raise ValueError("a calibration needs a label for each logit, some true and some false")
    # Slope and shift of the standardised logits: Newton needs no help then.
    mean, scale = float(x.mean()), float(x.std()) or 1.0
    z = np.stack([(x - mean) / scale, np.ones_like(x)], axis=1)
    positive = float(y.sum())
    high, low = (positive + 1) / (positive + 2), 1 / (len(y) - positive + 2)
    target = np.where(y > 0, high, low)
    found = np.array([0.0, np.log((positive + 1) / (len(y) - positive + 1))])
    for _ in range(_STEPS):
        p = Platt(1.0, 0.0).probabilities(z @ found)
        gradient = z.T @ (p - target)
        hessian = (z * (p * (1 - p))[:, None]).T @ z + 1e-9 * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        before = _loss(z @ found, target)
        # Far from the optimum a whole step may be too long.
        while (
            _loss(z @ (found - step), target) > before + 1e-12 and np.abs(step).max() > _TOLERANCE
        ):
            step = step / 2
        found = found - step
        if np.abs(step).max() < _TOLERANCE:
            break
    if found[0] < 0:
        share = float(target.mean())
        return Platt(0.0, float(np.log(share / (1 - share))))
    slope = float(found[0]) / scale
    return Platt(slope, float(found[1]) - slope * mean)


def _loss(logits: Floats, target: Floats) -> float:
    return float((np.logaddexp(0.0, logits) - target * logits).sum())
