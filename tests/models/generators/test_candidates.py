"""Filters of the next token against transformers' own."""

import pytest
import torch
from transformers import (
    LogitsProcessorList,
    NoRepeatNGramLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from tercet.models.generators.candidates import candidates
from tercet.models.generators.sampling import Decoding

ROWS, SIZE = 40, 30


def _given() -> tuple[torch.Tensor, torch.Tensor]:
    """Logits, and what was written before: few different tokens, so that n-grams come again."""
    draw = torch.Generator().manual_seed(1)
    logits = torch.randn(ROWS, SIZE, generator=draw) * 3
    return logits, torch.randint(0, 4, (ROWS, 12), generator=draw)


@pytest.mark.parametrize("beams", [1, 2])
@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.2])
@pytest.mark.parametrize("top_k", [0, 7])
@pytest.mark.parametrize("no_repeat", [0, 1, 2, 3])
def test_the_scores_are_those_of_transformers_filters(
    beams: int, top_p: float, top_k: int, no_repeat: int
) -> None:
    logits, written = _given()
    filters = LogitsProcessorList()
    if no_repeat:
        filters.append(NoRepeatNGramLogitsProcessor(no_repeat))
    filters.append(TemperatureLogitsWarper(0.7))
    if top_k:
        filters.append(TopKLogitsWarper(top_k))
    if top_p < 1:
        filters.append(TopPLogitsWarper(top_p, min_tokens_to_keep=beams))
    expected = filters(written, torch.log_softmax(logits, -1))
    how = Decoding(temperature=0.7, top_p=top_p, top_k=top_k, beams=beams, no_repeat=no_repeat)
    found = candidates(logits, written, how)
    scores = torch.full_like(logits, -torch.inf).scatter(1, found.tokens, found.scores)
    assert torch.equal(scores.isinf(), expected.isinf())
    assert torch.allclose(scores, expected, atol=1e-5)


def test_a_ban_begins_with_the_first_whole_n_gram() -> None:
    logits = torch.zeros(1, 5)
    how = Decoding(no_repeat=3, beams=1, top_k=0)
    for written, banned in (([], []), ([1, 2], []), ([1, 2, 3], []), ([1, 2, 3, 1, 2], [3])):
        for padding in (0, 1, 3, 5):
            said = torch.tensor([[-1] * padding + written], dtype=torch.int64)
            found = candidates(logits, said, how)
            assert found.scores[0].isinf().nonzero().flatten().tolist() == banned
