"""The device that a run computes on."""

import os
from importlib import metadata


def device(wanted: str) -> str:
    """The device that `auto` stands for: the first GPU, or the CPU."""
    if wanted != "auto":
        return wanted
    try:
        metadata.version("nvidia-cuda-runtime-cu12")
    except metadata.PackageNotFoundError:
        if not os.path.exists("/dev/nvidia0"):  # noqa: PTH110 - a device file, not one of our paths
            return "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
