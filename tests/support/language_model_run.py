"""A tiny language model, causal or masked, trained by the loop that trains encoders."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

from tercet.models import seeding
from tercet.models.training.loop import Batch, LogRow, Setting
from tercet.models.training.loop import train as train_module
from tercet.models.training.phase import Hyperparameters

VOCABULARY, LENGTH, SEQUENCES, MASK = 40, 12, 40, 1
NUMBERS = Hyperparameters(
    name="lm", batch_size=8, learning_rate=2e-2, max_steps=16, warmup=0.1, weight_decay=0.01
)


def _model(kind: str) -> torch.nn.Module:
    torch.manual_seed(0)
    if kind == "causal":
        sizes = {"n_positions": LENGTH, "n_embd": 16, "n_layer": 1, "n_head": 2}
        return GPT2LMHeadModel(
            GPT2Config(vocab_size=VOCABULARY, bos_token_id=0, eos_token_id=0, **sizes)
        )
    return BertForMaskedLM(
        BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=LENGTH,
        )
    )


class _Sequences:
    """Forty sequences that count on from a random start, five batches an epoch."""

    def __init__(self, masked: bool) -> None:
        starts = np.random.default_rng(1).integers(0, VOCABULARY, SEQUENCES)
        counted = starts[:, None] + np.arange(LENGTH)
        self._tokens = 2 + counted % (VOCABULARY - 2)
        self._ids = np.arange(SEQUENCES, dtype=np.uint64)
        self._masked = masked

    def __len__(self) -> int:
        return SEQUENCES // NUMBERS.batch_size

    def __getitem__(self, step: int) -> Batch:
        epoch, place = divmod(step, len(self))
        order = np.argsort(seeding.draws(3, "sequences", self._ids, epoch))
        rows = order[place * NUMBERS.batch_size :][: NUMBERS.batch_size]
        tokens = torch.from_numpy(self._tokens[rows])
        if not self._masked:
            return Batch(len(rows), {"input_ids": tokens, "labels": tokens})
        hidden = torch.arange(LENGTH) % 4 == step % 4
        inputs = tokens.masked_fill(hidden, MASK)
        return Batch(len(rows), {"input_ids": inputs, "labels": tokens.masked_fill(~hidden, -100)})


def train(
    kind: str, directory: Path, **changes: Any
) -> tuple[dict[str, torch.Tensor], list[LogRow]]:
    """The weights and the log of a `causal` or a `masked` model."""
    torch.set_num_threads(1)
    model = _model(kind)

    def step(inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        loss = model(**inputs).loss
        return loss, {"perplexity": loss.detach().exp()}

    setting = Setting(**{"directory": directory, "seed": 5, "log_steps": 2, **changes})
    log = train_module(model, _Sequences(kind == "masked"), step, NUMBERS, setting)
    return model.state_dict(), log
