"""Word vectors are the encoder's own table, without its special tokens."""

from pathlib import Path

import numpy as np
import pytest

from tercet.models.encoders.encoder import load_encoder
from tercet.models.encoders.word_vectors import mean_word_vectors


def test_the_mean_of_the_table(tiny_backbone: Path) -> None:
    model = load_encoder(tiny_backbone)
    found = mean_word_vectors(model, ["red blue", "blue red", "red", ""])
    table = model[0].auto_model.get_input_embeddings().weight.detach().numpy()
    vocabulary = model.tokenizer.get_vocab()
    mean = (table[vocabulary["red"]] + table[vocabulary["blue"]]) / 2
    assert found[0] == pytest.approx(mean / np.linalg.norm(mean), abs=1e-6)
    assert np.allclose(found[0], found[1])
    assert np.linalg.norm(found[2]) == pytest.approx(1)
    assert not found[3].any()
