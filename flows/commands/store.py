"""`tercet rm`, `copy`, `gc`, `verify` and `du`: what keeps a store whole and small."""

import logging
import shlex
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import typer

from tercet.flows.commands.run import resume_command
from tercet.flows.exports.writing import print_rows
from tercet.flows.formatting import format_bytes, printable, waits
from tercet.flows.running.arguments import RunArguments
from tercet.flows.terminal import text_table
from tercet.storage import copying, runs
from tercet.storage.catalog import views as catalog
from tercet.storage.catalog.snapshot import Snapshot, read_snapshot
from tercet.storage.garbage import Garbage, collect, with_stand_ins
from tercet.storage.objects import Stat
from tercet.storage.records import paths_of
from tercet.storage.runs import list_runs, reached
from tercet.storage.store import Store, open_store
from tercet.storage.verifying import Comparison, compare, discard
from tercet.tasks.stage import BadInput
from tercet.tasks.stages import known_schemas


def remove_runs(refs: Sequence[str], store: str) -> None:
    """Removes the records of these runs; the next `tercet gc` deletes what only they used.

    refs: ids of runs, or beginnings of ids; no names of recipes, whose newest run changes. Raises
    BadInput for any other name, StoreError for a run that goes on or has a tag.
    """
    opened = open_store(store, create=False)
    for ref in refs:
        run_id = runs.resolve_run(opened, ref)["run_id"]
        if not run_id.startswith(ref):
            raise BadInput(
                "bad_value",
                f"{ref!r} is a name for run {run_id}: to remove it, name it by its id, tercet rm "
                f"{run_id}.",
            )
        runs.remove_run(opened, run_id, waits)
        typer.echo(f"Run {run_id} is removed.")
    typer.echo("To see what no other run uses, and to delete it: tercet gc")


def copy_store(source: str, target: str) -> None:
    """Copies all objects that the target lacks. Raises StoreError."""
    opened = open_store(source, create=False)
    copied = copying.copy(opened, open_store(target))
    if copied:
        size = format_bytes(sum(copied.values()))
        typer.echo(f"Copied to {target}: {len(copied):,} objects, {size}.")
    else:
        typer.echo(f"{target} has all of it already.")


_NAMED_RUNS = 5
_BESIDE = {"scratch": "(scratch)", "cache": "(search indexes, copies)"}


def collect_garbage(store: str, keep: int | None, delete: bool) -> None:
    """Prints by step what can be deleted, and deletes it if `delete`. Raises StoreError.

    keep: how many finished runs of each recipe count, by default all.
    """
    opened = open_store(store, create=False)
    garbage = collect(opened, keep, delete, waits)
    size = sum(garbage.objects.values()) + sum(garbage.near.values())
    if size:
        rows = list(_rows(garbage))
        lines, _ = text_table.render(["step", "versions", "size"], rows, right=[False, True, True])
        typer.echo("\n".join([*lines, ""]))
    for line in _said(garbage, size, store, keep, delete):
        typer.echo(line)
    if delete and size and (opened.work / catalog.CATALOG).exists():
        from tercet.tasks.stages import known_schemas

        catalog.write_catalog(opened, known_schemas())


def _rows(garbage: Garbage) -> Iterator[tuple[str, int | None, str]]:
    """(step or folder, number of versions, bytes) of what is deleted, the largest first."""
    versions: dict[str, set[str]] = {}
    sizes: Counter[str] = Counter()
    for path, size in [*garbage.objects.items(), *garbage.near.items()]:
        folder, *rest = path.split("/")
        name = rest[0] if folder == "artifacts" else _BESIDE.get(folder, "(records)")
        if folder == "artifacts":
            versions.setdefault(name, set()).add(rest[1])
        sizes[name] += size
    for name, size in sizes.most_common():
        yield name, len(versions.get(name, ())) or None, format_bytes(size)


def _said(garbage: Garbage, size: int, store: str, keep: int | None, delete: bool) -> Iterator[str]:
    if garbage.lost:
        names = [run["run_id"] for run in garbage.lost]
        more = f" and {len(names) - _NAMED_RUNS:,} more" if len(names) > _NAMED_RUNS else ""
        yield f"No longer whole without it: {', '.join(names[:_NAMED_RUNS])}{more}."
    if delete:
        yield f"Deleted: {format_bytes(size)}." if size else "There is nothing to delete."
    elif size:
        words = ["tercet", "gc", *([] if keep is None else ["--keep", str(keep)]), "--delete"]
        yield f"{format_bytes(size)} can go. To delete it: {shlex.join([*words, '--store', store])}"
    else:
        yield "There is nothing to delete."
    if garbage.waiting:
        yield f"{format_bytes(garbage.waiting)} more are younger than a day, or in use: they stay."
    if not size and keep is None and garbage.kept:
        yield (
            f"What {len(garbage.kept):,} runs and the tags use stays: `tercet rm RUN` removes a "
            "run, `tercet gc --keep N` looks at the last N of each recipe alone."
        )


_SHOWN = 20


def verify_store(store: str, mend: bool) -> int:
    """Prints which files are not as they were written, and what to do; returns the exit code.

    The code is 0 if nothing was damaged or all damage was discarded, 1 if damage remains.

    Raises StoreError.
    """
    opened = open_store(store, create=mend)
    # No warnings: each damaged record is printed as a line below.
    logging.getLogger("tercet").setLevel(logging.ERROR)
    began = time.monotonic()
    comparison = compare(opened)
    seconds = time.monotonic() - began
    size = format_bytes(comparison.bytes)
    typer.echo(f"{comparison.files:,} files, {size}, compared in {seconds:.1f} s.")
    lines = list(_damaged(comparison))
    if not lines:
        typer.echo("All is as it was written.")
        return 0
    for line in lines[:_SHOWN]:
        typer.echo(printable(line))
    if len(lines) > _SHOWN:
        typer.echo(f"… and {len(lines) - _SHOWN:,} more")
    if comparison.answers:
        typer.echo(
            "Nothing makes answers again: put these files back from a copy, or delete them, and "
            "what they held is asked anew."
        )
    commands = _commands(opened, comparison, store)
    if not mend:
        if comparison.artifacts or comparison.others:
            command = shlex.join(["tercet", "verify", "--mend", "--store", store])
            typer.echo(f"To discard what is damaged: {command}")
        for command in commands:
            typer.echo(f"Then make it again: {command}")
        return 1
    stays = discard(opened, comparison, known_schemas().values(), waits)
    for name, reason in stays.items():
        typer.echo(printable(f"{name} stays: {reason}"))
    if len(stays) < len(comparison.artifacts) + len(comparison.others):
        typer.echo("The rest is discarded." if stays else "Discarded.")
    for command in commands:
        typer.echo(f"To make it again: {command}")
    return 1 if comparison.answers or stays else 0


def _damaged(comparison: Comparison) -> Iterator[str]:
    for artifact, faults in comparison.artifacts.items():
        for path, fault in faults.items():
            yield f"{artifact.name}: {path} {fault}"
    for path, fault in {**comparison.others, **comparison.answers}.items():
        yield f"{path} {fault}"


def _commands(store: Store, comparison: Comparison, location: str) -> list[str]:
    """Commands that repair: for each recipe, its newest run that reached a damaged artifact."""
    damaged = {artifact.name for artifact in comparison.artifacts}
    commands: dict[str, str] = {}
    for run in list_runs(store):
        arguments = run["info"].get("arguments") or {"recipe": run["recipe_name"]}
        if not damaged.isdisjoint(reached(run)):
            overrides = tuple(arguments.get("overrides") or ())
            again = RunArguments(**{**arguments, "overrides": overrides, "store": location})
            commands.setdefault(run["recipe_name"], resume_command(again))
    return list(commands.values())


ROOM = pa.schema(
    [
        ("kind", pa.string()),
        ("name", pa.string()),
        ("versions", pa.int64()),
        ("bytes", pa.int64()),
        ("alone", pa.int64()),
    ]
)
# Names of the folders beside the artifacts.
_BESIDE_ROOM = {
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
    opened = open_store(store, create=False)
    objects = opened.stats("")
    if opened.near != opened:
        objects |= opened.near.stats("")
    snapshot = read_snapshot(opened)
    rows = room(opened, snapshot, objects)
    if format_ == "table":
        print(printable("\n".join(_lines(opened, snapshot, rows))))
        return
    print_rows(pa.Table.from_pylist(rows, ROOM), format_)


def room(store: Store, snapshot: Snapshot, objects: Mapping[str, Stat]) -> list[dict[str, Any]]:
    """The rows of `ROOM`: steps and other folders, whose bytes add up to the store's, then runs.

    kind: step, other or run. alone: for a step, the bytes that neither a run nor a tag uses; for a
    run, the bytes that no other run and no tag uses.
    """
    of_artifact: dict[str, set[str]] = {}
    for path in objects:
        folder, *rest = path.split("/")
        if folder == "artifacts" and len(rest) > 2 and rest[2] not in ("data", "files"):
            of_artifact.setdefault(f"{rest[0]}@{rest[1]}", set()).add(path)
    for entry in snapshot.entries:
        named = {path for record in entry.records for path in paths_of(record)}
        of_artifact.setdefault(entry.name, set()).update(
            p for p in named if p.startswith("artifacts/")
        )

    def files(artifacts: Collection[str]) -> set[str]:
        named = with_stand_ins(snapshot, artifacts)
        return set[str]().union(*(of_artifact.get(name, ()) for name in named)) & objects.keys()

    used = {run["run_id"]: files(runs.used(store, run)) for run in snapshot.runs}
    tagged = files(snapshot.tags.values())
    users = Counter(path for paths in [*used.values(), tagged] for path in paths)
    steps: dict[str, list[str]] = {}
    beside: dict[str, list[str]] = {}
    for path in objects:
        folder, *rest = path.split("/")
        if folder == "artifacts" and rest:
            steps.setdefault(rest[0], []).append(path)
        else:
            beside.setdefault(_BESIDE_ROOM.get(folder, "records and the rest"), []).append(path)

    def row(kind: str, name: str, paths: Sequence[str], alone: int | None) -> dict[str, Any]:
        size = sum(objects[path].bytes for path in paths)
        return dict(zip(ROOM.names, (kind, name, None, size, alone), strict=True))

    rows = []
    for name, paths in steps.items():
        unused = sum(objects[path].bytes for path in paths if not users[path])
        versions = len({path.split("/")[2] for path in paths})
        rows.append(row("step", name, paths, unused) | {"versions": versions})
    rows += [row("other", name, paths, None) for name, paths in beside.items()]
    rows.sort(key=lambda one: (one["kind"] == "other", -one["bytes"]))
    for run in snapshot.runs:
        paths_ = used[run["run_id"]]
        alone = sum(objects[path].bytes for path in paths_ if users[path] == 1)
        rows.append(row("run", run["run_id"], sorted(paths_), alone))
    return rows


def _lines(store: Store, snapshot: Snapshot, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines of both tables, and of what their columns mean."""
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
    by_id = {run["run_id"]: run for run in snapshot.runs}
    cells = [
        [
            row["name"],
            by_id[row["name"]]["recipe_name"],
            by_id[row["name"]]["state"],
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
