"""`tercet verify`: compares a store with its records, and discards what is damaged."""

import logging
import shlex
import time
from collections.abc import Iterator

import typer

from tercet.flows.commands.run import resume_command
from tercet.flows.formatting import format_bytes
from tercet.flows.running.arguments import RunArguments
from tercet.flows.terminal.printable import printable, waits
from tercet.storage.runs import list_runs, reached
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
    # Each damaged record is a line below, and needs no warning of its own.
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
    """Those that make again what is damaged: of each recipe the newest run that reached it."""
    damaged = {artifact.name for artifact in comparison.artifacts}
    commands: dict[str, str] = {}
    for run in list_runs(store):
        arguments = run["info"].get("arguments") or {"recipe": run["recipe_name"]}
        if not damaged.isdisjoint(reached(run)):
            overrides = tuple(arguments.get("overrides") or ())
            again = RunArguments(**{**arguments, "overrides": overrides, "store": location})
            commands.setdefault(run["recipe_name"], resume_command(again))
    return list(commands.values())
