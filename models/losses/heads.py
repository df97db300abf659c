"""Training-only heads on the sentence vector."""

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn


class ProjectionHead(nn.Module):  # type: ignore[misc]
    """Dense layer and tanh on the sentence vector, used in training only (SimCSE, GCSE)."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.dense = nn.Linear(dimension, dimension)

    def forward(self, vectors: Tensor) -> Tensor:
        """(batch, dimension) to (batch, dimension)."""
        return torch.tanh(self.dense(vectors))


class HeadedEncoder(nn.Module):  # type: ignore[misc]
    """An encoder with a head on its sentence vectors, for any loss that takes a model."""

    def __init__(self, model: SentenceTransformer, head: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.head = head

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """The encoder's output with its `sentence_embedding` projected."""
        output = self.model(features)
        return {**output, "sentence_embedding": self.head(output["sentence_embedding"])}


def headed(model: SentenceTransformer, head: bool) -> nn.Module:
    """The encoder, with a new head if `head`."""
    if not head:
        return model
    return HeadedEncoder(model, ProjectionHead(int(model.get_embedding_dimension() or 0)))
