"""Definitions in a phase of parts: entries of any number reach the loss, and are learnt."""

from pathlib import Path
from typing import Any

import torch
from entry_rows import owned, space
from safetensors.torch import load_file
from torch import Tensor
from training_run import NUMBERS, part, table, train

from tercet.models.encoders.encoder import load_encoder
from tercet.models.losses.definition_loss import projection_for, read_projection
from tercet.models.training.train_encoder import save_encoder


def test_definitions_beside_triplets_learn_their_entries(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    rows = owned(table(tiny_texts), 20)
    definitions = part(rows, "definition", share=0.5, slots={"entry_matrix": space(tmp_path, 20)})
    weights, trained = train(
        tiny_backbone, [definitions, part(rows, "gaussian_decay", share=0.5)], tmp_path / "work"
    )
    first, last = trained.log[0]["terms"], trained.log[-1]["terms"]
    assert last["definition.loss"] < first["definition.loss"]
    assert 0 <= first["definition.recall_1"] <= 1
    # A third of the rows has two entries.
    assert 0 < last["definition.floor"] < 0.693
    # The projection goes beside the encoder, the entries do not.
    path = save_encoder(load_encoder(tiny_backbone), tmp_path / "encoder", trained.kept)
    file = path / "losses" / "definition.projection.safetensors"
    assert set(load_file(file)) == {"dense.weight", "dense.bias", "gelu", "scale"}
    assert read_projection(file).dense.weight.shape == (32, 32)
    assert not any("matrix" in name for name in weights)


def test_the_projection_is_blended_as_the_encoder_that_it_fits(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    rows = owned(table(tiny_texts), 20)
    parts = [part(rows, "definition", slots={"entry_matrix": space(tmp_path, 20)})]

    def projection(name: str, **changes: Any) -> Tensor:
        numbers = NUMBERS.model_copy(update={"epochs": 1.0, "max_steps": 4, **changes})
        (kept,) = train(tiny_backbone, parts, tmp_path / name, numbers)[1].kept.values()
        return kept.dense.weight.detach()

    start = projection_for(load_encoder(tiny_backbone, "mean"), 32, "auto").dense.weight.detach()
    alone, blend = projection("alone"), projection("blend", weight_interpolation=0.25)
    assert not torch.equal(alone, start)
    assert torch.allclose(blend, 0.75 * alone + 0.25 * start, atol=1e-6)
