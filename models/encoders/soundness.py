"""Faults of an encoder that would pass in silence or end a run midway, told when it is loaded."""

import json
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

# Files that only a SentenceTransformer directory has, beside its modules.json.
_OF_MODULES = ("config_sentence_transformers.json", "template_encoder.json", "[0-9]*_*/config.json")


def check_files(path: Path, trust_remote_code: bool) -> None:
    """Raises ValueError where the library would load something else than the directory says."""
    listed = path / "modules.json"
    if not listed.is_file():
        found = next((file for glob in _OF_MODULES for file in sorted(path.glob(glob))), None)
        if found is not None:
            raise ValueError(
                f"it has {found.relative_to(path)}, but the modules.json that says how its vectors "
                "are made is missing"
            )
        return
    for module in json.loads(listed.read_text(encoding="utf-8")):
        file = path / str(module["path"]) / "config.json"
        if str(module["type"]).endswith(".Dense") and file.is_file() and not trust_remote_code:
            name = json.loads(file.read_text(encoding="utf-8")).get("activation_function")
            # The library would take Tanh instead.
            if name is not None and not str(name).startswith("torch."):
                raise ValueError(
                    f"its layer {module['path']} has the activation {name}, which is code of its "
                    "own and runs only if the recipe sets trust_remote_code: true"
                )


def check_model(model: SentenceTransformer) -> None:
    """Raises ValueError for a tokenizer that does not fit, and for weights that are not finite."""
    tokenizer: Any = getattr(model, "tokenizer", None)
    special = getattr(tokenizer, "all_special_tokens", None)
    # If its files are missing, transformers makes one that has only special tokens.
    if special is not None and len(tokenizer) <= len(special):
        raise ValueError("its tokenizer is missing (tokenizer.json, or the files it is made from)")
    for name, weights in model.named_parameters():
        # NaN in the attention may still give finite vectors.
        if not bool(weights.isfinite().all()):
            raise ValueError(f"its weights are damaged: {name} has NaN or infinity")
    network: Any = getattr(model[0], "model", None)
    if special is not None and hasattr(network, "get_input_embeddings"):
        rows = getattr(network.get_input_embeddings(), "num_embeddings", None)
        if rows is not None and len(tokenizer) > rows:
            raise ValueError(
                f"its tokenizer has {len(tokenizer)} tokens, but its weights know only {rows}"
            )
