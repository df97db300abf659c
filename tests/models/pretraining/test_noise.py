"""What is masked, and what must be answered, against the literal definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.models.pretraining import batches
from tercet.models.pretraining.batches import IGNORED, Vocabulary

CLS, SEP, PAD, MASK = 0, 1, 2, 3
BERT = Vocabulary(size=100, special=np.array([CLS, SEP, PAD, MASK]), padding=PAD, mask=MASK)
SENTINELS = tuple(range(99, 79, -1))
T5 = Vocabulary(100, np.array([0, 1, 2]), padding=0, end=1, sentinels=SENTINELS)


def rows_of(lengths: list[int], width: int) -> np.ndarray:
    """[CLS] ids from 10 on [SEP], padded."""
    rows = [[CLS, *range(10, 10 + n), SEP] + [PAD] * (width - n - 2) for n in lengths]
    return np.array(rows, dtype=np.int64)


def test_a_share_of_the_own_tokens_is_asked_for_and_the_rest_is_as_it_was() -> None:
    ids = rows_of([60, 30, 5, 1], 64)
    rng = np.random.default_rng(0)
    noised, places, answers = batches.masked(ids, 0.2, 13, BERT, rng)
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
    noised, places, answers = batches.masked(ids, 0.2, 13, BERT, np.random.default_rng(1))
    used = answers != IGNORED
    seen = np.take_along_axis(noised, places, 1)[used]
    assert np.mean(seen == MASK) == pytest.approx(0.8, abs=0.02)
    assert np.mean(seen == answers[used]) == pytest.approx(0.1, abs=0.02)


def test_a_decoder_is_asked_for_the_next_token_and_never_for_padding() -> None:
    ids = np.array([[5, 6, 7, 1, 0], [5, 1, 0, 0, 0]])
    seen, answers = batches.shifted(ids, np.array([4, 2]))
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
    width = batches.longest_answer(64, share, whole)
    rng = np.random.default_rng(seed)
    read, sizes, written = batches.spans(ids, np.array(lengths), share, whole, width, T5, rng)
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
            spans: dict[int, list[int]] = {}
            for token in answer:
                if token >= 80:
                    spans[token] = []
                else:
                    spans[list(spans)[-1]].append(token)
            assert list(spans) == [t for t in sees if t >= 80] == list(SENTINELS[: len(spans)])
            assert all(spans.values())
            again = [t for token in sees for t in spans.get(token, [token])]
            assert again == own


def test_masked_spans_are_of_three_tokens_on_average() -> None:
    ids = np.tile(np.arange(3, 63), (300, 1))
    ids = np.concatenate([ids, np.zeros((300, 4), dtype=np.int64)], axis=1)
    rng = np.random.default_rng(2)
    _, _, written = batches.spans(ids, np.full(300, 60), 0.15, False, 16, T5, rng)
    answered = (written != IGNORED) & (written != 1)
    sentinels = written >= 80
    assert (answered & ~sentinels).sum() / sentinels.sum() == pytest.approx(3.0)
