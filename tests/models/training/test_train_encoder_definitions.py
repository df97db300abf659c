"""Definitions in a phase of parts: entries of any number reach the loss, and are learnt."""

from pathlib import Path

from entry_rows import owned, space
from safetensors.torch import load_file
from training_run import part, table, train

from tercet.models.encoders.encoder import load_encoder
from tercet.models.losses.definition_loss import read_projection
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
