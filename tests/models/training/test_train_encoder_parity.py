"""The loop against sentence-transformers' own trainer on the same rows: one curve, one encoder."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from datasets.table import InMemoryTable
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.base.sampler import DefaultBatchSampler
from training_run import NUMBERS, part, table, train
from transformers import TrainerCallback

from tercet.models import seeding
from tercet.models.encoders.encoder import load_encoder
from tercet.models.losses.registry import loss_named
from tercet.models.training.batches import LengthWindows
from tercet.models.training.cpu import faster_on_cpu
from tercet.models.training.loop import phase_seed
from tercet.models.training.phase import PartRows
from tercet.models.training.train_encoder import LengthGroups

PLAIN = NUMBERS.model_copy(update={"word_repetition": None})
STEPS, SEED = 22, 11


class SeededSteps(TrainerCallback):  # type: ignore[misc]
    """The loop's dropout: each step seeds itself."""

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        step = np.array([state.global_step], dtype=np.uint64)
        draw = seeding.draws(phase_seed(SEED, PLAIN.name), "step", step)
        torch.manual_seed(int(draw[0]))


def theirs(
    backbone: Path, given: PartRows, precision: str, directory: Path
) -> tuple[SentenceTransformer, list[dict[str, float]]]:
    """The library's trainer with its defaults, the loop's batches and the loop's seeds."""
    rows = given.rows.sort_by("row_id")
    loss = loss_named(given.loss)
    columns = [*loss.texts, *loss.optional, *loss.labels]

    class Sampler(DefaultBatchSampler):  # type: ignore[misc]
        def __iter__(self) -> Iterator[list[int]]:
            texts = [*loss.texts, *loss.optional]
            purpose = f"batches of {PLAIN.name}"
            windows = LengthWindows(rows, texts, PLAIN.batch_size, SEED, purpose)
            yield from windows.round(self.epoch)

        def __len__(self) -> int:
            return math.ceil(rows.num_rows / PLAIN.batch_size)

    model = load_encoder(backbone, "mean", max_length=PLAIN.max_length)
    torch.manual_seed(phase_seed(SEED, PLAIN.name))
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(directory),
        per_device_train_batch_size=PLAIN.batch_size,
        learning_rate=PLAIN.learning_rate,
        num_train_epochs=PLAIN.epochs,
        warmup_steps=math.ceil(PLAIN.warmup * STEPS),
        weight_decay=PLAIN.weight_decay,
        bf16=precision == "bf16",
        use_cpu=True,
        batch_sampler=Sampler,
        save_strategy="no",
        logging_steps=2,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = SentenceTransformerTrainer(
        model=model,
        args=arguments,
        train_dataset=Dataset(InMemoryTable(rows.select(columns))),
        loss=loss.build(model, given.params, {}),
        callbacks=[SeededSteps()],
    )
    # The same masks of dropout.
    with faster_on_cpu(model):
        trainer.train()
    return model, [row for row in trainer.state.log_history if "loss" in row]


@pytest.mark.usefixtures("bf16_anywhere")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    ("loss", "numbers"),
    [("gaussian_decay", {"sigma_cosine": 0.1}), ("info_nce", {}), ("info_nce", {"head": True})],
)
@pytest.mark.slow
def test_the_same_curve_and_the_same_weights(
    tiny_backbone: Path,
    tiny_texts: list[str],
    tmp_path: Path,
    loss: str,
    numbers: dict[str, Any],
    precision: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Dropout draws as in the library only where a batch is encoded whole.
    monkeypatch.setattr(LengthGroups, "sizes", lambda _, widths: [len(widths)])
    torch.set_num_threads(1)
    rows = table(tiny_texts)
    given = part(rows, loss, **numbers)
    mine, trained = train(tiny_backbone, [given], tmp_path / "ours", PLAIN, precision=precision)
    model, log = theirs(tiny_backbone, given, precision, tmp_path / "theirs")
    assert (
        [row["step"] for row in trained.log]
        == list(range(2, STEPS + 1, 2))
        == [row["step"] for row in log]
    )
    for key in ("loss", "learning_rate", "epoch"):
        ours = [row[key] for row in trained.log]
        assert ours == pytest.approx([row[key] for row in log], rel=1e-5), key
    state = model.state_dict()
    assert mine.keys() == state.keys()
    for name, weight in state.items():
        torch.testing.assert_close(mine[name], weight, rtol=1e-5, atol=1e-6, msg=name)
    # They moved: what is compared is not the backbone.
    before = load_encoder(tiny_backbone, "mean").state_dict()
    assert any(not torch.allclose(before[name], state[name], atol=1e-3) for name in before)
