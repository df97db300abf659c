"""A text's loss is that of each of its tokens after the ones before it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_generators import tiny_causal

from tercet.models import pretrained
from tercet.models.encoders.encoder import load_encoder
from tercet.models.measures.generated import mean_word_vectors, text_losses


def test_losses_token_by_token(tmp_path: Path) -> None:
    folder = tiny_causal(tmp_path / "tiny", ["red", "green", "blue"])
    tokenizer, model = pretrained.load_tokenizer(folder), pretrained.causal_model(folder).eval()
    texts = ["red green", "", "blue blue blue red", "green"]
    losses, counts = text_losses(model, tokenizer, texts, 2)
    end = tokenizer.eos_token_id
    for text, found, count in zip(texts, losses, counts, strict=True):
        ids = [end, *tokenizer(text, add_special_tokens=False)["input_ids"], end]
        total = 0.0
        for place in range(1, len(ids)):
            with torch.no_grad():
                logits = model(torch.tensor([ids[:place]])).logits[0, -1]
            total -= float(logits.log_softmax(-1)[ids[place]])
        assert found == pytest.approx(total, rel=1e-4)
        assert count == len(ids) - 1


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
