"""In which numbers a model computes."""

import re
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

Precision: TypeAlias = Literal["fp32", "bf16"]

_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}


def computed_in(precision: Precision, device: str) -> Precision:
    """The precision itself, or fp32 for bf16 on a processor that has no instructions for it.

    There bf16 is imitated, dozens of times slower than the fp32 that it should outrun. device: a
    torch device or its type.
    """
    on_cpu = device.partition(":")[0] == "cpu"
    return "fp32" if precision == "bf16" and on_cpu and not cpu_has_bf16() else precision


@cache
def cpu_has_bf16() -> bool:
    """Whether this processor says that it has bf16 instructions; only Linux lets us ask."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    found = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    return found is not None and not _FLAGS.isdisjoint(found.group(1).split())
