"""`tercet verify`: compares a store with its records, and discards what is damaged."""

import shlex
import time
from collections.abc import Iterator

import typer

from tercet.flows.formatting import format_bytes
from tercet.flows.terminal.printable import printable, waits
from tercet.storage.runs import list_runs
from tercet.storage.store import Store, open_store
from tercet.storage.verifying import Comparison, compare, discard
from tercet.tasks.stages import known_schemas

_SHOWN = 20


def verify_store(store: str, mend: bool) -> int:
    """Prints what is not as it was written, and what to do; returns the exit code.

    It is 0 if all is as it was written, or was discarded; 1 if something is damaged still.

    Raises StoreError.
    """
    opened = open_store(store, create=mend)
    began = time.monotonic()
    found = compare(opened)
    seconds = time.monotonic() - began
    typer.echo(f"{found.files:,} files, {format_bytes(found.bytes)}, compared in {seconds:.1f} s.")
    lines = list(_damaged(found))
    if not lines:
        typer.echo("All is as it was written.")
        return 0
    for line in lines[:_SHOWN]:
        typer.echo(printable(line))
    if len(lines) > _SHOWN:
        typer.echo(f"… and {len(lines) - _SHOWN:,} more")
    again = _again(opened, found)
    if found.answers:
        typer.echo(
            "Nothing makes answers again: put these files back from a copy, or delete them, and "
            "what they held is asked anew."
        )
    if not mend:
        command = shlex.join(["tercet", "verify", "--mend", "--store", store])
        typer.echo(f"To discard what is damaged: {command}")
        typer.echo(f"Then make it again: {again}")
        return 1
    discard(opened, found, known_schemas().values(), waits)
    if found.artifacts or found.others:
        typer.echo(f"Discarded. To make it again: {again}")
    return 1 if found.answers else 0


def _damaged(found: Comparison) -> Iterator[str]:
    for artifact, faults in found.artifacts.items():
        for path, fault in faults.items():
            yield f"{artifact.name}: {path} {fault}"
    for path, fault in {**found.others, **found.answers}.items():
        yield f"{path} {fault}"


def _again(store: Store, found: Comparison) -> str:
    """The recipes whose runs reached what is damaged, as commands."""
    damaged = {artifact.name for artifact in found.artifacts}
    recipes = {
        str(run["info"].get("arguments", {}).get("recipe") or run["recipe_name"])
        for run in list_runs(store)
        if any(f"{step['step']}@{step.get('version')}" in damaged for step in run["steps"])
    }
    return ", ".join(f"tercet run {shlex.quote(one)}" for one in sorted(recipes)) or "tercet run"
