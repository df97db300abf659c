"""The numbers of SARCSE's loss in a recipe, and what it cannot be built of."""

from pathlib import Path
from typing import Any

import pytest
from counted import frequencies
from pydantic import ValidationError
from transformers import AutoTokenizer

from tercet.models.encoders.encoder import load_encoder
from tercet.models.encoders.settings import TokenCnnForm
from tercet.models.losses.registry import fill_loss, loss_named, loss_of, params_of

NAME = "token_reconstruction"


def test_the_papers_numbers_are_the_defaults() -> None:
    found = fill_loss(NAME)
    assert found["with"] == {"name": "info_nce", "tau": 0.05, "head": False}
    assert (found["weight"], found["floor"], found["slope"]) == (2.5e-4, 0.1, 50.0)
    # The paper has no stop-gradient.
    assert found["detach"] is False
    assert params_of(found).model_dump() == {k: v for k, v in found.items() if k != "name"}


def test_the_other_loss_has_numbers_of_its_own() -> None:
    found = fill_loss({"name": NAME, "with": {"name": "gaussian_decay", "sigma_cosine": 0.1}})
    assert (found["with"]["sigma_cosine"], found["with"]["tau"]) == (0.1, 0.05)
    assert loss_of(found).around == ("gaussian_decay",)
    assert loss_of(found).texts == ("anchor", "positive", "negative")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"with": NAME}, "cannot stand around the loss token_reconstruction"),
        ({"with": "guided"}, "cannot stand around the loss guided"),
        ({"with": {"tau": 0.1}}, "name the loss: one of definition, "),
        ({"with": "cosine"}, "there is no loss 'cosine'"),
        ({"with": {"name": "info_nce", "tau": 0}}, "greater than 0"),
        ({"with": {"name": "info_nce", "width": 1}}, "Extra inputs"),
        ({"slope": 0}, "set adaptive: false instead"),
        ({"unpooling": "mean"}, "'places' or 'broadcast'"),
        ({"weight": 0}, "greater than 0"),
    ],
)
def test_what_is_no_such_loss(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
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
    told = {
        "set train.pooling to token_cnn": (mean, foreign),
        "counted with another tokenizer than the encoder's": (model, foreign),
        "has no token counts: name a model that count_tokens makes": (model, tiny_backbone),
    }
    for words, (encoder, folder) in told.items():
        with pytest.raises(ValueError, match=words) as raised:
            loss.build(encoder, loss.params(), {"frequencies": folder})
        assert "\n" not in str(raised.value)
