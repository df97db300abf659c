"""Models that judge generated texts: a causal model's losses, and means of word vectors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from tercet.models.encoders.encoder import Vectors
from tercet.models.generators import layout

_IGNORED = -100


def text_losses(
    model: Any, tokenizer: Any, texts: Sequence[str], batch_size: int = 32
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Cross-entropy of each text, summed over its tokens and the end of text, and their number.

    A text begins after an end of text. One that is longer than the model reads is cut.
    Raises ValueError where the tokenizer has no end of text.
    """
    end = layout.end_token(tokenizer)
    most = int(model.config.max_position_embeddings) - 1
    rows = [[end, *ids[: most - 1], end] for ids in layout.tokens(tokenizer, texts)]
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    losses, counts = np.zeros(len(rows)), np.array([len(row) - 1.0 for row in rows])
    model.eval()
    with torch.no_grad():
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            longest = len(rows[chosen[-1]])
            ids = torch.tensor([rows[row] + [end] * (longest - len(rows[row])) for row in chosen])
            lengths = torch.tensor([len(rows[row]) for row in chosen])
            mask = torch.arange(longest) < lengths[:, None]
            labels = ids.masked_fill(~mask, _IGNORED)[:, 1:].to(model.device)
            given = {"input_ids": ids.to(model.device), "attention_mask": mask.to(model.device)}
            logits = model(**given, use_cache=False).logits[:, :-1].float()
            each = nn.functional.cross_entropy(
                logits.transpose(1, 2), labels, ignore_index=_IGNORED, reduction="none"
            )
            losses[chosen] = each.sum(1).cpu().double().numpy()
    return losses, counts


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
