"""The loss `definition` against a literal softmax, and the projection that it trains."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers.base.modules import Normalize
from torch import Tensor
from torch.nn.functional import gelu
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tercet.models.encoders.encoder import load_encoder, save_encoder
from tercet.models.encoders.entry_space import Turn
from tercet.models.losses.definition import (
    DefinitionLoss,
    Projection,
    definition_loss,
    projection_for,
    read_projection,
)
from tercet.models.training.checkpoints import weights, write_tensors


def literal(vectors: Tensor, entries: Tensor, owners: list[list[int]]) -> Tensor:
    """Cross-entropy by the formula, with a target that is uniform over the owners."""
    losses = []
    for vector, own in zip(vectors, owners, strict=True):
        exponentials = torch.stack([torch.exp(entry @ vector) for entry in entries])
        probabilities = exponentials / exponentials.sum()
        losses.append(sum(-torch.log(probabilities[e]) / len(own) for e in own))
    return torch.stack(losses).mean()


OWNERS = [[3], [0, 6], [9, 1, 2], [9]]
PADDED = torch.tensor([[3, -1, -1], [0, 6, -1], [9, 1, 2], [9, -1, -1]])


@pytest.mark.parametrize("block", [1, 3, 4, 10, 16_384])
def test_it_is_the_cross_entropy_of_a_literal_softmax_in_blocks_of_any_size(block: int) -> None:
    torch.manual_seed(1)
    vectors = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    entries = 2 * torch.randn(10, 5, dtype=torch.float64)
    loss, found = definition_loss(vectors, entries, PADDED, block)
    expected = literal(vectors, entries, OWNERS)
    assert torch.allclose(loss, expected, atol=1e-12)
    (slope,) = torch.autograd.grad(3 * loss, vectors)
    (wanted,) = torch.autograd.grad(3 * expected, vectors)
    assert torch.allclose(slope, wanted, atol=1e-12)
    best = (vectors @ entries.T).argmax(1).tolist()
    assert found.tolist() == [b in own for b, own in zip(best, OWNERS, strict=True)]


def test_large_products_overflow_nothing() -> None:
    entries = torch.tensor([[1000.0, 0.0], [0.0, 1000.0], [900.0, 0.0]])
    vectors = torch.tensor([[1.0, 0.2], [-1.0, -1.0]], requires_grad=True)
    loss, found = definition_loss(vectors, entries, torch.tensor([[0], [1]]), block=1)
    (slope,) = torch.autograd.grad(loss, vectors)
    assert loss.item() == pytest.approx(100 / 2)  # nothing, and 1000 - 900
    assert torch.isfinite(slope).all()
    assert found.tolist() == [True, False]


def encoder_loss(backbone: Path, ids: list[int]) -> DefinitionLoss:
    torch.manual_seed(2)
    encoder = load_encoder(backbone, "mean")
    projection = projection_for(encoder, 32, "auto")
    return DefinitionLoss(encoder, torch.randn(len(ids), 32), torch.tensor(ids), projection)


def test_entries_are_found_by_their_ids_and_those_without_a_row_do_not_count(
    tiny_backbone: Path,
) -> None:
    loss = encoder_loss(tiny_backbone, [2, 5, 9])
    texts = ["the first row", "a blue file", "one name"]
    labels = torch.tensor([[5, -1], [9, 4], [7, 12]])
    features = loss.model.preprocess(texts)
    value = loss([features], labels)
    vectors = loss.projection(loss.model(loss.model.preprocess(texts))["sentence_embedding"])
    # Entries 4, 7 and 12 have no row, so that nothing is asked of the last text.
    assert torch.allclose(value, literal(vectors[:2], loss.matrix, [[1], [2]]), atol=1e-5)
    assert float(loss.terms["floor"]) == 0.0
    none = loss([loss.model.preprocess(texts[2:])], labels[2:])
    assert none.item() == 0.0
    none.backward()


def test_the_loss_cannot_fall_below_the_floor(tiny_backbone: Path) -> None:
    loss = encoder_loss(tiny_backbone, [0, 1, 2])
    loss.matrix = torch.tensor([[9.0] * 32, [9.0] * 32, [-9.0] * 32])
    with torch.no_grad():
        loss.projection.dense.bias += 99.0
    value = loss([loss.model.preprocess(["a name"])], torch.tensor([[0, 1]]))
    assert value.item() == pytest.approx(math.log(2), abs=1e-4)
    assert float(loss.terms["floor"]) == pytest.approx(math.log(2))
    assert float(loss.terms["recall_1"]) == 1.0


def test_neither_the_entries_nor_their_places_are_in_a_checkpoint(tiny_backbone: Path) -> None:
    loss = encoder_loss(tiny_backbone, [0, 1])
    own = {name for name in weights(loss) if not name.startswith("model.")}
    assert own == {f"projection.{name}" for name in ("dense.weight", "dense.bias", "gelu", "scale")}
    assert not loss.matrix.requires_grad


def relayered(backbone: Path, folder: Path, layer: str | None, bias: bool = True) -> Path:
    """A copy of the tiny BERT whose layer before the words is this one, or none."""
    shutil.copytree(backbone, folder)
    stored = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in stored.items() if "pooler" not in name}
    if layer is not None:
        kept[f"{layer}.weight"] = torch.randn(32, 32)
    if layer is not None and bias:
        kept[f"{layer}.bias"] = torch.randn(32)
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.mark.parametrize(
    ("layer", "bias", "function"),
    [
        ("pooler.dense", True, torch.tanh),
        ("lm_head.dense", True, gelu),
        ("cls.predictions.transform.dense", True, gelu),
        ("vocab_transform", True, gelu),
        # ModernBERT's and ALBERT's.
        ("head.dense", False, gelu),
        ("albert.pooler", True, torch.tanh),
    ],
)
def test_the_layer_before_the_words_is_the_projection_at_the_start(
    tmp_path: Path, tiny_backbone: Path, layer: str, bias: bool, function: Callable[..., Tensor]
) -> None:
    folder = relayered(tiny_backbone, tmp_path / "other", layer, bias)
    stored = load_file(folder / "model.safetensors")
    model, vectors = load_encoder(folder, "mean"), torch.randn(3, 32)
    dense = vectors @ stored[f"{layer}.weight"].T + stored.get(f"{layer}.bias", torch.zeros(32))
    for activation, expected in (("auto", function), ("tanh", torch.tanh)):
        projection = projection_for(model, 32, activation)  # type: ignore[arg-type]
        assert torch.allclose(projection(vectors), expected(dense), atol=1e-5)


def test_the_pooler_is_found_where_the_transformer_has_a_folder_of_its_own(
    tmp_path: Path, tiny_backbone: Path
) -> None:
    folder = save_encoder(load_encoder(tiny_backbone, "cls"), tmp_path / "encoder")
    listed = json.loads((folder / "modules.json").read_text())
    listed[0]["path"] = "0_Transformer"
    own = {"modules.json", "config_sentence_transformers.json"}
    files = [path for path in folder.iterdir() if path.is_file() and path.name not in own]
    (folder / "0_Transformer").mkdir()
    for path in files:
        path.rename(folder / "0_Transformer" / path.name)
    (folder / "modules.json").write_text(json.dumps(listed))
    projection = projection_for(load_encoder(folder), 32, "auto")
    stored = load_file(tiny_backbone / "model.safetensors")
    assert torch.equal(projection.dense.weight, stored["pooler.dense.weight"])


def test_a_donor_gives_the_head_that_an_encoder_has_lost(
    tmp_path: Path, tiny_backbone: Path
) -> None:
    donor = relayered(tiny_backbone, tmp_path / "donor", "lm_head.dense")
    augmented = relayered(tiny_backbone, tmp_path / "augmented", None)
    model = load_encoder(augmented, "mean")
    given = projection_for(model, 32, "auto", "donor", donor=donor)
    stored = load_file(donor / "model.safetensors")
    assert torch.equal(given.dense.weight, stored["lm_head.dense.weight"])
    assert given.gelu
    for folder, width in ((augmented, 32), (donor, 16)):
        with pytest.raises(ValueError, match=rf"{folder}.* {width}"):
            projection_for(model, width, "auto", "donor", donor=folder)


def test_without_such_a_layer_or_with_another_width_weights_are_drawn(
    tmp_path: Path, tiny_backbone: Path
) -> None:
    torch.manual_seed(3)
    bare = load_encoder(relayered(tiny_backbone, tmp_path / "bare", None), "cls")
    stored = load_file(tiny_backbone / "model.safetensors")
    drawn = projection_for(bare, 32, "auto")
    assert not torch.equal(drawn.dense.weight, stored["pooler.dense.weight"])
    wide = projection_for(load_encoder(tiny_backbone, ("cls", "mean")), 32, "auto")
    assert wide.dense.weight.shape == (32, 64)


def test_from_the_identity_vectors_are_turned_as_the_entries_were(tiny_backbone: Path) -> None:
    turn = Turn(torch.randn(32, 32), torch.randn(32), 4.9)
    encoder = load_encoder(tiny_backbone, "cls")
    projection = projection_for(encoder, 32, "tanh", "identity", turn)
    vectors = torch.randn(3, 32)
    plain = projection_for(encoder, 32, "tanh", "identity")
    assert torch.allclose(plain(vectors), torch.tanh(vectors), atol=1e-6)
    expected = torch.tanh(vectors @ turn.weight.T + turn.bias)
    assert torch.allclose(projection(vectors), expected, atol=1e-5)
    # Vectors of length one become as long as those that were turned: else the bias is out of place.
    encoder.append(Normalize())
    projection = projection_for(encoder, 32, "tanh", "identity", turn)
    same = torch.nn.functional.normalize(vectors)
    expected = torch.tanh(4.9 * same @ turn.weight.T + turn.bias)
    assert torch.allclose(projection(same), expected, atol=1e-5)


def test_vectors_of_length_one_are_made_longer(tiny_backbone: Path) -> None:
    encoder = load_encoder(tiny_backbone, "cls")
    assert float(projection_for(encoder, 32, "auto").scale) == 1.0
    encoder.append(Normalize())
    assert float(projection_for(encoder, 32, "auto").scale) == pytest.approx(math.sqrt(32))


def test_a_kept_projection_is_read_without_the_recipe(tmp_path: Path) -> None:
    torch.manual_seed(4)
    projection = Projection(6, 3, "gelu", 2.5)
    write_tensors(tmp_path / "projection.safetensors", weights(projection))
    vectors = torch.randn(2, 6)
    read = read_projection(tmp_path / "projection.safetensors")
    assert torch.equal(read(vectors), projection(vectors))


class _Made(TorchDispatchMode):  # type: ignore[misc]
    """Notes how many numbers each new tensor has; views of `entries` are none."""

    def __init__(self, entries: Tensor) -> None:
        super().__init__()
        self.entries = entries.untyped_storage().data_ptr()
        self.sizes: dict[bool, list[int]] = {True: [], False: []}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                if storage.data_ptr() != self.entries:
                    size = storage.nbytes() // tensor.element_size()
                    self.sizes[tensor.is_floating_point()].append(size)
        return found


def test_blocks_bound_the_memory() -> None:
    """Vectors and logits are made by blocks, also of a text with many owners."""
    batch, width, block, most = 4, 8, 10, 300
    vectors, entries = torch.randn(batch, width, requires_grad=True), torch.randn(1000, width)
    owners = torch.full((batch, most), -1)
    owners[:, 0] = torch.arange(batch)
    owners[2] = torch.arange(most)
    with _Made(entries) as made:
        loss, _ = definition_loss(vectors, entries, owners, block)
        loss.backward()
    assert max(made.sizes[True]) == block * width
    assert max(made.sizes[False]) == batch * most
    expected = literal(vectors, entries, [[0], [1], list(range(most)), [3]])
    assert torch.allclose(loss, expected, atol=1e-4)
