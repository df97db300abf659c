"""Batches cut by length: the cheapest cut, and an encoder that sees it."""

from itertools import combinations
from pathlib import Path
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from training_run import NUMBERS, part, table

from tercet.models.encoders.encoder import load_encoder
from tercet.models.training.loop import Setting
from tercet.models.training.train_encoder import LengthGroups, cheapest, train_encoder

PASS = 64


def cost(widths: list[int], sizes: list[int]) -> int:
    """Tokens with padding, and passes at their price in tokens."""
    total, start = 0, 0
    for size in sizes:
        start += size
        total += size * widths[start - 1] + PASS
    return total


@given(st.lists(st.integers(1, 64), min_size=1, max_size=9).map(sorted))
def test_no_cut_is_cheaper(widths: list[int]) -> None:
    places = range(1, len(widths))
    cuts = [c for n in range(len(widths)) for c in combinations(places, n)]
    every = [
        [end - begin for begin, end in zip((0, *c), (*c, len(widths)), strict=True)] for c in cuts
    ]
    found = cheapest(widths)
    assert sum(found) == len(widths)
    assert cost(widths, found) == min(cost(widths, sizes) for sizes in every)


def passes_of(model: Any) -> list[int]:
    """The sizes of the batches that the encoder will see."""
    sizes: list[int] = []
    model[0].register_forward_pre_hook(lambda _, given: sizes.append(len(given[0]["input_ids"])))
    return sizes


def test_a_text_without_a_token_has_a_vector(tiny_backbone: Path, tiny_texts: list[str]) -> None:
    model = load_encoder(tiny_backbone, "mean").eval()
    features = model.preprocess([" ".join(tiny_texts[:3])] * 12, max_length=64)
    features["attention_mask"][6:] = 0
    whole, sizes = model(dict(features))["sentence_embedding"], passes_of(model)
    found = LengthGroups(model)(dict(features))["sentence_embedding"]
    assert sizes == [6, 6]
    torch.testing.assert_close(found[:6], whole[:6])
    assert found.isfinite().all()


def test_a_training_encodes_texts_of_like_length_together(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    texts = [" ".join([text] * (1 + 9 * (n % 2))) for n, text in enumerate(tiny_texts[:8])]
    numbers = NUMBERS.model_copy(update={"max_steps": 1, "max_length": 64})
    model = load_encoder(tiny_backbone, "mean")
    sizes = passes_of(model)
    train_encoder(model, numbers, [part(table(texts), "info_nce")], Setting(tmp_path, 11))
    # Anchors, positives and negatives of one batch.
    assert sum(sizes) == 3 * 8
    assert len(sizes) > 3


def test_texts_of_like_length_are_encoded_whole(tiny_backbone: Path, tiny_texts: list[str]) -> None:
    """Bit for bit what the encoder gives, its draws of dropout too."""
    torch.set_num_threads(1)
    model = load_encoder(tiny_backbone, "mean").train()
    features = model.preprocess(tiny_texts[:4], max_length=8)
    torch.manual_seed(3)
    whole = model(dict(features))["sentence_embedding"]
    torch.manual_seed(3)
    assert torch.equal(LengthGroups(model)(features)["sentence_embedding"], whole)


def test_vectors_stand_in_the_order_of_the_texts(
    tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    model = load_encoder(tiny_backbone, "mean").eval()
    texts = [" ".join(tiny_texts[: 1 + n % 3]) for n in range(40)]
    features = model.preprocess(texts, max_length=64)
    whole, sizes = model(dict(features))["sentence_embedding"], passes_of(model)
    found = LengthGroups(model)(features)["sentence_embedding"]
    assert len(sizes) > 1
    torch.testing.assert_close(found, whole)
