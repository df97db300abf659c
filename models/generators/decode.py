"""Decoding of a batch: plain sampling, or beams that sample.

A row's text is a function of its prompt, its seed and the settings, not of its batch: in fp32 the
same rows come out of any batch, unless two tokens' scores differ by less than rounding.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tercet.models.generators.candidates import candidates, drawn
from tercet.models.generators.reading import Reading
from tercet.models.generators.sampling import Decoding

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

# The score of what cannot win; finite, since sums of it are compared.
_NEVER = -1e9
# Finished rows are dropped from a batch once they are a quarter of it.
_KEPT = 0.75


class Written(NamedTuple):
    """tokens: without the one that ends the text. ended: whether it came before the limit."""

    tokens: list[int]
    ended: bool


class NotFinite(Exception):
    """The model's logits are not numbers."""


def decode(
    model: "PreTrainedModel",
    prompts: Sequence[Sequence[int]],
    seeds: Sequence[int],
    limits: Sequence[int],
    end: int,
    how: Decoding,
    check: Callable[[], None],
) -> list[Written]:
    """What the model writes after each prompt.

    seeds: of each row. limits: most tokens of each row, its end included, 1 or more. end: the
    token that ends a text. check: called before each token; may raise to stop.

    Raises NotFinite for a spoilt model.
    """
    import torch

    with torch.inference_mode():
        own = torch.tensor(list(seeds), dtype=torch.int64, device=model.device)
        most = torch.tensor(list(limits), dtype=torch.int64, device=model.device)
        reading = Reading(model, prompts, own)
        if not bool(reading.logits.isfinite().all()):
            raise NotFinite
        write = _sampled if how.beams == 1 else _beams
        return write(reading, own, most, end, how, check)


def _sampled(
    reading: Reading,
    seeds: "Tensor",
    limits: "Tensor",
    end: int,
    how: Decoding,
    check: Callable[[], None],
) -> list[Written]:
    """One sequence a row, each token drawn from the model's distribution."""
    import torch

    count, longest = len(seeds), int(limits.max())
    # -1 where nothing is written; what follows a row's end counts for nothing. `rows` says whose
    # the batch's rows are, `going` which of them go on.
    written = torch.full((count, longest), -1, device=seeds.device)
    rows = torch.arange(count, device=seeds.device)
    going = torch.ones(count, dtype=torch.bool, device=seeds.device)
    logits = reading.logits
    for step in range(longest):
        check()
        said = torch.cat([reading.before, written[rows, :step]], dim=1)
        found = candidates(logits, said, how)
        place = drawn(found.scores, seeds[rows], step, found.tokens, 1, how)
        token = found.tokens.gather(1, place)[:, 0]
        written[rows, step] = token
        going &= (token != end) & (limits[rows] > step + 1)
        left = int(going.sum())
        if not left:
            break
        if left <= _KEPT * len(rows):
            kept = going.nonzero()[:, 0]
            reading.take(kept)
            rows, going, token = rows[kept], going[kept], token[kept]
        logits = reading.feed(token)
    ends = limits.tolist()
    return [_written(row[:n], end) for row, n in zip(written.tolist(), ends, strict=True)]


def _beams(
    reading: Reading,
    seeds: "Tensor",
    limits: "Tensor",
    end: int,
    how: Decoding,
    check: Callable[[], None],
) -> list[Written]:
    """Several sequences a row; the next ones are drawn among all continuations of all of them.

    As in transformers' beam search with sampling: twice as many continuations as beams are drawn
    by their sums of scores; those that end compete by score per token, the best others go on; a
    row is done once no beam is ahead of its finished ones. A text that ended is preferred
    to one that the limit cut off.
    """
    import torch

    beams, device, count = how.beams, seeds.device, len(seeds)
    results: list[Written] = [Written([], False)] * count
    rows = torch.arange(count, device=device)
    reading.take(rows.repeat_interleave(beams))
    logits = reading.logits.repeat_interleave(beams, dim=0)
    longest = int(limits.max())
    written = torch.full((count, beams, longest), -1, device=device)
    # Of beams that are alike at first, the first alone is continued.
    sums = torch.full((count, beams), _NEVER, device=device)
    sums[:, 0] = 0
    done, done_scores = written.clone(), torch.full_like(sums, _NEVER)
    for step in range(longest):
        check()
        size = logits.shape[-1]
        said = torch.cat([reading.before, written.flatten(0, 1)[:, :step]], dim=1)
        found = candidates(logits, said, how)
        width = found.tokens.shape[1]
        tokens = found.tokens.reshape(len(rows), beams * width)
        scores = (found.scores.view(len(rows), beams, width) + sums[:, :, None]).flatten(1)
        beam = torch.arange(beams, device=device).repeat_interleave(width).expand_as(tokens)
        place = drawn(scores, seeds[rows], step, beam * size + tokens, 2 * beams, how)
        token, origin = tokens.gather(1, place), beam.gather(1, place)
        score = scores.gather(1, place)
        longer = _of(written, origin)
        longer[:, :, step] = token
        ends = token == end

        # Only the first half can finish: the others are there to go on with.
        ending = ends & (torch.arange(2 * beams, device=device) < beams) & (score > _NEVER / 2)
        final = (score / (step + 1)).masked_fill(~ending, _NEVER)
        done_scores, best = torch.cat([done_scores, final], dim=1).topk(beams)
        done = _of(torch.cat([done, longer], dim=1), best)

        sums, best = score.masked_fill(ends, _NEVER).topk(beams)
        written, token, origin = _of(longer, best), token.gather(1, best), origin.gather(1, best)
        closed = sums[:, 0] / (step + 1) <= done_scores[:, -1]
        closed |= limits[rows] <= step + 1
        for row in closed.nonzero()[:, 0].tolist():
            whole = bool(done_scores[row, 0] > _NEVER)
            told = done[row, 0] if whole else written[row, 0]
            results[int(rows[row])] = _written(told.tolist(), end)
        kept = (~closed).nonzero()[:, 0]
        if not len(kept):
            break
        onward = (kept[:, None] * beams + origin[kept]).flatten()
        whole_batch = len(kept) == len(rows)
        reading.take(onward, of_same=whole_batch)
        if not whole_batch:
            rows, written, sums, token = rows[kept], written[kept], sums[kept], token[kept]
            done, done_scores = done[kept], done_scores[kept]
        logits = reading.feed(token.flatten())
    return results


def _of(sequences: "Tensor", which: "Tensor") -> "Tensor":
    """Sequences (rows, beams, tokens) by their row's beams (rows, n)."""
    return sequences.gather(1, which[:, :, None].expand(-1, -1, sequences.shape[2]))


def _written(tokens: list[int], end: int) -> Written:
    """What was written before the first -1 or end."""
    if end in tokens:
        return Written(tokens[: tokens.index(end)], True)
    return Written(tokens[: tokens.index(-1)] if -1 in tokens else tokens, False)
