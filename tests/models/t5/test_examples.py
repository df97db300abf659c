"""Each pair gives an example to write and one to judge, half a batch of each."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fitted_gense import opened, pairs
from torch import Tensor

from tercet.models.t5.examples import Feed
from tercet.models.t5.fitting import Gense
from tercet.models.training.fit_generator import IGNORED


@pytest.fixture(scope="module")
def gense(tmp_path_factory: pytest.TempPathFactory) -> Gense:
    return opened(tmp_path_factory.mktemp("examples") / "init")


def said(gense: Gense, batch: dict[str, Tensor]) -> list[tuple[str, str]]:
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
    assert said(gense, examples.written([0, 1])) == [
        ("Say what follows from : the door is red . </s>", "red door </s>"),
        ("Say what contradicts : the door is red . </s>", "the door is not red </s>"),
    ]
    assert said(gense, examples.judged([1, 0])) == [
        (
            "Known : the door is red . Claimed : the door is not red True or false ? </s>",
            "false </s>",
        ),
        ("Known : the door is red . Claimed : red door True or false ? </s>", "true </s>"),
    ]


def test_half_of_each_batch_judges_and_each_round_has_every_pair_in_both(gense: Gense) -> None:
    rows = pairs(21).sort_by("row_id")
    examples = gense.examples(rows)
    feed = Feed(examples, 10, 0)
    assert len(feed) == 9  # 42 pairs, five of them a batch
    both = (examples.written, examples.judged)
    wanted = [Counter(said(gense, half(range(42)))) for half in both]
    orders = []
    for number in range(2):
        seen: list[Counter[Any]] = [Counter(), Counter()]
        batches = [feed[number * 9 + place] for place in range(9)]
        assert [batch.rows for batch in batches] == [10] * 8 + [4]
        for batch in batches:
            halves = [batch.inputs["written"], batch.inputs["judged"]]
            assert len(halves[0]["labels"]) == len(halves[1]["labels"]) == batch.rows // 2
            for one, half in zip(seen, halves, strict=True):
                one.update(said(gense, half))
        assert seen == wanted
        orders.append([batch.inputs["judged"]["input_ids"].tolist() for batch in batches])
    assert orders[0] != orders[1]
    assert feed[3].inputs["judged"]["input_ids"].tolist() == orders[0][3]


def test_a_long_sentence_is_cut_and_its_template_is_not(tmp_path: Path) -> None:
    narrow = opened(tmp_path / "init", max_length=16)
    rows = pairs(1).set_column(1, "anchor", [["the cat is red . " * 9] * 2])
    ((read, _), _) = said(narrow, narrow.examples(rows).written([0, 1]))
    assert read.startswith("Say what follows from : the cat is")
    assert len(read.split()) == 16
    assert read.endswith("</s>")
