"""Cheaper steps on a CPU: the gradients and the masks that a plain step would have."""

from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import BertConfig, BertForMaskedLM, BertModel

from tercet.models.encoders.encoder import load_encoder
from tercet.models.training import cpu
from tercet.models.training.cpu import dropout_mask, faster_on_cpu

SIZES = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 16,
}


def gradients(model: SentenceTransformer, texts: list[str]) -> dict[str, Tensor]:
    """The gradients of a loss of the vectors, two passes of texts of unlike length."""
    model.zero_grad()
    total: Tensor | float = 0.0
    for column in (texts, [f"{text} {text}" for text in texts[::-1]]):
        vectors = model(model.preprocess(column))["sentence_embedding"]
        total = total + (vectors * torch.arange(vectors.shape[1], dtype=vectors.dtype).cos()).sum()
    total.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.fixture
def encoder(tiny_backbone: Path) -> SentenceTransformer:
    """In float64 and in training."""
    return load_encoder(tiny_backbone, "mean").double().train()


def set_dropout(model: nn.Module, share: float) -> None:
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = share


def test_gradients_equal_those_of_a_plain_step_in_float64(
    encoder: SentenceTransformer, tiny_texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "_LARGE_VOCABULARY", 0)
    # Masks of ones, so that the attention of this module is read, and not the one of sdpa.
    monkeypatch.setattr(cpu, "dropout_mask", lambda values, share: torch.ones_like(values))
    set_dropout(encoder, 0.0)
    plain = gradients(encoder, tiny_texts[:16])
    set_dropout(encoder, 0.1)
    with faster_on_cpu(encoder):
        faster = gradients(encoder, tiny_texts[:16])
    assert faster.keys() == plain.keys()
    assert not any(g.is_sparse for g in faster.values())
    for name, gradient in plain.items():
        torch.testing.assert_close(faster[name], gradient, rtol=1e-12, atol=1e-12, msg=name)


@pytest.mark.parametrize("bool_mask", [True, False])
def test_attention_equals_its_formula_with_the_mask_of_its_seed(bool_mask: bool) -> None:
    torch.manual_seed(3)
    query, key, value = torch.randn(3, 2, 4, 5, 8, dtype=torch.float64)
    read = torch.ones(2, 1, 5, 5, dtype=torch.bool)
    read[1, ..., 3:] = False
    added = torch.zeros(2, 1, 5, 5, dtype=torch.float64).masked_fill(~read, -1e9)
    module = nn.Module()
    module.is_causal = False  # type: ignore[assignment]
    torch.manual_seed(4)
    got, _ = cpu._attention(module, query, key, value, read if bool_mask else added, 0.25, 0.5)
    torch.manual_seed(4)
    mask = dropout_mask(torch.empty(2, 4, 5, 5, dtype=torch.float64), 0.25)
    for text in range(2):
        for head in range(4):
            for token in range(5):
                columns = range(5 if text == 0 else 3)
                scores = [0.5 * query[text, head, token] @ key[text, head, c] for c in columns]
                shares = torch.stack(scores).softmax(0)
                expected = sum(
                    share * mask[text, head, token, c] * value[text, head, c]
                    for c, share in zip(columns, shares, strict=True)
                )
                torch.testing.assert_close(got[text, token, head], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.003])
def test_masks_drop_their_share_independently(share: float, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    mask = dropout_mask(torch.empty(1000, 1001, dtype=dtype), share)
    assert mask.shape == (1000, 1001)
    assert mask.dtype == dtype
    assert set(mask.unique().tolist()) == {0.0, float(torch.tensor(1 / (1 - share), dtype=dtype))}
    dropped = (mask == 0).double()
    spread = (share * (1 - share) / dropped.numel()) ** 0.5
    assert abs(float(dropped.mean()) - share) < 5 * spread + 1 / 65_536
    # Neither neighbours nor the elements of one draw of 64 bits go together.
    flat = dropped.flatten() - share
    for lag in (1, 2, 3, 4, 1001):
        together = float((flat[lag:] * flat[:-lag]).mean()) / (share * (1 - share))
        assert abs(together) < 5 / len(flat) ** 0.5, lag
    # Nor those of two masks.
    other = (dropout_mask(torch.empty(1000, 1001, dtype=dtype), share) == 0).double()
    together = float((flat * (other.flatten() - share)).mean()) / (share * (1 - share))
    assert abs(together) < 5 / len(flat) ** 0.5


def test_a_seed_gives_its_masks_again_also_when_a_pass_is_repeated(
    encoder: SentenceTransformer, tiny_texts: list[str]
) -> None:
    features = encoder.preprocess(tiny_texts[:8])

    def vectors(switch: Tensor) -> Tensor:
        result: Tensor = encoder(dict(features))["sentence_embedding"]
        return result

    def run(repeated: bool) -> tuple[Tensor, Tensor]:
        torch.manual_seed(7)
        encoder.zero_grad()
        switch = torch.zeros((), requires_grad=True)
        out = checkpoint(vectors, switch, use_reentrant=True) if repeated else vectors(switch)
        out.square().sum().backward()
        weight = encoder[0].auto_model.encoder.layer[0].output.dense.weight
        return out.detach(), weight.grad.clone()

    with faster_on_cpu(encoder):
        once, twice, cached = run(False), run(False), run(True)
        other = vectors(torch.zeros(()))
    assert torch.equal(once[0], twice[0])
    assert torch.equal(once[1], twice[1])
    torch.testing.assert_close(cached, once, rtol=1e-12, atol=1e-12)
    assert not torch.allclose(other, once[0], atol=1e-3)


def test_everything_is_as_before_at_the_end(
    encoder: SentenceTransformer, tiny_texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "_LARGE_VOCABULARY", 0)
    torch.manual_seed(7)
    before = gradients(encoder, tiny_texts[:4])
    with faster_on_cpu(encoder):
        assert gradients(encoder, tiny_texts[:4]).keys() == before.keys()
    torch.manual_seed(7)
    after = gradients(encoder, tiny_texts[:4])
    assert all(torch.equal(after[name], gradient) for name, gradient in before.items())
    assert encoder[0].auto_model.config._attn_implementation == "sdpa"


def test_a_vocabulary_that_is_also_the_output_has_both_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpu, "_LARGE_VOCABULARY", 0)
    torch.manual_seed(0)
    model = BertForMaskedLM(BertConfig(**SIZES, hidden_dropout_prob=0.0)).double().eval()
    ids = torch.randint(5, 50, (2, 8))

    def gradient() -> Tensor:
        model.zero_grad()
        model(ids, labels=ids).loss.backward()
        weight = model.get_input_embeddings().weight
        assert weight is model.get_output_embeddings().weight
        return weight.grad.clone()

    plain = gradient()
    with faster_on_cpu(model):
        torch.testing.assert_close(gradient(), plain, rtol=1e-12, atol=1e-12)


def test_a_decoder_stays_causal() -> None:
    torch.manual_seed(0)
    model = BertModel(BertConfig(**SIZES, is_decoder=True)).train()
    ids = torch.randint(5, 50, (2, 8))
    changed = ids.clone()
    changed[:, 5:] = 7
    mask = torch.ones_like(ids)
    mask[1, :2] = 0
    with faster_on_cpu(model):
        states = []
        for tokens in (ids, changed):
            torch.manual_seed(2)
            states.append(model(tokens, attention_mask=mask).last_hidden_state[:, 2:5])
    torch.testing.assert_close(*states)
