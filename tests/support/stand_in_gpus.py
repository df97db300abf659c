"""A stand-in for two GPUs: an `nvidia-smi` that lists them, and turns in a folder of its own."""

from pathlib import Path

import pytest

from tercet.flows.running import gpus

LISTED = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0a53ef80-18ba-cd0c-2cff-bb4c1a9b9d37)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-1be0f4a2-9f32-8a3c-7d64-3c2d0a1f5e88)
"""


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this process alone: children that look for themselves see the machine."""
    monkeypatch.setattr(gpus, "_listed", lambda: gpus.parse_cards(LISTED))
    monkeypatch.setattr(gpus, "TURNS", tmp_path / "turns")
