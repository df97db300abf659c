"""One form of an encoder becomes another, with the same weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tercet.models.encoders.encoder import encode, load_encoder
from tercet.models.encoders.own_modules import save_encoder

FORMS: list[tuple[Any, str | None]] = [
    ("mean", None),
    (("cls", "mean"), None),
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
    with pytest.raises(ValueError, match=r"fit vectors of 32 numbers, .* makes 64: leave pooling"):
        load_encoder(path, ("mean", "cls"))


def test_what_a_pooling_says_of_prompts_survives(tmp_path: Path, tiny_backbone: Path) -> None:
    model = load_encoder(tiny_backbone, "mean")
    model[1].include_prompt = False
    path = save_encoder(model, tmp_path / "saved")
    assert load_encoder(path, "max")[1].include_prompt is False
