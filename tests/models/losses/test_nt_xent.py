"""NT-Xent against the formula, term by term."""

import math
from pathlib import Path

import pytest
import torch

from tercet.models.encoders.encoder import load_encoder
from tercet.models.losses.nt_xent import nt_xent
from tercet.models.losses.registry import loss_named


def by_hand(first: torch.Tensor, second: torch.Tensor, tau: float) -> float:
    """Eq. 1 of SimCLR, for each of the 2N vectors, in plain Python."""
    vectors = [*first.tolist(), *second.tolist()]
    n = len(first)

    def cosine(u: list[float], v: list[float]) -> float:
        product = sum(a * b for a, b in zip(u, v, strict=True))
        return product / math.sqrt(sum(a * a for a in u) * sum(b * b for b in v))

    losses = []
    for i, vector in enumerate(vectors):
        partner = i + n if i < n else i - n
        others = [math.exp(cosine(vector, v) / tau) for k, v in enumerate(vectors) if k != i]
        losses.append(-math.log(math.exp(cosine(vector, vectors[partner]) / tau) / sum(others)))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("tau", [0.05, 0.5])
@pytest.mark.parametrize("rows", [2, 7])
def test_it_is_the_formula(rows: int, tau: float) -> None:
    draw = torch.Generator().manual_seed(1)
    first, second = torch.randn(2, rows, 5, generator=draw, dtype=torch.float64)
    second = first + 0.5 * second
    assert float(nt_xent(first, second, tau)) == pytest.approx(by_hand(first, second, tau))
    # Which side is called first makes no difference.
    assert float(nt_xent(second, first, tau)) == pytest.approx(float(nt_xent(first, second, tau)))


def test_a_lone_pair_has_no_one_to_confuse() -> None:
    first, second = torch.randn(2, 1, 5)
    assert float(nt_xent(first, second, 0.05)) == 0.0


@pytest.mark.parametrize("head", [False, True])
def test_the_module_takes_what_the_encoder_gives(
    head: bool, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    loss = loss_named("nt_xent")
    model = load_encoder(tiny_backbone, "cls")
    torch.manual_seed(0)
    module = loss.build(model, loss.params(head=head), {})
    features = [model.preprocess(tiny_texts[start : start + 4]) for start in (0, 4)]
    with torch.no_grad():
        value = module([dict(f) for f in features], None)
        vectors = [model(dict(f))["sentence_embedding"] for f in features]
        if head:
            vectors = [module.model.head(v) for v in vectors]
    assert float(value) == pytest.approx(by_hand(*vectors, 0.05), rel=1e-4)
    # The head is trained with it, and is no part of the encoder.
    trained = {name for name, _ in module.named_parameters()}
    assert any("head" in name for name in trained) is head
    assert not any("head" in name for name, _ in model.named_parameters())
