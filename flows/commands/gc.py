"""`tercet gc`: lists what no run and no tag uses any more, or deletes it."""

import shlex
from collections import Counter
from collections.abc import Iterator

import typer

from tercet.flows.formatting import format_bytes
from tercet.flows.terminal import text_table
from tercet.flows.terminal.printable import waits
from tercet.storage.catalog import views as catalog
from tercet.storage.garbage import Garbage, collect
from tercet.storage.store import open_store

_NAMED_RUNS = 5
_BESIDE = {"scratch": "(scratch)", "cache": "(search indexes)"}


def collect_garbage(store: str, keep: int | None, delete: bool) -> None:
    """Prints by step what can go, and deletes it if asked to. Raises StoreError.

    keep: so many of the runs of each recipe that were done count, by default all.
    """
    opened = open_store(store, create=False)
    found = collect(opened, keep, delete, waits)
    size = sum(found.objects.values()) + sum(found.near.values())
    if size:
        rows = list(_rows(found))
        lines, _ = text_table.render(["step", "versions", "size"], rows, right=[False, True, True])
        typer.echo("\n".join([*lines, ""]))
    for line in _said(found, size, store, keep, delete):
        typer.echo(line)
    if delete and size and (opened.work / catalog.CATALOG).exists():
        from tercet.tasks.stages import known_schemas

        catalog.write_catalog(opened, known_schemas())


def _rows(found: Garbage) -> Iterator[tuple[str, int | None, str]]:
    """What goes of each step, and what else, the largest first."""
    versions: dict[str, set[str]] = {}
    sizes: Counter[str] = Counter()
    for path, size in [*found.objects.items(), *found.near.items()]:
        folder, *rest = path.split("/")
        name = rest[0] if folder == "artifacts" else _BESIDE.get(folder, "(records)")
        if folder == "artifacts":
            versions.setdefault(name, set()).add(rest[1])
        sizes[name] += size
    for name, size in sizes.most_common():
        yield name, len(versions.get(name, ())) or None, format_bytes(size)


def _said(found: Garbage, size: int, store: str, keep: int | None, delete: bool) -> Iterator[str]:
    if found.lost:
        names = [run["run_id"] for run in found.lost]
        more = f" and {len(names) - _NAMED_RUNS:,} more" if len(names) > _NAMED_RUNS else ""
        yield f"No longer whole without it: {', '.join(names[:_NAMED_RUNS])}{more}."
    if delete:
        yield f"Deleted: {format_bytes(size)}." if size else "There is nothing to delete."
    elif size:
        words = ["tercet", "gc", *([] if keep is None else ["--keep", str(keep)]), "--delete"]
        yield f"{format_bytes(size)} can go. To delete it: {shlex.join([*words, '--store', store])}"
    else:
        yield "There is nothing to delete."
    if found.waiting:
        yield f"{format_bytes(found.waiting)} more are younger than a day, or in use: they stay."
    if not size and keep is None and found.kept:
        yield (
            f"What {len(found.kept):,} runs and the tags use stays: `tercet rm RUN` removes a run, "
            "`tercet gc --keep N` looks at the last N of each recipe alone."
        )
