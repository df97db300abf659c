"""Encoders with modules of ours: how they are saved, and loaded without running foreign code.

Such a directory names its classes `tercet_FILE.CLASS`, and the file lies beside them, so that plain
sentence-transformers loads it where it is trusted (trust_remote_code=True). We never run the file
that we find there: a name on our list means our own class, whatever the file contains.
"""

import inspect
import json
import shutil
from collections import OrderedDict
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.util import import_from_string
from torch import nn

from tercet.models.encoders.template_encoder import MarkedState, TemplateEncoder
from tercet.models.encoders.token_cnn import TokenCnn

# A module of ours is one that reads features and writes features, imports nothing of ours, and
# is listed here.
OWN: tuple[type[nn.Module], ...] = (TemplateEncoder, MarkedState, TokenCnn)

_LIBRARY = "sentence_transformers."
# The package under which transformers loads code that came with a model.
_FOREIGN = "transformers_modules."


def save_encoder(model: SentenceTransformer, directory: Path) -> Path:
    """Writes the encoder as a SentenceTransformer directory of safetensors and JSON.

    Beside modules of ours lies their source, and beside foreign ones theirs.
    """
    shutil.rmtree(directory, ignore_errors=True)
    model.save_pretrained(str(directory), create_model_card=False)
    own = {type(module) for module in model if type(module) in OWN}
    if own:
        listed = directory / "modules.json"
        entries = json.loads(listed.read_text(encoding="utf-8"))
        names = {_written(kind): _exported(kind) for kind in own}
        for entry in entries:
            entry["type"] = names.get(entry["type"], entry["type"])
        listed.write_text(json.dumps(entries, indent=2), encoding="utf-8")
        for source in {Path(inspect.getfile(kind)) for kind in own}:
            shutil.copyfile(source, directory / f"tercet_{source.name}")
    for source in _foreign(model):
        shutil.copyfile(source, directory / source.name)
    return directory


def _foreign(model: SentenceTransformer) -> set[Path]:
    """The files of code that came with the model, which trust_remote_code has loaded."""
    parts = [*model.modules(), *(getattr(module, "config", None) for module in model.modules())]
    kinds = {type(part) for part in parts if type(part).__module__.startswith(_FOREIGN)}
    # What such a file imports lies beside it.
    folders = {Path(inspect.getfile(kind)).parent for kind in kinds}
    return {path for folder in folders for path in folder.glob("*.py") if path.stem != "__init__"}


def has_own(path: Path) -> bool:
    """Whether the directory has only our modules and the library's, and at least one of ours."""
    names = [entry["type"] for entry in _entries(path)]
    own = _by_name()
    return any(name in own for name in names) and all(
        name in own or name.startswith(_LIBRARY) for name in names
    )


def load_own(
    path: Path, device: str, model_kwargs: dict[str, Any], trust_remote_code: bool
) -> SentenceTransformer:
    """The encoder of a directory of which `has_own` is true.

    trust_remote_code: whether the transformer's own code may run; never that of the modules.
    Raises: ValueError, OSError or KeyError for a damaged one.
    """
    own, modules = _by_name(), OrderedDict()
    for entry in _entries(path):
        kind = own.get(entry["type"]) or import_from_string(entry["type"])
        if not (path / entry["path"]).resolve().is_relative_to(path.resolve()):
            raise ValueError(
                f"modules.json names {entry['path']!r}, which is outside the directory"
            )
        modules[entry["name"]] = kind.load(
            str(path),
            subfolder=entry["path"],
            local_files_only=True,
            trust_remote_code=trust_remote_code,
            model_kwargs=model_kwargs,
        )
    settings = json.loads((path / "config_sentence_transformers.json").read_text(encoding="utf-8"))
    kept = ("prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim")
    return SentenceTransformer(
        modules=modules, device=device, **{key: settings.get(key) for key in kept}
    )


def _entries(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((path / "modules.json").read_text(encoding="utf-8"))
    return found


def _written(kind: type) -> str:
    return f"{kind.__module__}.{kind.__name__}"


def _exported(kind: type) -> str:
    return f"tercet_{kind.__module__.rpartition('.')[2]}.{kind.__name__}"


def _by_name() -> dict[str, type[nn.Module]]:
    return {name(kind): kind for kind in OWN for name in (_written, _exported)}
