"""One form of an encoder becomes another, with the same weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tercet.models.encoders.encoder import encode, load_encoder, save_encoder
from tercet.models.encoders.forms import pooling_of

FORMS: list[tuple[Any, str | None]] = [
    ("mean", None),
    (("cls", "mean"), None),
    ("first_last_mean", None),
    ("mask", None),
    ("mask", "{mask}: {sentence}"),
]


@pytest.mark.parametrize("before", FORMS)
@pytest.mark.parametrize("after", FORMS)
def test_a_saved_form_can_be_used_as_any_other(
    tmp_path: Path,
    tiny_backbone: Path,
    tiny_texts: list[str],
    before: tuple[Any, str | None],
    after: tuple[Any, str | None],
) -> None:
    texts = tiny_texts[:6]
    model = load_encoder(tiny_backbone, before[0], prompt=before[1], max_length=30)
    path = save_encoder(model, tmp_path / "saved")
    other = load_encoder(path, after[0], prompt=after[1])
    assert other.max_seq_length == 30
    # Without a prompt of its own a template stays as it was saved.
    prompt = after[1] or (before[1] if after[0] == before[0] else None)
    expected = load_encoder(tiny_backbone, after[0], prompt=prompt)
    np.testing.assert_array_equal(encode(other, texts), encode(expected, texts))


def test_the_first_and_the_last_layer_are_averaged(
    tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel, AutoTokenizer

    texts = tiny_texts[:6]
    network = AutoModel.from_pretrained(tiny_backbone).eval()
    given = AutoTokenizer.from_pretrained(tiny_backbone)(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = network(**given, output_hidden_states=True).hidden_states
    mask = given["attention_mask"].unsqueeze(-1)
    expected = ((states[1] + states[-1]) / 2 * mask).sum(1) / mask.sum(1)
    model = load_encoder(tiny_backbone, "first_last_mean")
    np.testing.assert_allclose(encode(model, texts, normalise=False), expected, atol=1e-6)
    # It is a plain encoder, whose weights of layers are not trained.
    path = save_encoder(model, tmp_path / "saved")
    plain = SentenceTransformer(str(path), device="cpu").encode(texts)
    np.testing.assert_allclose(plain, expected, atol=1e-6)
    again = load_encoder(path)
    assert pooling_of(again) == "first_last_mean"
    assert not [
        n
        for n, p in again.named_parameters()
        if "layer" in n and not n.startswith("0.") and p.requires_grad
    ]


def test_several_poolings_are_concatenated(tiny_backbone: Path, tiny_texts: list[str]) -> None:
    both = encode(load_encoder(tiny_backbone, ("max", "cls")), tiny_texts[:5], normalise=False)
    parts = [
        encode(load_encoder(tiny_backbone, mode), tiny_texts[:5], normalise=False)
        for mode in ("max", "cls")
    ]
    np.testing.assert_allclose(both, np.hstack(parts), atol=1e-6)


def test_layers_that_fit_other_vectors_are_refused(tmp_path: Path, tiny_backbone: Path) -> None:
    from sentence_transformers.sentence_transformer.modules import Dense

    model = load_encoder(tiny_backbone, "mean")
    model.append(Dense(32, 8))
    path = save_encoder(model, tmp_path / "saved")
    assert encode(load_encoder(path, "mask"), ["red"]).shape == (1, 8)
    with pytest.raises(ValueError, match=r"32.*64.*pooling"):
        load_encoder(path, ("mean", "cls"))
