"""The device that a run computes on."""

import importlib.util
import re
from pathlib import Path


def device(wanted: str) -> str:
    """The device that `auto` stands for: the first GPU that torch can use, or the CPU."""
    if wanted != "auto":
        return wanted
    # Importing torch takes seconds, which a build for the CPU need not cost.
    if torch_build() is None:
        return "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def torch_build() -> str | None:
    """The GPUs that the installed torch was built for, as in `CUDA 13.0` or `ROCm 6.4`.

    None if it was built for none. It is read from torch's files, without importing it.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    try:
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"^(cuda|hip)\b[^=]*=\s*['\"](\d+\.\d+)", text, re.MULTILINE)
    return found and f"{'CUDA' if found[1] == 'cuda' else 'ROCm'} {found[2]}"
