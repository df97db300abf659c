"""A model reading rows token by token, with its key-value cache."""

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tercet.models.generators.noise import row_noise

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


class Reading:
    """Rows that a model reads: first their prompts, then one more token of each at a time.

    A causal model's rows are padded on the left, so that all continue in the same column; padding
    counts in no position. The rows are at first the prompts'; `take` repeats, reorders and drops
    them.

    before: (rows, tokens), what an answer follows on, -1 for padding: the prompt, or the one token
    with which a decoder beside an encoder begins.
    """

    def __init__(
        self, model: "PreTrainedModel", prompts: Sequence[Sequence[int]], seeds: "Tensor"
    ) -> None:
        """Reads the prompts. seeds: (rows,), int64, on the model's device."""
        import torch

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
        self._given: dict[str, Any] = {}
        self._cache: Any = None
        if left:
            self.before = ids.masked_fill(self._mask == 0, -1)
            self._next = self._mask.sum(dim=1)
            places = (self._mask.cumsum(dim=1) - 1).clamp(min=0)
            self.logits = self._read(ids, places)
        else:
            encoder: Any = model.get_encoder()
            self._given["encoder_outputs"] = encoder(ids, attention_mask=self._mask)
            self._next = torch.ones_like(seeds)
            begin = torch.full_like(ids[:, :1], int(model.config.decoder_start_token_id))
            self.before = begin
            self.logits = self._read(begin, torch.zeros_like(begin))

    def feed(self, tokens: "Tensor") -> "Tensor":
        """The logits (rows, vocabulary) after one more token of each row, (rows,)."""
        import torch

        if not self._given:
            self._mask = torch.cat([self._mask, torch.ones_like(self._mask[:, :1])], dim=1)
        self.logits = self._read(tokens[:, None], self._next[:, None])
        self._next = self._next + 1
        return self.logits

    def take(self, rows: "Tensor", of_same: bool = False) -> None:
        """Continues with these rows, by index. of_same: each comes from the same prompt's rows."""
        cache = self._cache
        if self._given:
            cache = cache.self_attention_cache if of_same else cache
        cache.batch_select_indices(rows)
        if of_same:
            return
        self.before = self.before[rows]
        self._mask, self._seeds, self._next = self._mask[rows], self._seeds[rows], self._next[rows]
        if self._given:
            encoded = self._given["encoder_outputs"]
            encoded.last_hidden_state = encoded.last_hidden_state[rows]

    def _read(self, ids: "Tensor", places: "Tensor") -> "Tensor":
        """The logits after the last of these tokens; the cache then holds them all."""
        given: dict[str, Any] = dict(self._given)
        if self._given:
            given["decoder_input_ids"] = ids
        else:
            given |= {"input_ids": ids, "position_ids": places}
        noise = row_noise(self._model, self._seeds, places)
        if noise is not None:
            given["noise"] = noise
        if "logits_to_keep" in inspect.signature(self._model.forward).parameters:
            given["logits_to_keep"] = 1
        said = self._model(
            attention_mask=self._mask, past_key_values=self._cache, use_cache=True, **given
        )
        self._cache = said.past_key_values
        logits: Tensor = said.logits[:, -1]
        return logits
