"""SARCSE's sentence vector: a text's token states through two convolutions.

Every saved encoder that needs this file has a copy of it, so that plain sentence-transformers can
load the directory with trust_remote_code=True. Therefore it imports nothing of Tercet.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from safetensors.torch import load_file
from sentence_transformers.base.modules import Module
from torch import Tensor, nn
from torch.nn import functional

# Tokens in a window of each TextCNN; a shorter text is padded with zeros to the longest.
KERNELS = (3, 4, 5)
LONGEST = max(KERNELS)
# The second convolution covers all kernels and two neighbouring channels.
WINDOW = (len(KERNELS), 2)

# All are monotonic, so they may follow the maximum over time.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "tanh": torch.tanh,
    "none": lambda values: values,
}


class TokenCnn(Module):  # type: ignore[misc]
    """TextCNN over the tokens, then a CNN over its kernels and channels (SARCSE, eqs. 3-4).

    TextCNNs over 3, 4 and 5 tokens give `channels` numbers each, their maxima over time: (1, 3,
    channels). `filters` kernels of 3 × 2 turn these into (filters, 1, channels − 1), which is
    flattened to the embedding. The special tokens around a text are left out.

    width: of the token states.
    left_out: ids of these special tokens, which stay between the text's own tokens.
    seed: of the first weights, for the record.
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
        """Width of the embedding: 1497 with 500 channels and 3 filters."""
        return self.filters * (self.channels - 1)

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """token_embeddings (texts, tokens, width) to sentence_embedding.

        Also adds a decoder's inputs: cnn_embedding, a copy that later modules do not change;
        cnn_text (texts, tokens), true for the text's tokens; and cnn_places (texts, 3, channels),
        the first token of the window with each channel's maximum.
        """
        states = features["token_embeddings"]
        is_special = (features["input_ids"][..., None] == self.special).any(-1)
        text = from_first_to_last(features["attention_mask"].bool() & ~is_special)
        padded = functional.pad((states * text[..., None]).transpose(1, 2), (0, LONGEST - 1))
        maxima = [
            cnn(padded).masked_fill(~windows_within(text, size)[:, None], -torch.inf).max(-1)
            for cnn, size in zip(self.text_cnns, KERNELS, strict=True)
        ]
        best = torch.stack([values for values, _ in maxima], 1)  # (texts, 3, channels)
        embedding = self.cnn(ACTIVATIONS[self.activation](best)[:, None]).flatten(1)
        features["cnn_text"] = text
        features["cnn_places"] = torch.stack([places for _, places in maxima], 1)
        features["cnn_embedding"] = features["sentence_embedding"] = embedding
        return features

    def get_config_dict(self) -> dict[str, Any]:
        """The numbers, the pooling and the width of the embedding."""
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
        module = cls(**{key: config[key] for key in (*cls.config_keys, "left_out")})
        file = cls.load_file_path(model_name_or_path, filename="model.safetensors", **place)
        if file is None:
            raise ValueError(f"{subfolder} has no model.safetensors")
        try:
            module.load_state_dict(load_file(file))
        except RuntimeError as error:
            raise ValueError(f"the weights in {subfolder} do not fit its config.json") from error
        return module


def from_first_to_last(flags: Tensor) -> Tensor:
    """True from each row's first true place to its last; (texts, tokens), as given."""
    # Floats, since torch's exporter to ONNX cannot sum bools.
    ahead = flags.float().cumsum(-1)
    behind = flags.float().flip(-1).cumsum(-1).flip(-1)
    return (ahead > 0) & (behind > 0)


def windows_within(text: Tensor, size: int) -> Tensor:
    """Whether the window of `size` tokens that starts at each token lies in the text: (texts,
    tokens + 5 − size).

    text: (texts, tokens), true without a gap. A text of fewer than 5 tokens counts as 5 long, so
    that every kernel has a window.
    """
    count = text.sum(-1, keepdim=True)
    places = torch.arange(text.shape[-1] + LONGEST - size, device=text.device)[None]
    # A text without tokens begins at 0.
    first = text.float().argmax(-1, keepdim=True)
    return (places >= first) & (places + size <= first + count.clamp(min=LONGEST))
