"""Speed on this machine: the precision that pays, and reuse of freed memory."""

import ctypes
import re
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

Precision: TypeAlias = Literal["fp32", "bf16"]

# CPU flags of bf16 instructions that are faster than fp32. AVX-512's are faster only on AMD's
# cores: on Intel's without AMX a matrix product takes 1.5 to 1.7 times as long as in fp32.
_FAST = {"amx_bf16", "bf16"}
_FAST_ON_AMD = "avx512_bf16"


def computed_in(precision: Precision, device: str) -> Precision:
    """The precision itself, or fp32 in place of bf16 on a CPU where fp32 is faster.

    A CPU without bf16 instructions emulates them, dozens of times slower. device: a torch device
    or its type.
    """
    on_cpu = device.partition(":")[0] == "cpu"
    return "fp32" if precision == "bf16" and on_cpu and not cpu_has_bf16() else precision


@cache
def cpu_has_bf16() -> bool:
    """Whether this CPU has bf16 instructions that are faster than fp32's; False outside Linux."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    match = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    flags = set() if match is None else set(match.group(1).split())
    return not flags.isdisjoint(_FAST) or (_FAST_ON_AMD in flags and "AuthenticAMD" in text)


# From glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_NEVER = -1


def keep_freed_memory() -> None:
    """Makes this process reuse freed memory instead of returning it to the system.

    By default glibc maps each large block afresh and unmaps it when it is freed, so a training step
    on a CPU spends up to a quarter of its time waiting for the system to clear the same pages.
    Other C libraries are left as they are.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_MMAP_MAX, 0)
        library.mallopt(_TRIM_THRESHOLD, _NEVER)
