"""Compares two runs: what makes their steps differ, and the rows that they do not share."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import duckdb

from tercet.flows.pipeline import fingerprints
from tercet.flows.results.queries import fetch_dicts, sql_fault
from tercet.storage.artifacts import open_artifact
from tercet.storage.records import Record, files_by_table
from tercet.storage.rows import quoted, quoted_name, read_parquet_sql
from tercet.storage.store import Store
from tercet.tasks.stages import described

_REMOVED = "its inputs are not known, since its artifact was removed"


@dataclass(frozen=True)
class StepDifference:
    """A step that two runs do not share.

    a, b: its version in each; None where that run has not reached it.
    why: what differs in the step itself, in the words of `tercet plan`.
    after: the steps whose rows or models it reads and that differ.
    """

    step: str
    a: str | None
    b: str | None
    why: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def compare_recipes(
    a: Mapping[str, Any], b: Mapping[str, Any]
) -> list[tuple[str, str | None, str | None]]:
    """Key, value in A and value in B of each leaf that differs; None where there is no such key."""
    one, other = dict(_leaves(a)), dict(_leaves(b))
    return [
        (key, one.get(key), other.get(key))
        for key in dict.fromkeys([*one, *other])
        if one.get(key) != other.get(key)
    ]


def compare_steps(store: Store, a: Mapping[str, Any], b: Mapping[str, Any]) -> list[StepDifference]:
    """The steps of which the runs have different versions, or only one run has any; in order.

    a, b: runs as `storage.runs` has them.
    """
    one, other = (
        {entry["step"]: str(entry["version"]) for entry in run["steps"]} for run in (a, b)
    )
    differ = [step for step in dict.fromkeys([*one, *other]) if one.get(step) != other.get(step)]
    names = {versions[step]: step for versions in (one, other) for step in differ & versions.keys()}
    return [_compare_step(store, step, one.get(step), other.get(step), names) for step in differ]


def describe_step(difference: StepDifference) -> str:
    """A line that names what differs."""
    if difference.a is None or difference.b is None:
        return f"only {'A' if difference.b is None else 'B'} has it"
    after = [f"reads {', '.join(difference.after)}"] if difference.after else []
    return "; ".join([*difference.why, *after]) or "made in another way"


def _compare_step(
    store: Store, step: str, a: str | None, b: str | None, names: Mapping[str, str]
) -> StepDifference:
    """names: the step of each version that the runs do not share."""
    if a is None or b is None:
        return StepDifference(step, a, b)
    one, other = (open_artifact(store, step, version).manifest() for version in (a, b))
    if one is None or other is None:
        return StepDifference(step, a, b, (_REMOVED,))
    read: dict[str, None] = {}
    remaining = []
    for manifest in (one, other):
        components = dict(manifest["components"])
        models = components.get("models") or {}
        versions = [*_strings(components.pop("inputs", None)), *_strings(models)]
        read |= dict.fromkeys(names[version] for version in versions if version in names)
        components["models"] = {slot: m for slot, m in models.items() if m not in names}
        remaining.append(components)
    modules = (manifest.get("modules") or {} for manifest in (one, other))
    return StepDifference(
        step, a, b, tuple(fingerprints.changes(*remaining, *modules)), tuple(read)
    )


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping | list):
        for member in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(member)
    elif value is not None:
        yield str(value)


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, member in value.items():
            yield from _leaves(member, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list) and any(isinstance(member, Mapping | list) for member in value):
        for number, member in enumerate(value):
            yield from _leaves(member, f"{place}.{number}")
    elif isinstance(value, list):
        yield place, ", ".join(str(member) for member in value) or "none"
    else:
        yield place, "null" if value is None else str(value)


# Example rows of each kind.
EXAMPLES = 2

# The step that made a row stands for the model's version, which differs in each run.
_MADE_BY = "made_by"
# Columns that do not describe a row's content.
_PASSED_OVER = {"model_version", "rows_per_second", _MADE_BY}
# Files are gone or damaged, or disk or memory is full: further tables are still compared.
_UNREADABLE = (duckdb.IOException, duckdb.InvalidInputException, duckdb.OutOfMemoryException)


@dataclass(frozen=True)
class TableDifference:
    """The rows of one table that two runs do not share.

    key: the columns that identify a row; none: rows are compared whole.
    columns: how many of the changed rows differ in each column.
    examples: a few rows of each kind; a changed one has its key, and A's and B's values.
    only: `a` or `b` if the other run has not made this table, so that nothing is compared.
    fault: why the rows could not be read.
    """

    table: str
    key: tuple[str, ...] = ()
    added: int = 0
    removed: int = 0
    changed: int = 0
    columns: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    only: str | None = None
    fault: str | None = None


def compare_rows(
    store: Store,
    connection: duckdb.DuckDBPyConnection,
    steps: Sequence[StepDifference],
    a: Mapping[str, Any],
    b: Mapping[str, Any],
) -> Iterator[TableDifference]:
    """Compares the tables of these steps, in order, including tables whose rows turn out equal.

    a, b: runs as `storage.runs` has them.

    Only files that the runs do not share are read. DuckDB spills to disk what exceeds the
    connection's memory limit.
    """
    sides: tuple[dict[str, list[str]], ...] = ({}, {})
    for step in steps:
        one, other = (_records(store, step.step, version) for version in (step.a, step.b))
        for side, files in zip(sides, _not_shared(one, other), strict=True):
            for table, paths in files.items():
                rows = read_parquet_sql(
                    [*map(str, store.each(store.local, paths))], union_by_name="true"
                )
                query = f"SELECT *, {quoted(step.step)} AS {_MADE_BY} FROM {rows}"
                side.setdefault(table, []).append(query)
    reached = [
        {table for entry in run["steps"] for table in entry.get("tables", ())} for run in (a, b)
    ]
    deleted = [_deleted(store, run, {step.step for step in steps}) for run in (a, b)]
    for table in dict.fromkeys([*sides[0], *sides[1], *deleted[0], *deleted[1]]):
        if not all(table in tables for tables in reached):
            yield TableDifference(table, only="a" if table in reached[0] else "b")
            continue
        if lost := [name for name, tables in zip("AB", deleted, strict=True) if table in tables]:
            yield TableDifference(table, fault=f"rows of {' and '.join(lost)} were deleted")
            continue
        try:
            with closing(connection.cursor()) as cursor:
                yield _compare(cursor, table, *(side.get(table, []) for side in sides))
        except _UNREADABLE as error:
            yield TableDifference(table, fault=sql_fault(error))


def _deleted(store: Store, run: Mapping[str, Any], steps: Collection[str]) -> list[str]:
    """The tables that the run reached in these steps and whose artifacts were removed."""
    reached = [entry for entry in run["steps"] if entry["step"] in steps]
    return [
        table
        for entry in reached
        if open_artifact(store, entry["step"], str(entry["version"])).manifest() is None
        for table in entry.get("tables", ())
    ]


def _records(store: Store, step: str, version: str | None) -> list[Record]:
    return [] if version is None else list(open_artifact(store, step, version).records().values())


def _not_shared(
    one: Sequence[Record], other: Sequence[Record]
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Each side's files by table, without files that the other side has too, by digest."""
    digests = [
        Counter(
            (table, file["digest"])
            for record in records
            for table, files in record["tables"].items()
            for file in files
        )
        for records in (one, other)
    ]
    shared = digests[0] & digests[1]
    files_of_sides = []
    for records in (one, other):
        left = shared.copy()
        unshared = []
        for record in records:
            tables: dict[str, list[dict[str, Any]]] = {}
            for table, files in record["tables"].items():
                for file in files:
                    if left[table, file["digest"]] > 0:
                        left[table, file["digest"]] -= 1
                    else:
                        tables.setdefault(table, []).append(file)
            unshared.append({**record, "tables": tables})
        files_of_sides.append(files_by_table(unshared))
    return files_of_sides[0], files_of_sides[1]


# Rows as digests of their values, so that vectors and texts take no memory. If a key occurs several
# times, its first row is compared with the other side's first, and so on.
_DIFFERING = """
CREATE TEMP TABLE differing AS
WITH gone AS ({one} EXCEPT ALL {other}), come AS ({other} EXCEPT ALL {one}),
before AS (SELECT k, gone AS a, row_number() OVER (PARTITION BY k ORDER BY {rest}) AS nth
    FROM gone),
after AS (SELECT k, come AS b, row_number() OVER (PARTITION BY k ORDER BY {rest}) AS nth
    FROM come)
SELECT k, a, b,
    CASE WHEN a IS NULL THEN 'added' WHEN b IS NULL THEN 'removed' ELSE 'changed' END AS kind
FROM before FULL JOIN after USING (k, nth)
"""


def _compare(
    cursor: duckdb.DuckDBPyConnection, table: str, a: Sequence[str], b: Sequence[str]
) -> TableDifference:
    """a, b: queries for each side's rows; one side may have none."""
    one, other = (" UNION ALL BY NAME ".join(queries) for queries in (a, b))
    one = one or f"SELECT * FROM ({other}) WHERE false"
    other = other or f"SELECT * FROM ({one}) WHERE false"
    first, second = (cursor.execute(f"DESCRIBE {side}").fetchall() for side in (one, other))
    other_names = {column[0] for column in second}
    # Rows of an older version lack later columns, which are therefore not compared.
    columns = [column[0] for column in first if column[0] in other_names]
    declared = described()[table].key if table in described() else []
    declared = [_MADE_BY if name == "model_version" else name for name in declared]
    declared = declared if set(declared) <= set(columns) else []
    rest = [name for name in columns if name not in {*declared, *_PASSED_OVER}]
    key = declared or rest
    digests = [f"hash({quoted_name(name)}) AS c{place}" for place, name in enumerate(rest)]
    hashed = f"hash({', '.join(map(quoted_name, key))})"
    sides = (f"SELECT {', '.join([f'{hashed} AS k', *digests])} FROM ({s})" for s in (one, other))
    order = ", ".join(f"c{place}" for place in range(len(rest))) or "k"
    cursor.execute(_DIFFERING.format(one=next(sides), other=next(sides), rest=order))
    differs = "".join(f", count(*) FILTER (a.c{p} <> b.c{p})" for p in range(len(rest)))
    counts, changed = {}, Counter[str]()
    for kind, count, *sums in cursor.execute(
        f"SELECT kind, count(*){differs} FROM differing GROUP BY kind"
    ).fetchall():
        counts[kind] = count
        changed.update({name: n for name, n in zip(rest, sums, strict=True) if n})
    shown = ", ".join(map(quoted_name, dict.fromkeys([*key, *rest])))
    examples = {}
    for kind in counts:
        # Rows are ordered by digest, so that every call shows the same examples.
        some = (
            f"(SELECT DISTINCT k FROM differing WHERE kind = '{kind}' ORDER BY k LIMIT {EXAMPLES})"
        )
        before, after = (
            fetch_dicts(
                cursor,
                f"""SELECT {shown} FROM (SELECT *, {hashed} AS k FROM ({side}))
                SEMI JOIN ({some}) USING (k) ORDER BY k LIMIT {EXAMPLES}""",
            )
            for side in (one, other)
        )
        examples[kind] = after if kind == "added" else before
        if kind == "changed":
            examples[kind] = [
                {name: old[name] for name in key}
                | {"changed": {n: [old[n], new[n]] for n in rest if old[n] != new[n]}}
                for old, new in zip(before, after, strict=False)
            ]
    return TableDifference(table, tuple(declared), **counts, columns=changed, examples=examples)
