"""Every loss of the registry: its numbers, its form, and a new one."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from counted import frequencies
from datasets import Dataset
from entry_rows import owned, space
from failures import fails
from pydantic import Field
from sentence_transformers import (
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from training_run import part, table, train

from tercet.models.config import Config
from tercet.models.encoders.encoder import load_encoder
from tercet.models.losses.loss import Loss
from tercet.models.losses.registry import LOSSES, loss_named
from tercet.models.training.train_encoder import save_encoder


@pytest.mark.parametrize("name", LOSSES)
def test_the_librarys_own_trainer_takes_it(
    name: str, tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    loss = loss_named(name)
    assert loss.name == name
    # The tiny encoder's vectors have 32 numbers.
    params = loss.params(dimensions=(8,)) if name == "matryoshka" else loss.params()
    loss = loss.with_params(params)
    model = load_encoder(
        tiny_backbone, "token_cnn" if "frequencies" in loss.slots else "mean", cnn_seed=0
    )
    before = {key: value.clone() for key, value in model.state_dict().items()}
    slots = dict.fromkeys(loss.slots, tiny_backbone)
    if "entry_matrix" in slots:
        slots["entry_matrix"] = space(tmp_path, 9)
    if "frequencies" in slots:
        slots["frequencies"] = frequencies(tmp_path, model.tokenizer, tiny_texts)
    built = loss.build(model, params, slots)
    columns = [*loss.texts, *loss.optional, *loss.labels]
    rows = owned(table(tiny_texts), 9).select(columns).to_pydict()
    if "entries" in rows:
        # What the library takes for a label, in rows of one length.
        rows["label"] = [[*own, -1][:2] for own in rows.pop("entries")]
    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(tmp_path),
            per_device_train_batch_size=8,
            learning_rate=1e-3,
            max_steps=3,
            use_cpu=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_dict(rows),
        loss=built,
    )
    trainer.train()
    assert any(not torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert set(getattr(built, "terms", {})) == set(loss.terms)


def test_a_loss_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="'nothing'"):
        loss_named("nothing")
    with pytest.raises(ValueError, match=r"'info_nc'.*'info_nce'"):
        loss_named("info_nc")


def test_no_torch_is_loaded_to_check_a_recipe() -> None:
    code = (
        "import sys\n"
        "import tercet.models.losses.registry\n"
        "import tercet.models.training.phase\n"
        "assert not {'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_head_needs_a_loss_without_a_teacher() -> None:
    with fails("conflict"):
        loss_named("gaussian_decay").params(head=True)
    assert loss_named("gaussian_decay").params(head=True, sigma_cosine=0)


class Toy(Config):
    target: float = Field(default=1.0, description="The cosine that pairs are drawn to.")


class ToyLoss(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, model: Any, params: Toy, slots: dict[str, Path]) -> None:
        super().__init__()
        self.model, self.target, self.scale = model, params.target, torch.nn.Linear(1, 1)
        start = (slots["start"] / "scale.txt").read_text()
        torch.nn.init.constant_(self.scale.weight, float(start))

    def forward(self, sentence_features: Any, labels: torch.Tensor) -> torch.Tensor:
        first, second = (self.model(f)["sentence_embedding"] for f in sentence_features)
        cosine = torch.cosine_similarity(first, second)
        self.terms = {"cosine": cosine.mean().detach()}
        return ((self.scale(cosine[:, None])[:, 0] - self.target * labels) ** 2).mean()


def test_a_new_loss_is_a_class_and_its_declaration(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = Loss(
        "toy", Toy, f"{__name__}:ToyLoss", optional=(), labels={"label": pa.float32()},
        slots=("start",), terms=("cosine",), keeps=("scale",),
    )  # fmt: skip
    monkeypatch.setitem(LOSSES, "toy", declared)  # type: ignore[arg-type]
    (tmp_path / "scale.txt").write_text("-1.0")
    rows = table(tiny_texts)
    toy = part(rows, "toy", target=0.9, share=0.5, slots={"start": tmp_path})
    other = part(rows, "gaussian_decay", share=0.5)
    _, trained = train(tiny_backbone, [toy, other], tmp_path / "work")
    assert trained.log[-1]["terms"]["toy.loss"] < trained.log[0]["terms"]["toy.loss"]
    assert -1 <= trained.log[-1]["terms"]["toy.cosine"] <= 1
    assert list(trained.kept) == ["toy.scale"]
    path = save_encoder(load_encoder(tiny_backbone), tmp_path / "encoder", trained.kept)
    assert (path / "losses" / "toy.scale.safetensors").is_file()
