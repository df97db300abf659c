"""`tercet report`: a run, or two side by side, as one HTML file."""

from collections.abc import Sequence
from pathlib import Path

import typer

from tercet.flows.exports.whole import whole_file
from tercet.flows.report.report import render_report
from tercet.flows.report.subject import open_runs
from tercet.storage.store import open_store
from tercet.tasks.stage import BadInput


def make_report(refs: Sequence[str | None], output: str, store: str) -> None:
    """Writes the report of one run or two; by default of the newest run.

    The store is only read. Raises: UnknownRef for an unknown run, BadInput or StoreError for an
    output that cannot be written.
    """
    path = Path(output).expanduser()
    with open_runs(open_store(store, create=False), refs) as subjects:
        try:
            with whole_file(path, replaces=True) as sink:
                data = render_report(subjects).encode("utf-8", "replace")
                sink.write(data)
        except FileNotFoundError as error:
            raise BadInput(f"{path} cannot be written: name another file (-o FILE).") from error
    typer.echo(f"{path}: {len(data) / 1_000_000:.1f} MB; it opens without a network connection.")
