"""Finds the layer before a model's word embeddings in its files."""

import json
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

Activation: TypeAlias = Literal["tanh", "gelu"]
# Poolers of BERT and ALBERT.
_POOLERS = ("pooler.dense", "pooler")
# Models whose pooler is not pre-trained.
_UNTAUGHT = ("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert")
# Names of the layer in checkpoints, and the activation behind it. The masked-LM head of RoBERTa
# comes first, since RoBERTa's pooler is not pre-trained.
_LAYERS: tuple[tuple[str, Activation], ...] = (
    ("lm_head.dense", "gelu"),
    *((name, "tanh") for name in _POOLERS),
    ("cls.predictions.transform.dense", "gelu"),
    ("vocab_transform", "gelu"),
    # ModernBERT, whose layer may lack a bias.
    ("head.dense", "gelu"),
)


class Layer(NamedTuple):
    """A layer before the word embeddings. key: prefix of its tensors in the file."""

    name: str
    activation: Activation
    file: Path
    key: str

    @property
    def survives(self) -> bool:
        """Whether an encoder trained from these files keeps the layer; heads are dropped."""
        return self.name in _POOLERS


def layer_of(folder: Path) -> Layer | None:
    """The layer before the word embeddings in a model's files; None if there is none."""
    from safetensors import safe_open

    # Older SentenceTransformer directories have the transformer in a subfolder.
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("0_*/*.safetensors"))
    keys = []
    for file in files:
        with safe_open(file, framework="numpy") as tensors:
            keys += [(file, key) for key in sorted(tensors.keys())]
    for name, activation in _LAYERS:
        for file, key in keys:
            # The key may have the name of the base model as a prefix.
            if f".{key}".endswith(f".{name}.weight"):
                return Layer(name, activation, file, key.removesuffix(".weight"))
    return None


def is_roberta(folder: Path) -> bool:
    """Whether a model's config names a RoBERTa-type model; False if it cannot be read."""
    try:
        for file in (folder / "config.json", *folder.glob("0_*/config.json")):
            if file.is_file():
                return json.loads(file.read_text(encoding="utf-8"))["model_type"] in _UNTAUGHT
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return False
