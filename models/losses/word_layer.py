"""The layer before a model's words, found in its files."""

import json
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

Activation: TypeAlias = Literal["tanh", "gelu"]
# BERT's and ALBERT's.
_POOLERS = ("pooler.dense", "pooler")
# Models whose pooler no pre-training has taught anything.
_UNTAUGHT = ("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert")
# The layer between states and words in checkpoints, and what stands behind it there. RoBERTa-type
# models have no pooler that was trained, so that the masked-LM head comes first.
_LAYERS: tuple[tuple[str, Activation], ...] = (
    ("lm_head.dense", "gelu"),
    *((name, "tanh") for name in _POOLERS),
    ("cls.predictions.transform.dense", "gelu"),
    ("vocab_transform", "gelu"),
    # ModernBERT's, which may lack a bias.
    ("head.dense", "gelu"),
)


class Layer(NamedTuple):
    """A layer before the words. key: of its tensors in the file, without `.weight`."""

    name: str
    activation: Activation
    file: Path
    key: str

    @property
    def survives(self) -> bool:
        """Whether an encoder that was trained from these files still has it: heads are lost."""
        return self.name in _POOLERS


def layer_of(folder: Path) -> Layer | None:
    """The layer before the words that a model's files have; None without any."""
    from safetensors import safe_open

    # Older SentenceTransformer directories have the transformer in a folder of its own.
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("0_*/*.safetensors"))
    keys = []
    for file in files:
        with safe_open(file, framework="numpy") as tensors:
            keys += [(file, key) for key in sorted(tensors.keys())]
    for name, activation in _LAYERS:
        for file, key in keys:
            # Perhaps behind the name of the network around it.
            if f".{key}".endswith(f".{name}.weight"):
                return Layer(name, activation, file, key.removesuffix(".weight"))
    return None


def is_roberta(folder: Path) -> bool:
    """Whether a model's files say that it is of RoBERTa's kind; False where they cannot be read."""
    try:
        for file in (folder / "config.json", *folder.glob("0_*/config.json")):
            if file.is_file():
                return json.loads(file.read_text(encoding="utf-8"))["model_type"] in _UNTAUGHT
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return False
