"""Objects in an S3-compatible bucket: `s3://BUCKET` or `s3://BUCKET/PREFIX`.

The server's address and the credentials come from the environment (`AWS_ENDPOINT_URL`,
`AWS_REGION`, `AWS_ACCESS_KEY_ID` …) or the machine's role, and are never stored. The client repeats
failed requests, so a put may be reported as refused although it was done, or as done although
another's stands: `Store.create` reads the object back.

Objects never change, so copies are cached in the work directory, by path, up to `TERCET_CACHE_GB`
(20). Then the least recently used copies are removed, but none used within the last hour, which
its reader may not have opened yet.
"""

import errno
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache as kept
from pathlib import Path
from typing import Any, TypeVar

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    GenericError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from tercet.storage.objects import Stat, first_line

Found = TypeVar("Found")

# A transfer may take long but not stall.
_CLIENT = {"connect_timeout": "10s", "read_timeout": "30s", "timeout": "1h"}
RETRIES = {"max_retries": 6, "retry_timeout": timedelta(minutes=2)}
# Seconds to wait before repeating requests that the client does not repeat by itself.
_WAITS = (0.5, 2.0)
# Errors that a retry cannot fix, by a substring of the message. The address is where a machine in a
# cloud asks for its own role.
_HOPELESS = {
    "NoSuchBucket": "there is no such bucket: create it, or name another",
    "169.254.169.254": (
        "the environment holds no key: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    ),
}
# The client would interpret other characters: it drops a query and resolves an escape.
_PLACE = re.compile(r"s3://[\w.-]+(/(?!\.{1,2}(/|$))[^/?#%\\\x00-\x1f]+)*", re.ASCII)
_SERVER_CODE = re.compile(r"<Code>(\w+)</Code>")
_NO_KEY = {"ExpiredToken", "InvalidToken", "InvalidAccessKeyId", "SignatureDoesNotMatch"}
# Objects that a server lists for one request.
PAGE = 1_000
# Bytes of a file that are put at once.
_PIECE = 32 * 2**20


@dataclass(frozen=True)
class Bucket:
    """Objects below a prefix of a bucket.

    url: without a slash at its end.
    """

    url: str

    def get(self, path: str) -> bytes:
        return self.read(path)[0]

    def read(self, path: str) -> tuple[bytes, dict[str, Any]]:
        """The object's bytes and metadata (`e_tag`, `last_modified`)."""

        def ask() -> tuple[bytes, dict[str, Any]]:
            result = obstore.get(self._files, path)
            return bytes(result.bytes()), dict(result.meta)

        return self._again(ask)

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """The object's bytes from `start` up to `end`."""
        ask = lambda: obstore.get_range(self._files, path, start=start, end=end)  # noqa: E731
        return bytes(self._again(ask))

    def size(self, path: str) -> int:
        """The object's size in bytes. Raises FileNotFoundError."""
        return int(self._again(lambda: obstore.head(self._files, path))["size"])

    def put(self, path: str, data: bytes, absent: bool) -> bool:
        if absent:
            return self.swap(path, data, None) is not None
        self._again(lambda: obstore.put(self._files, path, data, use_multipart=False))
        return True

    def swap(self, path: str, data: bytes, tag: str | None) -> str | None:
        """Puts the object if the standing one has this `e_tag` (None: if there is none).

        Returns the new `e_tag`; None if the put was refused or its outcome is unknown.
        """

        def put() -> str | None:
            mode = "create" if tag is None else {"e_tag": tag}
            with suppress(AlreadyExistsError, PreconditionError, GenericError):
                done = obstore.put(self._files, path, data, mode=mode, use_multipart=False)
                return str(done["e_tag"])
            return None

        return self._again(put)

    def put_file(self, path: str, source: Path, move: bool) -> None:
        self._again(lambda: obstore.put(self._files, path, source, chunk_size=_PIECE))

    def local(self, path: str, cache: Path) -> Path:
        def fetch(aside: Path) -> None:
            with aside.open("wb") as sink:
                for piece in obstore.get(self._files, path):
                    sink.write(piece)

        return fetched(cache, path, lambda aside: self._again(lambda: fetch(aside)))

    def names(self, prefix: str) -> Iterator[tuple[str, bool]]:
        listed = self._again(lambda: obstore.list_with_delimiter(self._files, prefix))
        for name in listed["common_prefixes"]:
            yield name.rpartition("/")[2], True
        for one in listed["objects"]:
            yield one["path"].rpartition("/")[2], False

    def stats(self, prefix: str) -> Iterator[tuple[str, Stat]]:
        listed = self._again(lambda: obstore.list(self._files, prefix).collect())
        yield from map(_stat, listed)

    def page(self, prefix: str, after: str) -> list[tuple[str, Stat]]:
        """The next objects below the prefix behind this path; less than `PAGE` are the last."""

        def ask() -> Sequence[Mapping[str, Any]]:
            pages = obstore.list(self._files, prefix, offset=after or None, chunk_size=PAGE)
            return next(pages, [])

        return list(map(_stat, self._again(ask)))

    def delete(self, path: str) -> None:
        self._again(lambda: obstore.delete(self._files, path))

    @property
    def _files(self) -> S3Store:
        return _opened(self.url, endpoint())

    def _again(self, ask: Callable[[], Found]) -> Found:
        """The result of `ask`, which is repeated after errors that may pass."""
        for wait in (*_WAITS, None):
            try:
                return ask()
            except (BaseError, FileNotFoundError) as error:
                for text, message in _HOPELESS.items():
                    if text in str(error):
                        raise OSError(errno.ENODEV, message) from None
                if wait is None or not isinstance(error, GenericError | AlreadyExistsError):
                    raise
                time.sleep(wait)
        raise AssertionError


def _stat(listed: Mapping[str, Any]) -> tuple[str, Stat]:
    written = listed["last_modified"].timestamp()
    return listed["path"], Stat(listed["size"], written, str(listed["e_tag"]))


def probe(bucket: Bucket) -> None:
    """Checks that the server honours conditional puts, on which everything else is built.

    Checks the objects that stand afterwards, not the server's answers. Raises OSError, whose text
    ends in what to do.
    """
    path = f".probe-{uuid.uuid4().hex}"
    try:
        faults = [] if _puts_if_absent(bucket, path) else ["If-None-Match"]
        bucket.put(path, b"third", absent=False)
        stale = str(bucket.read(path)[1]["e_tag"])
        bucket.put(path, b"fourth", absent=False)
        bucket.swap(path, b"fifth", stale)
        standing, meta = bucket.read(path)
        bucket.swap(path, b"sixth", str(meta["e_tag"]))
        if standing != b"fourth" or bucket.get(path) != b"sixth":
            faults.append("If-Match")
        if (path, False) not in bucket.names(""):
            faults.append("a listing that shows what was put")
    finally:
        bucket.delete(path)
    if faults:
        raise OSError(
            errno.ENOTSUP,
            f"its server does not keep {' and '.join(faults)}, without which two runs would "
            "overwrite each other's records: use another server, or a newer version of it",
        )


def _puts_if_absent(bucket: Bucket, path: str) -> bool:
    """Whether the first of two puts stands. A server may also refuse both."""
    bucket.put(path, b"first", absent=True)
    bucket.put(path, b"second", absent=True)
    try:
        return bucket.get(path) == b"first"
    except FileNotFoundError:
        return False


def fault(url: str) -> str:
    """Why this cannot be a bucket's prefix, without quoting a key; empty if it can."""
    if _PLACE.fullmatch(url):
        return ""
    return (
        f"{re.sub('//.*@', '//', url)!r} names no bucket: write s3://BUCKET or s3://BUCKET/PREFIX, "
        "without a key, a port, ?, #, % or empty names."
    )


def refusal(location: str, error: BaseError) -> str:
    """The server's refusal as a sentence, without keys and tokens."""
    code = _SERVER_CODE.search(str(error))
    denied = isinstance(error, PermissionDeniedError | UnauthenticatedError)
    if denied or (code and code[1] in _NO_KEY):
        named = f" ({code[1]})" if code else ""
        return (
            f"{location} refuses access{named}: check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and "
            "AWS_SESSION_TOKEN, and what this key may do there."
        )
    reason = code[1] if code else re.sub("//[^/ ]*@", "//", first_line(error))
    return (
        f"{location} cannot be reached ({reason}): check AWS_ENDPOINT_URL, AWS_REGION, the key and "
        "the network, and repeat the command."
    )


def endpoint() -> str:
    """The server's address from the environment; empty for AWS."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")


def client_options(address: str) -> dict[str, Any]:
    """obstore's client options for the server at this address."""
    return {**_CLIENT, "allow_http": address.startswith("http://")}


@kept
def _opened(url: str, address: str) -> S3Store:
    """The bucket's client, one a process, since it keeps connections."""
    if address and not address.startswith(("http://", "https://")):
        raise OSError(
            errno.EINVAL, "AWS_ENDPOINT_URL must begin with http:// or https://: set it so"
        )
    return S3Store.from_url(url, client_options=client_options(address), retry_config=RETRIES)


_UNTOUCHED_SECONDS = 3_600.0
# The cache is trimmed again after this share of its limit was added.
_SHARE = 0.05

# Bytes that this process has added since it last trimmed, by cache folder.
_added: dict[Path, int] = {}


def fetched(cache: Path, path: str, fetch: Callable[[Path], None]) -> Path:
    """The cached copy of the object; `fetch` writes a missing one to the path that it is given."""
    target = cache / path
    try:
        # The time of last use, for `_trim`.
        os.utime(target)
    except FileNotFoundError:
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f"{target.name}-{uuid.uuid4().hex}.fetching")
        try:
            fetch(aside)
            # Without this, a power cut after the rename leaves an empty file.
            with aside.open("rb+") as copy:
                os.fsync(copy.fileno())
            _added_to(cache, aside)
            aside.replace(target)
        finally:
            aside.unlink(missing_ok=True)
    return target


def keep_copy(cache: Path, path: str, source: Path) -> None:
    """Moves a file that has just been put as this object into the cache."""
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
    """The cache's limit in bytes. Raises OSError, whose text ends in what to do."""
    gigabytes = os.environ.get("TERCET_CACHE_GB") or "20"
    try:
        return float(gigabytes) * 2**30
    except ValueError:
        raise OSError(
            errno.EINVAL,
            f"TERCET_CACHE_GB is {gigabytes!r}: let it say how many GB copies may take, 20",
        ) from None


def _trim(cache: Path, limit: float) -> None:
    copies = []
    for folder, _, names in os.walk(cache):
        for name in names:
            with suppress(FileNotFoundError):
                place = Path(folder, name)
                copies.append((place.stat(), place))
    size = sum(stat.st_size for stat, _ in copies)
    for stat, place in sorted(copies, key=lambda copy: copy[0].st_mtime):
        if size <= limit or stat.st_mtime > time.time() - _UNTOUCHED_SECONDS:
            return
        with suppress(FileNotFoundError):
            # Skip a copy that was used meanwhile.
            if place.stat().st_mtime == stat.st_mtime:
                place.unlink()
                size -= stat.st_size
