"""Counts of a tokenizer's tokens, as `count_tokens` would have made them of a few texts."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tercet.models.losses.token_frequencies import vocabulary_size, write_frequencies


def frequencies(folder: Path, tokenizer: Any, texts: Sequence[str]) -> Path:
    """The directory that the loss `token_reconstruction` reads."""
    ids = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    counts = Counter(number for row in ids for number in row)
    shares = np.zeros(vocabulary_size(tokenizer))
    for number, count in counts.items():
        shares[number] = count / counts.total()
    return write_frequencies(folder, shares, tokenizer)
