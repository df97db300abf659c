"""Generators learn from pairs, are asked as they were fitted, and go on where they stopped."""

from pathlib import Path

import pytest
import torch
from fitted_generator import STEPS, fitted, opened, pairs
from training_run import same_weights, without_rate

from tercet.models.generators import layout as layouts
from tercet.models.training import checkpoints
from tercet.models.training.fit_generator import (
    IGNORED,
    Feed,
    choice_by_rouge,
    greedy,
    noiseless,
)
from tercet.models.training.phase import Optimizer


@pytest.mark.parametrize(
    ("form", "optimizer", "rate"),
    [
        ("vaegpt", "adamw", 3e-3),
        ("causal", "adamw", 3e-3),
        ("t5", "adamw", 3e-3),
        ("t5", "adafactor", 3e-2),
    ],
)
def test_each_form_learns(form: str, optimizer: Optimizer, rate: float, tmp_path: Path) -> None:
    folder, work = tmp_path / "init", tmp_path / "work"
    _, log = fitted(form, folder, work, steps=30, optimizer=optimizer, rate=rate)
    entropies = [row["terms"]["cross_entropy"] for row in log if row["terms"]]
    assert entropies[-1] < entropies[0] - 0.5
    measured = [row["step"] for row in log if row["dev_value"] is not None]
    assert measured == [5, 10, 15, 20, 25, 30]
    assert {row["dev_metric"] for row in log if row["dev_metric"]} == {"rouge validation average"}
    assert sum(row["chosen"] for row in log) == 1
    terms = {name for row in log for name in row["terms"]}
    wanted = {"cross_entropy", "kl", "target"} if form == "vaegpt" else {"cross_entropy"}
    assert terms == wanted


class Stopped(Exception):
    """As by a kill: nothing is written after it."""


def test_stopped_in_the_middle_it_ends_the_same(tmp_path: Path) -> None:
    """With its noise, its Gumbel draws, the running statistics and the choice."""
    init, seen = tmp_path / "init", list[int]()
    opened("vaegpt", init)
    whole, log = fitted("vaegpt", init, tmp_path / "whole")

    def progress(done: int, total: int | None, unit: str) -> None:
        seen.append(done)
        if len(seen) == 8:
            raise Stopped

    with pytest.raises(Stopped):
        fitted("vaegpt", init, tmp_path / "work", progress=progress)
    weights, again = fitted("vaegpt", init, tmp_path / "work", progress=progress)
    assert 6 < seen[8] < STEPS  # it went on, it did not begin again
    assert same_weights(checkpoints.weights(weights), checkpoints.weights(whole))
    assert without_rate(again) == without_rate(log)


def test_a_batch_is_laid_out_as_the_model_is_asked(tmp_path: Path) -> None:
    one = opened("causal", tmp_path / "init")
    rows = pairs(3)
    batch = Feed(one.tokenizer, one.layout, rows, 3, 0)[0]
    assert batch.rows == 3
    separator = one.tokenizer.get_vocab()[one.layout.separator]
    texts = set()
    for row in range(3):
        start = int(batch.inputs["start"][row])
        ids, labels = batch.inputs["input_ids"][row], batch.inputs["labels"][row]
        length = int(batch.inputs["attention_mask"][row].sum())
        assert int(ids[start - 1]) == separator
        assert int(ids[length - 1]) == one.tokenizer.eos_token_id
        assert labels[:start].eq(IGNORED).all()
        assert torch.equal(labels[start:length], ids[start:length])
        assert labels[length:].eq(IGNORED).all()
        # The end is part of what is compared.
        assert int(batch.inputs["target_mask"][row].sum()) == length - start
        assert torch.equal(batch.inputs["target_ids"][row, : length - start], ids[start:length])
        source = one.tokenizer.decode(ids[: start - 1].tolist())
        texts.add((source, one.tokenizer.decode(ids[start : length - 1].tolist())))
    assert texts == set(zip(rows["source"].to_pylist(), rows["target"].to_pylist(), strict=True))


def test_each_round_has_every_pair_once_in_another_order(tmp_path: Path) -> None:
    one = opened("causal", tmp_path / "init")
    feed = Feed(one.tokenizer, one.layout, pairs(20), 8, 0)
    rounds = []
    for number in range(2):
        steps = range(number * len(feed), (number + 1) * len(feed))
        batches = [feed[step].inputs["input_ids"].tolist() for step in steps]
        ends = one.tokenizer.pad_token_id
        rounds.append([tuple(i for i in ids if i != ends) for batch in batches for ids in batch])
    assert sorted(rounds[0]) == sorted(rounds[1])
    assert len(rounds[0]) == 20
    assert rounds[0] != rounds[1]


@pytest.mark.parametrize("form", ["vaegpt", "causal", "t5"])
def test_greedy_answers_are_those_of_each_source_alone(form: str, tmp_path: Path) -> None:
    one = opened(form, tmp_path / "init")
    sources = ["red", "one two three old new", "green blue"]
    together = greedy(one, sources, ["a b c"] * 3, 3)
    assert together == [greedy(one, [source], ["a b c"], 3)[0] for source in sources]
    model = one.model.eval()
    asked = layouts.prompts(one.tokenizer, one.layout, ["one two three old new"])[0]
    written: list[int] = []
    with noiseless(model), torch.no_grad():
        for _ in range(24):
            if form == "t5":
                begun = torch.tensor([[model.config.decoder_start_token_id, *written]])
                logits = model(input_ids=torch.tensor([asked]), decoder_input_ids=begun).logits
            else:
                logits = model(torch.tensor([asked + written])).logits
            token = int(logits[0, -1].argmax())
            if token == layouts.end_token(one.tokenizer):
                break
            written.append(token)
    whole = one.tokenizer.decode(written, skip_special_tokens=True).strip()
    assert whole.startswith(together[1])


@pytest.mark.usefixtures("bf16_anywhere")
def test_in_bf16_the_loss_stays_a_number(tmp_path: Path) -> None:
    _, log = fitted("vaegpt", tmp_path / "init", tmp_path / "work", steps=4, precision="bf16")
    assert all(row["loss"] is None or row["loss"] < 20 for row in log)


def test_a_spoilt_model_has_no_figure(tmp_path: Path) -> None:
    one = opened("causal", tmp_path / "init")
    measure = choice_by_rouge(one, pairs().slice(0, 4), 5, 4).measure
    assert measure(one.model) is not None
    with torch.no_grad():
        next(one.model.parameters())[0] = float("nan")
    assert measure(one.model) is None
