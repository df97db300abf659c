"""The three forms of language models, and checks of a checkpoint's form."""

import json
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

Form: TypeAlias = Literal["masked", "causal", "t5"]

_CAUSAL = ("ForCausalLM", "LMHeadModel", "GPT2Model")
DESCRIPTIONS = {"masked": "an encoder like BERT", "causal": "a decoder like GPT-2", "t5": "a T5"}


def transformer_folder(folder: Path) -> Path:
    """The directory of the transformer in a checkpoint, which may be a SentenceTransformer."""
    modules = folder / "modules.json"
    if modules.is_file() and not (folder / "config.json").is_file():
        listed = json.loads(modules.read_text(encoding="utf-8"))
        first = listed[0] if isinstance(listed, list) and listed else None
        if not isinstance(first, dict):
            raise ValueError("modules.json lists no modules")
        return folder / str(first.get("path", ""))
    return folder


def form_fault(folder: Path, form: Form) -> str | None:
    """Why this form cannot be trained from the checkpoint; None if it can."""
    try:
        return _fault(transformer_folder(folder), form)
    except ValueError as error:
        return f"a file that describes it cannot be read: {error}"


def _fault(folder: Path, form: Form) -> str | None:
    path = folder / "config.json"
    if not path.is_file():
        return "it has no config.json, so it is not a transformer that transformers can load"
    config, tokenizer_config = _object(path), folder / "tokenizer_config.json"
    if "auto_map" in config or (
        tokenizer_config.is_file() and "auto_map" in _object(tokenizer_config)
    ):
        return (
            "it comes with Python code of its own (auto_map), which is never run: take a "
            "checkpoint of a class that transformers has"
        )
    config_form = _form(config)
    if config_form != form:
        other = (_classes(config) or [str(config.get("model_type", "model"))])[0]
        what = DESCRIPTIONS[config_form] if config_form else f"a {other}"
        return f"it is {what}, but form: {form} needs {DESCRIPTIONS[form]}"
    return None


def described(folder: Path) -> dict[str, object]:
    """The transformer's configuration. Raises ValueError if it cannot be read."""
    return _object(transformer_folder(folder) / "config.json")


def _object(path: Path) -> dict[str, object]:
    value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} holds no object")
    return value


def _classes(config: dict[str, object]) -> list[str]:
    listed = config.get("architectures")
    return [str(name) for name in listed] if isinstance(listed, list) else []


def _form(config: dict[str, object]) -> Form | None:
    kind, classes = str(config.get("model_type", "")), _classes(config)
    if kind == "t5":
        # Without a decoder in the checkpoint, transformers would initialise one at random.
        return None if classes == ["T5EncoderModel"] else "t5"
    # `text_config`: CLIP. VAEGPT's latent heads do not fit GPT-2.
    if config.get("is_encoder_decoder") or "text_config" in config or kind == "vaegpt":
        return None
    if any(name.endswith(_CAUSAL) for name in classes) or config.get("is_decoder"):
        return "causal"
    return _form_of_kind(kind)


@cache
def _form_of_kind(kind: str) -> Form | None:
    """The form of a model type by transformers' mappings; a class name such as LlamaModel does not
    tell it."""
    from transformers.models.auto import modeling_auto

    if kind in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        return "masked"
    return "causal" if kind in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES else None
