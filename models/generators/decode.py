"""Decodes a batch by plain sampling, or by beam search with sampling.

A row's text depends on its prompt, its seed and the settings, not on the batch: in fp32 a row is
the same in every batch, unless the scores of two tokens differ by less than rounding.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from tercet.models.generators import draws
from tercet.models.generators.draws import row_noise
from tercet.models.generators.settings import Decoding


class Reading:
    """A model with the cache of a batch: reads the prompts, then one token per row at a time.

    The rows of a causal model are padded on the left, so that all continue in the same column;
    positions do not count padding. There is one row per prompt at first; `take` repeats, reorders
    and drops rows.

    before: (rows, tokens), the tokens before the answer, -1 for padding: the prompt, or an
    encoder-decoder's start token.
    """

    def __init__(
        self, model: PreTrainedModel, prompts: Sequence[Sequence[int]], seeds: Tensor
    ) -> None:
        """Reads the prompts. seeds: (rows,), int64, on the model's device."""
        self._model, self._seeds = model, seeds
        longest = max(map(len, prompts))
        ids = torch.zeros(len(prompts), longest, dtype=torch.int64)
        mask = torch.zeros_like(ids)
        left = not model.config.is_encoder_decoder
        for row, prompt in enumerate(prompts):
            span = slice(longest - len(prompt), longest) if left else slice(0, len(prompt))
            ids[row, span] = torch.tensor(prompt)
            mask[row, span] = 1
        ids, self._mask = ids.to(seeds.device), mask.to(seeds.device)
        self._encoded: dict[str, Any] = {}
        self._cache: Any = None
        if left:
            self.before = ids.masked_fill(self._mask == 0, -1)
            self._next = self._mask.sum(dim=1)
            places = (self._mask.cumsum(dim=1) - 1).clamp(min=0)
            self.logits = self._read(ids, places)
        else:
            encoder: Any = model.get_encoder()
            self._encoded["encoder_outputs"] = encoder(ids, attention_mask=self._mask)
            self._next = torch.ones_like(seeds)
            begin = torch.full_like(ids[:, :1], int(model.config.decoder_start_token_id))
            self.before = begin
            self.logits = self._read(begin, torch.zeros_like(begin))

    def feed(self, tokens: Tensor) -> Tensor:
        """The logits (rows, vocabulary) after one more token per row. tokens: (rows,)."""
        if not self._encoded:
            self._mask = torch.cat([self._mask, torch.ones_like(self._mask[:, :1])], dim=1)
        self.logits = self._read(tokens[:, None], self._next[:, None])
        self._next = self._next + 1
        return self.logits

    def take(self, rows: Tensor, of_same: bool = False) -> None:
        """Continues with these rows, by index. of_same: each replaces a row of the same prompt."""
        cache = self._cache
        if self._encoded:
            cache = cache.self_attention_cache if of_same else cache
        cache.batch_select_indices(rows)
        if of_same:
            return
        self.before = self.before[rows]
        self._mask, self._seeds, self._next = self._mask[rows], self._seeds[rows], self._next[rows]
        if self._encoded:
            encoded = self._encoded["encoder_outputs"]
            encoded.last_hidden_state = encoded.last_hidden_state[rows]

    def _read(self, ids: Tensor, places: Tensor) -> Tensor:
        """The logits (rows, vocabulary) after the last of these tokens, which enter the cache."""
        arguments: dict[str, Any] = dict(self._encoded)
        if self._encoded:
            arguments["decoder_input_ids"] = ids
        else:
            arguments |= {"input_ids": ids, "position_ids": places}
        noise = row_noise(self._model, self._seeds, places)
        if noise is not None:
            arguments["noise"] = noise
        if "logits_to_keep" in inspect.signature(self._model.forward).parameters:
            arguments["logits_to_keep"] = 1
        output = self._model(
            attention_mask=self._mask, past_key_values=self._cache, use_cache=True, **arguments
        )
        self._cache = output.past_key_values
        logits: Tensor = output.logits[:, -1]
        return logits


# The score of an impossible continuation; finite, since sums with it are compared.
_NEVER = -1e9
# Finished rows are dropped when at most this share of the batch goes on.
_COMPACT_AT = 0.75


class Written(NamedTuple):
    """tokens: without the end token. ended: whether the end token came before the limit."""

    tokens: list[int]
    ended: bool


class NotFinite(Exception):
    """The model's logits are NaN or infinite."""


def decode(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    seeds: Sequence[int],
    limits: Sequence[int],
    end: int,
    how: Decoding,
    check: Callable[[], None],
) -> list[Written]:
    """The model's continuation of each prompt.

    seeds: one per row. limits: most tokens of each row with the end token, at least 1. end: the
    token that ends a text. check: called before each token; may raise to stop.

    Raises NotFinite if the model's logits are not finite.
    """
    with torch.inference_mode():
        seed_tensor = torch.tensor(list(seeds), dtype=torch.int64, device=model.device)
        most = torch.tensor(list(limits), dtype=torch.int64, device=model.device)
        reading = Reading(model, prompts, seed_tensor)
        if not bool(reading.logits.isfinite().all()):
            raise NotFinite
        write = _sampled if how.beams == 1 else _beams
        return write(reading, seed_tensor, most, end, how, check)


def _sampled(
    reading: Reading,
    seeds: Tensor,
    limits: Tensor,
    end: int,
    how: Decoding,
    check: Callable[[], None],
) -> list[Written]:
    """Samples one sequence per row, token by token."""
    count, longest = len(seeds), int(limits.max())
    # `written` has -1 where nothing is written; tokens after a row's end are ignored. `rows` has
    # the row numbers of the current batch, `going` whether each of them goes on.
    written = torch.full((count, longest), -1, device=seeds.device)
    rows = torch.arange(count, device=seeds.device)
    going = torch.ones(count, dtype=torch.bool, device=seeds.device)
    logits = reading.logits
    for step in range(longest):
        check()
        history = torch.cat([reading.before, written[rows, :step]], dim=1)
        choices = candidates(logits, history, how)
        place = drawn(choices.scores, seeds[rows], step, choices.tokens, 1, how)
        token = choices.tokens.gather(1, place)[:, 0]
        written[rows, step] = token
        going &= (token != end) & (limits[rows] > step + 1)
        left = int(going.sum())
        if not left:
            break
        if left <= _COMPACT_AT * len(rows):
            open_rows = going.nonzero()[:, 0]
            reading.take(open_rows)
            rows, going, token = rows[open_rows], going[open_rows], token[open_rows]
        logits = reading.feed(token)
    ends = limits.tolist()
    return [_written(row[:n], end) for row, n in zip(written.tolist(), ends, strict=True)]


def _beams(
    reading: Reading,
    seeds: Tensor,
    limits: Tensor,
    end: int,
    how: Decoding,
    check: Callable[[], None],
) -> list[Written]:
    """Beam search with sampling: continuations are drawn from all beams of a row together.

    As in transformers, twice as many continuations as beams are drawn by their sums of scores.
    Continuations that end compete by score per token; the best of the rest go on. A row is done
    when no beam scores above its finished texts. A finished text is preferred to one cut by the
    limit.
    """
    beams, device, count = how.beams, seeds.device, len(seeds)
    results: list[Written] = [Written([], False)] * count
    rows = torch.arange(count, device=device)
    reading.take(rows.repeat_interleave(beams))
    logits = reading.logits.repeat_interleave(beams, dim=0)
    longest = int(limits.max())
    written = torch.full((count, beams, longest), -1, device=device)
    # All beams are equal at first: continue only the first.
    sums = torch.full((count, beams), _NEVER, device=device)
    sums[:, 0] = 0
    done, done_scores = written.clone(), torch.full_like(sums, _NEVER)
    for step in range(longest):
        check()
        size = logits.shape[-1]
        history = torch.cat([reading.before, written.flatten(0, 1)[:, :step]], dim=1)
        choices = candidates(logits, history, how)
        width = choices.tokens.shape[1]
        tokens = choices.tokens.reshape(len(rows), beams * width)
        scores = (choices.scores.view(len(rows), beams, width) + sums[:, :, None]).flatten(1)
        beam = torch.arange(beams, device=device).repeat_interleave(width).expand_as(tokens)
        place = drawn(scores, seeds[rows], step, beam * size + tokens, 2 * beams, how)
        token, origin = tokens.gather(1, place), beam.gather(1, place)
        score = scores.gather(1, place)
        longer = _of(written, origin)
        longer[:, :, step] = token
        ends = token == end

        # Only the first half may finish; the second half ensures that enough beams go on.
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
            winner = done[row, 0] if whole else written[row, 0]
            results[int(rows[row])] = _written(winner.tolist(), end)
        open_rows = (~closed).nonzero()[:, 0]
        if not len(open_rows):
            break
        onward = (open_rows[:, None] * beams + origin[open_rows]).flatten()
        whole_batch = len(open_rows) == len(rows)
        reading.take(onward, of_same=whole_batch)
        if not whole_batch:
            rows, written, sums, token = (
                rows[open_rows],
                written[open_rows],
                sums[open_rows],
                token[open_rows],
            )
            done, done_scores = done[open_rows], done_scores[open_rows]
        logits = reading.feed(token.flatten())
    return results


def _of(sequences: Tensor, which: Tensor) -> Tensor:
    """Selects sequences: from (rows, beams, tokens) by beam numbers (rows, n)."""
    return sequences.gather(1, which[:, :, None].expand(-1, -1, sequences.shape[2]))


def _written(tokens: list[int], end: int) -> Written:
    """The tokens before the first -1 or end token."""
    if end in tokens:
        return Written(tokens[: tokens.index(end)], True)
    return Written(tokens[: tokens.index(-1)] if -1 in tokens else tokens, False)


class Candidates(NamedTuple):
    """Candidates for the next token of each sequence.

    tokens, scores: (sequences, candidates). A score is a log-probability divided by the
    temperature; -inf for a token that must not be drawn.
    """

    tokens: Tensor
    scores: Tensor


def candidates(logits: Tensor, history: Tensor, how: Decoding) -> Candidates:
    """The candidates after no_repeat, temperature, top_k and top_p, applied in this order.

    logits: (sequences, vocabulary). history: (sequences, tokens so far), -1 for padding on the
    left. No n-gram of it is repeated; as in transformers it includes the prompt of a decoder-only
    model.
    """
    scores = torch.log_softmax(logits.float(), dim=-1)
    if how.no_repeat and history.shape[1] >= how.no_repeat:
        scores = _without_repeats(scores, history, how.no_repeat)
    if how.temperature not in (0, 1):
        scores = scores / how.temperature
    size = scores.shape[1]
    # At temperature 0 only the best tokens matter; each beam needs two.
    most = 2 * how.beams if how.temperature == 0 else (how.top_k or size)
    if most >= size and how.top_p == 1:
        return Candidates(torch.arange(size, device=scores.device).expand_as(scores), scores)
    scores, tokens = scores.topk(min(most, size))
    if how.top_p < 1 and how.temperature > 0:
        shares = scores.softmax(dim=-1)
        outside = shares.cumsum(dim=-1) - shares >= how.top_p
        # Each beam keeps two candidates: one may be the end token.
        outside[:, : 1 if how.beams == 1 else 2] = False
        scores = scores.masked_fill(outside, -torch.inf)
    return Candidates(tokens, scores)


def drawn(
    scores: Tensor, seeds: Tensor, position: int, indices: Tensor, count: int, how: Decoding
) -> Tensor:
    """Draws `count` different columns per row, weighted by the softmax of their scores.

    The order is that of drawing, or by score at temperature 0. Gumbel noise keyed by (row seed,
    position, index) is added to the scores: the `count` largest sums are a sample without
    replacement.

    scores, indices: (rows, columns); seeds: (rows,). Returns (rows, count).
    """
    if how.temperature > 0:
        uniforms = draws.uniforms(
            seeds[:, None], draws.TOKEN, indices.new_tensor(position), indices
        )
        scores = scores - (-uniforms.log()).log().to(scores.dtype)
    return scores.topk(count, dim=-1).indices


def _without_repeats(scores: Tensor, history: Tensor, size: int) -> Tensor:
    """The scores, with -inf for tokens that would repeat an n-gram of this size."""
    windows = history.unfold(1, size, 1)
    last = history[:, history.shape[1] - size + 1 :]
    again = (windows[:, :, :-1] == last[:, None]).all(dim=-1) & (windows >= 0).all(dim=-1)
    # "amin": a token that follows several windows is banned if one of them bans it.
    values = torch.full_like(again, torch.inf, dtype=scores.dtype).masked_fill(again, -torch.inf)
    return scores.scatter_reduce(1, windows[:, :, -1].clamp(min=0), values, "amin")
