"""Keeps freed memory in the process, for the next tensors to reuse."""

import ctypes

# Of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_NEVER = -1


def keep() -> None:
    """From here on, the process reuses freed memory instead of returning it to the system.

    By default glibc maps each large block afresh and unmaps it when it is freed, so a training step
    on a CPU spends up to a quarter of its time waiting for the system to clear the same pages.
    With any other C library nothing changes.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_MMAP_MAX, 0)
        library.mallopt(_TRIM_THRESHOLD, _NEVER)
