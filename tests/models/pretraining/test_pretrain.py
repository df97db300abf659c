"""Each form learns, and a training that was stopped ends as if it had not been."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from training_run import same_weights, without_rate
from transformers import AutoModelForMaskedLM

from tercet.models.pretraining import network
from tercet.models.pretraining import tokenizer as tokenizers
from tercet.models.pretraining.batches import Task, tokenised
from tercet.models.pretraining.forms import Form
from tercet.models.pretraining.network import LanguageModel
from tercet.models.pretraining.pretrain import Budget, pretrain
from tercet.models.training.loop import LogRow, Setting, cosine

VOCABULARY: dict[Form, int] = {"masked": 90, "causal": 280, "t5": 160}
BUDGET = Budget(3e-3, lr_schedule="linear", tokens=None, steps=40, measure_steps=10)


def trained(
    form: Form, texts: list[str], folder: Path, budget: Budget = BUDGET, **changes: Any
) -> tuple[Any, list[LogRow]]:
    """A model of two layers trained on the texts, whose last thirty are held out; and its log."""
    made = tokenizers.trained(form, VOCABULARY[form], 48, lambda: iter([texts]))
    torch.manual_seed(4)
    model = network.new_model(form, network.Shape(2, 32, 2, 48), made)
    parts = [
        tokenised(folder / name, iter([part]), made, form, 48)
        for name, part in (("train", texts[:-30]), ("dev", texts[-30:]))
    ]
    task = Task(form, 0.2, 0.3, 48, 512)
    given = {"directory": folder / "checkpoints", "seed": 11, "log_steps": 5} | changes
    return model, pretrain("small", model, made, *parts, task, budget, Setting(**given))


@pytest.mark.parametrize("form", ["masked", "causal", "t5"])
def test_each_form_learns(form, tiny_texts: list[str], tmp_path: Path) -> None:
    _, log = trained(form, tiny_texts, tmp_path)
    logged = [row for row in log if row["loss"] is not None]
    assert [row["step"] for row in logged] == list(range(5, 45, 5))
    assert logged[-1]["loss"] < logged[0]["loss"] - 0.3
    measured = [row for row in log if row["dev_metric"] is not None]
    assert [row["step"] for row in measured] == [10, 20, 30, 40]
    assert 0 < measured[-1]["dev_value"] < measured[0]["dev_value"]
    assert sum(row["chosen"] for row in log) == 1
    assert set(logged[0]["terms"]) == {"tokens", "tokens_per_second"}
    assert logged[0]["terms"]["tokens_per_second"] > logged[0]["rows_per_second"]


class Stopped(Exception):
    """As by a kill: nothing is written after it."""


@pytest.mark.parametrize("form", ["masked", "t5"])
def test_stopped_twice_it_ends_with_the_same_curve(
    form: Form, tiny_texts: list[str], tmp_path: Path
) -> None:
    whole, log = trained(form, tiny_texts, tmp_path / "whole", checkpoint_steps=5)
    seen: list[int] = []

    def progress(done: int, total: int | None, unit: str) -> None:
        seen.append(done)
        if len(seen) in (8, 24):
            raise Stopped

    work = tmp_path / "work"
    for _ in range(2):
        with pytest.raises(Stopped):
            trained(form, tiny_texts, work, checkpoint_steps=5, progress=progress)
    again, resumed = trained(form, tiny_texts, work, checkpoint_steps=5, progress=progress)
    # It went on, it did not begin again.
    assert seen[8] > 5
    assert seen[24] > 20
    assert same_weights(whole.state_dict(), again.state_dict())

    def curve(rows):
        terms = [row["terms"].get("tokens") for row in rows]
        return [{**row, "terms": t} for row, t in zip(without_rate(rows), terms, strict=True)]

    assert curve(resumed) == curve(log)


def test_tokens_are_turned_into_steps(tiny_texts: list[str], tmp_path: Path) -> None:
    budget = replace(BUDGET, steps=None, tokens=4_000, lr_schedule="cosine")
    _, log = trained("masked", tiny_texts, tmp_path, budget)
    tokens = sum(row["terms"]["tokens"] * 5 for row in log if row["loss"] is not None)
    assert tokens == pytest.approx(4_000, rel=0.3)


def test_the_rate_falls_along_half_a_cosine() -> None:
    assert [cosine(step, 110, 10) for step in (0, 5, 10, 60, 110)] == pytest.approx(
        [0.0, 0.5, 1.0, 0.5, 0.0]
    )
    assert cosine(35, 110, 10) == pytest.approx((1 + math.cos(math.pi / 4)) / 2)


def test_the_masked_loss_is_that_of_the_whole_model_at_the_places(tiny_backbone: Path) -> None:
    torch.manual_seed(1)
    model = AutoModelForMaskedLM.from_pretrained(tiny_backbone).eval()
    ids = torch.tensor([[2, 9, 10, 11, 3, 0], [2, 12, 13, 3, 0, 0]])
    lengths = torch.tensor([5, 4])
    attended = torch.arange(6) < lengths[:, None]
    logits = model(input_ids=ids, attention_mask=attended.long()).logits
    places, answers = torch.tensor([[1, 3], [2, 0]]), torch.tensor([[20, 21], [22, -100]])
    wanted = -logits.log_softmax(-1)[[0, 0, 1], [1, 3, 2], [20, 21, 22]].mean()
    found = LanguageModel(model, "masked")(ids, lengths, answers, places)
    assert float(found) == pytest.approx(float(wanted), rel=1e-5)
