"""The pool: every answer that the store ever got from a language model, by its request's digest.

Nothing in it is changed or removed. An answer is in a journal before `Pool.add` returns, and in a
Parquet file once the journal is full or its process has ended (`tercet.storage.answers.journal`).
"""

import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from tercet.storage.answers.journal import (
    FAILED,
    SEAL_SECONDS,
    Journal,
    Row,
    Tail,
    checked,
    contents,
    journal_names,
    seal_left,
    sealed_names,
    sealed_paths,
)
from tercet.storage.rows import quoted, read_parquet_sql
from tercet.storage.store import Store, StoreError

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
        # Look-ups work even if the disk is full or read-only: journals can be read unsealed.
        with suppress(StoreError):
            seal_left(store)
        self._connection = duckdb.connect()
        for setting in (f"memory_limit = '{MEMORY_LIMIT}'", "threads = 1", "temp_directory = ''"):
            self._connection.execute(f"SET {setting}")
        self._look_around(())

    def __enter__(self) -> "Pool":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def find(self, digests: Sequence[str]) -> dict[str, Response]:
        """The answers to those of the digests that have one; failed requests have none.

        Each call scans all of the pool's digests (2,000,000: about 0.3 seconds), so look up
        thousands at once. If a digest has several answers, the earliest is returned. Answers that
        other processes are adding are found too.
        """
        wanted = set(digests)
        if not wanted:
            return {}
        with self._writing:
            rows = [] if self._own is None else self._own[1].rows(wanted)
        with self._reading:
            rows += self._look_around(wanted)
            rows += self._sealed_rows(wanted)
        rows.sort(key=lambda row: row["created"], reverse=True)
        return {
            row["request_digest"]: Response(*(row[name] for name in Response._fields))
            for row in rows
        }

    def add(self, row: Mapping[str, Any]) -> None:
        """Keeps an answer, or a request that failed for good (`finish_reason` ``failed``).

        Args:
            row: The columns of `RESPONSES` except recipe and run_id, which the pool adds; `cost`
                and `error` may be missing, `created` is now.

        Once it returns, a kill cannot lose the row. Raises ValueError for an invalid row.
        It works even after `close`: the next process then seals the row.
        """
        known = {"recipe": self._recipe, "run_id": self._run_id, "created": datetime.now(UTC)}
        whole = checked({**known, **row})
        with self._writing:
            journal, tail = self._own or self._begin()
            start, length = journal.append(whole)
            tail.note(whole, start, length)
            self._spent_here = _plus(self._spent_here, [whole])
            if journal.full():
                self._seal(journal, tail)

    def spent(self) -> Spent:
        """The recipe's usage in this store, over all runs.

        This pool's own additions count at once, those of other processes after the next `find`.
        """
        parts = (self._spent_before, self._spent_here, *self._spent_beside.copy().values())
        return Spent(*(sum(values) for values in zip(*parts, strict=True)))

    def rates(self, model: str) -> Rates | None:
        """How fast the model has answered in this store, for any run; None if it never has."""
        files, unsealed = contents(self._store)
        with self._reading:
            self._connection.register("unsealed", unsealed)
            sources = ["FROM unsealed", *([f"FROM {read_parquet_sql(files)}"] if files else [])]
            asked = f"FROM ({' UNION ALL BY NAME '.join(sources)}) WHERE model = {quoted(model)}"
            found = self._rows_of(rates_sql(asked))
            self._connection.unregister("unsealed")
        if not found:
            return None
        seconds = found[0][3]
        tokens = sum(tokens for _, _, tokens, _ in found)
        return Rates(
            tokens / seconds if seconds else None,
            {method: tokens / answers for method, answers, tokens, _ in found},
            sum(answers for _, answers, _, _ in found),
        )

    def close(self) -> None:
        """Seals what was added. If the disk is full, the journal stays."""
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
            # Otherwise an error's frames would keep it alive until exit, with complaints.
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
            self._wind()
        return self._own

    def _wind(self) -> None:
        """Seals the journal in a while, however few answers come: it waits on this machine only."""
        self._clock = threading.Timer(SEAL_SECONDS, self._seal_in_time)
        self._clock.daemon = True
        self._clock.start()

    def _seal_in_time(self) -> None:
        with self._writing:
            if self._own is not None:
                try:
                    self._seal(*self._own)
                except StoreError:
                    self._wind()

    def _seal(self, journal: Journal, tail: Tail) -> None:
        journal.seal()
        tail.close()
        self._own = None
        self._clock.cancel()

    def _look_around(self, wanted: Iterable[str]) -> list[Row]:
        """Reads the news in other processes' journals, then lists the sealed files.

        Returns the journals' answers to the digests. In this order, a journal that is sealed in
        between has either been read or is among the files.
        """
        digests = set(wanted)
        rows = []
        for name in journal_names(self._store):
            if name in self._mine or name in self._sealed:
                continue
            if name not in self._others:
                with suppress(FileNotFoundError):
                    self._others[name] = Tail(self._store, name)
            if name in self._others:
                tail = self._others[name]
                said = [row for row in tail.advance() if row["recipe"] == self._recipe]
                before = self._spent_beside.get(name, Spent())
                self._spent_beside[name] = _plus(before, said)
                rows += tail.rows(digests)
        fresh = [name for name in sealed_names(self._store) if name not in self._sealed]
        self._count([name for name in fresh if name not in self._mine])
        self._sealed.update(dict.fromkeys(fresh))
        for name in [name for name in self._others if name in self._sealed]:
            self._others.pop(name).close()
        return rows

    def _count(self, names: list[str]) -> None:
        """Adds the usage in other processes' sealed files, replacing that of their journals."""
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

    def _sealed_rows(self, wanted: set[str]) -> list[Row]:
        """The answers in sealed files: digests are read first, then only the matching rows."""
        if not self._sealed:
            return []
        among = "finish_reason <> 'failed' AND request_digest IN (FROM wanted)"
        names = ("request_digest", "created", *Response._fields)
        self._connection.register("wanted", pa.table({"digest": pa.array(sorted(wanted))}))
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
            said = str(error).strip().splitlines()[0].rstrip(".")
            raise StoreError(f"{self._store.location}/responses cannot be read: {said}.") from error
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


def answers_sql(asked: str) -> str:
    """One row per digest of the query `asked`: its first answer or else its latest failure.

    Only digests that occur twice are sorted, so that long answers are never held in memory.
    """
    return f"""
WITH asked AS NOT MATERIALIZED ({asked}),
twice AS (SELECT hash(request_digest) FROM asked GROUP BY ALL HAVING count(*) > 1)
SELECT * FROM asked WHERE hash(request_digest) NOT IN (FROM twice)
UNION ALL
SELECT * FROM asked WHERE hash(request_digest) IN (FROM twice)
QUALIFY row_number() OVER (
    PARTITION BY request_digest ORDER BY finish_reason = 'failed',
    CASE WHEN finish_reason = 'failed' THEN -epoch_us(created) ELSE epoch_us(created) END
) = 1"""


def usage_sql(asked: str) -> str:
    """`USAGE` of the query `asked`: every row counts, even several of one digest."""
    keys = "run_id, recipe, method, model"
    return f"""
SELECT {keys}, count(*) FILTER (finish_reason <> 'failed') AS answers,
    count(*) FILTER (finish_reason = 'failed') AS failed,
    sum(greatest(attempts - 1, 0))::BIGINT AS retries,
    sum(prompt_tokens)::BIGINT AS prompt_tokens, sum(n_tokens)::BIGINT AS n_tokens,
    sum(cost) AS cost, sum(busy) AS seconds_busy, min(created) AS first, max(created) AS last
FROM ({_busy_sql(asked, keys)})
GROUP BY ALL"""


def rates_sql(asked: str) -> str:
    """By method of the query `asked`: answers, their tokens, and the seconds of all methods."""
    return f"""
SELECT method, count(*), sum(n_tokens)::BIGINT, sum(sum(busy)) OVER ()
FROM ({_busy_sql(f"SELECT * FROM ({asked}) WHERE finish_reason <> 'failed'", "run_id")})
GROUP BY method
ORDER BY method"""


def _busy_sql(asked: str, keys: str) -> str:
    """The rows with `busy`: a request's seconds in which no earlier one of its group was open."""
    return f"""
SELECT *, greatest(0, closed - greatest(opened, coalesce(max(closed) OVER (
    PARTITION BY {keys} ORDER BY opened, closed
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), opened))) AS busy
FROM (SELECT * EXCLUDE (raw), epoch(created) AS closed, epoch(created) - seconds AS opened
    FROM ({asked}))"""
