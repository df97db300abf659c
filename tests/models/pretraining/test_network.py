"""The networks of the three forms, and the dropout that a training gives them."""

import pytest
import torch
from torch import nn

from tercet.models.pretraining import batches, network
from tercet.models.pretraining import tokenizer as tokenizers

VOCABULARY = {"masked": 90, "causal": 280, "t5": 160}


@pytest.mark.parametrize("form", VOCABULARY)
def test_dropout_is_that_of_the_training_and_the_config_keeps_its_own(
    form, tiny_texts: list[str]
) -> None:
    made = tokenizers.trained(form, VOCABULARY[form], 32, lambda: iter([tiny_texts]))
    model = network.new_model(form, network.Shape(2, 32, 2, 32), made)
    config = model.config.to_dict()
    language = network.LanguageModel(model, form).train()
    ids = torch.full((2, 16), 5)
    given = {"ids": ids, "lengths": torch.tensor([16, 9]), "answers": ids}
    given |= {"places": ids * 0 + torch.arange(16)} if form == "masked" else {}

    def losses() -> set[float]:
        return {float(language(**given)) for _ in range(3)}

    assert len(losses()) == 3
    network.set_dropout(model, 0.0)
    assert len(losses()) == 1
    network.set_dropout(model, 0.2)
    assert len(losses()) == 3
    assert model.config.to_dict() == config
    assert all(m.p == 0.2 for m in model.modules() if isinstance(m, nn.Dropout))


def test_texts_with_nothing_to_find_leave_the_weights_as_they_are(tiny_texts: list[str]) -> None:
    made = tokenizers.trained("masked", VOCABULARY["masked"], 32, lambda: iter([tiny_texts]))
    model = network.new_model("masked", network.Shape(1, 32, 2, 32), made)
    ids, lengths = torch.full((2, 16), made.unk_token_id), torch.tensor([16, 9])
    nothing = torch.full((2, 3), batches.IGNORED)
    loss = network.LanguageModel(model, "masked")(ids, lengths, nothing, torch.zeros_like(nothing))
    loss.backward()
    assert float(loss) == 0
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())
