"""The encoder in a model slot, in the form that the stage's config asks for, whole or mixed; and
vectors of many texts, kept in a file as they are made.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.format import open_memmap

from tercet.errors import kind_of
from tercet.tasks.stage import BadInput, Work


def load_encoder(work: Work, slot: str, cnn_seed: int | None = None, key: str = "") -> Any:
    """The encoder at `work.models[slot]`, ready to use. Raises BadInput if it cannot be loaded.

    cnn_seed: of the training that starts from this encoder, and from the form's weights as it draws
        them; None: the encoder is trained. key: of the recipe, where it is at fault.
    """
    from tercet.models.encoders.encoder import load_encoder as load

    config = work.config
    try:
        return load(
            work.models[slot],
            config.pooling,
            getattr(config, "max_length", None),
            work.resources.device,
            getattr(config, "trust_remote_code", False),
            config.prompt,
            cnn_seed=cnn_seed,
            prompts=getattr(config, "prompts", None),
        )
    except ValueError as error:
        raise BadInput(
            kind_of(error, "unfit_model"), f"{key}: {error}" if key else str(error)
        ) from error


MIXES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""How much of the training a candidate has, from the most cautious one on."""


def load_mix(work: Work, trained: str, mix: float) -> Any:
    """The encoder in the slot `untouched` (mix 0), that in the slot `trained` (1), or between.

    Raises: BadInput if one cannot be loaded, and where their weights have other shapes.
    """
    if mix == 1:
        return load_encoder(work, trained)
    untouched = load_encoder(work, "untouched", work.config.cnn_seed)
    if mix == 0:
        return untouched
    try:
        return mix_weights(untouched, load_encoder(work, trained), mix)
    except ValueError as error:
        raise BadInput(
            kind_of(error, "unfit_model"), f"choose: {error}; leave `choose` out of the recipe."
        ) from error


def mix_weights(untouched: Any, trained: Any, mix: float) -> Any:
    """The trained encoder, its weights replaced by (1 − mix) · untouched + mix · trained.

    Both are SentenceTransformers (WiSE-FT, arXiv:2109.01903).

    mix: in [0, 1]; at its ends the weights are exactly those of one encoder. Tensors of whole
    numbers stay.
    Raises: ValueError with one sentence if names or shapes of their weights differ.
    """
    import torch

    before, after = untouched.state_dict(), trained.state_dict()
    shapes = [{name: tuple(of[name].shape) for name in of} for of in (before, after)]
    if shapes[0] != shapes[1]:
        differing = sorted(dict(set(shapes[0].items()) ^ set(shapes[1].items())))
        raise ValueError(
            f"the untouched and the trained encoder differ in the shapes of {len(differing)} "
            f"weights ({differing[0]}), so there is nothing between them: only encoders trained "
            "from one backbone can be mixed"
        )
    with torch.no_grad():
        for name, weight in after.items():
            if not weight.is_floating_point():
                continue
            start = before[name].to(weight.device, torch.float32)
            if mix == 0:
                weight.copy_(start)
            elif mix != 1:
                weight.copy_((1 - mix) * start + mix * weight.to(torch.float32))
    return trained


Vectors: TypeAlias = npt.NDArray[np.float32]

# Texts encoded before vectors are written to disk.
BLOCK = 8_192


def kept_vectors(
    work: Work,
    texts: Sequence[str],
    encode: Callable[[Sequence[str], Callable[[int], None]], Vectors],
    unit: str,
) -> Vectors:
    """The vectors of the texts, one at least, (texts, width) in their order.

    A stage that was killed encodes only what is missing. encode: from some of the texts to their
    vectors; it reports how many are done. unit: the name of a text in the progress.
    """
    file, record = work.scratch / "vectors.npy", work.scratch / "encoded.json"
    done = json.loads(record.read_text(encoding="utf-8")) if record.is_file() else 0
    vectors: Any = open_memmap(file, "r+") if done else None
    for start in range(done, len(texts), BLOCK):

        def tell(of_block: int, before: int = start) -> None:
            work.resources.progress(before + of_block, len(texts), unit)

        block = encode(texts[start : start + BLOCK], tell)
        if vectors is None:
            vectors = open_memmap(file, "w+", np.float32, (len(texts), block.shape[1]))
        vectors[start : start + len(block)] = block
        vectors.flush()
        draft = record.with_suffix(".writing")
        draft.write_text(json.dumps(start + len(block)), encoding="utf-8")
        draft.rename(record)
    result: Vectors = vectors
    return result
