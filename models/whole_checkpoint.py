"""Refuses incomplete checkpoints: transformers would draw missing weights at random."""

from pathlib import Path
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError

# What transformers raises for a directory that it cannot load.
FAULTS = (
    KeyError,
    OSError,
    RuntimeError,
    SafetensorError,
    StrictDataclassError,
    TypeError,
    ValueError,
)


def whole(kind: Any, directory: Path | str, new_head: bool = False, **given: Any) -> Any:
    """`kind.from_pretrained`, from safetensors alone and without code of the checkpoint's own.

    new_head: what lies outside the base model may be missing, and is then drawn.
    Raises one of `FAULTS`, ValueError where weights are missing.
    """
    given |= {"use_safetensors": True, "trust_remote_code": False}
    model, told = kind.from_pretrained(directory, output_loading_info=True, **given)
    missing = sorted(told["missing_keys"])
    if new_head:
        missing = [name for name in missing if name.startswith(f"{model.base_model_prefix}.")]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(f"its weights lack {missing[0]}{more}")
    return model
