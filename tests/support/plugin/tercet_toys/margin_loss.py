"""The torch module of the loss `margin`."""

import torch
from torch.nn.functional import cosine_similarity, relu


class MarginLoss(torch.nn.Module):
    """Of anchors and positives."""

    def __init__(self, model, params, slots):
        super().__init__()
        self.model, self.margin = model, params.margin

    def forward(self, sentence_features, labels):
        """The batch's mean loss."""
        first, second = (self.model(text)["sentence_embedding"] for text in sentence_features)
        near = cosine_similarity(first, second)
        far = cosine_similarity(first, second.roll(1, 0))
        return relu(self.margin - near + far).mean()
