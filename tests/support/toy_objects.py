"""A store's objects as somebody else might keep them: rows of one SQLite file, `toy:///PATH`."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tercet.storage.bucket import fetched
from tercet.storage.objects import Stat


@dataclass(frozen=True)
class Rows:
    """Objects as rows of a database."""

    database: str

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.database, timeout=60)) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS objects (path PRIMARY KEY, data, put)")
            yield connection

    def get(self, path: str) -> bytes:
        with self._open() as db:
            found = db.execute("SELECT data FROM objects WHERE path = ?", [path]).fetchone()
        if found is None:
            raise FileNotFoundError(path)
        return bytes(found[0])

    def put(self, path: str, data: bytes, absent: bool) -> bool:
        how = "IGNORE" if absent else "REPLACE"
        with self._open() as db:
            done = db.execute(
                f"INSERT OR {how} INTO objects VALUES (?, ?, ?)", [path, data, time.time()]
            )
            return done.rowcount == 1

    def put_file(self, path: str, source: Path, move: bool) -> None:
        self.put(path, source.read_bytes(), absent=False)

    def local(self, path: str, cache: Path) -> Path:
        return fetched(cache, path, lambda aside: aside.write_bytes(self.get(path)))

    def names(self, prefix: str) -> Iterator[tuple[str, bool]]:
        below = (path.removeprefix(f"{prefix}/") for path, _ in self.stats(prefix))
        yield from {(path.partition("/")[0], "/" in path) for path in below}

    def stats(self, prefix: str) -> Iterator[tuple[str, Stat]]:
        query = "SELECT path, length(data), put FROM objects WHERE substr(path, 1, ?) = ?"
        start = f"{prefix}/" if prefix else ""
        with self._open() as db:
            found = db.execute(query, [len(start), start]).fetchall()
        yield from ((path, Stat(size, put)) for path, size, put in found)

    def delete(self, path: str) -> None:
        with self._open() as db:
            db.execute("DELETE FROM objects WHERE path = ?", [path])


def opened(location: str) -> Rows:
    """The objects at `toy:///PATH`."""
    return Rows(location.removeprefix("toy://"))
