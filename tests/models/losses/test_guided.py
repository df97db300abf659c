"""In-batch contrast with the false negatives of a guide left out."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tercet.models.encoders.encoder import load_encoder, save_encoder
from tercet.models.losses.registry import loss_named


def by_hand(anchors: Tensor, others: Tensor, guide_anchors: Tensor, guide_others: Tensor) -> float:
    """The mean over rows, in plain loops. others: the positives by row, then any negatives."""
    cosine = torch.nn.functional.cosine_similarity
    losses = []
    for i, anchor in enumerate(anchors):
        own = float(cosine(guide_anchors[i], guide_others[i], dim=0))
        logits = {}
        for j, other in enumerate(others):
            seen = float(cosine(guide_anchors[i], guide_others[j], dim=0))
            if j == i or seen <= own:
                logits[j] = float(cosine(anchor, other, dim=0)) / 0.05
        losses.append(math.log(sum(map(math.exp, logits.values()))) - logits[i])
    return sum(losses) / len(losses)


@pytest.fixture
def pair(tiny_backbone: Path) -> tuple[SentenceTransformer, Path]:
    """An encoder, and the directory of the guide, which pools otherwise."""
    return load_encoder(tiny_backbone, "cls"), tiny_backbone


@pytest.mark.parametrize("negatives", [0, 3, 4])
def test_it_is_the_formula(
    negatives: int,
    pair: tuple[SentenceTransformer, Path],
    tiny_texts: list[str],
) -> None:
    model, guide_path = pair
    loss = loss_named("guided")
    built = loss.build(model, loss.params(), {"guide": guide_path})
    columns = [tiny_texts[:4], tiny_texts[4:8], tiny_texts[8 : 8 + negatives]]
    features = [model.preprocess(column) for column in columns if column]
    guide = load_encoder(guide_path)
    with torch.no_grad():
        value = float(built([dict(f) for f in features], None))
        own = [model(dict(f))["sentence_embedding"] for f in features]
        seen = [guide(dict(f))["sentence_embedding"] for f in features]
    wanted = by_hand(own[0], torch.cat(own[1:]), seen[0], torch.cat(seen[1:]))
    assert value == pytest.approx(wanted, rel=1e-4)
    plain = loss_named("info_nce")
    unguided = plain.build(model, plain.params(), {})([dict(f) for f in features], None)
    # Here the guide does leave something out.
    assert value < float(unguided.detach()) - 1e-3


class Largest(TorchDispatchMode):
    """Inside, the size of the largest tensor that an operation makes."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor):
            self.numbers = max(self.numbers, made.numel())
        return made


def test_its_cosines_take_no_more_memory_than_there_are_of_them(
    pair: tuple[SentenceTransformer, Path],
) -> None:
    model, guide_path = pair
    loss = loss_named("guided")
    built = loss.build(model, loss.params(), {"guide": guide_path})
    draw = torch.Generator().manual_seed(0)
    left, right = (torch.randn(n, 32, generator=draw) for n in (60, 50))
    with Largest() as largest:
        cosines = built.sim_matrix(left, right)
    assert largest.numbers == 60 * 50
    wanted = torch.nn.functional.cosine_similarity(left[:, None], right[None], dim=-1)
    assert torch.allclose(cosines, wanted, rtol=0, atol=1e-6)


def test_the_guide_stays_as_it_is(
    pair: tuple[SentenceTransformer, Path], tiny_texts: list[str]
) -> None:
    model, guide_path = pair
    loss = loss_named("guided")
    built = loss.build(model, loss.params(), {"guide": guide_path}).train()
    assert model.training
    assert not any(module.training for module in built.guide.modules())
    before = {name: value.clone() for name, value in built.guide.state_dict().items()}
    trained = [parameter for parameter in built.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.1, weight_decay=0.1)
    features = [model.preprocess(tiny_texts[start : start + 4]) for start in (0, 4)]
    built(features, None).backward()
    optimizer.step()
    for name, value in built.guide.state_dict().items():
        assert torch.equal(value, before[name])
    assert {id(p) for p in trained} == {id(p) for p in model.parameters()}


def test_a_guide_with_a_template_reads_the_texts_in_it(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    guide = load_encoder(tiny_backbone, "mask", prompt="{sentence} is {mask} .")
    folder = save_encoder(guide, tmp_path / "guide")
    model, loss = load_encoder(tiny_backbone, "cls"), loss_named("guided")
    columns = [tiny_texts[:4], tiny_texts[4:8]]
    features = [model.preprocess(column) for column in columns]
    with torch.no_grad():
        value = float(loss.build(model, loss.params(), {"guide": folder})(features, None))
        own, seen = (
            [m(m.preprocess(column))["sentence_embedding"] for column in columns]
            for m in (model, guide)
        )
    assert value == pytest.approx(by_hand(*own, *seen), rel=1e-4)


def test_a_guide_cannot_read_what_stands_in_the_template_of_the_encoder(
    tiny_backbone: Path, tmp_path: Path
) -> None:
    loss = loss_named("guided")
    model = load_encoder(tiny_backbone, "mask")
    with pytest.raises(ValueError, match="template"):
        loss.build(model, loss.params(), {"guide": tiny_backbone})
    same = save_encoder(model, tmp_path / "same")
    loss.build(model, loss.params(), {"guide": same})
