"""How this machine computes fast: the number format of a model, and memory that it keeps."""

import ctypes
import re
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

Precision: TypeAlias = Literal["fp32", "bf16"]

# Instructions that outrun fp32. AVX-512's do on AMD's cores; on Intel's, where the tiles of AMX are
# missing, a matrix product takes 1.5 to 1.7 times as long as in fp32.
_FAST = {"amx_bf16", "bf16"}
_FAST_ON_AMD = "avx512_bf16"


def computed_in(precision: Precision, device: str) -> Precision:
    """The precision itself, or fp32 for bf16 on a processor where fp32 is faster.

    Without instructions for it bf16 is imitated, dozens of times slower. device: a torch device or
    its type.
    """
    on_cpu = device.partition(":")[0] == "cpu"
    return "fp32" if precision == "bf16" and on_cpu and not cpu_has_bf16() else precision


@cache
def cpu_has_bf16() -> bool:
    """Whether this processor has bf16 instructions faster than fp32's; only Linux lets us ask."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    found = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    flags = set() if found is None else set(found.group(1).split())
    return not flags.isdisjoint(_FAST) or (_FAST_ON_AMD in flags and "AuthenticAMD" in text)


# Of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_NEVER = -1


def keep_freed_memory() -> None:
    """From here on, the process reuses freed memory instead of returning it to the system.

    By default glibc maps each large block afresh and unmaps it when it is freed, so a training step
    on a CPU spends up to a quarter of its time waiting for the system to clear the same pages.
    With any other C library nothing changes.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_MMAP_MAX, 0)
        library.mallopt(_TRIM_THRESHOLD, _NEVER)
