"""One model learns to write and to judge; the step is chosen by both, and a stop loses nothing."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fitted_gense import STEPS, fitted, init, opened, pairs
from torch import Tensor
from training_run import same_weights, without_rate

from tercet.models.t5 import fitting
from tercet.models.t5.fitting import Feed, Gense
from tercet.models.training import checkpoints
from tercet.models.training.fit_generator import IGNORED


@pytest.fixture(scope="module")
def gense(tmp_path_factory: pytest.TempPathFactory) -> Gense:
    return opened(tmp_path_factory.mktemp("fitting") / "init")


def entropies(gense: Gense, read: str, answer: str) -> list[float]:
    """-log of the probability of each token of the answer and of its end, one after the other."""
    ids = gense.tokenizer(read, return_tensors="pt")["input_ids"]
    target = gense.tokenizer(answer)["input_ids"]
    found = []
    for place, token in enumerate(target):
        begun = torch.tensor([[0, *target[:place]]])
        with torch.no_grad():
            logits = gense.model(input_ids=ids, decoder_input_ids=begun).logits[0, -1]
        found.append(-float(logits.log_softmax(-1)[token]))
    return found


def test_the_loss_is_that_of_all_tokens_of_both_halves(gense: Gense) -> None:
    rows = pairs(2)
    gense.model.eval()
    examples = gense.examples(rows)
    batch = {"written": examples.written([0, 3]), "judged": examples.judged([1, 2])}
    loss, terms = fitting.objective_of(gense.model)(batch)
    written = [
        *entropies(gense, "Say what follows from: the door is red .", "red door"),
        *entropies(gense, "Say what contradicts: the door is green .", "the door is not green"),
    ]
    first, second = "the door is red .", "the door is green ."
    judged = [
        *entropies(gense, f"Known: {first} Claimed: the door is not red True or false?", "false"),
        *entropies(gense, f"Known: {second} Claimed: green door True or false?", "true"),
    ]
    assert float(terms["written"]) == pytest.approx(np.mean(written), abs=1e-4)
    assert float(terms["judged"]) == pytest.approx(np.mean(judged), abs=1e-4)
    assert loss.item() == pytest.approx(np.mean([*written, *judged]), abs=1e-4)


def test_the_choice_weighs_accuracy_against_perplexity(gense: Gense) -> None:
    rows = pairs(3)
    gense.model.eval()
    losses, right = [], 0
    for row in rows.to_pylist():
        asked = "follows from" if row["true"] else "contradicts"
        losses += entropies(gense, f"Say what {asked}: {row['anchor']}", row["text"])
        question = f"Known: {row['anchor']} Claimed: {row['text']} True or false?"
        (true, _), (false, _) = (entropies(gense, question, word) for word in ("true", "false"))
        right += (true < false) == row["true"]
    assert 0 < right < 6
    assert fitting.perplexity(gense, rows, 4) == pytest.approx(math.exp(np.mean(losses)), rel=1e-4)
    found = fitting.choice(gense, rows, 5, 4).measure(gense.model)
    wanted = 100 * right / 6 - 10 * math.exp(np.mean(losses))
    assert found == pytest.approx(wanted, rel=1e-4)


def test_both_are_learnt_and_a_step_is_chosen(tmp_path: Path) -> None:
    gense, log = fitted(tmp_path / "init", tmp_path / "work", steps=60, rate=1e-2)
    terms = [row["terms"] for row in log if row["terms"]]
    assert {name for one in terms for name in one} == {"written", "judged"}
    for name in ("written", "judged"):
        assert terms[-1][name] < terms[0][name] - 0.7
    measured = {row["step"]: row["dev_value"] for row in log if row["dev_value"] is not None}
    assert list(measured) == list(range(5, 61, 5))
    (chosen,) = [row["step"] for row in log if row["chosen"]]
    assert measured[chosen] == max(measured.values())
    assert {row["dev_metric"] for row in log if row["dev_metric"]} == {fitting.METRIC}
    found = fitting.choice(gense, pairs().slice(0, 8), 5, 4).measure(gense.model)
    assert found == pytest.approx(measured[chosen], abs=1e-3)


class Stopped(Exception):
    """As by a kill: nothing is written after it."""


def test_stopped_in_the_middle_it_ends_the_same(tmp_path: Path) -> None:
    folder, seen = init(tmp_path / "init"), list[int]()
    whole, log = fitted(folder, tmp_path / "whole")

    def progress(done: int, total: int | None, unit: str) -> None:
        seen.append(done)
        if len(seen) == 8:
            raise Stopped

    with pytest.raises(Stopped):
        fitted(folder, tmp_path / "work", progress=progress)
    again, resumed = fitted(folder, tmp_path / "work", progress=progress)
    assert 6 < seen[8] < STEPS  # it went on, it did not begin again
    assert same_weights(checkpoints.weights(again.model), checkpoints.weights(whole.model))
    assert without_rate(resumed) == without_rate(log)


@pytest.mark.usefixtures("bf16_anywhere")
def test_in_bf16_the_loss_stays_a_number(tmp_path: Path) -> None:
    _, log = fitted(tmp_path / "init", tmp_path / "work", steps=2, precision="bf16")
    assert all(row["loss"] is None or row["loss"] < 20 for row in log)


def decoded(gense: Gense, batch: dict[str, Tensor]) -> list[tuple[str, str]]:
    """What the encoder reads and what the decoder should write, without padding."""
    read = [
        gense.tokenizer.decode(ids[mask.bool()])
        for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
    ]
    labels = [gense.tokenizer.decode(ids[ids != IGNORED]) for ids in batch["labels"]]
    return list(zip(read, labels, strict=True))


def test_a_pair_is_written_and_judged(gense: Gense) -> None:
    rows = pairs(1)
    assert rows["true"].to_pylist() == [True, False]
    examples = gense.examples(rows)
    assert decoded(gense, examples.written([0, 1])) == [
        ("Say what follows from : the door is red . </s>", "red door </s>"),
        ("Say what contradicts : the door is red . </s>", "the door is not red </s>"),
    ]
    assert decoded(gense, examples.judged([1, 0])) == [
        (
            "Known : the door is red . Claimed : the door is not red True or false ? </s>",
            "false </s>",
        ),
        ("Known : the door is red . Claimed : red door True or false ? </s>", "true </s>"),
    ]


def test_half_of_each_batch_judges_and_each_round_has_every_pair_in_both(
    gense: Gense,
) -> None:
    rows = pairs(21).sort_by("row_id")
    examples = gense.examples(rows)
    feed = Feed(examples, 10, 0)
    assert len(feed) == 9  # 42 pairs, five of them a batch
    both = (examples.written, examples.judged)
    wanted = [Counter(decoded(gense, half(range(42)))) for half in both]
    orders = []
    for number in range(2):
        seen: list[Counter[Any]] = [Counter(), Counter()]
        batches = [feed[number * 9 + place] for place in range(9)]
        assert [batch.rows for batch in batches] == [10] * 8 + [4]
        for batch in batches:
            halves = [batch.inputs["written"], batch.inputs["judged"]]
            assert len(halves[0]["labels"]) == len(halves[1]["labels"]) == batch.rows // 2
            for one, half in zip(seen, halves, strict=True):
                one.update(decoded(gense, half))
        assert seen == wanted
        orders.append([batch.inputs["judged"]["input_ids"].tolist() for batch in batches])
    assert orders[0] != orders[1]
    # A batch does not depend on those before it.
    alone = Feed(examples, 10, 0)[3].inputs["judged"]["input_ids"]
    assert alone.tolist() == feed[3].inputs["judged"]["input_ids"].tolist() == orders[0][3]


def test_a_long_sentence_is_cut_and_its_template_is_not(tmp_path: Path) -> None:
    narrow = opened(tmp_path / "init", max_length=16)
    rows = pairs(1).set_column(1, "anchor", [["the cat is red . " * 9] * 2])
    ((read, _), _) = decoded(narrow, narrow.examples(rows).written([0, 1]))
    assert read.startswith("Say what follows from : the cat is")
    assert len(read.split()) == 16
    assert read.endswith("</s>")
