"""Cached gradients: those of the plain step, in the memory of a few texts."""

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from entry_rows import space
from sentence_transformers import SentenceTransformer
from tiny_models import WORDS
from tiny_t5 import tiny_t5
from torch import Tensor, nn
from training_run import NUMBERS, Weights, mixed, same_weights, table, train

from tercet.models.encoders.encoder import load_encoder
from tercet.models.losses.registry import loss_named
from tercet.models.training import train_encoder as training
from tercet.models.training.train_encoder import CachedEncoder, LengthGroups

LOSSES: list[tuple[str, dict[str, Any]]] = [
    ("info_nce", {}),
    ("info_nce", {"head": True}),
    ("gaussian_decay", {"sigma_cosine": 0.2}),
    ("gaussian_decay", {"sigma_cosine": 0.0, "head": True}),
    ("nt_xent", {}),
    ("pairwise_logistic", {}),
]

Gradients = dict[str, Tensor]


@pytest.fixture
def encoder(tiny_backbone: Path) -> SentenceTransformer:
    """In training, without dropout."""
    torch.set_num_threads(1)
    model = load_encoder(tiny_backbone, "mean").train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def columns(model: SentenceTransformer, texts: list[str], loss: str) -> list[dict[str, Any]]:
    """Texts of a row of very different lengths, as the loss takes them."""
    given = [texts, [f"{text} {text}" for text in texts], [text[:9] for text in texts]]
    wanted = 2 if loss == "nt_xent" else 3
    return [model.preprocess(column, max_length=32) for column in given[:wanted]]


def step(
    model: SentenceTransformer, seen: nn.Module, texts: list[str], loss: str, **params: Any
) -> tuple[float, Gradients]:
    """The loss of one step, built around what it sees, and the gradients of all weights.

    params: the loss's, and `slots`.
    """
    torch.manual_seed(5)
    built: Any = loss_named(loss).build
    slots = params.pop("slots", {})
    module = nn.ModuleList([model, built(seen, loss_named(loss).params(**params), slots)])
    module.zero_grad()
    torch.manual_seed(7)
    value = module[1](columns(model, texts, loss), torch.linspace(-0.5, 0.5, len(texts)))
    # As the loss of a part with a weight.
    (0.5 * value).backward()
    found = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    return float(value.detach()), found


def same(left: tuple[float, Gradients], right: tuple[float, Gradients]) -> None:
    """Equal to 1e-5 of the gradient's length: temperatures multiply the float's noise."""
    assert left[0] == pytest.approx(right[0], rel=1e-5)
    assert left[1].keys() == right[1].keys()
    ours, theirs = (
        torch.cat([gradients[name].flatten() for name in left[1]])
        for gradients in (left[1], right[1])
    )
    assert float(theirs.norm()) > 0.1
    assert float((ours - theirs).norm()) <= 1e-5 * float(theirs.norm())


def states_kept(run: Callable[..., Tensor], *given: Any, use_reentrant: bool) -> Tensor:
    """The library's checkpoint, which makes nothing again."""
    return run(*given)


@pytest.mark.parametrize(("loss", "params"), LOSSES)
@pytest.mark.parametrize("mini_batch", [1, 5, 72])
def test_the_gradients_are_those_of_the_plain_step(
    encoder: SentenceTransformer,
    tiny_texts: list[str],
    loss: str,
    params: dict[str, Any],
    mini_batch: int,
) -> None:
    texts = tiny_texts[:24]
    plain = step(encoder, encoder, texts, loss, **params)
    same(plain, step(encoder, CachedEncoder(encoder, mini_batch), texts, loss, **params))


def test_so_are_those_of_definitions(
    encoder: SentenceTransformer, tiny_texts: list[str], tmp_path: Path
) -> None:
    one, entries = loss_named("definition"), space(tmp_path, 24)

    def gradients(seen: Any) -> tuple[float, Gradients]:
        torch.manual_seed(5)
        built = one.build(encoder, one.params(), {"entry_matrix": entries})
        module = nn.ModuleList([encoder, built])
        module.zero_grad()
        built.model = seen
        texts = [text if row % 2 else f"{text} {text}" for row, text in enumerate(tiny_texts[:12])]
        value = built([encoder.preprocess(texts, max_length=32)], torch.arange(12)[:, None])
        value.backward()
        named = {n: p.grad for n, p in module.named_parameters() if p.grad is not None}
        assert "1.projection.dense.weight" in named
        found = {n: gradient for n, gradient in named.items() if not n.startswith("1.model")}
        return float(value.detach()), found

    plain = gradients(encoder)
    same(plain, gradients(CachedEncoder(encoder, 5)))
    same(plain, gradients(LengthGroups(encoder)))


def test_a_guide_sees_the_texts_as_ever(
    encoder: SentenceTransformer, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    """A loss with a frozen model of its own, which asks the encoder for more than vectors."""
    texts, slots = tiny_texts[:24], {"guide": tiny_backbone}
    encoder.eval()
    plain = step(encoder, encoder, texts, "guided", slots=slots)
    same(plain, step(encoder, CachedEncoder(encoder, 5), texts, "guided", slots=slots))


def test_no_text_is_encoded_with_more_than_its_mini_batch(
    encoder: SentenceTransformer, tiny_texts: list[str]
) -> None:
    shapes: list[torch.Size] = []
    encoder[0].register_forward_pre_hook(
        lambda module, given: shapes.append(given[0]["input_ids"].shape)
    )
    step(encoder, CachedEncoder(encoder, 5), tiny_texts[:24], "gaussian_decay")
    # Three columns of 24 texts, forwards, and again backwards.
    assert sum(shape[0] for shape in shapes) == 2 * 3 * 24
    assert max(shape[0] for shape in shapes) == 5
    # The short ones among themselves, without the padding of the long ones.
    assert len({shape[1] for shape in shapes}) > 3


@pytest.mark.usefixtures("bf16_anywhere")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_phase_of_parts_learns_as_with_its_states_kept(
    tiny_backbone: Path,
    tiny_texts: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    precision: str,
) -> None:
    """Two parts with losses and a head of their own, through steps with dropout and clipping."""
    torch.set_num_threads(1)
    numbers = NUMBERS.model_copy(update={"max_steps": 6})

    def run(name: str, mini_batch: int | None = 3) -> tuple[Weights, list[float]]:
        parts = mixed(table(tiny_texts))
        more = {"mini_batch": mini_batch, "precision": precision, "log_steps": 1}
        weights, trained = train(tiny_backbone, parts, tmp_path / name, numbers, **more)
        return weights, [row["loss"] for row in trained.log]

    weights, losses = run("cached")
    with monkeypatch.context() as patch:
        patch.setattr(training, "checkpoint", states_kept)
        kept, kept_losses = run("kept")
    assert losses == pytest.approx(kept_losses, rel=1e-5)
    for name, weight in weights.items():
        torch.testing.assert_close(weight, kept[name], rtol=1e-4, atol=1e-5, msg=name)
    # The plain step draws another dropout.
    plain, plain_losses = run("plain", None)
    assert plain_losses != pytest.approx(losses, rel=1e-5)
    # A batch that fits into one mini-batch is the plain step.
    assert same_weights(run("whole", NUMBERS.batch_size)[0], plain)


def test_the_first_decoder_state_learns_by_cached_gradients(
    tiny_texts: list[str], tmp_path: Path
) -> None:
    """GenSE's encoder: what it is given divides as any other's, and gets no states added."""
    torch.set_num_threads(1)
    path = tiny_t5(tmp_path / "t5", WORDS)
    model = load_encoder(path, "first_decoder", max_length=24, prompt=" is it new").eval()
    texts = tiny_texts[:12]
    plain = step(model, model, texts, "info_nce")
    cached = CachedEncoder(model, 5)
    same(plain, step(model, cached, texts, "info_nce"))
    states: list[weakref.ref[Tensor]] = []
    model[0].register_forward_hook(
        lambda module, given, made: states.append(weakref.ref(made["token_embeddings"]))
    )
    vectors = cached(columns(model, texts, "info_nce")[0])["sentence_embedding"]
    assert vectors.requires_grad
    assert [state() for state in states] == [None] * 3
