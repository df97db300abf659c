"""Whether a model to serve is a VAEGPT, which vLLM knows through a plugin alone."""

import json
from pathlib import Path
from typing import Literal, TypeAlias

import tercet.models.vaegpt as vaegpt

# Stale: another version's code, so that its answers are not those that the store's keys name.
Plugin: TypeAlias = Literal["missing", "stale", "current"]


def is_vaegpt(model: Path) -> bool:
    """Whether the directory's configuration says so; False where there is none."""
    try:
        config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("model_type") == "vaegpt"


def installed(module: Path | None) -> Plugin:
    """How the plugin whose `__init__.py` this is compares with ours; None where there is none."""
    if module is None:
        return "missing"
    ours = {path.name: path.read_bytes() for path in _source().glob("*.py")}
    there = {path.name: path.read_bytes() for path in module.parent.glob("*.py")}
    return "current" if there == ours else "stale"


def fault(plugin: Plugin, python: Path) -> str | None:
    """What keeps this interpreter's vLLM from serving VAEGPT, and what mends it."""
    if plugin == "current":
        return None
    lacks = "no plugin" if plugin == "missing" else "another version of the plugin"
    install = f"{python} -m pip install --no-deps --no-build-isolation --force-reinstall"
    return f"{lacks} that serves VAEGPT: run `make vllm`, or {install} {_source()}"


def _source() -> Path:
    return Path(vaegpt.__path__[0]) / "plugin"
