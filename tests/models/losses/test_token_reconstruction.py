"""SARCSE's loss against literal loops, and what its numbers change."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from counted import frequencies
from pydantic import ValidationError
from torch import Tensor
from transformers import AutoTokenizer

from tercet.models.encoders.encoder import load_encoder
from tercet.models.encoders.settings import TokenCnnForm
from tercet.models.encoders.token_cnn import KERNELS
from tercet.models.losses.registry import LOSSES, fill_loss, loss_named, loss_of
from tercet.models.losses.token_reconstruction import (
    TokenDecoder,
    reconstruction_error,
    token_weights,
)

FORM = TokenCnnForm("token_cnn", channels=6, filters=2)
# A loss that reads a model, or other texts, is refused.
AROUND = [
    name
    for name in LOSSES
    if name not in ("token_reconstruction", "matryoshka")
    and not loss_named(name).slots
    and loss_named(name).texts[:2] == ("anchor", "positive")
]


@pytest.fixture
def model(tiny_backbone: Path) -> Any:
    """In eval mode: no dropout, so that a text is encoded the same way each time."""
    return load_encoder(tiny_backbone, FORM, cnn_seed=0)


def built(model: Any, folder: Path, texts: list[str], **numbers: Any) -> Any:
    loss = loss_named("token_reconstruction")
    slots = {"frequencies": frequencies(folder / "counts", model.tokenizer, texts)}
    torch.manual_seed(5)
    return loss.build(model, loss.params(**numbers), slots)


def features(model: Any, *columns: list[str]) -> list[dict[str, Tensor]]:
    return [dict(model.preprocess(texts)) for texts in columns]


def test_weights_of_a_corpus_by_hand() -> None:
    """Of 1,000 tokens: "the" 30 times, "of" 18, "file" 10, "row" 1, and one that is not there."""
    counts = np.array([30, 18, 10, 1, 0])
    weights = token_weights(counts / 1000, 0.1, 50.0)
    # 1.8 % is where the floor is reached.
    torch.testing.assert_close(weights, torch.tensor([0.1, 0.1, 0.5, 0.95, 1.0]))
    assert token_weights(None, 0.1, 50.0) is None


def test_the_error_is_that_of_literal_loops() -> None:
    torch.manual_seed(0)
    states, made = torch.randn(3, 4, 5), torch.randn(3, 4, 5)
    text = torch.tensor([[0, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]]).bool()
    weights = torch.rand(3, 4)
    total = 0.0
    for row in range(3):
        tokens = [place for place in range(4) if text[row, place]]
        summed = 0.0
        for place in tokens:
            squares = sum(
                (float(states[row, place, k]) - float(made[row, place, k])) ** 2 for k in range(5)
            )
            summed += float(weights[row, place]) * squares
        total += summed / len(tokens) if tokens else 0.0
    found = float(reconstruction_error(states, made, text, weights))
    assert found == pytest.approx(total / 3, rel=1e-5)


@pytest.mark.parametrize("unpooling", ["places", "broadcast"])
def test_the_decoder_is_that_of_literal_loops(unpooling: Any) -> None:
    torch.manual_seed(0)
    width, channels, filters = 3, 4, 2
    decoder: Any = TokenDecoder(width, channels, filters, unpooling)
    vectors = torch.randn(2, filters * (channels - 1))
    # Two tokens from place 1, as after a special token, and six from 0.
    text = torch.tensor([[0, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1]]).bool()
    starts, counts = [1, 0], [2, 6]
    places = torch.stack(
        [
            torch.stack(
                [start + torch.arange(channels) % (max(count, 5) - size + 1) for size in KERNELS]
            )
            for start, count in zip(starts, counts, strict=True)
        ]
    )
    found = decoder(vectors, places, text)
    assert found.shape == (2, 6, width)
    for row, (start, count) in enumerate(zip(starts, counts, strict=True)):
        multi = [[decoder.cnn.bias.item()] * channels for _ in KERNELS]
        for which in range(filters):
            for place in range(channels - 1):
                value = vectors[row, which * (channels - 1) + place].item()
                for kernel in range(3):
                    for step in range(2):
                        weight = decoder.cnn.weight[which, 0, kernel, step].item()
                        multi[kernel][place + step] += value * weight
        wanted = torch.zeros(6, width)
        for number, (cnn, size) in enumerate(zip(decoder.text_cnns, KERNELS, strict=True)):
            for token in range(start, start + count):
                wanted[token] += cnn.bias.detach() / 3
            for window in range(start, start + max(count, 5) - size + 1):
                for channel in range(channels):
                    if unpooling == "places" and places[row, number, channel] != window:
                        continue
                    for step in range(size):
                        if window + step < start + count:
                            value = multi[number][channel]
                            wanted[window + step] += value * cnn.weight[channel, :, step] / 3
        torch.testing.assert_close(found[row], wanted.detach(), atol=1e-5, rtol=1e-4)


def test_the_whole_loss_is_the_sum_of_its_terms(
    model: Any, tiny_texts: list[str], tmp_path: Path
) -> None:
    anchors, positives = tiny_texts[:4], tiny_texts[4:8]
    loss = built(model, tmp_path, tiny_texts, weight=0.01, floor=0.4, slope=20.0)
    value = loss(features(model, anchors, positives), None)
    info_nce = loss_named("info_nce")
    plain = info_nce.build(model, info_nce.params(), {})(features(model, anchors, positives), None)
    tokenizer = model.tokenizer
    ids = [n for t in tiny_texts for n in tokenizer(t, add_special_tokens=False)["input_ids"]]
    errors = []
    for texts in (anchors, positives):
        (given,) = features(model, texts)
        made = model(given)
        rebuilt = loss.decoder(made["cnn_embedding"], made["cnn_places"], made["cnn_text"])
        total = 0.0
        for row, text in enumerate(texts):
            words = text.split()
            for place, word in enumerate(words, start=1):
                share = ids.count(tokenizer.convert_tokens_to_ids(word)) / len(ids)
                apart = made["token_embeddings"][row, place] - rebuilt[row, place]
                total += (
                    max(0.4, 1 - 20.0 * share) * apart.detach().pow(2).sum().item() / len(words)
                )
        errors.append(total / 4)
    assert value.item() == pytest.approx(plain.item() + 0.01 * sum(errors), rel=1e-4)
    assert float(loss.terms["contrastive"]) == pytest.approx(float(plain), rel=1e-5)
    assert float(loss.terms["reconstruction"]) == pytest.approx(errors[0], rel=1e-4)
    assert float(loss.terms["reconstruction_positive"]) == pytest.approx(errors[1], rel=1e-4)


@pytest.mark.parametrize("name", AROUND)
def test_it_stands_around_any_loss_on_anchors_and_positives(
    name: str, model: Any, tiny_texts: list[str], tmp_path: Path
) -> None:
    whole = loss_named("token_reconstruction")
    params = whole.params(**{"with": name, "adaptive": False})
    resolved = whole.with_params(params)
    other = loss_named(name)
    assert (resolved.texts, resolved.optional, resolved.labels, resolved.around) == (
        other.texts,
        other.optional,
        other.labels,
        (name,),
    )
    columns = [*other.texts, *other.optional]
    # As many letters in each, so that the library would like to encode some of them together.
    given = features(model, *(tiny_texts[4 * n : 4 * n + 4] for n in range(len(columns))))
    labels = torch.full((4,), 0.5) if other.labels else None
    torch.manual_seed(5)
    loss: Any = whole.build(model, params, {})
    value = loss([dict(column) for column in given], labels)
    plain = other.build(model, other.params(), {})([dict(column) for column in given], labels)
    assert set(loss.terms) == set(resolved.terms)
    both = loss.terms["reconstruction"] + loss.terms["reconstruction_positive"]
    assert float(value) == pytest.approx(float(plain) + 2.5e-4 * float(both), rel=1e-4)


def test_an_encoder_that_keeps_no_states_is_told(
    model: Any, tiny_texts: list[str], tmp_path: Path
) -> None:
    class OnlyVectors(torch.nn.Module):
        """As cached gradients have it."""

        def forward(self, given: dict[str, Tensor]) -> dict[str, Tensor]:
            return {"sentence_embedding": model(given)["sentence_embedding"]}

    loss = built(model, tmp_path, tiny_texts)
    loss.encoder.model = OnlyVectors()
    with pytest.raises(ValueError, match="mini_batch"):
        loss(features(model, tiny_texts[:4], tiny_texts[4:8]), None)


def test_without_the_decoder_it_is_the_other_loss(
    model: Any, tiny_texts: list[str], tmp_path: Path
) -> None:
    loss = built(model, tmp_path, tiny_texts, decoder=False)
    other = loss_named("info_nce")
    columns = tiny_texts[:4], tiny_texts[4:8]
    wanted = other.build(model, other.params(), {})(features(model, *columns), None)
    torch.testing.assert_close(loss(features(model, *columns), None), wanted)
    whole = loss_named("token_reconstruction")
    for numbers in ({"decoder": False}, {"adaptive": False}):
        assert whole.with_params(whole.params(**numbers)).slots == ()
    assert whole.with_params(whole.params()).slots == ("frequencies",)


def test_a_target_with_a_gradient_outweighs_the_vectors(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    model: Any = load_encoder(tiny_backbone, "token_cnn", cnn_seed=0)

    def slope(**numbers: Any) -> Tensor:
        loss = built(model, tmp_path, tiny_texts, weight=1.0, **numbers)
        model.zero_grad()
        torch.manual_seed(9)
        loss(features(model, tiny_texts[:8], tiny_texts[:8]), None).backward()
        return torch.cat([p.grad.flatten() for p in model[0].parameters() if p.grad is not None])

    contrast = slope(decoder=False)
    fixed, free = (float((slope(detach=d) - contrast).norm()) for d in (True, False))
    assert free > 3 * fixed > 0


NAME = "token_reconstruction"


def test_the_other_loss_has_numbers_of_its_own() -> None:
    found = fill_loss({"name": NAME, "with": {"name": "gaussian_decay", "sigma_cosine": 0.1}})
    assert (found["with"]["sigma_cosine"], found["with"]["tau"]) == (0.1, 0.05)
    assert loss_of(found).around == ("gaussian_decay",)
    assert loss_of(found).texts == ("anchor", "positive", "negative")


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"with": NAME}, NAME),
        ({"with": "guided"}, "guided"),
        ({"with": {"tau": 0.1}}, "definition"),
        ({"with": "cosine"}, "cosine"),
        ({"with": {"name": "info_nce", "tau": 0}}, "tau"),
        ({"slope": 0}, "adaptive"),
    ],
)
def test_what_is_no_such_loss(wrong: dict[str, Any], name: str) -> None:
    with pytest.raises(ValidationError, match=name):
        fill_loss({"name": NAME, **wrong})


def test_an_encoder_or_counts_that_do_not_fit_are_one_sentence(
    tiny_backbone: Path, tmp_path: Path
) -> None:
    loss = loss_named(NAME)
    mean = load_encoder(tiny_backbone, "mean")
    model = load_encoder(tiny_backbone, TokenCnnForm("token_cnn", channels=4), cnn_seed=0)
    other = AutoTokenizer.from_pretrained(tiny_backbone)
    other.add_tokens(["heron"])
    foreign = frequencies(tmp_path / "foreign", other, ["the old file"])
    for name, encoder, folder in (
        ("train.pooling", mean, foreign),
        ("tokenizer", model, foreign),
        ("count_tokens", model, tiny_backbone),
    ):
        with pytest.raises(ValueError, match=name):
            loss.build(encoder, loss.params(), {"frequencies": folder})
