"""Weights between two encoders: exactly those of one at the ends, and of equal shapes alone."""

from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer

from tercet.models.encoders.encoder import load_encoder
from tercet.tasks.encoders import mix_weights


@pytest.fixture
def both(tiny_backbone: Path) -> tuple[SentenceTransformer, SentenceTransformer]:
    untouched, trained = load_encoder(tiny_backbone), load_encoder(tiny_backbone)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in trained.parameters():
            weight += torch.randn(weight.shape, generator=generator)
    return untouched, trained


@pytest.mark.parametrize("mix", [0.0, 0.25, 1.0])
def test_each_weight_is_mixed(
    both: tuple[SentenceTransformer, SentenceTransformer], mix: float
) -> None:
    before, after = (
        {name: weight.clone() for name, weight in model.state_dict().items()} for model in both
    )
    mixed = mix_weights(*both, mix).state_dict()
    for name, weight in mixed.items():
        wanted = before[name] if mix == 0 else after[name]
        if 0 < mix < 1:
            wanted = 0.75 * before[name] + 0.25 * after[name]
        assert torch.equal(weight, wanted)


def test_other_shapes_are_refused(both: tuple[SentenceTransformer, SentenceTransformer]) -> None:
    untouched, trained = both
    first = next(trained.named_parameters())[1]
    first.data = first.data[:-1]
    with pytest.raises(ValueError, match=r"shapes of 1 weights \(.*embeddings"):
        mix_weights(untouched, trained, 0.5)
