"""Loads a checkpoint's language model and tokenizer; faults are reported in one sentence.

Incomplete checkpoints are refused, since transformers would initialise missing weights at random.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

# Errors of transformers for a directory that it cannot load.
FAULTS = (
    KeyError,
    OSError,
    RuntimeError,
    SafetensorError,
    StrictDataclassError,
    TypeError,
    ValueError,
)


def whole(kind: Any, directory: Path | str, new_head: bool = False, **arguments: Any) -> Any:
    """`kind.from_pretrained` from safetensors only, without running the checkpoint's own code.

    new_head: weights outside the base model may be missing; they are then initialised at random.
    Raises: one of `FAULTS`; ValueError if weights are missing.
    """
    arguments |= {"use_safetensors": True, "trust_remote_code": False}
    model, report = kind.from_pretrained(directory, output_loading_info=True, **arguments)
    missing = sorted(report["missing_keys"])
    if new_head:
        missing = [name for name in missing if name.startswith(f"{model.base_model_prefix}.")]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(f"its weights lack {missing[0]}{more}")
    return model


def load_tokenizer(directory: Path) -> Any:
    """The model's tokenizer, with a padding token. Raises ValueError as `whole_tokenizer`."""
    tokenizer = whole_tokenizer(directory, int(loaded(AutoConfig, directory).vocab_size))
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def whole_tokenizer(directory: Path, vocabulary: int) -> Any:
    """A tokenizer for `vocabulary` embeddings. Raises ValueError if it is missing or too large."""
    tokenizer = loaded(AutoTokenizer, directory)
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
    return tokenizer


def causal_model(directory: Path) -> Any:
    """A causal language model in fp32. Raises ValueError for another kind of model."""
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
    """A configuration or a tokenizer. Raises ValueError with one sentence if loading fails."""
    # With trust_remote_code unset, transformers would ask at the terminal.
    return _attempt(directory, lambda: kind.from_pretrained(directory, trust_remote_code=False))


def network(kind: Any, directory: Path, dtype: torch.dtype, new_head: bool = False) -> Any:
    """The model that `whole` loads. Raises ValueError with one sentence if loading fails."""
    return _attempt(directory, lambda: whole(kind, directory, new_head, dtype=dtype))


def _attempt(directory: Path, load: Callable[[], Any]) -> Any:
    transformers_logging.disable_progress_bar()
    try:
        return load()
    except FAULTS as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if "custom code" in str(error) or "trust_remote_code" in str(error):
            reason = "it comes with Python code of its own, which Tercet does not run here"
        raise ValueError(f"No language model can be taken from {directory}: {reason}") from error
