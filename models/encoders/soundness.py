"""Checks an encoder on loading for faults that would go unnoticed or end a run midway."""

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding, Transformer
from torch import nn
from transformers import modeling_utils

from tercet.models.encoders.template_encoder import TemplateEncoder

# Files that only a SentenceTransformer directory has, beside its modules.json.
_OF_MODULES = (
    "config_sentence_transformers.json",
    "template_encoder.json",
    "[0-9]_*/config.json",
    "[0-9][0-9]_*/config.json",
)
_ROLES = ("pad", "unk", "cls", "sep", "bos", "eos", "mask")


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
    modules = json.loads(listed.read_text(encoding="utf-8"))
    if not isinstance(modules, list) or not all(map(_is_entry, modules)):
        raise ValueError("its modules.json is no list of modules, each with its type and path")
    # A router's layers lie deeper.
    dense = {*path.rglob("*Dense*/config.json")}
    dense |= {path / m["path"] / "config.json" for m in modules if m["type"].endswith(".Dense")}
    for file in () if trust_remote_code else sorted(filter(Path.is_file, dense)):
        config = json.loads(file.read_text(encoding="utf-8"))
        name = config.get("activation_function", "torch.")
        # The library would take Tanh instead.
        if not isinstance(name, str) or not name.startswith("torch."):
            raise ValueError(
                f"its layer {file.parent.relative_to(path)} has the activation {name!r}, not one "
                "of torch, which runs only if the recipe sets trust_remote_code: true"
            )


def check_model(model: SentenceTransformer) -> None:
    """Raises ValueError for a tokenizer that does not fit, and for weights that are not finite."""
    for name, weights in model.named_parameters():
        # NaN in the attention may still give finite vectors. Numbers of 8 bits cannot be asked.
        values = weights.float() if weights.element_size() == 1 else weights
        if not bool(values.isfinite().all()):
            raise ValueError(f"its weights are damaged: {name} has NaN or infinity")
    tokenizer: Any = getattr(model, "tokenizer", None)
    special = getattr(tokenizer, "all_special_tokens", None)
    # If its files are missing, transformers makes one that has only special tokens.
    if special is not None and len(tokenizer) <= len(special):
        raise ValueError("its tokenizer is missing (tokenizer.json, or the files it is made from)")
    for tokens, rows in _vocabularies(model):
        if beyond := {name: number for name, number in tokens.items() if number >= rows}:
            first = min(beyond, key=lambda name: beyond[name])
            raise ValueError(
                f"its tokenizer has tokens that its weights do not know: {first!r} is number "
                f"{beyond[first]}, and they have {rows} rows"
            )


def check_length(model: SentenceTransformer) -> None:
    """Raises ValueError if the vectors are to be cut (`truncate_dim`) to what is no length."""
    asked: Any = model.truncate_dim
    if asked is not None and (type(asked) is not int or asked < 1):
        raise ValueError(
            f"its config_sentence_transformers.json has truncate_dim {asked!r}, which is no number "
            "of dimensions: write a whole one, 1 or more, or take the key out"
        )


def _is_entry(module: Any) -> bool:
    return isinstance(module, dict) and all(
        isinstance(module.get(key), str) for key in ("type", "path")
    )


def _vocabularies(model: SentenceTransformer) -> Iterator[tuple[dict[str, int], int]]:
    """Of each module that reads texts: the tokens that a text may give, and its embeddings."""
    for module in model.modules():
        table: Any = None
        if isinstance(module, StaticEmbedding):
            yield module.tokenizer.get_vocab(), module.embedding.num_embeddings
        elif isinstance(module, (Transformer, TemplateEncoder)):
            tokenizer: Any = module.tokenizer
            try:
                table = module.model.get_input_embeddings()
            except (AttributeError, NotImplementedError):
                continue  # CANINE has none, and whoever has no `model` reads no tokens
            rows = getattr(table, "num_embeddings", None)
            if rows is None or not hasattr(tokenizer, "get_vocab"):
                continue
            # A special token without a role comes in no text: Gemma's for an image has no row.
            used = {getattr(tokenizer, f"{role}_token_id", None) for role in _ROLES}
            added = getattr(tokenizer, "added_tokens_decoder", {})
            unused = {number for number, token in added.items() if token.special} - used
            vocabulary = tokenizer.get_vocab()
            yield {name: n for name, n in vocabulary.items() if n not in unused}, int(rows)


_THEIRS = modeling_utils.log_state_dict_report
_WITHIN = threading.local()


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """What this thread loads within has all of its weights: ValueError with one sentence if not.

    A pooler may be missing, since vectors are made of states: the model then has none. Heads that
    are left over say nothing.
    """
    before = getattr(_WITHIN, "refused", False)
    _WITHIN.refused = True
    try:
        yield
    except RuntimeError as error:
        # What torch says of a layer behind the transformer.
        if "loading state_dict" not in str(error):
            raise
        raise ValueError(" ".join(str(error).split())) from error
    finally:
        _WITHIN.refused = before


def _report(model: nn.Module, *args: Any, **named: Any) -> None:
    """Stands for the function of transformers that tells what a checkpoint lacked."""
    if not getattr(_WITHIN, "refused", False):
        _THEIRS(model, *args, **named)
        return
    found: Any = named["loading_info"]
    if told := [*found.error_msgs, *found.conversion_errors.values()]:
        raise ValueError(" ".join(str(told[0]).split()))
    lacking, wrong = sorted(found.missing_keys), sorted(key for key, *_ in found.mismatched_keys)
    # A random pooler would be saved, and copied later as the backbone's own.
    for name in {name for name in map(_pooler, (*lacking, *wrong)) if name is not None}:
        model.set_submodule(name, nn.Identity())
    lacking, wrong = ([n for n in names if _pooler(n) is None] for names in (lacking, wrong))
    if lacking:
        raise ValueError(f"its weights lack {lacking[0]}{_more(lacking)}")
    if wrong:
        raise ValueError(
            f"its weights have another shape than its config.json says: {wrong[0]}{_more(wrong)}"
        )


def _pooler(weight: str) -> str | None:
    """The name of the pooler that has this weight; None where none has."""
    parts = weight.split(".")
    return ".".join(parts[: parts.index("pooler") + 1]) if "pooler" in parts[:-1] else None


def _more(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


modeling_utils.log_state_dict_report = _report
