"""Loads a checkpoint's language model and tokenizer; a fault is reported in one sentence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from tercet.models.whole_checkpoint import FAULTS, whole


def load_tokenizer(directory: Path) -> Any:
    """The model's tokenizer, with a token to pad with. Raises ValueError where it does not fit."""
    tokenizer = loaded(AutoTokenizer, directory)
    vocabulary = int(loaded(AutoConfig, directory).vocab_size)
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise ValueError(
            f"No language model can be taken from {directory}: its tokenizer is missing "
            "(tokenizer.json, or the files it is made from)"
        )
    if len(tokenizer) > vocabulary:
        raise ValueError(
            f"No language model can be taken from {directory}: its tokenizer has {len(tokenizer)} "
            f"tokens and its model {vocabulary}, so they do not belong together"
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def causal_model(directory: Path) -> Any:
    """A causal language model in fp32. Raises ValueError for another form."""
    config = loaded(AutoConfig, directory)
    named = config.architectures or ()
    if config.is_encoder_decoder or not any("CausalLM" in a or "LMHead" in a for a in named):
        raise ValueError(
            f"A causal language model is needed, and {directory} is a "
            f"{config.model_type} ({', '.join(named) or 'no architecture named'}): name another "
            "init or form"
        )
    return network(AutoModelForCausalLM, directory, dtype=torch.float32)


def loaded(kind: Any, directory: Path) -> Any:
    """A configuration or a tokenizer. Raises ValueError with one sentence where that fails."""
    # Left open, transformers asks at the terminal whether to run a checkpoint's own code.
    return _told(directory, lambda: kind.from_pretrained(directory, trust_remote_code=False))


def network(kind: Any, directory: Path, dtype: torch.dtype) -> Any:
    """A model with all its weights. Raises ValueError with one sentence where that fails."""
    return _told(directory, lambda: whole(kind, directory, dtype=dtype))


def _told(directory: Path, load: Callable[[], Any]) -> Any:
    transformers_logging.disable_progress_bar()
    try:
        return load()
    except FAULTS as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if "custom code" in str(error) or "trust_remote_code" in str(error):
            reason = "it comes with Python code of its own, which Tercet does not run here"
        raise ValueError(f"No language model can be taken from {directory}: {reason}") from error
