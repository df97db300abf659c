"""The loss `pairwise_logistic` against values worked out by hand, and around an encoder."""

import math
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from tercet.models.losses.pairwise_logistic import pairwise_logistic_loss
from tercet.models.losses.registry import loss_named


def at(degrees: float) -> list[float]:
    return [math.cos(math.radians(degrees)), math.sin(math.radians(degrees))]


def vectors(*degrees: float) -> Tensor:
    return torch.tensor([at(d) for d in degrees], dtype=torch.float64)


def test_by_hand() -> None:
    anchor, positive, negative = vectors(0, 0), vectors(60, 0), 3 * vectors(0, 90)
    loss, near, far = pairwise_logistic_loss(anchor, positive, negative)
    # Row 0: cosines 0.5 and 1; row 1: cosines 1 and 0.
    expected = (math.log(1 + math.exp(10.0)) + math.log(1 + math.exp(-20.0))) / 2
    assert float(loss) == pytest.approx(expected, abs=1e-12)
    assert near.tolist() == pytest.approx([0.5, 1.0])
    assert far.tolist() == pytest.approx([1.0, 0.0])


def test_other_rows_of_the_batch_play_no_part() -> None:
    rows = [vectors(0, 10, 200), vectors(20, 40, 100), vectors(50, 5, 300)]
    together = float(pairwise_logistic_loss(*rows)[0])
    alone = [
        float(pairwise_logistic_loss(*(column[i : i + 1] for column in rows))[0]) for i in range(3)
    ]
    assert together == pytest.approx(sum(alone) / 3)


def test_around_an_encoder_it_reports_its_terms(tiny_backbone: Path, tiny_texts: list[str]) -> None:
    model = SentenceTransformer(str(tiny_backbone), device="cpu")
    loss = loss_named("pairwise_logistic")
    module = loss.build(model, loss.params(), {})
    features = [model.preprocess(tiny_texts[i : i + 4]) for i in (0, 0, 4)]
    value = module(features)
    assert float(value.detach()) >= 0
    assert set(module.terms) == set(loss.terms)
    # The positive is the anchor itself, and nothing else here is.
    model.eval()
    module(features)
    assert float(module.terms["in_order"]) == 1.0
    assert float(module.terms["positive"]) == pytest.approx(1.0, abs=1e-5)
    with pytest.raises(ValueError, match="2"):
        module(features[:2])
