"""An encoder's files as sentence-transformers 5, and vLLM, read them; 6 reads them too."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tercet.flows.results.encoder_form import read_json

# Pooling modes, and the flags that stood for them.
_FLAGS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
_DENSE = ("in_features", "out_features", "bias", "activation_function")
_PLAIN = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}


def versions(folder: Path) -> str:
    """The major versions of sentence-transformers that can read the encoder's exported files."""
    return "6" if older_files(folder) is None else "5 or 6"


def older_files(folder: Path) -> dict[str, str] | None:
    """The files of an encoder's directory that differ in the older form, by their paths in it.

    None where only sentence-transformers 6 can read the encoder: one with modules of its own, with
    several poolings, of other inputs than text, or with a tokenizer that only transformers 5 has.
    """
    modules: list[dict[str, Any]] = read_json(folder / "modules.json", list)
    tokenizer = read_json(folder / "tokenizer_config.json").get("tokenizer_class")
    if not modules or tokenizer == "TokenizersBackend":
        return None
    files: dict[str, Any] = {"modules.json": modules}
    for module in modules:
        package, _, kind = str(module.get("type")).rpartition(".")
        path = Path(str(module.get("path", "")))
        name = "sentence_bert_config.json" if kind == "Transformer" else "config.json"
        older = _older(kind, read_json(folder / path / name))
        if not package.startswith("sentence_transformers.") or older is None:
            return None
        module["type"] = f"sentence_transformers.models.{kind}"
        files |= {(path / name).as_posix(): older} if older else {}
    return {name: json.dumps(content, indent=2) for name, content in files.items()}


def _older(kind: str, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """A module's config in the older form; empty where it is in that form as it is."""
    if kind == "Normalize" or (kind == "Pooling" and "word_embedding_dimension" in config):
        return {}
    if kind == "Dense" and config.get("module_input_name") == "sentence_embedding":
        return {key: config[key] for key in _DENSE if key in config}
    if kind == "Transformer" and config.get("modality_config", _PLAIN) == _PLAIN:
        kept = {key: config[key] for key in ("max_seq_length", "do_lower_case") if key in config}
        return {"do_lower_case": False, **kept}
    mode = config.get("pooling_mode")
    if kind != "Pooling" or not isinstance(mode, str) or mode not in _FLAGS:
        return None
    flags = {flag: one == mode for one, flag in _FLAGS.items()}
    width, prompt = config.get("embedding_dimension"), config.get("include_prompt", True)
    return {"word_embedding_dimension": width, **flags, "include_prompt": prompt}
