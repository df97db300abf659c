"""Digests of values, files and directories: the parts of versions and part keys."""

import datetime
import enum
import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tercet.storage.store import Damaged, Store, StoreError, json_bytes

DIGEST_LENGTH = 16
FILE_DIGEST_LENGTH = 32

# A second change within the clock's resolution leaves a file's times as they are, so digests of
# recently changed files are not cached.
SETTLED_SECONDS = 2.0


def canonical(value: Any) -> bytes:
    """The value as canonical JSON: equal values give equal bytes on every machine and version.

    Keys are sorted, floats are written by `repr` (1 and 1.0 differ), sets are sorted, tuples are
    lists, pydantic models are their dumps, paths and enums their values.

    Raises:
        ValueError: for NaN and infinities.
        TypeError: for values that JSON cannot represent, and for keys that cannot be sorted.
    """
    text = json.dumps(
        value,
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
        default=_plain,
    )
    return text.encode("utf-8", "surrogatepass")


def digest(value: Any) -> str:
    """16 hex digits over the canonical form of the value."""
    return hashlib.sha256(canonical(value)).hexdigest()[:DIGEST_LENGTH]


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="python")
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, AbstractSet):
        return sorted(value, key=canonical)
    if isinstance(value, os.PathLike):
        return Path(value).as_posix()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return value.item()
    raise TypeError(f"A {type(value).__name__} has no canonical form.")


def file_digest(path: Path, cache: Store | None = None) -> str:
    """SHA-256 of the file's content, 32 hex digits.

    cache: keeps the digest in this store's work directory, under the file's path, size, inode, and
    times of content and inode. The latter changes even if a rewrite restores the former.

    Raises FileNotFoundError when there is no such file.
    """
    before = path.stat()
    place = _cache_place(path, before)
    if cache is not None:
        # A damaged entry is written again.
        with suppress(Damaged):
            entry = cache.near.get_json(place)
            if entry is not None:
                return str(entry["digest"])
    with path.open("rb") as source:
        hexdigest = hashlib.file_digest(source, "sha256").hexdigest()[:FILE_DIGEST_LENGTH]
    settled = time.time() - max(before.st_mtime, before.st_ctime) > SETTLED_SECONDS
    if cache is not None and settled and _cache_place(path, path.stat()) == place:
        # A read-only or full store only lacks the entry.
        with suppress(StoreError):
            cache.near.replace(place, json_bytes({"digest": hexdigest, "path": str(path)}))
    return hexdigest


def _cache_place(path: Path, stat: os.stat_result) -> str:
    times = [stat.st_mtime_ns, stat.st_ctime_ns]
    key = digest([str(path.absolute()), stat.st_size, stat.st_ino, *times])
    return f"cache/files/{key}.json"


def tree_digest(folder: Path, cache: Store | None = None, patterns: Sequence[str] = ("*",)) -> str:
    """Digest of a directory: relative names and contents of its files; links are followed.

    Hidden files, `__pycache__` and files that match none of the patterns (`fnmatch`) are left out.
    Raises FileNotFoundError when there is no such directory.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no directory {folder}.")
    contents: dict[str, str] = {}
    for place, folders, files in os.walk(folder, followlinks=True):
        if _leads_back(folder, Path(place)):
            folders.clear()
            continue
        folders[:] = [name for name in folders if name[0] != "." and name != "__pycache__"]
        for name in files:
            path = Path(place, name)
            inside = path.relative_to(folder).as_posix()
            if name[0] != "." and any(fnmatchcase(inside, pattern) for pattern in patterns):
                contents[inside] = file_digest(path, cache)
    return digest(contents)


def _leads_back(top: Path, place: Path) -> bool:
    """Whether a link on the way from `top` to `place` leads back to a folder on that way."""
    above = [place, *place.parents][: len(place.relative_to(top).parts) + 1]
    return len({os.path.realpath(folder) for folder in above}) < len(above)
