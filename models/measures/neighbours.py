"""Classification by the nearest neighbours: how well a space keeps labels together, untrained."""

import numpy as np
import numpy.typing as npt

K = 10
_BLOCK = 1 << 22  # numbers in one block of a product


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
    k = min(k, len(known))
    classes = int(labels.max()) + 1
    found = np.empty(len(asked), dtype=np.int64)
    rows = max(_BLOCK // max(len(known), 1), 1)
    for start in range(0, len(asked), rows):
        cosines = asked[start : start + rows] @ known.T
        # By similarity, and among equals by place, whatever the number of threads.
        nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
        votes = np.zeros((len(cosines), classes))
        # A whole vote each; the cosines, at most k in sum, only decide between equals.
        weights = 1.0 + np.take_along_axis(cosines, nearest, axis=1) / (4.0 * k)
        row_of = np.repeat(np.arange(len(cosines)), k)
        np.add.at(votes, (row_of, labels[nearest].ravel()), weights.ravel())
        found[start : start + rows] = votes.argmax(axis=1)
    return found
