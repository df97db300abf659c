"""What a phase keeps of the weights that it starts from."""

from pathlib import Path
from typing import Any

import torch
from training_run import NUMBERS, Weights, mixed, same_weights, table, train

from tercet.models.encoders.encoder import load_encoder
from tercet.models.training.train_encoder import frozen

FEW = NUMBERS.model_copy(update={"epochs": 1.0, "max_steps": 6})


def trained(backbone: Path, texts: list[str], to: Path, **changes: Any) -> Weights:
    torch.set_num_threads(1)
    return train(backbone, mixed(table(texts)), to, FEW.model_copy(update=changes))[0]


def moved(before: Weights, after: Weights) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}


def test_lower_layers_and_embeddings_stay_and_the_rest_trains(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    before = load_encoder(tiny_backbone, "mean").state_dict()
    changed = moved(before, trained(tiny_backbone, tiny_texts, tmp_path, frozen_layers=1))
    assert changed
    assert all(".layer.1." in name for name in changed)
    free = moved(before, trained(tiny_backbone, tiny_texts, tmp_path / "free"))
    assert any("embeddings." in name for name in free)
    assert any(".layer.0." in name for name in free)


def test_what_was_frozen_can_train_in_the_next_phase(tiny_backbone: Path) -> None:
    model = load_encoder(tiny_backbone, "mean")
    with frozen(model, 1):
        inside = [name for name, p in model.named_parameters() if not p.requires_grad]
    assert inside
    assert all(p.requires_grad for p in model.parameters())


def test_an_encoder_that_reads_templates_can_be_frozen_too(tiny_backbone: Path) -> None:
    model = load_encoder(tiny_backbone, "mask")
    with frozen(model, 1):
        still = {name for name, p in model.named_parameters() if not p.requires_grad}
    assert any("embeddings." in name for name in still)
    assert any(".layer.0." in name for name in still)
    assert not any(".layer.1." in name for name in still)


def test_a_share_of_the_starting_weights_is_blended_in_once_even_after_a_restart(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    before = load_encoder(tiny_backbone, "mean").state_dict()
    alone = trained(tiny_backbone, tiny_texts, tmp_path / "alone")
    blend = trained(tiny_backbone, tiny_texts, tmp_path / "blend", weight_interpolation=0.25)
    for name, weight in blend.items():
        if weight.is_floating_point():
            wanted = 0.75 * alone[name] + 0.25 * before[name]
            assert torch.allclose(weight, wanted, atol=1e-6), name
    assert moved(alone, blend)
    # The training is finished: only its end is done again.
    again = trained(tiny_backbone, tiny_texts, tmp_path / "blend", weight_interpolation=0.25)
    assert same_weights(blend, again)
