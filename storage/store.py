"""The store of artifacts: small atomic operations on named objects.

Everything else in this package is built on `create` (put if absent) and `replace`, both of which
are atomic on local disks as well as in a bucket.

File managers, editors and tools that copy or synchronise leave files of their own in every
directory that they come across. The store lists by its own names alone, and so passes them over.
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
# Puts of an object that is said to exist and is not there.
_TRIES = 5
# Requests at once where each has to travel.
_AT_ONCE = 32
_OS_ERROR = re.compile(r"os error (\d+)|[Ee]rrno (\d+)|code: (\d+)")


class StoreError(TercetError):
    """A fault of the store; exit code 2."""


class FullDisk(StoreError):
    """The store's disk is full; exit code 1."""

    exit_code = 1


class Damaged(StoreError):
    """A record or a file that is not as it was written."""

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
    found = _OS_ERROR.search(str(error))
    if found:
        return int(next(group for group in found.groups() if group))
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
            # A copy of it, here.
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

    work: a directory of this machine for what no object can be: locks, scratch, journals, caches,
        the catalog, Prefect's server. Of a local directory it is the directory itself.
    known: objects that were there once, and that nobody deletes as long as they are needed.
    damaged: records that `read_json` has passed over.
    """

    location: str
    work: Path
    objects: Objects
    known: set[str] = field(default_factory=set, compare=False, repr=False)
    damaged: set[str] = field(default_factory=set, compare=False, repr=False)

    @property
    def near(self) -> "Store":
        """The work directory as a store: for objects that mean something on this machine alone."""
        return Store(str(self.work), self.work, Folder(self.work))

    @property
    def _copies(self) -> Path:
        return self.work / "cache" / "objects"

    def each(self, ask: Callable[[Asked], Answer], things: Iterable[Asked]) -> list[Answer]:
        """What `ask` says of each of the things, in order: where requests travel, many at once."""
        if isinstance(self.objects, Folder):
            return [ask(thing) for thing in things]
        with ThreadPoolExecutor(_AT_ONCE) as asking:
            return list(asking.map(ask, things))

    def get(self, path: str) -> bytes | None:
        """The object's bytes, or None if it does not exist."""
        with clear_errors(self.location):
            try:
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
                # No command makes it again.
                raise StoreError(
                    "damaged",
                    f"{self.location}/{path} is damaged: put it back from a copy of the store, or "
                    "from another store of this version of Tercet, which has the same.",
                ) from error
            fault = "not JSON" if data.strip() else "empty"
            raise Damaged(f"{self.location}/{path} is damaged ({fault})") from error

    def read_json(self, path: str) -> Any | None:
        """`get_json`, but None with a warning for a damaged one, without which others are read."""
        try:
            found = self.get_json(path)
            if found is not None and not is_record(path, found):
                raise Damaged(f"{self.location}/{path} is damaged (keys are missing)")
            self.damaged.discard(path)
            return found
        except Damaged as error:
            if path not in self.damaged:
                self.damaged.add(path)
                logging.getLogger(__name__).warning(str(error))
            return None

    def create(self, path: str, data: bytes) -> bool:
        """Puts the object if absent, atomically. False if it already exists with other bytes.

        An object that is said to exist is read. It may be our own, whose success was not reported,
        or not there at all: then it is put again.
        """
        for tried in range(_TRIES):
            with clear_errors(self.location):
                if self.objects.put(path, data, absent=True):
                    return True
            standing = self.get(path)
            if standing is not None:
                return standing == data
            time.sleep(0.1 * tried)
        raise StoreError(
            "damaged",
            f"{self.location}/{path} is said to exist but is not there: repeat the command.",
        )

    def create_json(self, path: str, value: Any) -> bool:
        """`create` with the value as JSON."""
        return self.create(path, json_bytes(value))

    def replace(self, path: str, data: bytes) -> None:
        """Puts the object, whether or not it exists: readers see either the old or the new one."""
        with clear_errors(self.location):
            self.objects.put(path, data, absent=False)
        self.damaged.discard(path)

    def list(self, prefix: str) -> list[str]:
        """The store's own names directly below the prefix, sorted, of objects and folders."""
        with clear_errors(self.location):
            return own_names(prefix, self.objects.names(prefix))

    def stats(self, prefix: str) -> dict[str, Stat]:
        """The size and age of every object below the prefix, by path."""
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
        with clear_errors(self.location):
            self.objects.put_file(path, source, move)
            if move and source.exists():
                # Elsewhere: it is read again here, as like as not.
                bucket.keep_copy(self._copies, path, source)

    def local(self, path: str) -> Path:
        """A local file with the content of an object that never changes.

        Raises FileNotFoundError where a missing object is noticed; else the path leads nowhere.
        """
        with clear_errors(self.location):
            return self.objects.local(path, self._copies)

    def delete(self, path: str) -> None:
        """Removes the object if it exists."""
        with clear_errors(self.location), suppress(FileNotFoundError):
            self.objects.delete(path)
        self.damaged.discard(path)


def json_bytes(value: Any) -> bytes:
    """The value as readable JSON. Raises ValueError for NaN, TypeError for foreign types."""
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def work_of(location: str) -> Path:
    """The work directory of the store at this location.

    That of a local directory is itself; of any other `$TERCET_WORK/…`, by default below
    `~/.cache/tercet`.
    """
    if not _is_elsewhere(location):
        return Path(location).expanduser().absolute()
    place = Path(os.environ.get("TERCET_WORK") or "~/.cache/tercet").expanduser().absolute()
    return place / hashlib.sha256(location.encode()).hexdigest()[:16]


def open_store(location: str, create: bool = True) -> Store:
    """Opens the store at a local directory, or at a location of one of the `SCHEMES`.

    With `create`, a missing directory is created and the store must be writable; without, a
    read-only store will do. Raises StoreError with one sentence if the directory cannot be
    written, contains something else, or is not a store.
    """
    if _is_elsewhere(location):
        store = _elsewhere(location)
        with clear_errors(store.work):
            store.work.mkdir(parents=True, exist_ok=True)
        if create and not store.exists(MARKER):
            _make_elsewhere(store)
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
    """Whether there is a store at the location. Raises StoreError where that cannot be seen."""
    if _is_elsewhere(location):
        return _elsewhere(location).exists(MARKER)
    return (work_of(location) / MARKER).is_file()


def _elsewhere(location: str) -> Store:
    scheme, location = location.partition("://")[0], location.rstrip("/")
    if scheme == "s3" and (fault := bucket.fault(location)):
        raise StoreError("bad_value", fault)
    return Store(location, work_of(location), SCHEMES[scheme](location))


def _make_elsewhere(store: Store) -> None:
    """Makes a store where there is none, if nothing else is there and its conditions are kept."""
    with clear_errors(store.location):
        names = {name for name, _ in store.objects.names("")}
        others = sorted(name for name in names if not name.startswith(".probe-"))
        # If another process has created the store meanwhile, the marker is among them.
        if others and MARKER not in others:
            raise StoreError(
                "exists",
                f"{store.location} is not a store and contains other objects ({others[0]}): name "
                "another prefix.",
            )
        if isinstance(store.objects, Bucket):
            bucket.probe(store.objects)
    store.create_json(MARKER, {"format": FORMAT})


def _is_elsewhere(location: str) -> bool:
    """Whether the location is no local directory. Raises StoreError for an unknown scheme."""
    scheme, found, _ = location.partition("://")
    if found and scheme not in SCHEMES:
        SCHEMES.update((p.name, p.load()) for p in entry_points(group="tercet.stores", name=scheme))
    # A slash is lost easily, and a directory of that name would be made.
    if (found and scheme not in SCHEMES) or (not found and location.startswith("s3:/")):
        raise StoreError(
            "bad_value",
            f"{location} is not a local directory, nor in a bucket: name a directory, or "
            "s3://BUCKET/PREFIX, with --store.",
        )
    return bool(found)


def _check_folder(root: Path, create: bool) -> None:
    said = os.fsencode(root).decode("utf-8", "backslashreplace")
    if said != str(root):
        raise StoreError(
            "bad_value",
            f"The name of the directory {said} is not UTF-8, which a catalog's paths must be: "
            "choose another with --store.",
        )
    with clear_errors(root):
        there, is_folder = root.exists(), root.is_dir()
    if there and not is_folder:
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
            # If another process has created the store meanwhile, the marker came first.
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
    """The names in a directory, sorted, for which no store is made there.

    Those that file systems and file managers leave everywhere are none.
    """
    ours = (MARKER, ".probe-", "._")
    names = sorted({path.name for path in root.iterdir()} - _LEFT_BY_SYSTEMS)
    return [name for name in names if not name.startswith(ours)]


def check_outside(path: Path) -> None:
    """Raises StoreError for an output that would lie inside a store, any store."""
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


# Of a folder: its own listing, or ANYTHING.
Listing: TypeAlias = Mapping[str, Any]
FILE = "file"
ANYTHING: Listing = {}

# A tool that synchronises calls the other side's copy so, or writes spaces and brackets.
_NAME = r"(?!.*\.sync-conflict-)[A-Za-z0-9_][A-Za-z0-9_.-]*"
_JSON = rf"{_NAME}\.json"
# Written first: a folder without it is no artifact, or no run.
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
    # While it is written it lies beside, under a process's name.
    r"catalog\.duckdb|\.catalog-.*|\.probe-.*": FILE,
    "scratch": ANYTHING,
    "locks": ANYTHING,
    "prefect": ANYTHING,
    r"lost\+found": ANYTHING,
}
# The keys that code reads of a record without asking; a bit that flips in one leaves it JSON.
_KEYS = {
    "manifest.json": {"step", "version", "parts", "tables"},
    "start.json": {"run_id", "recipe_name", "recipe", "info", "started"},
    "end.json": {"ended", "info", "state", "steps"},
    "steps": {"step", "recorded"},
    "tags": {"target"},
}
_PART, _PART_FILE = {"index", "key", "tables", "files", "schemas"}, {"path", "bytes", "digest"}
# What a killed process left unfinished has such an ending.
_UNFINISHED = re.compile(r"#\d+$")


def is_record(path: str, value: Any) -> bool:
    """Whether JSON at this path has the keys that are read of it."""
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
    """Those of the names directly below the prefix that are the store's, sorted.

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
    """Whether an object of this path is the store's, or was to be, as its ending `#1` says."""
    kind: Any = LAYOUT
    for part in unfinished(path).split("/"):
        kind = None if kind == FILE else _kind(kind, part)
        if kind is None or kind is ANYTHING:
            return kind is ANYTHING
    return bool(kind == FILE)


def unfinished(path: str) -> str:
    """The path without the ending of what is being written, or was when its process was killed."""
    return _UNFINISHED.sub("", path)


def _kind(listing: Listing, name: str) -> Any:
    """What the listing says of this name: FILE, a folder's listing, or None."""
    return next((kind for form, kind in listing.items() if re.fullmatch(form, name)), None)
