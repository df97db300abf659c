"""The tokenizer in a model slot."""

from pathlib import Path
from typing import Any

from tercet.tasks.stage import BadInput


def load_tokenizer(folder: Path, key: str) -> Any:
    """The model's own, as the encoder will use it. key: of the recipe, for messages.

    Raises BadInput where there is none.
    """
    from transformers import AutoTokenizer

    from tercet.models.pretraining.forms import transformer_folder

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            str(transformer_folder(folder)), trust_remote_code=False
        )
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise BadInput(
            "unreadable", f"{key}: no tokenizer can be loaded from {folder}: {reason}"
        ) from error
    # Without its files transformers makes one that has only special tokens.
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise BadInput(
            "missing_file",
            f"{key}: no tokenizer can be loaded from {folder}: its tokenizer.json is missing, or "
            "the files that it is made from",
        )
    return tokenizer
