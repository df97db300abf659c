"""SARCSE's sentence vector: a text's token states through two convolutions.

A copy of this file lies beside every saved encoder that needs it, so that plain
sentence-transformers loads such a directory (with trust_remote_code=True). It imports nothing of
ours.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from safetensors.torch import load_file
from sentence_transformers.base.modules import Module
from torch import Tensor, nn
from torch.nn import functional

# Tokens that a window of each TextCNN spans; a shorter text is padded with zeros to the longest.
KERNELS = (3, 4, 5)
LONGEST = max(KERNELS)
# The second convolution sees all kernels at once, and two neighbouring channels.
WINDOW = (len(KERNELS), 2)

# All of them rise with their argument, so they may follow the maximum over time.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "tanh": torch.tanh,
    "none": lambda values: values,
}


class TokenCnn(Module):  # type: ignore[misc]
    """TextCNN over the tokens, then a CNN over its kernels and channels (SARCSE, eqs. 3-4).

    Each TextCNN of 3, 4 and 5 tokens gives `channels` numbers, the largest over time: together
    (1, 3, channels). `filters` kernels of 3 × 2 make of them (filters, 1, channels − 1), which is
    the embedding, flattened. The special tokens around a text are left out.

    width: of the token states.
    left_out: ids of those special tokens; between the text's own tokens they stay.
    seed: drew the first weights; only kept to be told.
    """

    config_keys: ClassVar[list[str]] = ["width", "channels", "filters", "activation", "seed"]
    pooling_mode = "token_cnn"

    def __init__(
        self,
        width: int,
        channels: int,
        filters: int,
        activation: str,
        seed: int,
        left_out: Sequence[int],
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"there is no activation {activation!r}: one of {list(ACTIVATIONS)}")
        self.width, self.channels, self.filters = width, channels, filters
        self.activation, self.seed, self.left_out = activation, seed, list(left_out)
        self.text_cnns = nn.ModuleList(nn.Conv1d(width, channels, size) for size in KERNELS)
        self.cnn = nn.Conv2d(1, filters, WINDOW)
        self.register_buffer("special", torch.tensor(self.left_out), persistent=False)

    def get_embedding_dimension(self) -> int:
        """Numbers of the embedding: 1497 with 500 channels and 3 filters."""
        return self.filters * (self.channels - 1)

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """token_embeddings (texts, tokens, width) to sentence_embedding.

        Adds what a decoder needs: cnn_embedding, the same vector, which later modules do not
        change; cnn_text (texts, tokens), true for the text's own tokens; and cnn_places
        (texts, 3, channels), where each channel's maximum was: its window's first token.
        """
        states = features["token_embeddings"]
        own = features["attention_mask"].bool()
        own = own & (features["input_ids"][..., None] != self.special).all(-1)
        text = from_first_to_last(own)
        padded = functional.pad((states * text[..., None]).transpose(1, 2), (0, LONGEST - 1))
        found = [
            cnn(padded).masked_fill(~windows_within(text, size)[:, None], -torch.inf).max(-1)
            for cnn, size in zip(self.text_cnns, KERNELS, strict=True)
        ]
        best = torch.stack([values for values, _ in found], 1)  # (texts, 3, channels)
        made = self.cnn(ACTIVATIONS[self.activation](best)[:, None]).flatten(1)
        features["cnn_text"] = text
        features["cnn_places"] = torch.stack([places for _, places in found], 1)
        features["cnn_embedding"] = features["sentence_embedding"] = made
        return features

    def get_config_dict(self) -> dict[str, Any]:
        """The numbers, and what tells others how the encoder pools."""
        return {
            **super().get_config_dict(),
            "left_out": self.left_out,
            "pooling_mode": self.pooling_mode,
            "embedding_dimension": self.get_embedding_dimension(),
        }

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Writes configuration and weights."""
        self.save_config(output_path)
        self.save_torch_weights(output_path)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any) -> "TokenCnn":
        """Reads what `save` wrote. Raises ValueError or KeyError for a damaged directory."""
        place = {key: kwargs.get(key) for key in ("token", "cache_folder", "revision")}
        place |= {"subfolder": subfolder, "local_files_only": kwargs.get("local_files_only", False)}
        config = cls.load_config(model_name_or_path, **place)
        made = cls(**{key: config[key] for key in (*cls.config_keys, "left_out")})
        file = cls.load_file_path(model_name_or_path, filename="model.safetensors", **place)
        if file is None:
            raise ValueError(f"{subfolder} has no model.safetensors")
        try:
            made.load_state_dict(load_file(file))
        except RuntimeError as error:
            raise ValueError(f"the weights in {subfolder} do not fit its config.json") from error
        return made


def from_first_to_last(own: Tensor) -> Tensor:
    """True from each row's first true place to its last; (texts, tokens), as given."""
    # A float's sum: torch's exporter to ONNX sums no truth values.
    ahead = own.float().cumsum(-1)
    behind = own.float().flip(-1).cumsum(-1).flip(-1)
    return (ahead > 0) & (behind > 0)


def windows_within(text: Tensor, size: int) -> Tensor:
    """Which windows of so many tokens lie in the text, by their first token.

    text: (texts, tokens), true without a gap. A text of fewer than 5 tokens is 5 long, so that
    every kernel has a window. Returns (texts, tokens + 5 − size).
    """
    count = text.sum(-1, keepdim=True)
    places = torch.arange(text.shape[-1] + LONGEST - size, device=text.device)[None]
    # Without any token the text begins at 0.
    first = text.float().argmax(-1, keepdim=True)
    return (places >= first) & (places + size <= first + count.clamp(min=LONGEST))
