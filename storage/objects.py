"""Where a store's objects lie: the port, and local directories."""

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import LocalStore


class Stat(NamedTuple):
    """An object's size in bytes, and when it was written, in seconds since the epoch.

    tag: of a bucket's object, changes with its content.
    """

    bytes: int
    written: float
    tag: str = ""


def first_line(error: BaseException) -> str:
    """The message of an error, in one line without its full stop."""
    lines = (getattr(error, "strerror", None) or str(error)).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


class Objects(Protocol):
    """Named objects at one place. Paths are relative, with forward slashes.

    A reader sees all of an object or none of it. Implementations can be pickled and are opened by
    `store.SCHEMES`. Errors are OSError, or obstore's.
    """

    def get(self, path: str) -> bytes:
        """The object's bytes. Raises FileNotFoundError."""

    def put(self, path: str, data: bytes, absent: bool) -> bool:
        """Puts the object; with `absent` only if there is none: False if the place reports one."""

    def put_file(self, path: str, source: Path, move: bool) -> None:
        """Puts a local file; `move` allows the source to be removed."""

    def local(self, path: str, cache: Path) -> Path:
        """A local file with the content of an object that never changes: the object's own file, or
        a copy in the folder `cache`.
        """

    def names(self, prefix: str) -> Iterator[tuple[str, bool]]:
        """The names directly below the prefix, and whether each is a prefix of longer names."""

    def stats(self, prefix: str) -> Iterator[tuple[str, Stat]]:
        """The path of every object below the prefix, with its size and age."""

    def delete(self, path: str) -> None:
        """Removes the object. May raise FileNotFoundError."""


@dataclass(frozen=True)
class Folder:
    """Objects as files of a local directory."""

    root: Path

    @property
    def _files(self) -> LocalStore:
        return LocalStore(prefix=self.root)

    def get(self, path: str) -> bytes:
        return bytes(obstore.get(self._files, path).bytes())

    def put(self, path: str, data: bytes, absent: bool) -> bool:
        mode = "create" if absent else "overwrite"
        try:
            obstore.put(self._files, path, data, mode=mode, use_multipart=False)
        except (AlreadyExistsError, FileExistsError):
            return False
        return True

    def put_file(self, path: str, source: Path, move: bool) -> None:
        if move:
            target = self.root / path
            try:
                _replace(source, target)
                return
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
        obstore.put(self._files, path, source)
        if move:
            source.unlink()

    def local(self, path: str, cache: Path) -> Path:
        return self.root / path

    def names(self, prefix: str) -> Iterator[tuple[str, bool]]:
        try:
            with os.scandir(self.root / prefix) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        is_folder = _is_folder(entry)
                        if is_folder is not None:
                            yield entry.name, is_folder
        except (FileNotFoundError, NotADirectoryError):
            return

    def stats(self, prefix: str) -> Iterator[tuple[str, Stat]]:
        seen: set[Path] = set()
        for folder, below, names in os.walk(
            self.root / prefix, onerror=_raise_unless_missing, followlinks=True
        ):
            real = Path(folder).resolve()
            if real in seen:
                # A link has led back.
                below.clear()
                continue
            seen.add(real)
            for name in names:
                path = Path(folder, name)
                try:
                    stat = path.stat()
                except OSError as error:
                    _raise_unless_missing(error)
                else:
                    yield path.relative_to(self.root).as_posix(), Stat(stat.st_size, stat.st_mtime)

    def delete(self, path: str) -> None:
        # Not by obstore, which refuses its own temporary names.
        place = self.root / path
        place.unlink()
        # Remove folders that are now empty.
        with suppress(OSError):
            for folder in place.relative_to(self.root).parents[:-1]:
                (self.root / folder).rmdir()


def _replace(source: Path, target: Path) -> None:
    """Renames a file; another process may remove the target's folder meanwhile if it is empty."""
    while True:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            source.replace(target)
            return
        except FileNotFoundError:
            if not source.exists():
                raise


def _raise_unless_missing(error: OSError) -> None:
    """Ignores missing files, broken links and links to themselves."""
    if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        raise error


def _is_folder(entry: "os.DirEntry[str]") -> bool | None:
    """Whether the entry is a folder; None if it is neither a folder nor a file."""
    try:
        if entry.is_dir():
            return True
        return False if entry.is_file() else None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise
