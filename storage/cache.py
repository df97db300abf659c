"""Copies of objects that lie elsewhere, in the work directory: by path, as objects never change.

They take up to `TERCET_CACHE_GB` (20): then those go that nobody has asked for the longest, but
none that was asked for within the last hour, since whoever asked may not have opened it yet.
"""

import errno
import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_UNTOUCHED_SECONDS = 3_600.0
# So much of the room is added before it is looked through again.
_SHARE = 0.05

# Bytes that this process has added since it last looked, by folder.
_added: dict[Path, int] = {}


def fetched(cache: Path, path: str, fetch: Callable[[Path], None]) -> Path:
    """The copy of the object; if there is none, `fetch` writes it aside, and it is renamed."""
    target = cache / path
    try:
        # When it was asked for last.
        os.utime(target)
    except FileNotFoundError:
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f"{target.name}-{uuid.uuid4().hex}.fetching")
        try:
            fetch(aside)
            # After a power cut it would be a file of this name, and empty.
            with aside.open("rb+") as copy:
                os.fsync(copy.fileno())
            _added_to(cache, aside)
            aside.replace(target)
        finally:
            aside.unlink(missing_ok=True)
    return target


def keep(cache: Path, path: str, source: Path) -> None:
    """Moves a file here that has just been put as this object."""
    target = cache / path
    target.parent.mkdir(parents=True, exist_ok=True)
    _added_to(cache, source)
    source.replace(target)


def _added_to(cache: Path, file: Path) -> None:
    limit = _limit()
    first = cache not in _added
    _added[cache] = _added.get(cache, 0) + file.stat().st_size
    if first or _added[cache] > limit * _SHARE:
        _added[cache] = 0
        _trim(cache, limit * (1 - _SHARE))


def _limit() -> float:
    """In bytes. Raises OSError, whose text ends in what to do, for what is no number."""
    said = os.environ.get("TERCET_CACHE_GB") or "20"
    try:
        return float(said) * 2**30
    except ValueError:
        raise OSError(
            errno.EINVAL, f"TERCET_CACHE_GB is {said!r}: let it say how many GB copies may take, 20"
        ) from None


def _trim(cache: Path, limit: float) -> None:
    found = []
    for folder, _, names in os.walk(cache):
        for name in names:
            with suppress(FileNotFoundError):
                place = Path(folder, name)
                found.append((place.stat(), place))
    room = sum(stat.st_size for stat, _ in found)
    for stat, place in sorted(found, key=lambda one: one[0].st_mtime):
        if room <= limit or stat.st_mtime > time.time() - _UNTOUCHED_SECONDS:
            return
        with suppress(FileNotFoundError):
            # Somebody may have asked for it since it was looked at.
            if place.stat().st_mtime == stat.st_mtime:
                place.unlink()
                room -= stat.st_size
