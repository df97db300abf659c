"""The pool: every answer that the store ever got from a language model, by its request's digest.

Answers are never changed or removed. `Pool.add` returns once the answer is in a journal, so a kill
loses none. A journal is sealed as a Parquet file when it is full or its process has ended.

    responses/journal/<name>.jsonl   one line per answer, appended by one living process; in the
                                     work directory
    responses/<name>.parquet         a sealed journal's rows

The writer takes the lock ``journal-<name>`` before it creates the file: a journal whose lock is
free has lost its writer. A journal with a Parquet file of the same name holds nothing new.
"""

import json
import math
import os
import threading
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tercet.storage import locks
from tercet.storage.objects import first_line
from tercet.storage.rows import quoted, read_parquet_sql
from tercet.storage.store import Store, StoreError, clear_errors

Row: TypeAlias = dict[str, Any]

POOL = "responses"
FAILED = "failed"
SEAL_ROWS = 20_000
SEAL_BYTES = 64 * 2**20
# With a bucket, a journal is sealed after this time, since it would be lost with its machine.
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

One row per digest. If two runs sent the same request at the same time, the first answer counts; a
request that always failed has its latest failure. Each answer goes into a journal in the store's
folder `responses`; a journal is sealed into a Parquet file when it has 20,000 answers or its
process has ended. `tercet sql` shows both, and `partial.responses` only unsealed answers;
`catalog.duckdb` shows only sealed files (later ones too, if there was one when it was last
written).

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
    created: when the answer arrived
"""

_OPTIONAL = {"cost", "error"}
_BATCH_ROWS = 1_000


class Journal:
    """A journal to which this process appends. Sealing turns it into a Parquet file of the pool.

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
        """Writes the row; once it returns, a kill cannot lose it. Returns (start, length)."""
        values = {**row, "created": row["created"].isoformat()}
        line = json.dumps(values, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        start = self.size
        with clear_errors(self._store.location):
            try:
                rest = memoryview(line)
                while rest:
                    rest = rest[os.write(self._handle, rest) :]
            finally:
                # A full disk may cut the line short; an interrupt may come after a complete one.
                if os.fstat(self._handle).st_size == start + len(line):
                    self.rows += 1
                    self.size += len(line)
                else:
                    os.ftruncate(self._handle, start)
        return start, len(line)

    def full(self) -> bool:
        """Whether the journal should be sealed and a new one started."""
        return self.rows >= SEAL_ROWS or self.size >= SEAL_BYTES

    def seal(self) -> None:
        """Seals the journal as a Parquet file and releases it. On failure it stays as it is."""
        _seal(self._store, self.name)
        self.release()

    def release(self) -> None:
        """Releases the journal unsealed; the next process that opens the pool seals it."""
        self._open.close()


class Tail:
    """A journal's contents so far, by digest; each read continues where the last one ended.

    The file stays open, and so readable after it was sealed and removed. Raises FileNotFoundError
    if it was removed before.
    """

    def __init__(self, store: Store, name: str) -> None:
        self._location = store.location
        self._end = 0
        self._places: dict[str, tuple[int, int]] = {}
        with clear_errors(self._location):
            self._handle = os.open(_journal(store, name), os.O_RDONLY | os.O_CLOEXEC)

    def advance(self) -> list[Row]:
        """The rows added since the last read."""
        added = []
        with (
            clear_errors(self._location),
            os.fdopen(self._handle, "rb", closefd=False) as file,
        ):
            file.seek(self._end)
            for row, length in _read(file):
                if row is not None:
                    self.note(row, self._end, length)
                    added.append({**row, "raw": ""})
                self._end += length
        return added

    def note(self, row: Row, start: int, length: int) -> None:
        """Records the position of an answer; the first answer to a digest counts."""
        if row["finish_reason"] != FAILED:
            self._places.setdefault(row["request_digest"], (start, length))

    def rows(self, digests: Collection[str]) -> list[Row]:
        """The answers to these digests among the lines read so far."""
        rows = []
        with clear_errors(self._location):
            for digest in digests:
                if digest in self._places:
                    start, length = self._places[digest]
                    row = _row(os.pread(self._handle, length, start))
                    if row is not None:
                        rows.append(row)
        return rows

    def close(self) -> None:
        """Closes the journal's file."""
        os.close(self._handle)


def checked(values: Mapping[str, Any]) -> Row:
    """The values as a row of `RESPONSES`; unpaired surrogates become U+FFFD.

    Raises ValueError for a missing value, and for one that does not fit its column's type.
    """
    row: Row = {}
    for field in RESPONSES:
        value = values.get(field.name)
        if value is not None or field.name not in _OPTIONAL:
            value = _cast(field.name, value, field.type)
        row[field.name] = value
    return row


def journal_names(store: Store) -> list[str]:
    """Names of the journals of living and dead processes."""
    return _names(store.near, f"{POOL}/journal", ".jsonl")


def sealed_names(store: Store) -> list[str]:
    """Names of the sealed files, which never change."""
    return _names(store, POOL, ".parquet")


def sealed_paths(store: Store, names: Iterable[str]) -> list[str]:
    """The paths of sealed files."""
    return [str(path) for path in store.each(store.local, [f"{POOL}/{n}.parquet" for n in names])]


def contents(store: Store) -> tuple[list[str], pa.Table]:
    """A snapshot of the pool: its sealed files, and the unsealed rows (`RESPONSES`)."""
    # Journals first: a journal that is sealed meanwhile then appears among the files.
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
    """Seals the journals of processes that have ended; journals of living processes stay."""
    for name in journal_names(store):
        if not locks.is_held(store.near, _lock(name)):
            with locks.hold(store.near, _lock(name), who="sealing answers"):
                _seal(store, name)


def _seal(store: Store, name: str) -> None:
    """Seals the journal as a Parquet file unless there is one; the caller holds its lock."""
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
    """(row, bytes) of each complete line from here on; None for a line that is not a row."""
    for line in file:
        if not line.endswith(b"\n"):
            return
        yield _row(line), len(line)


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
        # JSON may escape the two surrogates of a character one by one: join them.
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


def _names(store: Store, folder: str, ending: str) -> list[str]:
    return [name.removesuffix(ending) for name in store.list(folder) if name.endswith(ending)]


def _journal(store: Store, name: str) -> Path:
    return store.work / POOL / "journal" / f"{name}.jsonl"


def _lock(name: str) -> str:
    return f"journal-{name}"


MEMORY_LIMIT = "512MB"


class Response(NamedTuple):
    """An answer in the pool.

    raw: the model's verbatim answer. finish_reason: never ``failed``.
    seconds: from the first of `attempts` attempts to the answer.
    """

    raw: str
    finish_reason: str
    prompt_tokens: int
    n_tokens: int
    model: str
    endpoint: str
    attempts: int
    seconds: float


class Spent(NamedTuple):
    """Usage so far: prompt and answer tokens, money, and answers (not counting failures)."""

    tokens: int = 0
    cost: float = 0.0
    answers: int = 0


class Rates(NamedTuple):
    """How fast a model has answered.

    tokens_per_second: answer tokens per second with any request open, over all runs; None if no
        times were recorded.
    mean_tokens: the mean `n_tokens` of each method's answers.
    answers: the number of answers behind the figures.
    """

    tokens_per_second: float | None
    mean_tokens: Mapping[str, float]
    answers: int


class Pool:
    """The store's answers, for one run to look up and add to. Threads may share it.

    Opening it seals the journals of dead processes. Raises FullDisk and StoreError like the store.
    """

    def __init__(self, store: Store, recipe: str, run_id: str) -> None:
        self._store = store
        self._recipe = recipe
        self._run_id = run_id
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._own: tuple[Journal, Tail] | None = None
        self._clock = threading.Timer(0, lambda: None)
        self._mine: set[str] = set()
        self._others: dict[str, Tail] = {}
        self._sealed: dict[str, None] = {}
        self._spent_here = Spent()
        self._spent_before = Spent()
        self._spent_beside: dict[str, Spent] = {}
        # On a full or read-only disk, look-ups read the unsealed journals.
        with suppress(StoreError):
            seal_left(store)
        self._connection = duckdb.connect()
        for setting in (f"memory_limit = '{MEMORY_LIMIT}'", "threads = 1", "temp_directory = ''"):
            self._connection.execute(f"SET {setting}")
        self._look_around(())

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find(self, digests: Sequence[str]) -> dict[str, Response]:
        """The answers to these digests, including answers that other processes are adding; failed
        requests have no answer, and the earliest of several answers counts.

        Each call scans all of the pool's digests (2,000,000: about 0.3 seconds), so look up
        thousands at once.
        """
        distinct = set(digests)
        if not distinct:
            return {}
        with self._writing:
            rows = [] if self._own is None else self._own[1].rows(distinct)
        with self._reading:
            rows += self._look_around(distinct)
            rows += self._sealed_rows(distinct)
        rows.sort(key=lambda row: row["created"], reverse=True)
        return {
            row["request_digest"]: Response(*(row[name] for name in Response._fields))
            for row in rows
        }

    def add(self, row: Mapping[str, Any]) -> None:
        """Stores an answer, or a request that failed for good (`finish_reason` ``failed``).

        Args:
            row: The columns of `RESPONSES` except recipe, run_id and created, which the pool adds;
                `cost` and `error` may be missing.

        Once it returns, a kill cannot lose the row. Also works after `close`: the next process then
        seals the row. Raises ValueError for an invalid row.
        """
        added = {"recipe": self._recipe, "run_id": self._run_id, "created": datetime.now(UTC)}
        whole = checked({**added, **row})
        with self._writing:
            journal, tail = self._own or self._begin()
            start, length = journal.append(whole)
            tail.note(whole, start, length)
            self._spent_here = _plus(self._spent_here, [whole])
            if journal.full():
                self._seal(journal, tail)

    def spent(self) -> Spent:
        """The recipe's usage in this store, over all runs; other processes' additions count after
        the next `find`.
        """
        parts = (self._spent_before, self._spent_here, *self._spent_beside.copy().values())
        return Spent(*(sum(values) for values in zip(*parts, strict=True)))

    def rates(self, model: str) -> Rates | None:
        """How fast the model has answered in this store, for any run; None if it never has."""
        files, unsealed = contents(self._store)
        with self._reading:
            self._connection.register("unsealed", unsealed)
            sources = ["FROM unsealed", *([f"FROM {read_parquet_sql(files)}"] if files else [])]
            requests = f"FROM ({' UNION ALL BY NAME '.join(sources)}) WHERE model = {quoted(model)}"
            methods = self._rows_of(rates_sql(requests))
            self._connection.unregister("unsealed")
        if not methods:
            return None
        seconds = methods[0][3]
        tokens = sum(tokens for _, _, tokens, _ in methods)
        return Rates(
            tokens / seconds if seconds else None,
            {method: tokens / answers for method, answers, tokens, _ in methods},
            sum(answers for _, answers, _, _ in methods),
        )

    def close(self) -> None:
        """Seals the answers that were added. If the disk is full, the journal stays."""
        with self._writing:
            self._clock.cancel()
            if self._own is not None:
                journal, tail = self._own
                self._own = None
                tail.close()
                try:
                    with suppress(StoreError):
                        journal.seal()
                finally:
                    journal.release()
        with self._reading:
            for tail in self._others.values():
                tail.close()
            self._others.clear()
            self._connection.close()
            # An error's frames would keep the connection alive until exit, with complaints.
            del self._connection

    def _begin(self) -> tuple[Journal, Tail]:
        name = uuid.uuid4().hex
        self._mine.add(name)
        journal = Journal(self._store, name, self._run_id)
        try:
            self._own = (journal, Tail(self._store, name))
        except BaseException:
            journal.release()
            raise
        if self._store.work != Path(self._store.location):
            self._start_clock()
        return self._own

    def _start_clock(self) -> None:
        """Seals the journal after `SEAL_SECONDS`, however few answers it has."""
        self._clock = threading.Timer(SEAL_SECONDS, self._seal_in_time)
        self._clock.daemon = True
        self._clock.start()

    def _seal_in_time(self) -> None:
        with self._writing:
            if self._own is not None:
                try:
                    self._seal(*self._own)
                except StoreError:
                    self._start_clock()

    def _seal(self, journal: Journal, tail: Tail) -> None:
        journal.seal()
        tail.close()
        self._own = None
        self._clock.cancel()

    def _look_around(self, digests: Collection[str]) -> list[Row]:
        """Reads new lines of other processes' journals, then lists the sealed files.

        Returns the journals' answers to the digests. In this order, a journal that is sealed
        meanwhile was either read or is among the files.
        """
        rows = []
        for name in journal_names(self._store):
            if name in self._mine or name in self._sealed:
                continue
            if name not in self._others:
                with suppress(FileNotFoundError):
                    self._others[name] = Tail(self._store, name)
            if name in self._others:
                tail = self._others[name]
                added = [row for row in tail.advance() if row["recipe"] == self._recipe]
                before = self._spent_beside.get(name, Spent())
                self._spent_beside[name] = _plus(before, added)
                rows += tail.rows(digests)
        fresh = [name for name in sealed_names(self._store) if name not in self._sealed]
        self._count([name for name in fresh if name not in self._mine])
        self._sealed.update(dict.fromkeys(fresh))
        for name in [name for name in self._others if name in self._sealed]:
            self._others.pop(name).close()
        return rows

    def _count(self, names: list[str]) -> None:
        """Adds the usage in other processes' sealed files, in place of their journals' usage."""
        if names:
            files = sealed_paths(self._store, names)
            (row,) = self._rows_of(
                "SELECT coalesce(sum(prompt_tokens::BIGINT + n_tokens), 0)::BIGINT, "
                "coalesce(sum(cost), 0), "
                f"count(*) FILTER (finish_reason <> {quoted(FAILED)}) "
                f"FROM {read_parquet_sql(files)} WHERE recipe = {quoted(self._recipe)}"
            )
            before = self._spent_before
            self._spent_before = Spent(*(a + b for a, b in zip(before, row, strict=True)))
        for name in names:
            self._spent_beside.pop(name, None)

    def _sealed_rows(self, digests: set[str]) -> list[Row]:
        """The answers in sealed files: digests are read first, then only the matching rows."""
        if not self._sealed:
            return []
        among = "finish_reason <> 'failed' AND request_digest IN (FROM wanted)"
        names = ("request_digest", "created", *Response._fields)
        self._connection.register("wanted", pa.table({"digest": pa.array(sorted(digests))}))
        files = sealed_paths(self._store, self._sealed)
        listed = ", ".join(quoted(file) for file in files)
        holding = self._rows_of(
            f"SELECT DISTINCT filename FROM read_parquet([{listed}], filename = true, "
            f"hive_partitioning = false) WHERE {among}"
        )
        if not holding:
            return []
        source = read_parquet_sql([file for (file,) in holding])
        return [
            dict(zip(names, row, strict=True))
            for row in self._rows_of(f"SELECT {', '.join(names)} FROM {source} WHERE {among}")
        ]

    def _rows_of(self, query: str) -> list[tuple[Any, ...]]:
        try:
            rows: list[tuple[Any, ...]] = self._connection.execute(query).fetchall()
        except duckdb.Error as error:
            raise StoreError(
                "damaged", f"{self._store.location}/responses cannot be read: {first_line(error)}."
            ) from error
        return rows


def open_pool(store: Store, recipe: str, run_id: str) -> Pool:
    """The store's pool, for a run of this recipe; close it at the end."""
    return Pool(store, recipe, run_id)


def _plus(spent: Spent, rows: Iterable[Row]) -> Spent:
    tokens, cost, answers = spent
    for row in rows:
        tokens += row["prompt_tokens"] + row["n_tokens"]
        cost += row["cost"] or 0.0
        answers += row["finish_reason"] != FAILED
    return Spent(tokens, cost, answers)


_TIME = pa.timestamp("us")

USAGE = pa.schema(
    [
        ("run_id", pa.string()),
        ("recipe", pa.string()),
        ("method", pa.string()),
        ("model", pa.string()),
        ("answers", pa.int64()),
        ("failed", pa.int64()),
        ("retries", pa.int64()),
        ("prompt_tokens", pa.int64()),
        ("n_tokens", pa.int64()),
        ("cost", pa.float64()),
        ("seconds_busy", pa.float64()),
        ("first", _TIME),
        ("last", _TIME),
    ]
)
"""Table `usage`. All requests, failures and duplicate answers included: one row per run, recipe,
method and model.

Columns:
    run_id: → `runs.run_id`
    recipe: as in `responses`
    method: as in `responses`
    model: as in `responses`
    answers: requests that were answered
    failed: requests that failed for good
    retries: attempts after the first, over all requests
    prompt_tokens: tokens of the prompts
    n_tokens: tokens of the answers
    cost: sum of `responses.cost`; NULL without prices
    seconds_busy: seconds in which at least one request was open: `n_tokens / seconds_busy` is the
        rate
    first: when the first answer or failure arrived
    last: when the last one did
"""


def answers_sql(requests: str) -> str:
    """One row per digest of the query `requests`: its first answer, else its latest failure.

    Only digests that occur twice are sorted, so that long answers are never held in memory.
    """
    return f"""
WITH requests AS NOT MATERIALIZED ({requests}),
twice AS (SELECT hash(request_digest) FROM requests GROUP BY ALL HAVING count(*) > 1)
SELECT * FROM requests WHERE hash(request_digest) NOT IN (FROM twice)
UNION ALL
SELECT * FROM requests WHERE hash(request_digest) IN (FROM twice)
QUALIFY row_number() OVER (
    PARTITION BY request_digest ORDER BY finish_reason = 'failed',
    CASE WHEN finish_reason = 'failed' THEN -epoch_us(created) ELSE epoch_us(created) END
) = 1"""


def usage_sql(requests: str) -> str:
    """`USAGE` of the query `requests`: every row counts, even several of one digest."""
    keys = "run_id, recipe, method, model"
    return f"""
SELECT {keys}, count(*) FILTER (finish_reason <> 'failed') AS answers,
    count(*) FILTER (finish_reason = 'failed') AS failed,
    sum(greatest(attempts - 1, 0))::BIGINT AS retries,
    sum(prompt_tokens)::BIGINT AS prompt_tokens, sum(n_tokens)::BIGINT AS n_tokens,
    sum(cost) AS cost, sum(busy) AS seconds_busy, min(created) AS first, max(created) AS last
FROM ({_busy_sql(requests, keys)})
GROUP BY ALL"""


def rates_sql(requests: str) -> str:
    """By method of the query `requests`: answers, their tokens, and the seconds of all methods."""
    return f"""
SELECT method, count(*), sum(n_tokens)::BIGINT, sum(sum(busy)) OVER ()
FROM ({_busy_sql(f"SELECT * FROM ({requests}) WHERE finish_reason <> 'failed'", "run_id")})
GROUP BY method
ORDER BY method"""


def _busy_sql(requests: str, keys: str) -> str:
    """The rows with `busy`: a request's seconds in which no earlier one of its group was open."""
    return f"""
SELECT *, greatest(0, closed - greatest(opened, coalesce(max(closed) OVER (
    PARTITION BY {keys} ORDER BY opened, closed
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), opened))) AS busy
FROM (SELECT * EXCLUDE (raw), epoch(created) AS closed, epoch(created) - seconds AS opened
    FROM ({requests}))"""
