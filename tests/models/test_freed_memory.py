"""Freed memory is taken again: after a while, large tensors cost no page faults."""

import platform
import subprocess
import sys

import pytest

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
