"""Soft whitening of an encoder's vectors: directions in which all texts vary count for less.

BERT-whitening (Su et al. 2021, arXiv:2103.15316, section 3) with a power: 0 rotates and truncates
alone, 1 whitens, so that all directions vary alike.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize

# Directions with less than this share of the largest variance are noise, and are scaled as if
# they had it.
_LEAST = 1e-9


@dataclass(frozen=True)
class Whitening:
    """y = (x - mean) @ directions * factors, with the first `dimensions` of the directions.

    mean: (d,). directions: (d, d), in columns, by falling variance. variances: (d,), of the texts
    along each. factors: (d,), variance ** (-power / 2).
    """

    mean: npt.NDArray[np.float64]
    directions: npt.NDArray[np.float64]
    variances: npt.NDArray[np.float64]
    factors: npt.NDArray[np.float64]
    dimensions: int


def whitening(vectors: npt.NDArray[np.float32], dimensions: int | None, power: float) -> Whitening:
    """The whitening of these vectors, of shape (texts, d).

    dimensions: how many directions are kept; None: all. power: in [0, 1].
    Raises: ValueError with one sentence where there are too few texts or dimensions for it, or
        where all texts have one vector.
    """
    texts, width = vectors.shape
    kept = width if dimensions is None else dimensions
    if kept > width:
        raise ValueError(
            f"whiten.dimensions is {kept}, but the encoder's vectors have only {width} numbers: "
            f"lower it to {width} or less"
        )
    if texts <= kept:
        raise ValueError(
            f"whiten.dimensions is {kept}, but only {texts} texts are there to fit it on, and it "
            "needs more texts than dimensions: lower it, or add texts to the domain corpora"
        )
    wide = vectors.astype(np.float64)
    mean = wide.mean(axis=0)
    values, directions = np.linalg.eigh(np.cov(wide - mean, rowvar=False).reshape(width, width))
    # eigh gives them by rising variance, each up to its sign: the largest number is positive.
    variances, directions = values[::-1], directions[:, ::-1]
    largest = np.abs(directions).argmax(axis=0)
    directions = directions * np.sign(directions[largest, np.arange(width)])
    if not variances[0] > 0:
        raise ValueError("the encoder gives all texts the same vector, which cannot be whitened")
    factors = np.maximum(variances, _LEAST * variances[0]) ** (-power / 2)
    return Whitening(mean, directions, np.maximum(variances, 0.0), factors, kept)


def whiten(model: SentenceTransformer, fitted: Whitening) -> None:
    """Appends the whitening to the encoder as a module `Dense`; modules before it stay.

    An encoder whose vectors had length one gives such vectors again. One that cut its vectors
    (`truncate_dim`) does so no more: the module does not read what was cut off.
    """
    scaled = (fitted.directions * fitted.factors)[:, : fitted.dimensions].T
    model.truncate_dim = None
    width = int(model.get_embedding_dimension() or len(fitted.mean))
    weight = np.zeros((fitted.dimensions, width))
    weight[:, : len(fitted.mean)] = scaled
    dense = Dense(
        in_features=width,
        out_features=fitted.dimensions,
        bias=True,
        activation_function=torch.nn.Identity(),
        init_weight=torch.tensor(weight, dtype=torch.float32),
        init_bias=torch.tensor(-scaled @ fitted.mean, dtype=torch.float32),
    )
    normal = isinstance(list(model)[-1], Normalize)
    for module in (dense, *([Normalize()] if normal else [])):
        model.append(module.to(model.device))


def is_whitening(module: Any) -> bool:
    """Whether a module is one that `whiten` appends: linear, with rows at right angles."""
    if not isinstance(module, Dense) or module.linear.bias is None:
        return False
    if not isinstance(module.activation_function, torch.nn.Identity):
        return False
    rows = torch.nn.functional.normalize(module.linear.weight.detach().double())
    return bool(((rows @ rows.T).abs() < 1e-3).sum() == len(rows) * (len(rows) - 1))
