"""Rows by key, on disk, where only keys that several rows have tell anything."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from tercet.models.runs import repeats
from tercet.models.seeding import Ids

Places: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Group: TypeAlias = tuple[Ids, Places, Flags]

_BITS = 6  # of a key name its file; one file at a time is in memory
_ENTRY = np.dtype([("key", np.uint64), ("row", np.uint32), ("near", np.bool_)])


def append(target: BinaryIO, values: npt.NDArray[Any]) -> None:
    """Writes the values. NumPy's own `tofile` loses them silently on a full disk."""
    target.write(values.tobytes())


class SharedKeys:
    """Keys are added in batches and, once `close` is called, read with all rows that share them."""

    def __init__(self, folder: Path) -> None:
        """folder: a new directory, which is made."""
        folder.mkdir()
        self._paths = [folder / f"{number:02d}" for number in range(1 << _BITS)]
        for path in self._paths:
            path.touch()

    def add(self, keys: Ids, rows: npt.NDArray[np.integer], near: Flags | None = None) -> None:
        """Adds rows by their keys, with a flag for whoever reads them. Shape (entries,)."""
        entries = np.empty(len(keys), dtype=_ENTRY)
        entries["key"], entries["row"] = keys, rows
        entries["near"] = near if near is not None else True
        file = (keys >> np.uint64(64 - _BITS)).astype(np.uint8)
        order = np.argsort(file, kind="stable")
        ends = np.searchsorted(file[order], np.arange(len(self._paths) + 1))
        for number, path in enumerate(self._paths):
            with path.open("ab") as target:
                append(target, entries[order[ends[number] : ends[number + 1]]])

    def close(self) -> None:
        """Sorts the entries, and leaves out keys that only one entry has."""
        for path in self._paths:
            entries = np.fromfile(path, dtype=_ENTRY)
            entries = entries[np.argsort(entries["key"])]
            entries = entries[repeats(entries["key"])]
            ordered = entries[np.lexsort((entries["row"], entries["key"]))]
            with path.open("wb") as target:
                append(target, ordered)

    def __iter__(self) -> Iterator[Group]:
        """(keys, rows, near) in ascending order of keys and rows, by file, of at least one entry.

        A key's entries are all in one file.
        """
        for path in self._paths:
            entries = np.fromfile(path, dtype=_ENTRY)
            if len(entries):
                yield entries["key"], entries["row"].astype(np.int64), entries["near"]
