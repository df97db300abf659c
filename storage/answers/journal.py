"""Journals: language models' answers, recorded so that a kill loses none, then sealed as Parquet.

    responses/journal/<name>.jsonl   one line per answer, appended by one living process; it lies in
                                     the work directory
    responses/<name>.parquet         the same rows, once the journal is full or its process ended

The writer holds the lock ``journal-<name>``, taken before it creates the file: a journal whose lock
is free has lost its writer. A journal with a Parquet file of its name contains nothing new.
"""

import json
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from tercet.storage import locks
from tercet.storage.store import Store, clear_errors

Row: TypeAlias = dict[str, Any]

POOL = "responses"
FAILED = "failed"
SEAL_ROWS = 20_000
SEAL_BYTES = 64 * 2**20
# What waits in a work directory is lost with its machine.
SEAL_SECONDS = 60.0

RESPONSES = pa.schema(
    [
        ("request_digest", pa.string()),
        ("recipe", pa.string()),
        ("run_id", pa.string()),
        ("method", pa.string()),
        ("model", pa.string()),
        ("endpoint", pa.string()),
        ("raw", pa.string()),
        ("finish_reason", pa.string()),
        ("prompt_tokens", pa.int32()),
        ("n_tokens", pa.int32()),
        ("attempts", pa.int32()),
        ("seconds", pa.float64()),
        ("cost", pa.float64()),
        ("error", pa.string()),
        ("created", pa.timestamp("us")),
    ]
)
"""Table `responses`. The pool: every answer that a language model or a fitted generator has given
to any run. Answers are kept forever, and a request whose digest has an answer here is never sent
again. Rules send no requests: the table is empty until a recipe uses a model.

One row per digest. If two runs asked the same at the same time, the first answer is kept; a
request that only ever failed has its latest failure. Answers are in the store's folder
`responses`: each goes into a journal as it arrives, and the journal is sealed into a Parquet file
when it has 20,000 answers or its process has ended. `tercet sql` shows both, and
`partial.responses` those not sealed yet; `catalog.duckdb` shows only sealed files (later ones
too, if there was one when it was last written).

Columns:
    request_digest: id of prompt, model, sampling, schema and the row's seed: 32 hexadecimal
        digits
    recipe: the recipe that asked
    run_id: → `runs.run_id` of the run that asked
    method: the method, or the stage, that asked
    model: the model that answered
    endpoint: where it came from, without keys; `local` for a generator in the run's own process
    raw: the answer verbatim; lone surrogates, which are not text, become U+FFFD
    finish_reason: `stop`; `length` if `max_tokens` cut it off; `failed` if there is no answer
    prompt_tokens: tokens in the prompt
    n_tokens: tokens in the answer
    attempts: how often the request was sent
    seconds: from the first attempt to the answer
    cost: price by the recipe's `price_in` and `price_out`; NULL without prices
    error: why the request failed; else NULL
    created: when it arrived
"""

_OPTIONAL = {"cost", "error"}
_BATCH_ROWS = 1_000


class Journal:
    """A journal to which this process appends.

    rows, size: the number of answers and of bytes in it.
    Raises FullDisk and StoreError like the store.
    """

    def __init__(self, store: Store, name: str, who: str) -> None:
        self.name = name
        self.rows = 0
        self.size = 0
        self._store = store
        self._open = ExitStack()
        path = _journal(store, self.name)
        with ExitStack() as opening:
            opening.enter_context(locks.hold(store.near, _lock(self.name), who=who))
            with clear_errors(store.location):
                path.parent.mkdir(parents=True, exist_ok=True)
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                self._handle = os.open(path, flags, 0o644)
            opening.callback(os.close, self._handle)
            self._open = opening.pop_all()

    def append(self, row: Row) -> tuple[int, int]:
        """Writes the row, safe from a kill after the return. Returns its position."""
        line = _line(row)
        start = self.size
        with clear_errors(self._store.location):
            try:
                rest = memoryview(line)
                while rest:
                    rest = rest[os.write(self._handle, rest) :]
            finally:
                # A full disk may cut a line short; an interrupt may come after its end.
                if os.fstat(self._handle).st_size == start + len(line):
                    self.rows += 1
                    self.size += len(line)
                else:
                    os.ftruncate(self._handle, start)
        return start, len(line)

    def full(self) -> bool:
        """Whether it should be sealed and a new one started."""
        return self.rows >= SEAL_ROWS or self.size >= SEAL_BYTES

    def seal(self) -> None:
        """Seals it as a Parquet file and releases it. On failure the journal stays as it is."""
        _seal(self._store, self.name)
        self.release()

    def release(self) -> None:
        """Releases it unsealed: the next process that opens the pool seals it."""
        self._open.close()


class Tail:
    """The contents of a journal so far, by digest; each read continues where the last one ended.

    The file stays open so that it can still be read after it has been sealed and removed.
    Raises FileNotFoundError if it is already removed.
    """

    def __init__(self, store: Store, name: str) -> None:
        self._location = store.location
        self._end = 0
        self._places: dict[str, tuple[int, int]] = {}
        with clear_errors(self._location):
            self._handle = os.open(_journal(store, name), os.O_RDONLY | os.O_CLOEXEC)

    def advance(self) -> list[Row]:
        """The rows added since the last read."""
        come = []
        with (
            clear_errors(self._location),
            os.fdopen(self._handle, "rb", closefd=False) as file,
        ):
            file.seek(self._end)
            for row, length in _read(file):
                if row is not None:
                    self.note(row, self._end, length)
                    come.append({**row, "raw": ""})
                self._end += length
        return come

    def note(self, row: Row, start: int, length: int) -> None:
        """Records the position of an answer; the first answer to a digest counts."""
        if row["finish_reason"] != FAILED:
            self._places.setdefault(row["request_digest"], (start, length))

    def rows(self, digests: Collection[str]) -> list[Row]:
        """The answers to these digests, as far as it has been read."""
        found = []
        with clear_errors(self._location):
            for digest in digests:
                if digest in self._places:
                    start, length = self._places[digest]
                    row = _row(os.pread(self._handle, length, start))
                    if row is not None:
                        found.append(row)
        return found

    def close(self) -> None:
        """Closes the file."""
        os.close(self._handle)


def checked(values: Mapping[str, Any]) -> Row:
    """The values as a row of `RESPONSES`; unpaired surrogates become U+FFFD.

    Raises ValueError, naming the column, for a value that is missing or does not fit its type.
    """
    row: Row = {}
    for field in RESPONSES:
        value = values.get(field.name)
        if value is not None or field.name not in _OPTIONAL:
            value = _cast(field.name, value, field.type)
        row[field.name] = value
    return row


def journal_names(store: Store) -> list[str]:
    """Names of the journals, of living processes and of dead ones."""
    return _names(store.near, f"{POOL}/journal", ".jsonl")


def sealed_names(store: Store) -> list[str]:
    """Names of the sealed files, which never change."""
    return _names(store, POOL, ".parquet")


def sealed_paths(store: Store, names: Iterable[str]) -> list[str]:
    """The paths of sealed files."""
    return [str(path) for path in store.each(store.local, [f"{POOL}/{n}.parquet" for n in names])]


def contents(store: Store) -> tuple[list[str], pa.Table]:
    """A snapshot of the pool: its sealed files, and the rows (`RESPONSES`) not yet in any."""
    # Journals first: one that is sealed in between then appears among the files.
    unsealed = {}
    with clear_errors(store.location):
        for name in journal_names(store):
            with suppress(FileNotFoundError):
                unsealed[name] = _table(_journal(store, name))
    sealed = sealed_names(store)
    rows = [table for name, table in unsealed.items() if name not in set(sealed)]
    files = sealed_paths(store, sealed)
    return files, pa.concat_tables([pa.Table.from_batches([], RESPONSES), *rows])


def seal_left(store: Store) -> None:
    """Seals the journals of processes that have ended; those of living ones stay."""
    for name in journal_names(store):
        if not locks.is_held(store.near, _lock(name)):
            with locks.hold(store.near, _lock(name), who="sealing answers"):
                _seal(store, name)


def _seal(store: Store, name: str) -> None:
    """Seals the journal as a Parquet file, unless that is done; the caller holds its lock."""
    journal = _journal(store, name)
    with clear_errors(store.location):
        if not journal.exists():
            return
        if name not in sealed_names(store):
            rows = _table(journal)
            if rows.num_rows:
                _write(store, name, rows)
        journal.unlink(missing_ok=True)


def _write(store: Store, name: str, rows: pa.Table) -> None:
    aside = store.work / POOL / f"{name}.writing"
    try:
        with aside.open("wb") as sink:
            pq.write_table(rows, sink, compression="zstd", write_page_checksum=True)
            sink.flush()
            os.fsync(sink.fileno())
        store.put_file(f"{POOL}/{name}.parquet", aside, move=True)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise


def _table(journal: Path) -> pa.Table:
    """The journal's complete lines as a table."""
    tables, waiting = [pa.Table.from_batches([], RESPONSES)], []
    with journal.open("rb") as file:
        for row, _ in _read(file):
            if row is not None:
                waiting.append(row)
            if len(waiting) == _BATCH_ROWS:
                tables.append(pa.Table.from_pylist(waiting, RESPONSES))
                waiting = []
    return pa.concat_tables([*tables, pa.Table.from_pylist(waiting, RESPONSES)]).combine_chunks()


def _read(file: BinaryIO) -> Iterator[tuple[Row | None, int]]:
    """The complete lines from here on, with their bytes: a row each, or None for a bad line."""
    for line in file:
        if not line.endswith(b"\n"):
            return
        yield _row(line), len(line)


def _line(row: Row) -> bytes:
    said = {**row, "created": row["created"].isoformat()}
    return json.dumps(said, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _row(line: bytes) -> Row | None:
    try:
        values = json.loads(line)
        return checked(values) if isinstance(values, dict) else None
    except (ValueError, RecursionError):
        return None


def _cast(name: str, value: Any, kind: pa.DataType) -> Any:
    if kind == pa.string() and isinstance(value, str):
        return _text(value)
    if pa.types.is_timestamp(kind) and isinstance(value, str | datetime):
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    if isinstance(value, int) and not isinstance(value, bool):
        if kind == pa.int32() and -(2**31) <= value < 2**31:
            return value
        if kind == pa.float64() and abs(value) < 2**53:
            return float(value)
    if kind == pa.float64() and isinstance(value, float) and math.isfinite(value):
        return value
    raise ValueError(f"{name} of an answer is {value!r:.80}: it must be {kind}.")


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        # JSON may escape surrogates one by one; those that form a pair are joined.
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


def _names(store: Store, folder: str, ending: str) -> list[str]:
    return [name.removesuffix(ending) for name in store.list(folder) if name.endswith(ending)]


def _journal(store: Store, name: str) -> Path:
    return store.work / POOL / "journal" / f"{name}.jsonl"


def _lock(name: str) -> str:
    return f"journal-{name}"
