"""`tercet du`: what takes the room in a store, by step and by run."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tercet.flows.exports.rows import print_rows
from tercet.flows.formatting import format_bytes
from tercet.flows.terminal import text_table
from tercet.flows.terminal.printable import printable
from tercet.storage import runs
from tercet.storage.catalog.snapshot import Snapshot, read_snapshot
from tercet.storage.garbage import with_stand_ins
from tercet.storage.objects import Stat
from tercet.storage.records import paths_of
from tercet.storage.store import Store, open_store
from tercet.tasks.stage import BadInput

FORMATS = ("table", "csv", "json")
ROOM = pa.schema(
    [
        ("kind", pa.string()),
        ("name", pa.string()),
        ("versions", pa.int64()),
        ("bytes", pa.int64()),
        ("alone", pa.int64()),
    ]
)
# What lies beside the artifacts, by the folder.
_BESIDE = {
    "responses": "answers of language models",
    "prefect": "Prefect's history and log",
    "scratch": "work in progress",
    "cache": "caches",
    "catalog.duckdb": "caches",
}


def show_room(store: str, format_: str) -> None:
    """Prints the bytes of each step, of what lies beside the artifacts, and of each run.

    Raises BadInput for an unknown format, StoreError.
    """
    if format_ not in FORMATS:
        raise BadInput(f"--format {format_!r} must be one of {', '.join(FORMATS)}.")
    opened = open_store(store, create=False)
    there = opened.stats("")
    if opened.near != opened:
        there |= opened.near.stats("")
    snapshot = read_snapshot(opened)
    rows = room(opened, snapshot, there)
    if format_ == "table":
        print(printable("\n".join(_lines(opened, snapshot, rows))))
        return
    print_rows(pa.Table.from_pylist(rows, ROOM), format_)


def room(store: Store, snapshot: Snapshot, there: Mapping[str, Stat]) -> list[dict[str, Any]]:
    """The rows of `ROOM`: steps and what lies beside them, whose bytes add up to all, then runs.

    kind: step, other or run. alone: of a step, the bytes that neither a run nor a tag uses; of a
    run, those that no other run and no tag uses.
    """
    own: dict[str, set[str]] = {}
    for path in there:
        folder, *rest = path.split("/")
        if folder == "artifacts" and len(rest) > 2 and rest[2] not in ("data", "files"):
            own.setdefault(f"{rest[0]}@{rest[1]}", set()).add(path)
    for entry in snapshot.entries:
        named = {path for record in entry.records for path in paths_of(record)}
        own.setdefault(entry.name, set()).update(p for p in named if p.startswith("artifacts/"))

    def files(artifacts: Collection[str]) -> set[str]:
        named = with_stand_ins(snapshot, artifacts)
        return set[str]().union(*(own.get(name, ()) for name in named)) & there.keys()

    used = {run["run_id"]: files(runs.used(store, run)) for run in snapshot.runs}
    tagged = files(snapshot.tags.values())
    users = Counter(path for paths in [*used.values(), tagged] for path in paths)
    steps: dict[str, list[str]] = {}
    beside: dict[str, list[str]] = {}
    for path in there:
        folder, *rest = path.split("/")
        if folder == "artifacts" and rest:
            steps.setdefault(rest[0], []).append(path)
        else:
            beside.setdefault(_BESIDE.get(folder, "records and the rest"), []).append(path)

    def row(kind: str, name: str, paths: Sequence[str], alone: int | None) -> dict[str, Any]:
        size = sum(there[path].bytes for path in paths)
        return dict(zip(ROOM.names, (kind, name, None, size, alone), strict=True))

    rows = []
    for name, paths in steps.items():
        unused = sum(there[path].bytes for path in paths if not users[path])
        versions = len({path.split("/")[2] for path in paths})
        rows.append(row("step", name, paths, unused) | {"versions": versions})
    rows += [row("other", name, paths, None) for name, paths in beside.items()]
    rows.sort(key=lambda one: (one["kind"] == "other", -one["bytes"]))
    for run in snapshot.runs:
        paths_ = used[run["run_id"]]
        alone = sum(there[path].bytes for path in paths_ if users[path] == 1)
        rows.append(row("run", run["run_id"], sorted(paths_), alone))
    return rows


def _lines(store: Store, snapshot: Snapshot, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Both tables, and what their columns mean."""
    of_steps = [row for row in rows if row["kind"] != "run"]
    total = format_bytes(sum(row["bytes"] for row in of_steps))
    cells = [
        [
            row["name"],
            row["versions"],
            format_bytes(row["bytes"]),
            format_bytes(row["alone"]) if row["alone"] else None,
        ]
        for row in of_steps
    ]
    right = [False, True, True, True]
    lines, _ = text_table.render(["step", "versions", "size", "unused"], cells, right=right)
    lines = [f"{store.location}: {total}", "", *lines]
    known = {run["run_id"]: run for run in snapshot.runs}
    cells = [
        [
            row["name"],
            known[row["name"]]["recipe_name"],
            known[row["name"]]["state"],
            format_bytes(row["bytes"]),
            format_bytes(row["alone"]),
            ", ".join(tag for tag, name in snapshot.tags.items() if name == row["name"]) or None,
        ]
        for row in rows
        if row["kind"] == "run"
    ]
    if cells:
        heads = ["run", "recipe", "state", "size", "alone", "tags"]
        right = [False, False, False, True, True, False]
        lines += ["", *text_table.render(heads, cells, text_table.terminal_width(), right)[0]]
    return [
        *lines,
        "",
        "A file that several runs share counts once by step, and in each of these runs.",
        "unused: by no run and no tag (`tercet gc`). alone: by no other run and no tag; it goes "
        "with `tercet rm RUN` and `tercet gc --delete`.",
    ]
