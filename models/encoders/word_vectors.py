"""Means of an encoder's own word vectors: what its texts are before any layer has read them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tercet.models.encoders.encoder import Vectors


def mean_word_vectors(model: Any, texts: Sequence[str]) -> Vectors:
    """The mean vector of each text's tokens in the encoder's table, of length one, (texts, width).

    They stand for GloVe's vectors, which no package here has. Special tokens do not count; a text
    without a token has the vector 0. Raises ValueError where the encoder has no such table.
    """
    inner = getattr(model[0], "auto_model", None)
    if inner is None or not hasattr(model, "tokenizer"):
        raise ValueError("this encoder has no table of word vectors: name one of transformers")
    table = inner.get_input_embeddings().weight.detach().float().cpu()
    found = np.zeros((len(texts), table.shape[1]), dtype=np.float32)
    encoded = model.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
    for row, ids in enumerate(encoded):
        if ids:
            mean = table[torch.tensor(ids)].mean(0).numpy()
            found[row] = mean / max(float(np.linalg.norm(mean)), 1e-12)
    return found
