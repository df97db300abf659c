"""`tercet rm`: removes runs from a store."""

from collections.abc import Sequence

import typer

from tercet.flows.terminal.printable import waits
from tercet.storage import runs
from tercet.storage.store import open_store
from tercet.tasks.stage import BadInput


def remove_runs(refs: Sequence[str], store: str) -> None:
    """Removes the records of these runs; what they alone used goes with the next `tercet gc`.

    refs: ids of runs, or their beginnings; nothing else, as the newest run of a recipe is another
    one tomorrow. Raises BadInput for another name, StoreError for a run that goes on or has a tag.
    """
    opened = open_store(store, create=False)
    for ref in refs:
        run_id = runs.resolve_run(opened, ref)["run_id"]
        if not run_id.startswith(ref):
            raise BadInput(
                f"{ref!r} is a name for run {run_id}: to remove it, name it by its id, tercet rm "
                f"{run_id}."
            )
        runs.remove_run(opened, run_id, waits)
        typer.echo(f"Run {run_id} is removed.")
    typer.echo("To see what no other run uses, and to delete it: tercet gc")
