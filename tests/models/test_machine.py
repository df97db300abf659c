"""bf16 is computed where it is faster than fp32, and freed memory is taken again."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tercet.models import machine


def _processor(monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    def read(path: Path, **_: object) -> str:
        if text is None:
            raise FileNotFoundError(path)
        return text

    monkeypatch.setattr(Path, "read_text", read)
    machine.cpu_has_bf16.cache_clear()


@pytest.fixture(autouse=True)
def _forgets() -> object:
    yield
    machine.cpu_has_bf16.cache_clear()


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("vendor_id : GenuineIntel\nflags\t\t: fpu avx512_bf16 amx_bf16 amx_tile\n", True),
        ("vendor_id : AuthenticAMD\nflags\t\t: fpu avx2 avx512f avx512_bf16\n", True),
        ("vendor_id : GenuineIntel\nflags\t\t: fpu avx2 avx512f avx512_bf16\n", False),
        ("processor : 0\nflags\t\t: fpu avx2 avx512f avx512_vnni\n", False),
        ("processor : 0\nFeatures\t: fp asimd bf16 i8mm\n", True),
        ("processor : 0\nFeatures\t: fp asimd\n", False),
        ("", False),
        (None, False),
    ],
)
def test_a_processor_says_whether_its_bf16_is_fast(
    monkeypatch: pytest.MonkeyPatch, text: str | None, has: bool
) -> None:
    _processor(monkeypatch, text)
    assert machine.cpu_has_bf16() is has
    assert machine.computed_in("bf16", "cpu") == ("bf16" if has else "fp32")
    assert machine.computed_in("fp32", "cpu") == "fp32"
    assert machine.computed_in("bf16", "cuda:0") == "bf16"


PROGRAM = """
import resource, sys, torch
from tercet.models.machine import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
def touch():
    torch.ones(2**24)
for _ in range(40):
    touch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    touch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(argument: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, argument], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library than glibc")
def test_a_freed_tensor_is_not_cleared_by_the_system_again() -> None:
    assert 5 * faults("keep") < faults("leave")
