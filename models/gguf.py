"""Language models in a GGUF file of llama.cpp, saved once as safetensors that everything reads."""

import functools
import hashlib
import os
import tempfile
from pathlib import Path

SUFFIX = ".gguf"
_MAGIC = b"GGUF"
# Those whose tensors and tokenizer transformers reads like the originals; SmolLM2 is one.
_ARCHITECTURE = "llama"


def unpack(file: Path) -> Path:
    """The directory with the model of a GGUF file: bf16 weights, tokenizer and chat template.

    It is made once, under the digest of the file, in `tercet/gguf` of the user's cache directory
    (`XDG_CACHE_HOME`). Making it takes seconds and the memory of the weights in fp32.

    Raises: ValueError with one sentence for a file that is no GGUF, is damaged or cut off, or holds
        a model of another architecture; ImportError where the package gguf is missing.
    """
    found = file.stat()
    folder = _cache() / _digest(file, found.st_size, found.st_mtime_ns)
    if not folder.is_dir():
        _check(file)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            _convert(file, Path(made) / "model")
            try:
                (Path(made) / "model").rename(folder)
            except OSError:
                # Another process was quicker.
                if not folder.is_dir():
                    raise
    return folder


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "tercet" / "gguf"


@functools.lru_cache
def _digest(file: Path, size: int, changed_ns: int) -> str:
    """SHA-256 of the file, 16 hex digits. size, changed_ns: when it is to be computed again."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()[:16]


def _check(file: Path) -> None:
    with file.open("rb") as content:
        if content.read(len(_MAGIC)) != _MAGIC:
            raise ValueError(f"{file} is no GGUF file: it does not begin with {_MAGIC.decode()}.")
    from gguf import GGUFReader

    try:
        reader = GGUFReader(file)
        architecture = str(reader.fields["general.architecture"].contents())
    except (ValueError, IndexError, KeyError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is damaged or cut off: fetch it anew ({error}).") from None
    if architecture != _ARCHITECTURE:
        raise ValueError(
            f"{file} holds a model of architecture {architecture!r}, and of GGUF files only those "
            f"of {_ARCHITECTURE!r} are read: take its safetensors."
        )
    if "tokenizer.ggml.tokens" not in reader.fields:
        raise ValueError(f"{file} holds no tokenizer: take the model's safetensors.")


def _convert(file: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
        model = AutoModelForCausalLM.from_pretrained(
            file.parent,
            quantization_config=GgufConfig(gguf_file=file.name, dequantize=True),
            gguf_file=file.name,
            dtype=torch.bfloat16,
        )
    except (ValueError, KeyError, RuntimeError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ValueError(f"{file} is no model that transformers reads ({reason}).") from error
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
