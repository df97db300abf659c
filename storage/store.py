"""The store of artifacts: small atomic operations on named objects.

Everything else in this package is built on `create` (put if absent) and `replace`, both of which
are atomic on local disks as well as in a bucket.

File managers, editors and synchronisers leave files of their own in a store's folders. Listings
return only names of the store's own form (`LAYOUT`) and so ignore these files.
"""

import errno
import hashlib
import json
import logging
import os
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from obstore.exceptions import BaseError

from tercet.errors import TercetError
from tercet.storage import bucket
from tercet.storage.bucket import Bucket
from tercet.storage.listing import Listed
from tercet.storage.objects import Folder, Objects, Stat, first_line

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

FORMAT = 1
# Opens the objects at a location `scheme://…`; packages add to them (entry points `tercet.stores`).
SCHEMES: dict[str, Callable[[str], Objects]] = {"s3": Bucket}
MARKER = "store.json"

_LEFT_BY_SYSTEMS = {
    "lost+found",
    ".DS_Store",
    ".localized",
    ".directory",
    "Thumbs.db",
    "desktop.ini",
}

_FULL = {errno.ENOSPC, errno.EDQUOT}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
# Tries to put an object that is reported to exist but cannot be read.
_TRIES = 5
# Concurrent requests to a remote store.
_AT_ONCE = 32
_OS_ERROR = re.compile(r"os error (\d+)|[Ee]rrno (\d+)|code: (\d+)")


class StoreError(TercetError):
    """A fault of the store; exit code 2."""


class FullDisk(StoreError):
    """The store's disk is full; exit code 1."""

    exit_code = 1


class Damaged(StoreError):
    """A record or a file with other content than was written."""

    def __init__(self, fault: str) -> None:
        super().__init__(
            "damaged",
            f"{fault}: `tercet verify --mend` discards it, and the next run of its recipe makes it "
            "again.",
        )
        self.args = (fault,)


def _system_error(error: BaseException) -> int | None:
    """The operating system's error number behind an error from Python, Arrow or obstore."""
    if isinstance(error, OSError) and error.errno:
        return error.errno
    if match := _OS_ERROR.search(str(error)):
        return int(next(filter(None, match.groups())))
    return errno.ENOSPC if "No space left on device" in str(error) else None


@contextmanager
def clear_errors(location: str | Path) -> Iterator[None]:
    """Turns system errors about space, permissions and devices into one sentence each.

    Raises FullDisk if no space is left, StoreError for any other storage failure; other exceptions
    pass, including FileNotFoundError, whose meaning only the caller knows.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, BaseError) as error:
        if isinstance(error, BaseError) and "://" in str(location):
            raise StoreError("unreachable", bucket.refusal(str(location), error)) from None
        number, place = _system_error(error), location
        if "://" in str(location):
            # The error is about a local copy.
            place = work_of(str(location))
        if number in _FULL:
            raise FullDisk(
                "no_space",
                f"No space is left in {place}: free some and repeat the command, "
                "what is committed stays.",
            ) from error
        if number in _DENIED:
            raise StoreError(
                "refused",
                f"{place} cannot be written: check its permissions or choose another directory.",
            ) from error
        raise StoreError(
            "unreachable", f"{location} cannot be used: {first_line(error)}."
        ) from error


@dataclass(frozen=True)
class Store:
    """Named objects under one location. Paths are relative, with forward slashes.

    work: a directory of this machine for locks, scratch, journals, caches, the catalog and
        Prefect's server; for a local store the same directory.
    put_schemas: paths of schemas that this process has put or seen.
    damaged: paths of records that `read_json` could not read.
    """

    location: str
    work: Path
    objects: Objects
    put_schemas: set[str] = field(default_factory=set, compare=False, repr=False)
    damaged: set[str] = field(default_factory=set, compare=False, repr=False)
    _listed: list[Listed] = field(default_factory=list, compare=False, repr=False)

    @property
    def near(self) -> "Store":
        """The work directory as a store, for objects that concern only this machine."""
        return Store(str(self.work), self.work, Folder(self.work))

    @property
    def _copies(self) -> Path:
        return self.work / "cache" / "objects"

    def each(self, ask: Callable[[Asked], Answer], things: Iterable[Asked]) -> list[Answer]:
        """The results of `ask` for all things, in order; concurrently for a remote store."""
        if isinstance(self.objects, Folder):
            return [ask(thing) for thing in things]
        with ThreadPoolExecutor(_AT_ONCE) as asking:
            return list(asking.map(ask, things))

    @contextmanager
    def as_listed(self) -> Iterator[None]:
        """Lists a bucket's records once for all reads within the block.

        Records of which this machine has a copy are not fetched again. A store in a directory is
        read as always. Objects that other processes write meanwhile may not be seen; objects that
        this process writes are.
        """
        if self._listed or not isinstance(self.objects, Bucket):
            yield
            return
        self._listed.append(Listed(self.objects))
        try:
            yield
        finally:
            self._listed.clear()

    def listed(self, path: str, below: bool = False) -> Listed | None:
        """The listing that shows this path, or, with `below`, all that is below it."""
        with clear_errors(self.location):
            return next((one for one in self._listed if one.covers(path, below)), None)

    def get(self, path: str) -> bytes | None:
        """The object's bytes, or None if it does not exist."""
        listing = self.listed(path)
        with clear_errors(self.location):
            try:
                if listing is not None:
                    return listing.get(path, self._copies)
                return self.objects.get(path)
            except FileNotFoundError:
                return None

    def get_json(self, path: str) -> Any | None:
        """The object parsed as JSON, or None if it does not exist. Raises Damaged."""
        data = self.get(path)
        if data is None:
            return None
        try:
            return json.loads(data)
        except ValueError as error:
            if path == MARKER:
                # `verify --mend` does not write the marker again.
                raise StoreError(
                    "damaged",
                    f"{self.location}/{path} is damaged: put it back from a copy of the store, or "
                    "from another store of this version of Tercet, which has the same.",
                ) from error
            fault = "not JSON" if data.strip() else "empty"
            raise Damaged(f"{self.location}/{path} is damaged ({fault})") from error

    def read_json(self, path: str) -> Any | None:
        """`get_json` for a record; None with a warning if it is damaged."""
        try:
            record = self.get_json(path)
            if record is not None and not is_record(path, record):
                raise Damaged(f"{self.location}/{path} is damaged (keys are missing)")
            self.damaged.discard(path)
            return record
        except Damaged as error:
            if path not in self.damaged:
                self.damaged.add(path)
                logging.getLogger(__name__).warning(str(error))
            return None

    def create(self, path: str, data: bytes) -> bool:
        """Puts the object if absent, atomically. False if it already exists with other bytes.

        When the place reports that the object exists, it is read back: it may be the one that this
        call has put, or missing; then it is put again.
        """
        for attempt in range(_TRIES):
            self._change(path)
            with clear_errors(self.location):
                if self.objects.put(path, data, absent=True):
                    return True
            standing = self.get(path)
            if standing is not None:
                return standing == data
            time.sleep(0.1 * attempt)
        raise StoreError(
            "damaged",
            f"{self.location}/{path} is said to exist but is not there: repeat the command.",
        )

    def create_json(self, path: str, value: Any) -> bool:
        """`create` with the value as JSON."""
        return self.create(path, json_bytes(value))

    def replace(self, path: str, data: bytes) -> None:
        """Puts the object, whether or not it exists: readers see either the old or the new one."""
        self._change(path)
        with clear_errors(self.location):
            self.objects.put(path, data, absent=False)
        self.damaged.discard(path)

    def list(self, prefix: str) -> list[str]:
        """The store's own objects and folders directly below the prefix, sorted by name."""
        listing = self.listed(prefix)
        with clear_errors(self.location):
            return own_names(prefix, (listing or self.objects).names(prefix))

    def stats(self, prefix: str) -> dict[str, Stat]:
        """The size and age of every object below the prefix, by path."""
        if listing := self.listed(prefix, below=True):
            return {path: listing.objects[path] for path in listing.below(prefix)}
        with clear_errors(self.location):
            return dict(self.objects.stats(prefix))

    def sizes(self, prefix: str) -> dict[str, int]:
        """The size in bytes of every object below the prefix, by path."""
        return {path: stat.bytes for path, stat in self.stats(prefix).items()}

    def exists(self, path: str) -> bool:
        """Whether an object with this name exists."""
        return self.get(path) is not None

    def put_file(self, path: str, source: Path, move: bool = False) -> None:
        """Streams a local file in; it appears complete or not at all. `move` removes the source."""
        self._change(path)
        with clear_errors(self.location):
            self.objects.put_file(path, source, move)
            if move and source.exists():
                # Remote store: cache the file, it will probably be read again on this machine.
                bucket.keep_copy(self._copies, path, source)

    def local(self, path: str) -> Path:
        """A local file with the content of an object that never changes.

        Raises FileNotFoundError for a missing object, except in a local store, which does not look.
        """
        with clear_errors(self.location):
            return self.objects.local(path, self._copies)

    def delete(self, path: str) -> None:
        """Removes the object if it exists."""
        self._change(path)
        with clear_errors(self.location), suppress(FileNotFoundError):
            self.objects.delete(path)
        self.damaged.discard(path)

    def _change(self, path: str) -> None:
        for listing in self._listed:
            listing.change(path)


def json_bytes(value: Any) -> bytes:
    """The value as readable JSON. Raises ValueError for NaN, TypeError for foreign types."""
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def work_of(location: str) -> Path:
    """The work directory of the store at this location: a local store's own directory, else one
    below `$TERCET_WORK`, by default `~/.cache/tercet`.
    """
    if not _is_remote(location):
        return Path(location).expanduser().absolute()
    place = Path(os.environ.get("TERCET_WORK") or "~/.cache/tercet").expanduser().absolute()
    return place / hashlib.sha256(location.encode()).hexdigest()[:16]


def open_store(location: str, create: bool = True) -> Store:
    """Opens the store at a local directory, or at a location of one of the `SCHEMES`.

    create: make a missing store, and require write access. Raises StoreError if the directory
    cannot be written, contains something else, or is not a store.
    """
    if _is_remote(location):
        store = _remote(location)
        with clear_errors(store.work):
            store.work.mkdir(parents=True, exist_ok=True)
        if create and not store.exists(MARKER):
            _make_remote(store)
    else:
        root = work_of(location)
        _check_folder(root, create)
        if create:
            _make(root)
        store = Store(str(root), root, Folder(root))
    marker = store.get_json(MARKER)
    if marker is None:
        raise StoreError(
            "missing_file",
            f"{store.location} is not a store: name one with --store, or run a recipe.",
        )
    if marker.get("format") != FORMAT:
        raise StoreError(
            "unreadable",
            f"{store.location} is a store of format {marker.get('format')}, this version reads "
            f"{FORMAT}: update tercet or use another store.",
        )
    return store


def is_store(location: str) -> bool:
    """Whether there is a store at the location. Raises StoreError if it cannot be reached."""
    if _is_remote(location):
        return _remote(location).exists(MARKER)
    return (work_of(location) / MARKER).is_file()


def _remote(location: str) -> Store:
    scheme, location = location.partition("://")[0], location.rstrip("/")
    if scheme == "s3" and (fault := bucket.fault(location)):
        raise StoreError("bad_value", fault)
    return Store(location, work_of(location), SCHEMES[scheme](location))


def _make_remote(store: Store) -> None:
    """Makes a store below an empty prefix, after a probe of the server's conditional puts."""
    with clear_errors(store.location):
        names = {name for name, _ in store.objects.names("")}
        others = sorted(name for name in names if not name.startswith(".probe-"))
        # The marker may be that of another process, which has created the store meanwhile.
        if others and MARKER not in others:
            raise StoreError(
                "exists",
                f"{store.location} is not a store and contains other objects ({others[0]}): name "
                "another prefix.",
            )
        if isinstance(store.objects, Bucket):
            bucket.probe(store.objects)
    store.create_json(MARKER, {"format": FORMAT})


def _is_remote(location: str) -> bool:
    """Whether the location is not a local directory. Raises StoreError for an unknown scheme."""
    scheme, separator, _ = location.partition("://")
    if separator and scheme not in SCHEMES:
        SCHEMES.update((p.name, p.load()) for p in entry_points(group="tercet.stores", name=scheme))
    # `s3:/` with one slash would become a local directory of that name.
    if (separator and scheme not in SCHEMES) or (not separator and location.startswith("s3:/")):
        raise StoreError(
            "bad_value",
            f"{location} is not a local directory, nor in a bucket: name a directory, or "
            "s3://BUCKET/PREFIX, with --store.",
        )
    return bool(separator)


def _check_folder(root: Path, create: bool) -> None:
    printable = os.fsencode(root).decode("utf-8", "backslashreplace")
    if printable != str(root):
        raise StoreError(
            "bad_value",
            f"The name of the directory {printable} is not UTF-8, which a catalog's paths must be: "
            "choose another with --store.",
        )
    with clear_errors(root):
        exists, is_folder = root.exists(), root.is_dir()
    if exists and not is_folder:
        raise StoreError(
            "exists", f"{root} is a file, but a store is a directory: name a directory."
        )
    if not create and not is_folder:
        raise StoreError(
            "missing_file", f"There is no store at {root}: name one with --store, or run a recipe."
        )


def _make(root: Path) -> None:
    """Creates the store, or checks that the existing one is writable."""
    with clear_errors(root):
        if not (root / MARKER).exists():
            check_outside(root)
        try:
            root.mkdir(parents=True, exist_ok=True)
        except FileNotFoundError as error:
            raise StoreError(
                "refused", f"{root} cannot be created: choose another directory."
            ) from error
        if not (root / MARKER).exists():
            others = strangers(root)
            # Another process may have created the store meanwhile; it writes the marker first.
            if others and not (root / MARKER).exists():
                raise StoreError(
                    "exists",
                    f"{root} is not a store and contains other files ({others[0]}): "
                    "name an empty or a new directory.",
                )
            Store(str(root), root, Folder(root)).create_json(MARKER, {"format": FORMAT})
        probe = root / f".probe-{os.getpid()}-{uuid.uuid4().hex}"
        try:
            probe.write_bytes(b"tercet")
        finally:
            with suppress(OSError):
                probe.unlink()


def strangers(root: Path) -> list[str]:
    """Names in a directory that keep a store from being made there, sorted.

    Files that file systems and file managers leave everywhere do not count.
    """
    ours = (MARKER, ".probe-", "._")
    names = sorted({path.name for path in root.iterdir()} - _LEFT_BY_SYSTEMS)
    return [name for name in names if not name.startswith(ours)]


def check_outside(path: Path) -> None:
    """Raises StoreError for an output path inside any store."""
    for folder in path.expanduser().resolve().parents:
        try:
            marker = json.loads((folder / MARKER).read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(marker, dict) and "format" in marker:
            raise StoreError(
                "bad_value",
                f"{path} lies inside the store {folder}, which holds nothing but its own: name a "
                "place outside.",
            )


# A folder's names, as patterns: FILE, a subfolder's listing, or ANYTHING.
Listing: TypeAlias = Mapping[str, Any]
FILE = "file"
ANYTHING: Listing = {}

# Synchronisers name a conflicting copy like this, or with spaces and brackets.
_NAME = r"(?!.*\.sync-conflict-)[A-Za-z0-9_][A-Za-z0-9_.-]*"
_JSON = rf"{_NAME}\.json"
# Written first: a folder without it is not an artifact or a run.
PLAN, START = r"plan\.json", r"start\.json"
# Names by uuid4, as hex.
ANSWERS = "[0-9a-f]" * 32

LAYOUT: Listing = {
    r"store\.json": FILE,
    "artifacts": {
        _NAME: {
            _NAME: {
                PLAN: FILE,
                r"(parts|manifest)\.json": FILE,
                "data": {_NAME: {rf"{_NAME}\.parquet": FILE}},
                "files": ANYTHING,
                "_parts": {r"\d{5,}\.json": FILE},
            }
        }
    },
    "keys": {_NAME: {_JSON: FILE}},
    "runs": {
        r"\d{8}T\d{12}-[0-9a-f]{4}": {
            START: FILE,
            r"(uses|end)\.json": FILE,
            "steps": {_JSON: FILE},
        }
    },
    "responses": {
        rf"{ANSWERS}\.(parquet|writing)": FILE,
        "journal": {rf"{ANSWERS}\.jsonl": FILE},
    },
    "rounds": {_NAME: {_NAME: {r"\d{4,}\.json": FILE}}},
    "tags": {_JSON: FILE},
    "schemas": {rf"{_NAME}\.parquet": FILE},
    "cache": {"bm25": {_NAME: ANYTHING}, _NAME: {_JSON: FILE}},
    # The second is the catalog while a process writes it.
    r"catalog\.duckdb|\.catalog-.*|\.probe-.*": FILE,
    "scratch": ANYTHING,
    "locks": ANYTHING,
    "prefect": ANYTHING,
    r"lost\+found": ANYTHING,
}
# Keys that code expects in a record: a flipped bit in a key leaves valid JSON.
_KEYS = {
    "manifest.json": {"step", "version", "parts", "tables"},
    "start.json": {"run_id", "recipe_name", "recipe", "info", "started"},
    "end.json": {"ended", "info", "state", "steps"},
    "steps": {"step", "recorded"},
    "tags": {"target"},
}
_PART, _PART_FILE = {"index", "key", "tables", "files", "schemas"}, {"path", "bytes", "digest"}
# The ending of a file that a killed process left unfinished.
_UNFINISHED = re.compile(r"#\d+$")


def is_record(path: str, value: Any) -> bool:
    """Whether the JSON value at this path has all keys that code expects there."""
    folder, name = path.split("/")[-2:] if "/" in path else ("", path)
    if name == "parts.json" or folder == "_parts":
        return all(map(_is_part, value if name == "parts.json" else [value]))
    needed = _KEYS.get(name, _KEYS.get(folder, set()))
    return not needed or (isinstance(value, dict) and needed <= value.keys())


def _is_part(record: Any) -> bool:
    if not isinstance(record, dict) or not record.keys() >= _PART:
        return False
    files = [*record["files"], *(file for files in record["tables"].values() for file in files)]
    return all(isinstance(file, dict) and file.keys() >= _PART_FILE for file in files)


def own_names(prefix: str, names: Iterable[tuple[str, bool]]) -> list[str]:
    """The names directly below the prefix that fit `LAYOUT`, sorted.

    names: each with whether it is a folder.
    """
    listing: Listing = LAYOUT
    for part in prefix.split("/"):
        listing = _kind(listing, part) or {}
    kinds = ((name, is_folder, _kind(listing, name)) for name, is_folder in names)
    return sorted(
        name for name, is_folder, kind in kinds if kind is not None and is_folder != (kind == FILE)
    )


def is_own(path: str) -> bool:
    """Whether the path fits `LAYOUT`, also with the ending of an unfinished file."""
    kind: Any = LAYOUT
    for part in unfinished(path).split("/"):
        kind = None if kind == FILE else _kind(kind, part)
        if kind is None or kind is ANYTHING:
            return kind is ANYTHING
    return bool(kind == FILE)


def unfinished(path: str) -> str:
    """The path without the ending of an unfinished file."""
    return _UNFINISHED.sub("", path)


def _kind(listing: Listing, name: str) -> Any:
    """The listing's entry for this name: FILE, a folder's listing, or None."""
    return next((kind for form, kind in listing.items() if re.fullmatch(form, name)), None)
