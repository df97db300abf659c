"""Batches of few shapes, in which an epoch sees each text once."""

from pathlib import Path

import numpy as np
import pytest

from tercet.models.pretraining.batches import (
    IGNORED,
    Task,
    TextBatches,
    Texts,
    Vocabulary,
    tokenised,
    widths,
)

KNOWN = Vocabulary(9_000, np.array([0, 1, 2]), padding=0, mask=2, end=1, sentinels=(8999, 8998))


def texts(count: int = 500, longest: int = 127) -> Texts:
    """Each text is its own number, from 10 on, over and over."""
    lengths = np.random.default_rng(3).integers(2, longest + 1, count)
    return Texts(np.repeat(np.arange(10, 10 + count), lengths), np.cumsum(lengths))


def task(form: str = "masked", **changes) -> Task:
    given = {"masked": 0.2, "infill": 0.5, "max_length": 128, "batch_tokens": 1024} | changes
    return Task(form, **given)


def test_widths_are_multiples_of_16_and_few() -> None:
    assert widths(128) == (16, 32, 48, 64, 96, 128)
    assert len(widths(2048)) < 24
    assert all(width % 16 == 0 for width in widths(2048))
    assert widths(100)[-1] >= 100


@pytest.mark.parametrize("form", ["masked", "causal", "t5"])
def test_an_epoch_has_each_text_once_and_few_shapes(form) -> None:
    batches = TextBatches(texts(), task(form), KNOWN, 7)
    shapes = set()
    for epoch in range(2):
        seen: list[int] = []
        for place in range(len(batches)):
            inputs = batches[epoch * len(batches) + place].inputs
            shapes.add(tuple(tuple(tensor.shape) for tensor in inputs.values()))
            rows, lengths = inputs["ids"].numpy(), inputs["lengths"].numpy()
            assert rows.shape[1] % 16 == 0
            assert lengths.max() <= rows.shape[1]
            own = (rows >= 10) & (rows < 8_000)
            if form == "masked":
                # What is masked or replaced is what the other tokens are.
                own &= ~np.isin(np.arange(rows.shape[1]), inputs["places"].numpy())
            answers = inputs["answers"].numpy()
            for row in range(len(rows)):
                known = set(answers[row][(answers[row] >= 10) & (answers[row] < 8_000)].tolist())
                seen.append(known.pop())
                assert not known
        assert sorted(seen) == list(range(10, 510))
    # Whole texts have longer answers than spans: another shape for each width.
    assert len(shapes) <= (len(widths(128)) + 1) * (2 if form == "t5" else 1)


def test_a_batch_has_about_its_tokens() -> None:
    batches = TextBatches(texts(), task(), KNOWN, 7)
    sizes = [batches[place].inputs["ids"].numel() for place in range(len(batches))]
    assert max(sizes) <= 1024
    assert sum(size < 900 for size in sizes) <= 1
    assert batches.tokens == texts().ends[-1]


def test_a_batch_follows_from_seed_and_step_alone() -> None:
    one, other = (TextBatches(texts(), task(), KNOWN, 7) for _ in range(2))
    for step in (len(one) + 3, 2, 0):
        a, b = one[step].inputs, other[step].inputs
        assert all((a[name] == b[name]).all() for name in a)
    again = one[2 + len(one)].inputs
    assert again["ids"].shape != other[2].inputs["ids"].shape or (
        (again["ids"] != other[2].inputs["ids"]).any()
    )


def test_so_many_texts_are_written_as_a_whole() -> None:
    batches = TextBatches(texts(), task("t5", infill=0.5, max_length=128), KNOWN, 7)
    whole = 0
    for step in range(200):
        inputs = batches[step].inputs
        whole += int((inputs["answers"][0] != IGNORED).sum() > inputs["lengths"][0] * 0.6)
    assert 60 < whole < 140


def test_texts_are_tokenised_once_and_read_from_files(tmp_path: Path, tiny_backbone: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_backbone)
    given = ["the blue text", "one", "two large green new old small values"]
    made = tokenised(tmp_path, iter([given[:1], given[1:]]), tokenizer, "masked", 6)
    assert isinstance(made.ids, np.memmap)
    ids, lengths = made.padded(np.array([0, 2]), 8, 0)
    assert lengths.tolist() == [5, 6]
    assert ids[0].tolist() == [*tokenizer(given[0])["input_ids"], 0, 0, 0]
    assert ids[1, 5] == tokenizer.sep_token_id
    again = tokenised(tmp_path, iter([]), tokenizer, "masked", 6)
    assert np.array_equal(again.ids, made.ids)
    empty = tokenised(tmp_path / "none", iter([]), tokenizer, "masked", 6)
    assert len(empty) == 0
