"""Relative frequency of each token in a corpus: the files of `count_tokens`."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file, save_file

_NUMBERS, _ABOUT = "frequencies.safetensors", "frequencies.json"

Frequencies = npt.NDArray[np.float64]


def write_frequencies(folder: Path, frequencies: Frequencies, tokenizer: Any) -> Path:
    """Writes the relative frequencies in [0, 1], (vocabulary,), with the tokenizer's digest."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file({"frequency": frequencies}, folder / _NUMBERS)
    about = {"vocabulary": vocabulary_digest(tokenizer)}
    (folder / _ABOUT).write_text(json.dumps(about), encoding="utf-8")
    return folder


def read_frequencies(folder: Path, tokenizer: Any) -> Frequencies:
    """The relative frequencies, (vocabulary,). Raises ValueError for another vocabulary."""
    try:
        about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        frequencies: Frequencies = load_file(folder / _NUMBERS)["frequency"]
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"{folder} has no token counts: name a model that count_tokens makes"
        ) from error
    if about.get("vocabulary") != vocabulary_digest(tokenizer):
        raise ValueError(
            "the tokens were counted with another tokenizer than the encoder's: name the "
            "encoder's backbone as `tokenizer` of count_tokens"
        )
    return frequencies


def vocabulary_size(tokenizer: Any) -> int:
    """One more than the highest token id."""
    return max(tokenizer.get_vocab().values(), default=-1) + 1


def vocabulary_digest(tokenizer: Any) -> str:
    """Digest of the tokens and their ids."""
    listed = json.dumps(tokenizer.get_vocab(), sort_keys=True)
    return hashlib.sha256(listed.encode("utf-8")).hexdigest()[:16]
