"""Vectors of many texts in a file of the scratch directory, kept as they are made."""

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.format import open_memmap

from tercet.tasks.stage import Work

Vectors: TypeAlias = npt.NDArray[np.float32]

# Texts encoded between two looks at the disk.
BLOCK = 8_192


def kept_vectors(
    work: Work,
    texts: Sequence[str],
    encode: Callable[[Sequence[str], Callable[[int], None]], Vectors],
    unit: str,
) -> Vectors:
    """The vectors of the texts, one at least, (texts, width) in their order.

    A stage that was killed encodes only what is missing. encode: from some of the texts to their
    vectors; it tells how many are done. unit: of the texts, for the progress.
    """
    file, said = work.scratch / "vectors.npy", work.scratch / "encoded.json"
    done = json.loads(said.read_text(encoding="utf-8")) if said.is_file() else 0
    vectors: Any = open_memmap(file, "r+") if done else None
    for start in range(done, len(texts), BLOCK):

        def tell(of_block: int, before: int = start) -> None:
            work.resources.progress(before + of_block, len(texts), unit)

        made = encode(texts[start : start + BLOCK], tell)
        if vectors is None:
            vectors = open_memmap(file, "w+", np.float32, (len(texts), made.shape[1]))
        vectors[start : start + len(made)] = made
        vectors.flush()
        draft = said.with_suffix(".writing")
        draft.write_text(json.dumps(start + len(made)), encoding="utf-8")
        draft.rename(said)
    found: Vectors = vectors
    return found
