"""VAEGPT's network: the noise schedule literally, plain GPT-2 at W = 0, noise by row, saving."""

import math
import shutil
from pathlib import Path

import pytest
import torch
from tiny_generators import tiny_causal
from transformers import AutoModelForCausalLM, GPT2LMHeadModel

from tercet.models.generators import draws
from tercet.models.vaegpt.network import Latents, VaeGpt, from_gpt2, frozen_judge

WORDS = ["red", "green", "blue", "one", "two"]
IDS = torch.tensor([[5, 17, 80, 33, 9, 61], [70, 6, 6, 41, 12, 5]])


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_causal(tmp_path_factory.mktemp("gpt2") / "tiny", WORDS, sharpness=0.05)


def opened(gpt2: Path, **options: object) -> VaeGpt:
    torch.manual_seed(1)
    model = from_gpt2(gpt2, **options).eval()
    # Statistics that are not 0 and 1, as after some training.
    for name, buffer in model.named_buffers():
        if "running" in name:
            buffer.copy_(torch.rand_like(buffer) + 0.5)
    for name, parameter in model.named_parameters():
        if name.endswith("shift"):
            torch.nn.init.normal_(parameter)
    return model


def literal(model: VaeGpt, ids: torch.Tensor, epsilon: torch.Tensor) -> torch.Tensor:
    """Logits, block by block and token by token, as the paper writes them."""
    body, config = model.transformer, model.config
    tokens = ids.shape[1]
    hidden = body.wte(ids) + body.wpe(torch.arange(tokens))
    causal = torch.full((tokens, tokens), -math.inf).triu(1)
    for i, block in enumerate(body.h, start=1):
        normed = block.ln_1(hidden)
        query, key, value = (normed @ block.attn.c_attn.weight + block.attn.c_attn.bias).chunk(3, 2)
        heads = []
        size = config.n_embd // config.n_head
        for head in range(config.n_head):
            cut = slice(head * size, (head + 1) * size)
            scores = query[..., cut] @ key[..., cut].transpose(1, 2) / math.sqrt(size)
            heads.append((scores + causal).softmax(-1) @ value[..., cut])
        hidden = hidden + block.attn.c_proj(torch.cat(heads, dim=-1))
        hidden = hidden + block.mlp(block.ln_2(hidden))
        head = block.latent
        noisy = hidden.clone()
        for row in range(len(ids)):
            for token in range(tokens):
                h = hidden[row, token]
                mean = head.mean.weight @ h + head.mean.bias
                logvar = head.log_variance.weight @ h + head.log_variance.bias
                for norm, which in ((head.mean_norm, "m"), (head.log_variance_norm, "v")):
                    x = mean if which == "m" else logvar
                    x = (x - norm.norm.running_mean) / torch.sqrt(norm.norm.running_var + 1e-5)
                    x = 0.5 * x + norm.shift
                    mean, logvar = (x, logvar) if which == "m" else (mean, x)
                latent = mean + torch.sqrt(torch.exp(logvar)) * epsilon[row, token, i - 1]
                noisy[row, token] = h + latent * config.noise_weight / math.e ** (i + 1)
        hidden = noisy
    return body.ln_f(hidden) @ body.wte.weight.T


def test_the_noise_schedule_is_the_papers(gpt2: Path) -> None:
    model = opened(gpt2, noise_weight=2.0)
    epsilon = torch.randn(2, 6, 2, 64)
    with torch.no_grad():
        found = model(IDS, noise=epsilon).logits
        assert torch.allclose(found, literal(model, IDS, epsilon), atol=1e-4)
        # And it is the noise that was compared: without it the logits are others.
        plain = model(IDS, noise=torch.zeros_like(epsilon)).logits
    assert float((plain - found).abs().max()) > 1e-2


def test_without_weight_it_is_gpt2_bit_for_bit(gpt2: Path) -> None:
    plain = GPT2LMHeadModel.from_pretrained(gpt2).eval()
    model = opened(gpt2, noise_weight=0.0)
    with torch.no_grad():
        wanted = plain(IDS).logits
        assert torch.equal(model(IDS).logits, wanted)
        assert torch.equal(model(IDS, latents=Latents(keep=True)).logits, wanted)
        model.config.noise_weight = 0.1
        assert not torch.equal(model(IDS).logits, wanted)
    # In training too, where dropout draws: the latent heads draw nothing then.
    plain.train()
    model.train()
    model.config.noise_weight = 0.0
    torch.manual_seed(5)
    wanted = plain(IDS).logits
    torch.manual_seed(5)
    assert torch.equal(model(IDS).logits, wanted)


def test_noise_is_drawn_or_given_or_off(gpt2: Path) -> None:
    model = opened(gpt2, noise_weight=1.0)
    with torch.no_grad():
        assert not torch.equal(model(IDS).logits, model(IDS).logits)
        epsilon = torch.randn(2, 6, 2, 64)
        assert torch.equal(model(IDS, noise=epsilon).logits, model(IDS, noise=epsilon).logits)
        model.config.noise = False
        off = model(IDS).logits
        assert torch.equal(off, model(IDS).logits)
        assert torch.allclose(off, model(IDS, noise=torch.zeros_like(epsilon)).logits, atol=1e-6)
        assert model.row_noise(torch.tensor([1, 2]), torch.zeros(2, 1, dtype=torch.int64)) is None


def test_a_rows_noise_depends_on_its_seed_and_positions_alone(gpt2: Path) -> None:
    model = opened(gpt2, noise_weight=1.0)
    positions = torch.arange(6).expand(2, 6)
    both = model.row_noise(torch.tensor([7, 8]), positions)
    alone = model.row_noise(torch.tensor([8]), positions[:1, 2:4])
    assert both is not None
    assert alone is not None
    assert both.shape == (2, 6, 2, 64)
    assert torch.equal(both[1:, 2:4], alone)
    assert abs(float(both.mean())) < 0.1
    assert float(both.std()) == pytest.approx(1, abs=0.05)
    assert torch.equal(both.flatten(2), draws.normals(torch.tensor([7, 8]), positions, 128))


def test_a_cache_changes_nothing(gpt2: Path) -> None:
    model = opened(gpt2, noise_weight=1.0)
    epsilon = torch.randn(2, 6, 2, 64)
    with torch.no_grad():
        whole = model(IDS, noise=epsilon).logits
        first = model(IDS[:, :4], noise=epsilon[:, :4], use_cache=True)
        rest = model(IDS[:, 4:], noise=epsilon[:, 4:], past_key_values=first.past_key_values)
    assert torch.allclose(whole[:, 4:], rest.logits, atol=1e-5)


def test_padding_has_no_part_in_the_statistics(gpt2: Path) -> None:
    model = opened(gpt2).train()
    counted = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]]).bool()
    head = model.transformer.h[0].latent
    head.dropout.p = 0.0
    hidden = torch.randn(2, 6, 64)
    other = hidden.clone()
    other[0, 4:] = 100.0
    with torch.no_grad():
        for a, b in zip(head(hidden, counted), head(other, counted), strict=True):
            assert torch.equal(a[counted], b[counted])


def test_saved_and_loaded_it_answers_the_same(gpt2: Path, tmp_path: Path) -> None:
    model = opened(gpt2, noise_weight=0.7)
    model.save_pretrained(tmp_path / "saved")
    files = {path.suffix for path in (tmp_path / "saved").iterdir()}
    assert files == {".safetensors", ".json"}
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "saved").eval()
    assert isinstance(again, VaeGpt)
    epsilon = torch.randn(2, 6, 2, 64)
    with torch.no_grad():
        assert torch.equal(again(IDS, noise=epsilon).logits, model(IDS, noise=epsilon).logits)
    # Its form is another than the one that training begins with.
    with pytest.raises(ValueError, match="vaegpt"):
        from_gpt2(tmp_path / "saved")


def test_a_checkpoint_in_bf16_is_taken_in_fp32(gpt2: Path, tmp_path: Path) -> None:
    GPT2LMHeadModel.from_pretrained(gpt2).bfloat16().save_pretrained(tmp_path)
    for model in (from_gpt2(tmp_path), frozen_judge(tmp_path)):
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_a_checkpoint_without_safetensors_is_refused(gpt2: Path, tmp_path: Path) -> None:
    pickled = shutil.copytree(gpt2, tmp_path / "pickled")
    weights = GPT2LMHeadModel.from_pretrained(gpt2).state_dict()
    (pickled / "model.safetensors").unlink()
    torch.save(weights, pickled / "pytorch_model.bin")
    for take in (from_gpt2, frozen_judge):
        with pytest.raises(ValueError, match="pickled"):
            take(pickled)
