"""SARCSE: reconstructs a text's token states from its vector, in addition to another loss.

Liu et al. 2023, sections 2.2 to 2.4, eqs. 5-12. The decoder is part of the loss and trained with
it; the encoder must have `pooling: token_cnn`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.merged_forward import column_merging_disabled
from torch import Tensor, nn

from tercet.models.encoders.token_cnn import KERNELS, WINDOW, TokenCnn, windows_within
from tercet.models.losses.registry import FREQUENCIES, TokenReconstruction, loss_of, params_of
from tercet.models.losses.token_frequencies import Frequencies, read_frequencies

Unpooling: TypeAlias = Literal["places", "broadcast"]


def token_weights(frequencies: Frequencies | None, floor: float, slope: float) -> Tensor | None:
    """f(w) = max(θ, 1 − λ · freq(w)) by token id (eq. 8); None without frequencies.

    frequencies: (vocabulary,), relative frequency of each token in the corpus, in [0, 1]. floor: θ.
    slope: λ.
    """
    if frequencies is None:
        return None
    return torch.from_numpy(1 - slope * frequencies).clamp(min=floor).float()


def reconstruction_error(states: Tensor, rebuilt: Tensor, text: Tensor, weights: Tensor) -> Tensor:
    """Mean over texts of L_R (eqs. 9, 10): squared errors, summed over width, averaged over tokens.

    The paper speaks of an MSE. A mean over the width would make the encoder's gradient smaller by
    that factor, almost nothing at the paper's weight of 2.5e-4.

    states, rebuilt: (texts, tokens, width). text: (texts, tokens), True for a text's own tokens.
    weights: (texts, tokens), f(w) of each token. A text without tokens counts as 0.
    """
    errors = (states - rebuilt).square().sum(-1) * weights * text
    return (errors.sum(-1) / text.sum(-1).clamp(min=1)).mean()


class TokenDecoder(nn.Module):  # type: ignore[misc]
    """Maps a text's vector back to its token states (eqs. 5-7), by the transposed layers of
    TokenCnn.

    unpooling: inverts the TextCNN's maximum over time. `places` puts each channel's value where its
    maximum was; `broadcast` puts it everywhere, so that all tokens but those near an end get the
    same state.
    """

    def __init__(self, width: int, channels: int, filters: int, unpooling: Unpooling) -> None:
        super().__init__()
        self.channels, self.filters, self.unpooling = channels, filters, unpooling
        self.cnn = nn.ConvTranspose2d(filters, 1, WINDOW)
        self.text_cnns = nn.ModuleList(
            nn.ConvTranspose1d(channels, width, size) for size in KERNELS
        )

    def forward(self, vectors: Tensor, places: Tensor, text: Tensor) -> Tensor:
        """The states of all tokens, (texts, tokens, width), zero outside the text.

        vectors: (texts, filters × (channels − 1)). places: (texts, 3, channels), the window of each
        maximum. text: (texts, tokens), True for the text's own tokens.
        """
        folded = vectors.view(len(vectors), self.filters, 1, self.channels - 1)
        multi = self.cnn(folded)[:, 0]  # (texts, 3, channels)
        outputs = [
            cnn(self._unpooled(multi[:, number], places[:, number], windows_within(text, size)))
            for number, (cnn, size) in enumerate(zip(self.text_cnns, KERNELS, strict=True))
        ]
        # Cut off the padding of texts that are shorter than the longest kernel.
        mean = torch.stack(outputs).mean(0).transpose(1, 2)[:, : text.shape[1]]
        return mean * text[..., None]

    def _unpooled(self, values: Tensor, places: Tensor, windows: Tensor) -> Tensor:
        """Places values (texts, channels) at their windows: (texts, channels, windows)."""
        if self.unpooling == "broadcast":
            return values[..., None] * windows[:, None]
        empty = values.new_zeros(*values.shape, windows.shape[-1])
        return empty.scatter(-1, places[..., None], values[..., None])


class RecordedEncoder(nn.Module):  # type: ignore[misc]
    """An encoder that records its outputs, so that a second loss can read them."""

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model
        self._outputs: dict[int, dict[str, Tensor]] = {}

    def get_embedding_dimension(self) -> int:
        """The encoder's embedding dimension."""
        return int(self.model.get_embedding_dimension() or 0)

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """The encoder's output."""
        output: dict[str, Tensor] = self.model(features)
        self._outputs[id(features)] = output
        return output

    def take(self, batches: Iterable[dict[str, Tensor]]) -> list[dict[str, Tensor]]:
        """The recorded outputs for these features; clears all records."""
        outputs, self._outputs = self._outputs, {}
        return [outputs[id(features)] for features in batches]


class TokenReconstructionLoss(nn.Module):  # type: ignore[misc]
    """L = L_I + weight · (L_R + L_R⁺) (eq. 12), with any contrastive loss as L_I.

    Args:
        encoder: the encoder to train, with pooling `token_cnn`, wrapped.
        contrastive: L_I, built around `encoder`. The anchors and positives that it encodes are
            reconstructed; negatives are not.
        decoder: trained with the loss, and discarded afterwards.
        weight: β and γ of the paper.
        weights: (vocabulary,), f(w) by token id; None: 1.
        detach: no gradient through the states to be reconstructed, unlike in the paper.

    After each forward pass `terms` has `contrastive`, `reconstruction` and
    `reconstruction_positive`, each without its weight, and the terms of `contrastive`.
    """

    def __init__(
        self,
        encoder: RecordedEncoder,
        contrastive: nn.Module,
        decoder: TokenDecoder,
        weight: float,
        weights: Tensor | None,
        detach: bool = False,
    ) -> None:
        super().__init__()
        self.encoder, self.contrastive, self.decoder = encoder, contrastive, decoder
        self.weight, self.detach = weight, detach
        self.register_buffer("weights", weights, persistent=False)
        self.terms: dict[str, Tensor] = {}

    def forward(
        self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None
    ) -> Tensor:
        """The batch's loss, a scalar, from anchors, positives and further texts that are read."""
        features = list(sentence_features)
        # The library may merge two columns into one batch, which has no record under their ids.
        with column_merging_disabled():
            value = self.contrastive(features, labels)
        if isinstance(value, dict):
            value = torch.stack(list(value.values())).sum()
        anchor, positive = (self._error(output) for output in self.encoder.take(features[:2]))
        self.terms = {
            "contrastive": value.detach(),
            "reconstruction": anchor.detach(),
            "reconstruction_positive": positive.detach(),
            **getattr(self.contrastive, "terms", {}),
        }
        return value + self.weight * (anchor + positive)

    def _error(self, output: Mapping[str, Tensor]) -> Tensor:
        """The reconstruction loss of one column of texts."""
        if "cnn_text" not in output:
            raise ValueError(
                "the loss token_reconstruction reads the states of all tokens of a batch, which "
                "mini_batch does not keep: leave mini_batch out"
            )
        states, text = output["token_embeddings"], output["cnn_text"]
        rebuilt = self.decoder(output["cnn_embedding"], output["cnn_places"], text)
        weights = text.float()
        if self.weights is not None:
            weights = self.weights[output["input_ids"]]
        return reconstruction_error(
            states.detach() if self.detach else states, rebuilt, text, weights
        )


def token_cnn_of(model: SentenceTransformer) -> TokenCnn:
    """The encoder's token CNN. Raises ValueError if it has none."""
    for module in model:
        if isinstance(module, TokenCnn):
            return module
    raise ValueError(
        "the loss token_reconstruction decodes vectors of pooling: token_cnn, which the encoder "
        "does not have: set train.pooling to token_cnn"
    )


def token_reconstruction(
    model: SentenceTransformer, params: TokenReconstruction, slots: Mapping[str, Path]
) -> nn.Module:
    """Builds the loss around the encoder. Raises ValueError with one sentence if that fails.

    slots: `frequencies`, a directory of `count_tokens`, unless `adaptive` is false.
    """
    head = token_cnn_of(model)
    other, numbers = loss_of(params.around), params_of(params.around)
    if not params.decoder:
        return other.build(model, numbers, {})
    frequencies = read_frequencies(slots[FREQUENCIES], model.tokenizer) if params.adaptive else None
    encoder = RecordedEncoder(model)
    return TokenReconstructionLoss(
        encoder,
        other.build(encoder, numbers, {}),
        TokenDecoder(head.width, head.channels, head.filters, params.unpooling),
        params.weight,
        token_weights(frequencies, params.floor, params.slope),
        params.detach,
    )
