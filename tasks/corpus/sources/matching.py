"""The files that a glob matches, and each of several files once, whatever links lead to it."""

import glob
import os
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import dropwhile
from pathlib import Path


def matches(pattern: str) -> Iterator[Path]:
    """What the pattern matches; `**` means a folder and all in it, links to folders included.

    Python's own `**` enters a folder once for each name that links give it, without end where
    several of them lead back.
    """
    parts = pattern.split("/")
    if "**" not in parts:
        yield from map(Path, glob.iglob(pattern))  # noqa: PTH207
        return
    at = parts.index("**")
    head = "/".join(parts[:at]) or ("/" if at else ".")
    tail = "/".join(dropwhile(lambda part: part == "**", parts[at:])) or "*"
    for top in glob.iglob(head):  # noqa: PTH207
        for folder in _folders(Path(top)):
            yield from matches(str(Path(glob.escape(str(folder))) / tail))


def _folders(top: Path) -> Iterator[Path]:
    """The folder and those in it that are not hidden, each once: by its own name before a link's.

    Links that lead nowhere, or round in a circle, are passed over.
    """
    waiting, behind_links = deque([top]), deque[Path]()
    seen = set()
    while waiting or behind_links:
        folder = (waiting or behind_links).popleft()
        try:
            about = folder.stat()
            entries = sorted(folder.iterdir())
        except OSError:
            continue
        if (about.st_dev, about.st_ino) in seen:
            continue
        seen.add((about.st_dev, about.st_ino))
        yield folder
        for entry in entries:
            if not entry.name.startswith(".") and os.path.isdir(entry):  # noqa: PTH112 - may loop
                (behind_links if entry.is_symlink() else waiting).append(entry)


def once(base: Path, paths: Iterable[Path]) -> list[Path]:
    """Each file below `base` once: under its own name if that is among them, else a link's."""
    top = Path(os.path.realpath(base))
    named = sorted(
        (Path(os.path.realpath(path)) != top / path.relative_to(base), path) for path in paths
    )
    found: dict[str, Path] = {}
    for _, path in named:
        found.setdefault(os.path.realpath(path), path)
    return list(found.values())


def readable_name(base: Path, path: Path) -> str:
    """The path below `base`; bytes of it that are not UTF-8 are written as `\\xe9`."""
    return os.fsencode(path.relative_to(base).as_posix()).decode("utf-8", "backslashreplace")
