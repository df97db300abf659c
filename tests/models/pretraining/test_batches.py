"""Batches of few shapes in which an epoch sees each text once, and what they mask."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from tercet.models.pretraining.batches import (
    IGNORED,
    Task,
    TextBatches,
    Texts,
    Vocabulary,
    longest_answer,
    masked,
    shifted,
    spans,
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


CLS, SEP, PAD, MASK = 0, 1, 2, 3
BERT = Vocabulary(size=100, special=np.array([CLS, SEP, PAD, MASK]), padding=PAD, mask=MASK)
SENTINELS = tuple(range(99, 79, -1))
FEW = Vocabulary(100, np.array([0, 1, 2]), padding=0, end=1, sentinels=SENTINELS)


def rows_of(lengths: list[int], width: int) -> np.ndarray:
    """[CLS] ids from 10 on [SEP], padded."""
    rows = [[CLS, *range(10, 10 + n), SEP] + [PAD] * (width - n - 2) for n in lengths]
    return np.array(rows, dtype=np.int64)


def test_a_share_of_the_own_tokens_is_asked_for_and_the_rest_is_as_it_was() -> None:
    ids = rows_of([60, 30, 5, 1], 64)
    rng = np.random.default_rng(0)
    noised, places, answers = masked(ids, 0.2, 13, BERT, rng)
    assert places.shape == answers.shape == (4, 13)
    assert (answers != IGNORED).sum(1).tolist() == [12, 6, 1, 1]
    for row in range(4):
        asked = {int(p) for p, a in zip(places[row], answers[row], strict=True) if a != IGNORED}
        assert len(asked) == (answers[row] != IGNORED).sum()
        for place in range(64):
            if place in asked:
                assert ids[row, place] >= 10  # never a special token
                assert ids[row, place] in answers[row]
            else:
                assert noised[row, place] == ids[row, place]


def test_of_the_asked_eight_in_ten_are_masked_and_one_is_replaced() -> None:
    ids = rows_of([62] * 2000, 64)
    noised, places, answers = masked(ids, 0.2, 13, BERT, np.random.default_rng(1))
    used = answers != IGNORED
    seen = np.take_along_axis(noised, places, 1)[used]
    assert np.mean(seen == MASK) == pytest.approx(0.8, abs=0.02)
    assert np.mean(seen == answers[used]) == pytest.approx(0.1, abs=0.02)


def test_a_decoder_is_asked_for_the_next_token_and_never_for_padding() -> None:
    ids = np.array([[5, 6, 7, 1, 0], [5, 1, 0, 0, 0]])
    seen, answers = shifted(ids, np.array([4, 2]))
    assert seen.tolist() == [[5, 6, 7, 1], [5, 1, 0, 0]]
    assert answers.tolist() == [[6, 7, 1, IGNORED], [1, IGNORED, IGNORED, IGNORED]]


@settings(deadline=None)
@given(
    lengths=st.lists(st.integers(1, 63), min_size=1, max_size=6),
    share=st.floats(0.05, 0.6),
    whole=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_spans_and_what_is_left_make_the_text_again(lengths, share, whole, seed) -> None:
    ids = np.zeros((len(lengths), 64), dtype=np.int64)
    for row, length in enumerate(lengths):
        ids[row, :length] = np.arange(3, 3 + length)
    width = longest_answer(64, share, whole)
    rng = np.random.default_rng(seed)
    read, sizes, written = spans(ids, np.array(lengths), share, whole, width, FEW, rng)
    assert read.shape == (len(lengths), 64)
    assert written.shape == (len(lengths), width)
    for row, length in enumerate(lengths):
        own = ids[row, :length].tolist()
        sees, answer = read[row, : sizes[row]].tolist(), [a for a in written[row] if a != IGNORED]
        assert sees.pop() == 1
        assert answer.pop() == 1
        assert not read[row, sizes[row] :].any()
        hidden = length - sum(token < 80 for token in sees)
        assert hidden == min(max(1, round(share * length)), length)
        if whole:
            assert answer == own
            assert {token for token in sees if token >= 80} == {SENTINELS[-1]}
        else:
            hidden_by: dict[int, list[int]] = {}
            for token in answer:
                if token >= 80:
                    hidden_by[token] = []
                else:
                    hidden_by[list(hidden_by)[-1]].append(token)
            assert (
                list(hidden_by) == [t for t in sees if t >= 80] == list(SENTINELS[: len(hidden_by)])
            )
            assert all(hidden_by.values())
            again = [t for token in sees for t in hidden_by.get(token, [token])]
            assert again == own


def test_masked_spans_are_of_three_tokens_on_average() -> None:
    ids = np.tile(np.arange(3, 63), (300, 1))
    ids = np.concatenate([ids, np.zeros((300, 4), dtype=np.int64)], axis=1)
    rng = np.random.default_rng(2)
    _, _, written = spans(ids, np.full(300, 60), 0.15, False, 16, FEW, rng)
    answered = (written != IGNORED) & (written != 1)
    sentinels = written >= 80
    assert (answered & ~sentinels).sum() / sentinels.sum() == pytest.approx(3.0)
