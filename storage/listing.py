"""A bucket's records as a listing shows them: which exist, and which this machine has a copy of.

A listing shows a thousand objects for one request, each with an `e_tag`, which changes with the
object's content. So of thousands of records only those are fetched that are new to this machine.
"""

import hashlib
import os
import threading
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

from tercet.storage.bucket import PAGE, Bucket, fetched
from tercet.storage.objects import Stat

# What is listed. Locks come before runs: a run that ends in between is listed with its end.
_FOLDERS = {"locks", "runs", "artifacts", "schemas", "tags", "rounds"}
# Folders of an artifact that may hold thousands of objects, and a name that follows them all.
_LARGE, _BEHIND = ("_parts", "data", "files"), "files0"
# Of a copy the first bytes are a digest of the others.
_DIGEST_BYTES = 32


@dataclass
class Listed:
    """The records below some folders, each of which is listed when it is first asked about.

    Threads may share it. objects: by path. skipped: artifacts of so many files that these are not
    all listed.
    """

    bucket: Bucket
    objects: dict[str, Stat] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    _paths: dict[str, list[str]] = field(default_factory=dict)
    _changed: set[str] = field(default_factory=set)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def covers(self, path: str, below: bool = False) -> bool:
        """Whether it shows what is at this path, or, with `below`, all that is below it."""
        top, *rest = path.split("/")
        if top not in _FOLDERS or top in self._changed:
            return False
        with self._turn:
            for folder in ("locks", top) if top == "runs" else (top,):
                if folder not in self._paths:
                    self._paths[folder] = sorted(set(self._list(folder)))
                    if folder == "runs":
                        # A run that began meanwhile is listed, so its lock must be too.
                        self._paths["locks"] = sorted({*self._paths["locks"], *self._list("locks")})
        if top != "artifacts" or not self.skipped:
            return True
        if len(rest) > 2:
            return rest[2] not in _LARGE or f"{top}/{rest[0]}/{rest[1]}" not in self.skipped
        return not below or not any(f"{one}/".startswith(f"{path}/") for one in self.skipped)

    def change(self, path: str) -> None:
        """Forgets the path's folder, in which this process changes something."""
        self._changed.add(path.partition("/")[0])

    def below(self, prefix: str) -> list[str]:
        """The paths below the prefix, sorted."""
        paths = self._paths[prefix.partition("/")[0]]
        # "0" is the character after "/".
        return paths[bisect_left(paths, f"{prefix}/") : bisect_left(paths, f"{prefix}0")]

    def names(self, prefix: str) -> Iterator[tuple[str, bool]]:
        """As `Objects.names`."""
        rests = (path.removeprefix(f"{prefix}/").partition("/") for path in self.below(prefix))
        yield from {(name, bool(slash)) for name, slash, _ in rests}

    def get(self, path: str, copies: Path) -> bytes:
        """The object's bytes, of the copy in the folder `copies` if it is of the listed content.

        Raises FileNotFoundError.
        """
        listed = self.objects.get(path)
        if listed is None:
            raise FileNotFoundError(path)
        # On a full, read-only or unreadable disk there is only no copy.
        with suppress(OSError):
            copy = copies / _copy_of(path, listed.tag)
            held = copy.read_bytes()
            data = held[_DIGEST_BYTES:]
            if held[:_DIGEST_BYTES] == hashlib.sha256(data).digest():
                with suppress(OSError):
                    # The time of last use: the cache loses the oldest copies.
                    os.utime(copy)
                return data
            copy.unlink()
        data, meta = self.bucket.read(path)
        with suppress(OSError):
            fetched(copies, _copy_of(path, str(meta["e_tag"])), partial(_write, data))
        return data

    def _list(self, folder: str) -> Iterator[str]:
        after = ""
        while True:
            page = self.bucket.page(folder, after)
            paths = [path for path, _ in page]
            if not all(one < other for one, other in pairwise([after, *paths])):
                # A server that keeps no order.
                self.objects.update(self.bucket.stats(folder))
                yield from (path for path in self.objects if path.startswith(f"{folder}/"))
                return
            self.objects.update(page)
            yield from paths
            if len(page) < PAGE:
                return
            after = paths[-1]
            artifact, inside = after.split("/")[:3], after.split("/")[3:]
            if folder == "artifacts" and inside[:1] and inside[0] in _LARGE:
                self.skipped.add("/".join(artifact))
                after = "/".join([*artifact, _BEHIND])


def _write(data: bytes, aside: Path) -> None:
    aside.write_bytes(hashlib.sha256(data).digest() + data)


def _copy_of(path: str, tag: str) -> str:
    # No object of a store has such a name.
    return f"{path}#{hashlib.sha256(tag.encode()).hexdigest()[:16]}"
