"""`info_nce` against GenSE's loss (eq. 2, its denominator mended) as it is written, in float64."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tercet.models.losses.registry import loss_named


class Given(nn.Module):
    """An encoder whose texts are their vectors already."""

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        return features


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a @ b) / (a.norm() * b.norm())


def literal(tau: float, anchor: Tensor, positive: Tensor, negative: Tensor | None = None) -> Tensor:
    """-log of the own positive's share among all positives and all negatives of the batch."""
    losses = []
    for i in range(len(anchor)):
        total = torch.zeros((), dtype=anchor.dtype)
        for j in range(len(positive)):
            total = total + torch.exp(cosine(anchor[i], positive[j]) / tau)
        # Without negatives (question and answer) it is the positives alone.
        for j in range(0 if negative is None else len(negative)):
            assert negative is not None
            total = total + torch.exp(cosine(anchor[i], negative[j]) / tau)
        losses.append(-torch.log(torch.exp(cosine(anchor[i], positive[i]) / tau) / total))
    return torch.stack(losses).mean()


def with_gradients(function: Any, vectors: list[Tensor]) -> list[Tensor]:
    leaves = [vector.clone().requires_grad_() for vector in vectors]
    loss = function(*leaves)
    loss.backward()
    return [loss.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


@pytest.mark.parametrize(
    ("tau", "sizes"),
    # In the paper 0.05 with negatives, and 0.01 for questions and answers. In the last case only
    # four of the six rows have a negative, which counts for every anchor.
    [(0.05, (6, 6, 6)), (0.01, (6, 6)), (0.05, (6, 6, 4))],
)
def test_it_is_the_formula_with_gradients(tau: float, sizes: tuple[int, ...]) -> None:
    draw = torch.Generator().manual_seed(3)
    anchor = torch.randn(6, 8, generator=draw, dtype=torch.float64)
    vectors = [
        anchor[:size] + spread * torch.randn(size, 8, generator=draw, dtype=torch.float64)
        for spread, size in enumerate(sizes)
    ]
    loss = loss_named("info_nce")
    module: Any = loss.build(Given(), loss.params(tau=tau), {})  # type: ignore[arg-type]
    ours = with_gradients(
        lambda *given: module([{"sentence_embedding": vector} for vector in given], None), vectors
    )
    reference = with_gradients(lambda *given: literal(tau, *given), vectors)
    assert len(ours) == len(reference) == 1 + len(sizes)
    for mine, theirs in zip(ours, reference, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)
