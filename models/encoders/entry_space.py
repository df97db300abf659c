"""The space of a dictionary's entries: one row per entry, in a memory-mapped file.

An entry's row is the mean of its definitions' vectors (DefSent+, eq. 2, and eqs. 4, 7 and 10 in
steps), optionally turned into independent components (eq. 11 and appendix A).
"""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from safetensors.torch import load_file, save_file
from torch import Tensor, from_numpy, int32, tensor

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Floats: TypeAlias = npt.NDArray[np.float32]
Integers: TypeAlias = npt.NDArray[np.int64]

MATRIX, ENTRIES, TURN = "entries.npy", "entries.json", "turn.safetensors"
# Definitions or rows that are in memory at once.
_BLOCK = 16_384
# FastICA's parameters: scikit-learn's tolerance, and the paper's rounds and seed.
_TOLERANCE, _ROUNDS, _SEED = 1e-4, 1_000, 42
# A direction of standardised vectors with less variance is noise.
_FLAT = 1e-6


class Turn(NamedTuple):
    """weight (width, width) and bias (width,) of a linear map. length: the mean length of the
    vectors that it was made for.
    """

    weight: Tensor
    bias: Tensor
    length: float


@dataclass(frozen=True)
class Space:
    """matrix: (entries, width), memory-mapped. entry_ids: (entries,), int32, rising. texts: of the
    entries.

    An entry without definitions has no row.
    turn: the map that made the rows independent components; None if the rows are untouched means.
    """

    matrix: Tensor
    entry_ids: Tensor
    texts: list[str]
    turn: Turn | None = None


def read_space(folder: Path) -> Space:
    """The space that the stage `entry_matrix` wrote."""
    entries = json.loads((folder / ENTRIES).read_text(encoding="utf-8"))
    turn = None
    if (folder / TURN).is_file():
        linear = load_file(folder / TURN)
        turn = Turn(linear["weight"], linear["bias"], float(linear["length"]))
    # Copy-on-write, since torch takes only writable arrays.
    matrix = from_numpy(np.load(folder / MATRIX, mmap_mode="c"))
    return Space(matrix, tensor(entries["ids"], dtype=int32), entries["texts"], turn)


def create_space(folder: Path, entry_ids: Integers, texts: Sequence[str], width: int) -> Floats:
    """Writes the space with a matrix of zeros (entries, width), which the caller fills."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = {"ids": entry_ids.tolist(), "texts": list(texts)}
    (folder / ENTRIES).write_text(json.dumps(entries, ensure_ascii=False), encoding="utf-8")
    shape = (len(entry_ids), width)
    matrix: Floats = np.lib.format.open_memmap(folder / MATRIX, "w+", np.float32, shape)
    return matrix


def fill_means(matrix: Floats, vectors: Floats, rows: Integers, definitions: Integers) -> None:
    """Fills each row of the matrix with the mean of its definitions' vectors.

    matrix: (entries, width). vectors: (definitions, width). rows, definitions: pairs of a row of
    the matrix and a row of the vectors; every row of the matrix has at least one.
    """
    order = np.lexsort((definitions, rows))
    rows, definitions = rows[order], definitions[order]
    starts = np.searchsorted(rows, np.arange(len(matrix) + 1))
    first = 0
    while first < len(matrix):
        # The whole entries of a block of definitions, at least one.
        last = int(np.searchsorted(starts, starts[first] + _BLOCK, side="right")) - 1
        last = min(max(last, first + 1), len(matrix))
        chosen = definitions[starts[first] : starts[last]]
        gathered = np.asarray(vectors[chosen], dtype=np.float64)
        counts = np.diff(starts[first : last + 1])
        sums = np.add.reduceat(gathered, starts[first:last] - starts[first], axis=0)
        matrix[first:last] = sums / counts[:, None]
        first = last


@dataclass(frozen=True)
class Independent:
    """The map that made rows independent: each became weight @ row + bias.

    weight: (width, width). bias: (width,). rounds: of FastICA; 1,000, the most: not converged.
    """

    weight: Floats
    bias: Floats
    rounds: int


def write_turn(folder: Path, turn: Independent, vectors: Floats) -> None:
    """Writes the map beside the space that it was applied to. vectors: (n, width), for `length`."""
    total = 0.0
    for start in range(0, len(vectors), _BLOCK):
        total += float(np.linalg.norm(vectors[start : start + _BLOCK], axis=1).sum())
    tensors = {
        "weight": from_numpy(turn.weight),
        "bias": from_numpy(turn.bias),
        "length": tensor(total / len(vectors)),
    }
    save_file(tensors, folder / TURN)


def make_independent(matrix: Floats, deviation: float, rows: int | None = None) -> Independent:
    """Turns the matrix into independent components of this standard deviation, in place.

    matrix: (entries, width), the vector of each entry. Columns are standardised first. There are as
    many components as directions in which the entries vary (one fewer than columns after a layer
    norm, whose outputs lie in a hyperplane); the remaining columns become 0. rows: how many rows
    are drawn to find the components, None for all; means and variances are always taken over all
    rows. Raises ValueError if there are too few.
    """
    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    count, width = matrix.shape
    if count <= width:
        raise ValueError(
            f"ica needs more entries than the {width} numbers of a vector, and there are only "
            f"{count}: leave ica out, or take a larger dictionary"
        )
    if rows is not None and rows <= width:
        raise ValueError(
            f"ica_rows: {rows} are no more than the {width} numbers of a vector: raise it, or set "
            "it to null for all entries"
        )
    mean, whitening = _whitening(matrix)
    if not whitening.shape[1]:
        raise ValueError("ica finds nothing in entries that all have the same vector: leave it out")
    components = FastICA(
        whiten=False,
        fun="logcosh",
        tol=_TOLERANCE,
        max_iter=_ROUNDS,
        random_state=_SEED,
    )
    drawn = np.sort(np.random.default_rng(_SEED).permutation(count)[:rows])
    with warnings.catch_warnings():
        # `rounds` tells the caller.
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            components.fit((np.asarray(matrix[drawn], dtype=np.float64) - mean) @ whitening)
        except np.linalg.LinAlgError:
            # `fit` ends by inverting the components, where LAPACK's gesdd may fail to converge. The
            # inverse is not needed here.
            if not hasattr(components, "components_"):
                raise
    # The components are orthogonal, so the whitening over all rows is preserved.
    turned = whitening @ components.components_.T * deviation
    for start in range(0, count, _BLOCK):
        block = matrix[start : start + _BLOCK]
        block[:, : turned.shape[1]] = (block.astype(np.float64) - mean) @ turned
        block[:, turned.shape[1] :] = 0
    weight = np.zeros((width, width), np.float32)
    weight[: turned.shape[1]] = turned.T
    bias = np.zeros(width, np.float32)
    bias[: turned.shape[1]] = -mean @ turned
    return Independent(weight, bias, int(components.n_iter_))


def _whitening(matrix: Floats) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The rows' mean (width,), and the map that whitens centred rows (width, varying directions).

    In float64, since sklearn's whitening in float32 has returned one component several times.
    """
    count, width = matrix.shape
    mean, gram = np.zeros(width), np.zeros((width, width))
    for start in range(0, count, _BLOCK):
        mean += matrix[start : start + _BLOCK].sum(axis=0, dtype=np.float64) / count
    for start in range(0, count, _BLOCK):
        centred = matrix[start : start + _BLOCK].astype(np.float64) - mean
        gram += centred.T @ centred / count
    scale = np.sqrt(np.diag(gram))
    # A column whose numbers differ only by rounding counts as constant.
    scale[scale <= 1e-7 * np.abs(mean)] = np.inf
    scale[scale == 0] = np.inf
    variances, directions = np.linalg.eigh(gram / np.outer(scale, scale))
    varying = variances > _FLAT
    return mean, directions[:, varying] / np.sqrt(variances[varying]) / scale[:, None]


def nearest_by_cosine(
    model: "SentenceTransformer", space: Space, texts: Sequence[str], count: int
) -> list[list[tuple[str, float]]]:
    """For each text the entries with the highest cosines, falling. space: of the same model."""
    import torch

    from tercet.models.encoders.encoder import encode

    vectors = torch.from_numpy(encode(model, texts))
    cosines = vectors @ torch.nn.functional.normalize(space.matrix).T
    best = cosines.topk(min(count, len(space.texts)))
    return [
        [(space.texts[place], value) for place, value in zip(places, values, strict=True)]
        for places, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


@dataclass(frozen=True)
class Shape:
    """The distribution of the entries in their space, not centred (DefSent+, figure 1).

    singular: (width,), falling. directions: (width, width), in rows, in the same order.
    mean: (width,), of all entries. components: (width, width), the principal components, in rows,
        by falling variance around the mean.
    mean_cosine: of two different entries; 0 if they point in all directions. An entry of zeros has
        cosine 0 with every entry; a single entry has 1.
    isotropy: the smallest over the largest of the partition functions sum_e exp(a . e) along the
        directions a, both ways, with entries of mean length one (Mu and Viswanath 2018,
        arXiv:1702.01417, eq. 5); 1 if all directions are alike.
    deviation: of all numbers of the matrix.
    """

    singular: npt.NDArray[np.float64]
    directions: npt.NDArray[np.float64]
    mean: npt.NDArray[np.float64]
    components: npt.NDArray[np.float64]
    mean_cosine: float
    isotropy: float
    deviation: float


def shape_of(matrix: Floats) -> Shape:
    """The shape of these entries, read in blocks."""
    count, width = matrix.shape
    gram, ends, mean = np.zeros((width, width)), np.zeros(width), np.zeros(width)
    total, squares, length, pointing = 0.0, 0.0, 0.0, 0
    for start in range(0, count, _BLOCK):
        rows = matrix[start : start + _BLOCK].astype(np.float64)
        lengths = np.linalg.norm(rows, axis=1)
        gram += rows.T @ rows
        mean += rows.sum(axis=0) / count
        ends += (rows[lengths > 0] / lengths[lengths > 0, None]).sum(axis=0)
        pointing += int((lengths > 0).sum())
        total, squares = total + rows.sum(), squares + (rows**2).sum()
        length += lengths.sum()
    values, directions = _axes(gram)
    both = np.concatenate([directions, -directions]).T * (count / max(length, 1e-12))
    sums = np.zeros(2 * width)
    for start in range(0, count, _BLOCK):
        sums += np.exp(matrix[start : start + _BLOCK].astype(np.float64) @ both).sum(axis=0)
    # Without each entry's cosine with itself.
    pairs = count * (count - 1)
    size = count * width
    return Shape(
        np.sqrt(np.maximum(values, 0.0)),
        directions,
        mean,
        _axes(gram - count * np.outer(mean, mean))[1],
        float((ends @ ends - pointing) / pairs) if pairs else 1.0,
        float(sums.min() / sums.max()),
        float(np.sqrt(max(squares / size - (total / size) ** 2, 0.0))),
    )


def _axes(
    gram: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Eigenvalues, falling, and eigenvectors, in rows, whose largest number is positive."""
    values, columns = np.linalg.eigh(gram)
    rows = columns[:, ::-1].T
    largest = np.abs(rows).argmax(axis=1)
    return values[::-1], rows * np.sign(rows[np.arange(len(rows)), largest])[:, None]
