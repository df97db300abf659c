"""P(true) is the softmax of two logits, whatever else is in the batch."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from fitted_gense import init, opened, pairs
from tiny_generators import tiny_causal

from tercet.models.t5 import judge as judges
from tercet.models.t5 import wording
from tercet.models.t5.judge import Judge


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    one = opened(tmp_path_factory.mktemp("judge") / "init")
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in one.model.parameters():
            weight += 0.2 * torch.randn_like(weight)
    return Judge(one.model.eval(), one.tokenizer, one.question)


def by_hand(judge: Judge, first: str, second: str) -> float:
    """Without padding, with the whole vocabulary, by the definition."""
    asked = f"Known: {first} Claimed: {second} True or false?"
    ids = judge.tokenizer(asked, return_tensors="pt")["input_ids"]
    assert int(ids[0, -1]) == judge.tokenizer.eos_token_id
    with torch.no_grad():
        words = judge.model(input_ids=ids, decoder_input_ids=torch.tensor([[0]])).logits[0, 0]
    vocabulary = judge.tokenizer.get_vocab()
    true, false = (math.exp(float(words[vocabulary[word]])) for word in ("true", "false"))
    return true / (true + false)


def test_probability_by_hand(judge: Judge) -> None:
    rows = pairs(8)
    firsts, seconds = (rows[name].to_pylist() for name in ("anchor", "text"))
    found = 1 / (1 + np.exp(-judges.logits(judge, firsts, seconds, 5)))
    wanted = [by_hand(judge, a, b) for a, b in zip(firsts, seconds, strict=True)]
    assert found == pytest.approx(wanted, abs=1e-5)
    assert np.ptp(found) > 0.05


def test_neither_order_nor_batch_matters(judge: Judge) -> None:
    rows = pairs(12)
    firsts, seconds = (rows[name].to_pylist() for name in ("anchor", "text"))
    together = judges.logits(judge, firsts, seconds, 64)
    alone = judges.logits(judge, firsts[::-1], seconds[::-1], 1)[::-1]
    assert together == pytest.approx(alone, abs=1e-5)
    assert judges.logits(judge, [], [], 4).shape == (0,)


def test_answers_that_begin_alike_are_compared_where_they_differ(judge: Judge) -> None:
    other = judge._replace(
        question=judge.question.model_copy(update={"if_true": "the cat", "if_false": "the car"})
    )
    (found,) = judges.logits(other, ["red ."], ["red"], 4)
    vocabulary = judge.tokenizer.get_vocab()
    ids = judge.tokenizer("Known: red . Claimed: red True or false?", return_tensors="pt")
    begun = torch.tensor([[0, vocabulary["the"]]])
    with torch.no_grad():
        words = judge.model(input_ids=ids["input_ids"], decoder_input_ids=begun).logits[0, 1]
    wanted = float(words[vocabulary["cat"]] - words[vocabulary["car"]])
    assert found == pytest.approx(wanted, abs=1e-5)


def test_a_directory_that_cannot_judge_is_refused(judge: Judge, tmp_path: Path) -> None:
    t5 = init(tmp_path / "t5")
    with pytest.raises(ValueError, match=r"judge\.json"):
        judges.load(t5, "fp32", "cpu")
    wording.write(t5, judge.question.model_copy(update={"max_length": 9}))
    with pytest.raises(ValueError, match="room"):
        judges.load(t5, "fp32", "cpu")
    wording.write(t5, judge.question)
    loaded = judges.load(t5, "fp32", "cpu")
    assert np.isfinite(judges.logits(loaded, ["red"], ["cat"], 4)).all()
    causal = tiny_causal(tmp_path / "causal", ["true", "false"])
    wording.write(causal, judge.question)
    with pytest.raises(ValueError, match="T5"):
        judges.load(causal, "fp32", "cpu")


def test_a_t5_whose_configuration_names_no_start_begins_with_the_padding(
    judge: Judge, tmp_path: Path
) -> None:
    judge.model.save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    config = json.loads(file.read_text())
    config.pop("decoder_start_token_id")
    file.write_text(json.dumps(config))
    found = judges.load_t5(tmp_path).config
    assert found.decoder_start_token_id == found.pad_token_id
