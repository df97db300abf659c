"""`tercet copy`: all of a store into another, such as from a directory into a bucket."""

import typer

from tercet.flows.formatting import format_bytes
from tercet.storage import copying
from tercet.storage.store import open_store


def copy_store(source: str, target: str) -> None:
    """Copies what the target lacks. Raises StoreError."""
    found = open_store(source, create=False)
    copied = copying.copy(found, open_store(target))
    if copied:
        size = format_bytes(sum(copied.values()))
        typer.echo(f"Copied to {target}: {len(copied):,} objects, {size}.")
    else:
        typer.echo(f"{target} has all of it already.")
