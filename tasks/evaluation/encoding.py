"""Texts to vectors for the evaluation, each distinct text once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tercet.models.encoders.settings import SIDES, Side, Sided, pooling_name
from tercet.storage.fingerprint import tree_digest
from tercet.tasks.stage import BadInput, Work

# Texts encoded in one go, and bytes of vectors that are held in memory.
_BLOCK = 32_768
_IN_MEMORY = 1 << 29


@dataclass(frozen=True)
class Encoded:
    """The vectors of distinct texts, as the model gives them, and the row of each text on its side.

    Sides that the model does not tell apart share one row per text.
    """

    vectors: npt.NDArray[np.float32]
    rows: Mapping[Sided, int]

    def raw(self, texts: Sequence[str], side: Side | None = None) -> npt.NDArray[np.float32]:
        """Vectors of these texts as the model gives them, of shape (texts, d)."""
        return np.asarray(self.vectors[[self.rows[text, side] for text in texts]])

    def of(self, texts: Sequence[str], side: Side | None = None) -> npt.NDArray[np.float32]:
        """Vectors of these texts, of length one."""
        return self.at([(text, side) for text in texts])

    def at(self, texts: Sequence[Sided]) -> npt.NDArray[np.float32]:
        """Vectors of these texts, each on its side, of length one."""
        vectors = np.asarray(self.vectors[[self.rows[sided] for sided in texts]])
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(lengths, 1e-12))


def encode_texts(work: Work, model: Any, texts: Iterable[Sided]) -> tuple[Encoded, str]:
    """Vectors of the distinct texts on their sides, and the pooling that made them.

    model: of the slot `model`.

    The vectors of a large suite lie in a memory map of a file in `scratch`.
    Raises: BadInput if a vector is not finite.
    """
    from tercet.models.encoders.encoder import distinct_side, encode
    from tercet.models.encoders.forms import pooling_of

    side_of: Mapping[Side | None, Side | None] = {
        side: distinct_side(model, side) for side in (None, *SIDES)
    }
    sided_texts = list(dict.fromkeys(texts))
    # A block has one prompt, so each side is encoded by itself.
    by_side = {
        side: list(dict.fromkeys(text for text, on in sided_texts if side_of[on] == side))
        for side in dict.fromkeys(side_of.values())
    }
    distinct: list[Sided] = [(text, side) for side, some in by_side.items() for text in some]
    blocks = [
        (side, some[start : start + _BLOCK])
        for side, some in by_side.items()
        for start in range(0, len(some), _BLOCK)
    ]
    vectors = np.empty((0, 0), dtype=np.float32)
    faulty = start = 0
    for side, some in blocks:

        def tell(done: int, before: int = start) -> None:
            work.resources.progress(before + done, len(distinct), "texts")

        size, precision = work.resources.batch_size, work.config.precision
        encoded = encode(model, some, size, precision, tell, normalise=False, side=side)
        if start == 0:
            shape = (len(distinct), encoded.shape[1])
            vectors = np.empty(shape, dtype=np.float32)
            if vectors.nbytes > _IN_MEMORY:
                vectors = np.memmap(work.scratch / "vectors", np.float32, "w+", shape=shape)
        vectors[start : start + len(some)] = encoded
        start += len(some)
        faulty += int((~np.isfinite(encoded).all(axis=1)).sum())
    if faulty:
        raise BadInput(
            "damaged",
            f"The encoder at {work.models['model']} gives NaN or infinity for {faulty} of "
            f"{len(distinct)} texts: its weights are damaged or its training diverged.",
        )
    mode = pooling_of(model)
    places = {sided: place for place, sided in enumerate(distinct)}
    rows = {(text, side): places[text, side_of[side]] for text, side in sided_texts}
    return Encoded(vectors, rows), "model" if mode is None else pooling_name(mode)


def model_version(path: Path) -> str:
    """The version of the artifact that contains the model's directory, else the files' digest."""
    for folder in list(path.resolve().parents)[:3]:
        if (folder / "manifest.json").is_file() and (folder / "_parts").is_dir():
            return folder.name
    return tree_digest(path)
