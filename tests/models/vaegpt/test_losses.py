"""VAEGPT's loss terms against literal references; the KL with and without batch normalisation."""

import math
from pathlib import Path

import pytest
import torch
from tiny_generators import tiny_causal

from tercet.models.vaegpt import losses
from tercet.models.vaegpt.network import Latents, from_gpt2, frozen_judge

COUNTED = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]]).bool()


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_causal(
        tmp_path_factory.mktemp("gpt2") / "tiny", ["red", "green", "blue"], sharpness=0.05
    )


def test_kl_is_the_integral() -> None:
    """KL(N(mu, sigma^2) || N(0, 1)) by numerical integration, summed over dimensions."""
    mean, log_variance = torch.randn(2, 4, 3).double(), torch.randn(2, 4, 3).double()
    x = torch.linspace(-30, 30, 200_001).double()
    total, count = 0.0, 0
    for row in range(2):
        for token in range(4):
            if not COUNTED[row, token]:
                continue
            count += 1
            for k in range(3):
                mu, sigma = mean[row, token, k], math.exp(log_variance[row, token, k] / 2)
                log_p = -((x - mu) ** 2) / (2 * sigma**2) - math.log(sigma)
                log_q = -(x**2) / 2
                density = torch.exp(log_p) / math.sqrt(2 * math.pi)
                total += float(torch.trapezoid(density * (log_p - log_q), x))
    found = losses.kl_to_standard(mean, log_variance, COUNTED)
    assert float(found) == pytest.approx(total / count, rel=1e-6)
    both = losses.kl_of_blocks([mean, mean], [log_variance, log_variance], COUNTED)
    assert float(both) == pytest.approx(2 * total / count, rel=1e-6)


def test_gumbel_softmax_literally() -> None:
    logits, gumbel = torch.randn(2, 3, 5), torch.randn(2, 3, 5)
    soft = losses.soft_tokens(logits, 0.7, gumbel)
    for row in range(2):
        for token in range(3):
            powers = [
                math.exp((float(logits[row, token, v]) + float(gumbel[row, token, v])) / 0.7)
                for v in range(5)
            ]
            for v in range(5):
                assert float(soft[row, token, v]) == pytest.approx(
                    powers[v] / sum(powers), rel=1e-4
                )


def test_the_likeliest_token_is_drawn_as_often_as_the_softmax_says() -> None:
    logits = torch.tensor([1.0, 0.0, -1.0])
    torch.manual_seed(0)
    drawn = losses.soft_tokens(logits.expand(20_000, 3), 0.5).argmax(-1)
    shares = torch.bincount(drawn, minlength=3) / 20_000
    assert torch.allclose(shares, logits.softmax(-1), atol=0.015)


def test_straight_through_is_hard_with_a_soft_gradient() -> None:
    table = torch.randn(5, 4)
    soft = torch.randn(2, 3, 5).softmax(-1).requires_grad_()
    weights = torch.randn(2, 3, 4)
    found = losses.straight_through(soft, table)
    one_hot = torch.nn.functional.one_hot(soft.argmax(-1), 5).float()
    assert torch.allclose(found, one_hot @ table, atol=1e-6)
    (found * weights).sum().backward()
    assert soft.grad is not None
    got = soft.grad.clone()
    soft.grad = None
    (((one_hot + soft - soft.detach()) @ table) * weights).sum().backward()
    assert torch.allclose(got, soft.grad, atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_sentence_vectors_are_those_of_each_sentence_alone(
    gpt2: Path, pooling: losses.Pooling
) -> None:
    judge = frozen_judge(gpt2)
    ids = torch.tensor([[5, 17, 80, 0], [70, 6, 41, 12]])
    with torch.no_grad():
        found = losses.sentence_vectors(judge, judge.wte(ids), COUNTED, pooling)
        for row, length in enumerate((3, 4)):
            alone = ids[row : row + 1, :length]
            states = judge(alone).last_hidden_state[0]
            vector = states.mean(0)
            if pooling == "last":
                vector = states[-1]
            assert torch.allclose(found[row], vector, atol=1e-5)


def test_target_loss_literally() -> None:
    first, second = torch.randn(4, 6), torch.randn(4, 6)
    cosines = [
        float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))
        for a, b in zip(first, second, strict=True)
    ]
    assert float(losses.target_loss(first, second)) == pytest.approx(1 - sum(cosines) / 4, rel=1e-5)
    assert float(losses.target_loss(first, first)) == pytest.approx(0, abs=1e-6)
    assert float(losses.target_loss(first, -first)) == pytest.approx(2)


def test_centred_cosines_literally() -> None:
    first, second = torch.randn(3, 4) + 9, torch.randn(3, 4) + 9
    middle = [sum(float(second[row, k]) for row in range(3)) / 3 for k in range(4)]
    total = 0.0
    for row in range(3):
        a = [float(first[row, k]) - middle[k] for k in range(4)]
        b = [float(second[row, k]) - middle[k] for k in range(4)]
        dot = sum(x * y for x, y in zip(a, b, strict=True))
        total += dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))
    found = losses.target_loss(first, second, centre=True)
    assert float(found) == pytest.approx(1 - total / 3, abs=1e-4)
    assert float(losses.target_loss(first, second)) < 0.1
    # A lone row is its own mean.
    alone = losses.target_loss(first[:1], second[:1], centre=True)
    assert float(alone) == pytest.approx(float(losses.target_loss(first[:1], second[:1])))


def _kl_after(gpt2: Path, steps: int, norm: bool) -> float:
    """The KL per block and dimension after some steps that train nothing but it."""
    torch.manual_seed(0)
    model = from_gpt2(gpt2, latent_norm=norm, latent_dropout=0.0).train()
    latent = [p for name, p in model.named_parameters() if ".latent." in name]
    optimizer = torch.optim.Adam(latent, lr=0.03)
    counted = torch.ones(8, 6).bool()
    value = torch.tensor(0.0)
    for _ in range(steps):
        latents = Latents(counted=counted, keep=True)
        model(torch.randint(2, 90, (8, 6)), latents=latents)
        value = losses.kl_of_blocks(latents.means, latents.log_variances, counted)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return float(value.detach()) / (2 * 64)


def test_the_kl_does_not_vanish_with_batch_normalisation(gpt2: Path) -> None:
    """After steps that train nothing else; the least that can be left is 0.5^2 / 2 = 0.125,
    a little less where the variance is as small as the normalisation's epsilon.
    """
    assert _kl_after(gpt2, 60, norm=False) < 0.01
    assert 0.11 < _kl_after(gpt2, 60, norm=True) < 0.3
