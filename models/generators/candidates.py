"""Which tokens may come next, and the draw among them."""

from typing import TYPE_CHECKING, NamedTuple

from tercet.models.generators import draws
from tercet.models.generators.sampling import Decoding

if TYPE_CHECKING:
    from torch import Tensor


class Candidates(NamedTuple):
    """Tokens that may come next, of each of some sequences.

    tokens, scores: (sequences, candidates); a score is a log-probability divided by the
    temperature, -inf for what must not be drawn.
    """

    tokens: "Tensor"
    scores: "Tensor"


def candidates(logits: "Tensor", said: "Tensor", how: Decoding) -> Candidates:
    """The tokens that bans, temperature, top_k and top_p leave, in this order.

    logits: (sequences, vocabulary). said: (sequences, tokens so far), what no n-gram may be
    repeated from, -1 for padding on the left: what is written, behind the prompt of a
    decoder-only model, as transformers counts it.
    """
    import torch

    scores = torch.log_softmax(logits.float(), dim=-1)
    if how.no_repeat and said.shape[1] >= how.no_repeat:
        scores = _without_repeats(scores, said, how.no_repeat)
    if how.temperature not in (0, 1):
        scores = scores / how.temperature
    size = scores.shape[1]
    # Without draws only the best count, of which a beam needs two.
    most = 2 * how.beams if how.temperature == 0 else (how.top_k or size)
    if most >= size and how.top_p == 1:
        return Candidates(torch.arange(size, device=scores.device).expand_as(scores), scores)
    scores, tokens = scores.topk(min(most, size))
    if how.top_p < 1 and how.temperature > 0:
        shares = scores.softmax(dim=-1)
        outside = shares.cumsum(dim=-1) - shares >= how.top_p
        # A beam that ends needs another to continue with.
        outside[:, : 1 if how.beams == 1 else 2] = False
        scores = scores.masked_fill(outside, -torch.inf)
    return Candidates(tokens, scores)


def drawn(
    scores: "Tensor", seeds: "Tensor", position: int, indices: "Tensor", count: int, how: Decoding
) -> "Tensor":
    """The places of `count` different columns of each row, drawn by their scores' softmax.

    They come in the order of drawing, at temperature 0 by score. Gumbel noise keyed by (row seed,
    position, index) makes the draw: the `count` largest sums are a sample without replacement.

    scores, indices: (rows, columns); seeds: (rows,). Returns (rows, count).
    """
    if how.temperature > 0:
        uniforms = draws.uniforms(
            seeds[:, None], draws.TOKEN, indices.new_tensor(position), indices
        )
        scores = scores - (-uniforms.log()).log().to(scores.dtype)
    return scores.topk(count, dim=-1).indices


def _without_repeats(scores: "Tensor", said: "Tensor", size: int) -> "Tensor":
    """The scores, with -inf for a token that would repeat an n-gram of this size."""
    import torch

    # Each window but the last is followed by a token; the last waits for its own.
    windows = said.unfold(1, size, 1)
    last = said[:, said.shape[1] - size + 1 :]
    again = (windows[:, :, :-1] == last[:, None]).all(dim=-1) & (windows >= 0).all(dim=-1)
    # Of a token that follows several windows the ban must win.
    values = torch.full_like(again, torch.inf, dtype=scores.dtype).masked_fill(again, -torch.inf)
    return scores.scatter_reduce(1, windows[:, :, -1].clamp(min=0), values, "amin")
