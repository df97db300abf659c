"""Whether a model to serve is a VAEGPT, which vLLM knows through a plugin alone."""

import json
from pathlib import Path

import tercet.models.vaegpt as vaegpt

DISTRIBUTION = "tercet-vaegpt"


def is_vaegpt(model: Path) -> bool:
    """Whether the directory's configuration says so; False where there is none."""
    try:
        config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("model_type") == "vaegpt"


def how_to_install(python: Path) -> str:
    """The command that puts the plugin beside this interpreter's vLLM."""
    folder = Path(vaegpt.__path__[0]) / "plugin"
    return f"{python} -m pip install --no-deps --no-build-isolation {folder}"
