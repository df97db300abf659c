"""The three forms of a language model, and whether a checkpoint has one of them. No torch here."""

import json
from pathlib import Path
from typing import Literal, TypeAlias

Form: TypeAlias = Literal["masked", "causal", "t5"]

_T5 = ("t5", "mt5")
_CAUSAL = ("ForCausalLM", "LMHeadModel", "GPT2Model")
SAID = {"masked": "an encoder like BERT", "causal": "a decoder like GPT-2", "t5": "a T5"}


def transformer_folder(folder: Path) -> Path:
    """Where the transformer lies within a checkpoint, which may be a SentenceTransformer."""
    modules = folder / "modules.json"
    if modules.is_file() and not (folder / "config.json").is_file():
        first = json.loads(modules.read_text(encoding="utf-8"))[0]
        return folder / str(first.get("path", ""))
    return folder


def form_fault(folder: Path, form: Form) -> str | None:
    """Why training of this form cannot go on from the checkpoint; None where it can."""
    folder = transformer_folder(folder)
    path = folder / "config.json"
    if not path.is_file():
        return "it has no config.json, so it is not a transformer that transformers can load"
    config = json.loads(path.read_text(encoding="utf-8"))
    own = [path, folder / "tokenizer_config.json"]
    if any(p.is_file() and "auto_map" in json.loads(p.read_text(encoding="utf-8")) for p in own):
        return (
            "it comes with Python code of its own (auto_map), which pretrain never runs: take a "
            "checkpoint of a class that transformers has"
        )
    found = _form(config)
    if found != form:
        what = SAID[found] if found else f"a {config.get('model_type', 'model')} of another kind"
        return f"it is {what}, but form: {form} needs {SAID[form]}"
    return None


def _form(config: dict[str, object]) -> Form | None:
    kind, listed = str(config.get("model_type", "")), config.get("architectures")
    classes = [str(name) for name in listed] if isinstance(listed, list) else []
    if kind in _T5:
        return "t5"
    if config.get("is_encoder_decoder"):
        return None
    causal = any(name.endswith(_CAUSAL) for name in classes) or kind == "gpt2"
    return "causal" if causal or config.get("is_decoder") else "masked"
