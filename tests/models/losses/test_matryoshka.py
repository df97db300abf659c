"""`matryoshka`: the sum over lengths as it is written, and what it stands around."""

from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize
from training_run import NUMBERS, part, same_weights, table, train

from tercet.models.encoders.encoder import load_encoder
from tercet.models.losses.registry import LOSSES, fill_loss, loss_named, loss_of
from tercet.models.training.train_encoder import CachedEncoder

NAME = "matryoshka"
AROUND = ("info_nce", "gaussian_decay", "nt_xent", "pairwise_logistic")


def gradients(model: Any, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    loss.backward()
    named = model.named_parameters()
    return {name: weight.grad.clone() for name, weight in named if weight.grad is not None}


def test_the_loss_is_the_sum_over_lengths(tiny_backbone: Path, tiny_texts: list[str]) -> None:
    """Kusupati et al. 2022, eq. 1 with all weights 1, of InfoNCE over cosines."""
    model = load_encoder(tiny_backbone)
    loss = loss_named(NAME)
    columns = [tiny_texts[:8], tiny_texts[8:16]]
    anchors, positives = (
        model(dict(model.preprocess(texts)))["sentence_embedding"] for texts in columns
    )
    literal = torch.zeros(())
    for width in (32, 16, 8):
        cut = [normalize(vectors[:, :width], dim=-1) for vectors in (anchors, positives)]
        literal = literal + cross_entropy(cut[0] @ cut[1].T / 0.05, torch.arange(8))
    expected = gradients(model, literal)
    # In mini-batches the gradient is that of the batch.
    for encoder in (model, CachedEncoder(model, 3)):
        built = loss.build(encoder, loss.params(dimensions=(16, 8)), {})
        total = built([dict(model.preprocess(texts)) for texts in columns], None)
        torch.testing.assert_close(total, literal)
        torch.testing.assert_close(gradients(model, total), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("within", AROUND)
def test_any_contrast_trains_within(
    within: str, tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    rows = table(tiny_texts)
    numbers = NUMBERS.model_copy(update={"max_steps": 4, "word_repetition": None})
    given = part(rows, NAME, **{"with": within}, dimensions=(8,))
    weights, _ = train(tiny_backbone, [given], tmp_path / "whole", numbers)
    plain, _ = train(tiny_backbone, [part(rows, within)], tmp_path / "plain", numbers)
    assert not same_weights(weights, plain)
    assert loss_of(fill_loss({"name": NAME, "with": within})).texts == LOSSES[within].texts


def test_what_it_cannot_stand_around(tiny_backbone: Path) -> None:
    for wrong, name in (
        ({"with": "guided"}, "guided"),
        ({"with": "token_reconstruction"}, "token_reconstruction"),
        ({"with": {"name": "info_nce", "head": True}}, "head"),
        ({"dimensions": [1]}, "dimensions"),
    ):
        with pytest.raises(ValidationError, match=name):
            fill_loss({"name": NAME, **wrong})
    with pytest.raises(ValueError, match="32"):
        LOSSES[NAME].build(load_encoder(tiny_backbone), LOSSES[NAME].params(), {})
