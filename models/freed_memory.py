"""Keeps the memory that tensors free for the next ones."""

import ctypes

# Of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_NEVER = -1


def keep() -> None:
    """From here on, the process takes memory that was freed again instead of returning it.

    By default glibc maps each large block afresh and gives it back when it is freed, so a training
    step on a CPU spends up to a quarter of its time on the system's clearing of the same pages.
    Where the C library is another, nothing changes.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_MMAP_MAX, 0)
        library.mallopt(_TRIM_THRESHOLD, _NEVER)
