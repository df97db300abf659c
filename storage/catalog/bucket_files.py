"""A bucket's objects as files that DuckDB reads where they lie: no extension of DuckDB's."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import IO, Any

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from tercet.storage.bucket import Bucket
from tercet.storage.store import Store, StoreError, clear_errors

# So much of a file is read at once; a smaller one is copied, once a machine.
_BLOCK = 2**20


class BucketFiles(AbstractFileSystem):  # type: ignore[misc]
    """Objects below a prefix, by URL. There is nothing here that could write or remove one.

    sizes: in bytes, by path, of those that are known.
    """

    protocol = "s3"
    cachable = False

    def __init__(self, store: Store, bucket: Bucket, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self.bucket = bucket
        self._store = store
        self._sizes = sizes
        self._asked = lru_cache(maxsize=None)(self._ask)

    def glob(self, path: str, **_: Any) -> list[str]:
        """The path itself: the catalog names every file, and asks for none that is not there."""
        return [path]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        inside = self.inside(path)
        size = self._sizes.get(inside) or self._asked(inside)
        return {"name": path, "size": size, "type": "file"}

    def modified(self, path: str) -> datetime:
        """Always the same: an object never changes."""
        return datetime.fromtimestamp(0, UTC)

    def inside(self, path: str) -> str:
        """The object's path. Raises PermissionError for one that lies elsewhere."""
        inside = path.removeprefix(f"{self.bucket.url}/")
        if inside == path or ".." in inside.split("/"):
            raise PermissionError(f"{path} does not lie in {self.bucket.url}")
        return inside

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Its bytes from `start` up to `end`."""
        with self._clear_errors(path):
            return self.bucket.read_range(self.inside(path), start, end)

    def _ask(self, path: str) -> int:
        # One that is not there raises FileNotFoundError, as DuckDB may want to know just that.
        with clear_errors(self._store.location):
            return self.bucket.size(path)

    @contextmanager
    def _clear_errors(self, path: str) -> Iterator[None]:
        """DuckDB repeats all that an error says: only as StoreError."""
        try:
            with clear_errors(self._store.location):
                yield
        except FileNotFoundError:
            raise StoreError(f"{path} is not there") from None

    def _open(self, path: str, mode: str = "rb", **_: Any) -> IO[bytes]:
        if mode != "rb":
            raise PermissionError(f"{path} can only be read")
        size = int(self.info(path)["size"])
        if size <= _BLOCK:
            with self._clear_errors(path):
                return self._store.local(self.inside(path)).open("rb")
        file: IO[bytes] = _File(self, path, mode, block_size=_BLOCK, size=size)
        return file

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path


class _File(AbstractBufferedFile):  # type: ignore[misc]
    def _fetch_range(self, start: int, end: int) -> bytes:
        return bytes(self.fs.read_range(self.path, start, min(end, self.size)))
