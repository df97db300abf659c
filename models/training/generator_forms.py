"""Generators that are fitted by cross-entropy alone."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, T5ForConditionalGeneration

from tercet.models.generators.checkpoint import causal_model, loaded, network
from tercet.models.training.fit_generator import IGNORED, Encoded, Objective


def load_causal(directory: Path) -> tuple[Any, Objective]:
    """A causal language model and its cross-entropy. Raises ValueError for another form."""
    model = causal_model(directory)
    return model, cross_entropy_of(model)


def load_t5(directory: Path) -> tuple[Any, Objective]:
    """A T5 and its cross-entropy. Raises ValueError for another form."""
    kind = loaded(AutoConfig, directory).model_type
    if kind != "t5":
        raise ValueError(
            f"The form t5 starts from a T5, and {directory} is a {kind}: name another init or form"
        )
    model = network(T5ForConditionalGeneration, directory, torch.float32)
    return model, cross_entropy_of(model)


def cross_entropy_of(model: Any) -> Objective:
    """The mean over the target's tokens, its <eos> included."""
    # A decoder's logits answer its labels place by place, a causal model's the token after.
    ahead = 0 if model.config.is_encoder_decoder else 1

    def objective(batch: Encoded) -> tuple[Tensor, dict[str, Tensor]]:
        labels = batch["labels"]
        given = {name: batch[name] for name in ("input_ids", "attention_mask")}
        if not ahead:
            given["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(labels)
        logits = model(**given, use_cache=False).logits.float()
        loss = nn.functional.cross_entropy(
            logits[:, : logits.shape[1] - ahead].flatten(0, 1),
            labels[:, ahead:].flatten(),
            ignore_index=IGNORED,
        )
        return loss, {"cross_entropy": loss.detach()}

    return objective
