"""What the driver says of the GPUs' memory, by a program that stands for nvidia-smi."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tercet.models.llm.vllm import engine

TWO_GPUS = "0, GPU-aaaa, 1000\n1, GPU-bbbb, 200\n"


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets nvidia-smi say this."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def says(text: str, code: int = 0) -> None:
        (tmp_path / "said").write_text(text)
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\ncat '{tmp_path}/said'\nexit {code}\n")
        program.chmod(0o755)

    return says


@pytest.mark.parametrize(
    ("visible", "used"),
    [
        (None, 1200),
        ("0", 1000),
        ("GPU-bb", 200),
        # Parts of GPUs cannot be told apart here, so all count.
        ("MIG-1234", 1200),
    ],
)
def test_only_the_visible_ones_count(
    driver: Callable[..., None], monkeypatch: pytest.MonkeyPatch, visible: str | None, used: int
) -> None:
    driver(TWO_GPUS)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert engine.gpu_memory_used() == used


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), (TWO_GPUS, 1), ("0, GPU-aaaa, [N/A]\n", 0), ("No GPU\n", 0)],
)
def test_a_driver_that_does_not_know_says_nothing(
    driver: Callable[..., None], text: str, code: int
) -> None:
    driver(text, code)
    assert engine.gpu_memory_used() is None


def test_without_a_driver_there_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert engine.gpu_memory_used() is None
    assert engine.gpu_memory_held([1]) == {}


def test_what_each_process_holds_on_all_gpus(driver: Callable[..., None]) -> None:
    driver("7, 100\n8, 50\n7, 20\n9, [N/A]\n?, 5\n")
    assert engine.gpu_memory_held([7, 9, 10]) == {7: 120, 9: 0}
