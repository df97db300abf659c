"""The loss of a batch, put together literally, and its gradient."""

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from tiny_generators import SEPARATOR, tiny_causal

from tercet.models import pretrained
from tercet.models.generators.layout import Layout
from tercet.models.training.fit_generator import Feed
from tercet.models.vaegpt import fitting
from tercet.models.vaegpt.fitting import load_vaegpt, objective_of
from tercet.models.vaegpt.network import Latents, from_gpt2, frozen_judge
from tercet.models.vaegpt.settings import VaeGptHyperparameters

WORDS = ["red", "green", "blue", "one", "two"]
# Without noise the network in evaluation is a function of its input.
STILL: dict[str, Any] = {"noise_weight": 0.0}


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_causal(tmp_path_factory.mktemp("gpt2") / "tiny", WORDS, sharpness=0.2)


@pytest.fixture(scope="module")
def batch(gpt2: Path) -> dict[str, torch.Tensor]:
    rows = pa.table(
        {
            "row_id": pa.array([1, 2, 3], pa.uint64()),
            "source": ["red green", "one two blue one", "blue"],
            "target": ["green red blue", "two", "one one"],
        }
    )
    tokenizer = pretrained.load_tokenizer(gpt2)
    layout = Layout(form="vaegpt", separator=SEPARATOR, max_length=48)
    found: dict[str, torch.Tensor] = Feed(tokenizer, layout, rows, 3, 0)[0].inputs
    return found


def test_the_loss_is_the_papers(gpt2: Path, batch: dict[str, torch.Tensor]) -> None:
    numbers = VaeGptHyperparameters(**STILL, kl_weight=0.01, cross_entropy=0.3)
    torch.manual_seed(1)
    model, objective = load_vaegpt(gpt2, numbers)
    model.eval()
    torch.manual_seed(5)
    loss, terms = objective(batch)
    judge = frozen_judge(gpt2)
    counted = batch["attention_mask"].bool()
    latents = Latents(counted=counted, keep=True)
    with torch.no_grad():
        logits = model(batch["input_ids"], attention_mask=counted.long(), latents=latents).logits
    kl = 0.0
    for mean, log_variance in zip(latents.means, latents.log_variances, strict=True):
        each = (mean**2 + log_variance.exp() - 1 - log_variance).sum(-1) / 2
        kl += float(each[counted].mean())
    entropies, predicted, true = [], [], []
    # The same draws as the objective's: one for each logit that predicts a place of a target.
    torch.manual_seed(5)
    places = batch["target_ids"].shape[1]
    gumbel = -torch.empty(3, places, logits.shape[-1]).exponential_().log()
    for row in range(3):
        start = int(batch["start"][row])
        length = int(batch["target_mask"][row].sum())
        ids = batch["target_ids"][row, :length]
        assert torch.equal(batch["input_ids"][row, start : start + length], ids)
        assert int(ids[-1]) == model.config.eos_token_id
        for place, token in enumerate(ids.tolist()):
            entropies.append(-float(logits[row, start - 1 + place].log_softmax(-1)[token]))
        drawn = []
        for place in range(length):
            scores = logits[row, start - 1 + place] + gumbel[row, place]
            drawn.append(int(scores.argmax()))
        with torch.no_grad():
            predicted.append(judge(torch.tensor([drawn])).last_hidden_state[0].mean(0))
            true.append(judge(ids[None]).last_hidden_state[0].mean(0))
    middle = torch.stack(true).mean(0)
    cosine = torch.nn.functional.cosine_similarity
    target = (
        1
        - sum(
            float(cosine(a - middle, b - middle, dim=0))
            for a, b in zip(predicted, true, strict=True)
        )
        / 3
    )
    entropy = sum(entropies) / len(entropies)
    assert float(terms["kl"]) == pytest.approx(kl, rel=1e-4)
    assert float(terms["cross_entropy"]) == pytest.approx(entropy, rel=1e-4)
    assert float(terms["target"]) == pytest.approx(target, rel=1e-3)
    assert float(loss.detach()) == pytest.approx(target + 0.01 * kl + 0.3 * entropy, rel=1e-3)


def test_without_cross_entropy_the_judge_alone_teaches_the_words_and_the_end(
    gpt2: Path, batch: dict[str, torch.Tensor]
) -> None:
    numbers = VaeGptHyperparameters(**STILL, cross_entropy=0.0, kl_weight=0.0)
    model, objective = load_vaegpt(gpt2, numbers)
    kept: list[torch.Tensor] = []
    hook = model.lm_head.register_forward_hook(lambda *given: kept.append(given[-1]))
    loss, terms = objective(batch)
    hook.remove()
    kept[0].retain_grad()
    loss.backward()
    assert set(terms) == {"kl", "target"}
    moved = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.any()}
    assert "transformer.h.0.mlp.c_fc.weight" in moved
    # The heads get their gradient from the KL and through the noise, and here there is neither.
    assert not any(".latent." in name for name in moved)
    gradient = kept[0].grad
    assert gradient is not None
    for row, length in enumerate(batch["attention_mask"].sum(1).tolist()):
        assert int(batch["input_ids"][row, length - 1]) == model.config.eos_token_id
        # The place before the last token predicts it; nothing behind it is judged.
        assert gradient[row, length - 2].abs().max() > 1e-6
        assert not gradient[row, length - 1 :].any()


def test_a_judge_of_its_own(gpt2: Path, batch: dict[str, torch.Tensor], tmp_path: Path) -> None:
    other = tiny_causal(tmp_path / "other", WORDS, seed=1, sharpness=0.2)
    numbers = VaeGptHyperparameters(**STILL)
    terms = []
    for start, judge in ((gpt2, None), (gpt2, gpt2), (gpt2, other), (other, gpt2)):
        torch.manual_seed(1)
        model, objective = load_vaegpt(start, numbers, judge=judge)
        model.eval()
        torch.manual_seed(5)
        terms.append(objective(batch)[1])
    own, same, another, swapped = terms
    assert same == own
    assert another["target"] != own["target"]
    # The judge writes nothing: what is learnt from is init's.
    assert another["cross_entropy"] == own["cross_entropy"] != swapped["cross_entropy"]
    strange = tiny_causal(tmp_path / "strange", ["quite", "different"])
    with pytest.raises(ValueError, match="vocabulary"):
        load_vaegpt(gpt2, numbers, judge=strange)


def test_the_judge_is_no_part_of_the_model(gpt2: Path, batch: dict[str, torch.Tensor]) -> None:
    numbers = VaeGptHyperparameters()
    model, _ = load_vaegpt(gpt2, numbers)
    judge = frozen_judge(gpt2)
    before = {name: tensor.clone() for name, tensor in judge.state_dict().items()}
    objective = objective_of(model, judge, numbers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        loss, _ = objective(batch)
        loss.backward()
        optimizer.step()
    assert all(torch.equal(tensor, before[name]) for name, tensor in judge.state_dict().items())
    assert sum(p.numel() for p in judge.parameters()) < sum(p.numel() for p in model.parameters())


COUNTED = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]]).bool()


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
    found = fitting.kl_to_standard(mean, log_variance, COUNTED)
    assert float(found) == pytest.approx(total / count, rel=1e-6)
    both = fitting.kl_of_blocks([mean, mean], [log_variance, log_variance], COUNTED)
    assert float(both) == pytest.approx(2 * total / count, rel=1e-6)


def test_gumbel_softmax_literally() -> None:
    logits, gumbel = torch.randn(2, 3, 5), torch.randn(2, 3, 5)
    soft = fitting.soft_tokens(logits, gumbel)
    for row in range(2):
        for token in range(3):
            powers = [
                math.exp(float(logits[row, token, v]) + float(gumbel[row, token, v]))
                for v in range(5)
            ]
            for v in range(5):
                assert float(soft[row, token, v]) == pytest.approx(
                    powers[v] / sum(powers), rel=1e-4
                )


def test_straight_through_is_hard_with_a_soft_gradient() -> None:
    table = torch.randn(5, 4)
    soft = torch.randn(2, 3, 5).softmax(-1).requires_grad_()
    weights = torch.randn(2, 3, 4)
    found = fitting.straight_through(soft, table)
    one_hot = torch.nn.functional.one_hot(soft.argmax(-1), 5).float()
    assert torch.allclose(found, one_hot @ table, atol=1e-6)
    (found * weights).sum().backward()
    assert soft.grad is not None
    got = soft.grad.clone()
    soft.grad = None
    (((one_hot + soft - soft.detach()) @ table) * weights).sum().backward()
    assert torch.allclose(got, soft.grad, atol=1e-6)


def test_sentence_vectors_are_those_of_each_sentence_alone(gpt2: Path) -> None:
    judge = frozen_judge(gpt2)
    ids = torch.tensor([[5, 17, 80, 0], [70, 6, 41, 12]])
    with torch.no_grad():
        found = fitting.sentence_vectors(judge, judge.wte(ids), COUNTED)
        for row, length in enumerate((3, 4)):
            alone = ids[row : row + 1, :length]
            states = judge(alone).last_hidden_state[0]
            assert torch.allclose(found[row], states.mean(0), atol=1e-5)


def test_centred_cosines_literally() -> None:
    first, second = torch.randn(3, 4) + 9, torch.randn(3, 4) + 9
    middle = [sum(float(second[row, k]) for row in range(3)) / 3 for k in range(4)]
    total = 0.0
    for row in range(3):
        a = [float(first[row, k]) - middle[k] for k in range(4)]
        b = [float(second[row, k]) - middle[k] for k in range(4)]
        dot = sum(x * y for x, y in zip(a, b, strict=True))
        total += dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))
    found = fitting.target_loss(first, second)
    assert float(found) == pytest.approx(1 - total / 3, abs=1e-4)
    # A lone row is its own mean.
    alone = fitting.target_loss(first[:1], second[:1])
    cosine = torch.nn.functional.cosine_similarity(first[:1], second[:1])
    assert float(alone) == pytest.approx(1 - float(cosine))


def test_the_kl_does_not_vanish_with_batch_normalisation(gpt2: Path) -> None:
    """After steps that train nothing else; the least that can be left is 0.5^2 / 2 = 0.125,
    a little less where the variance is as small as the normalisation's epsilon.
    """
    torch.manual_seed(0)
    model = from_gpt2(gpt2).train()
    latent = [p for name, p in model.named_parameters() if ".latent." in name]
    optimizer = torch.optim.Adam(latent, lr=0.03)
    counted = torch.ones(8, 6).bool()
    value = torch.tensor(0.0)
    for _ in range(60):
        latents = Latents(counted=counted, keep=True)
        model(torch.randint(2, 90, (8, 6)), latents=latents)
        value = fitting.kl_of_blocks(latents.means, latents.log_variances, counted)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    assert 0.11 < float(value.detach()) / (2 * 64) < 0.3
