"""A loss that reads token states and has a decoder of its own, trained, stopped and resumed."""

from pathlib import Path

import pytest
import torch
from counted import frequencies
from training_run import NUMBERS, part, same_weights, table, without_rate

from tercet.models.encoders.encoder import load_encoder
from tercet.models.encoders.settings import TokenCnnForm
from tercet.models.training.loop import Setting
from tercet.models.training.phase import Trained
from tercet.models.training.train_encoder import train_encoder

FORM = TokenCnnForm("token_cnn", channels=6, filters=2)


class Stopped(Exception):
    """As by a kill: nothing is written after it."""


def test_stopped_and_resumed_it_ends_with_the_same_weights(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    torch.set_num_threads(1)
    rows = table(tiny_texts)
    numbers = NUMBERS.model_copy(update={"max_steps": 12})

    def train(folder: str, stop: int = 99) -> tuple[dict[str, torch.Tensor], Trained]:
        model = load_encoder(tiny_backbone, FORM, cnn_seed=0)
        counts = frequencies(tmp_path / "counts", model.tokenizer, tiny_texts)
        decoded = part(rows, "token_reconstruction", slots={"frequencies": counts}, weight=0.5)

        def progress(done: int, total: int | None, unit: str) -> None:
            seen.append(done)
            if done == stop:
                raise Stopped

        setting = Setting(
            tmp_path / folder, seed=11, log_steps=2, checkpoint_steps=4, progress=progress
        )
        trained = train_encoder(model, numbers, [decoded], setting)
        return model.state_dict(), trained

    seen: list[int] = []
    with pytest.raises(Stopped):
        train("stopped", stop=7)
    seen.clear()
    weights, resumed = train("stopped")
    assert seen[0] == 5
    whole, undisturbed = train("whole")
    assert any("text_cnns" in name for name in whole)
    assert same_weights(weights, whole)
    assert without_rate(resumed.log) == without_rate(undisturbed.log)
    first, last = (undisturbed.log[place]["terms"]["reconstruction"] for place in (0, -1))
    assert last < first
