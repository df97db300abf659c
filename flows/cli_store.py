"""The commands of `tercet` about what lies in a store; `cli` adds them to the others."""

from typing import Annotated

import typer
from typer import Argument, Option

from tercet.flows.commands.options import STORE, RunOption, StoreOption

app = typer.Typer()


@app.command()
def sql(
    query: Annotated[str | None, Argument(help="one SELECT; opens a prompt if omitted")] = None,
    format_: Annotated[str | None, Option("--format", help="table, csv, json or parquet")] = None,
    output: Annotated[str | None, Option("-o", "--output", help="write to a file")] = None,
    store: StoreOption = STORE,
    run_ref: RunOption = None,
) -> None:
    """Query the tables of a run."""
    from tercet.flows.commands.sql import answer

    answer(query, format_, output, store, run_ref)


@app.command("ls")
def list_(store: StoreOption = STORE, run_ref: RunOption = None) -> None:
    """List runs, or the artifacts of one run."""
    from tercet.flows.commands.browse import list_store

    list_store(store, run_ref)


@app.command()
def show(
    ref: Annotated[str, Argument(help="a table, name@version, or a tag")],
    store: StoreOption = STORE,
    run_ref: RunOption = None,
) -> None:
    """Show what an artifact contains and what it was made from."""
    from tercet.flows.commands.browse import show_ref

    show_ref(ref, store, run_ref)


@app.command()
def tag(
    ref: Annotated[str, Argument(help="a run, a step, a table, or name@version")],
    name: Annotated[str, Argument(help="the new name")],
    store: StoreOption = STORE,
) -> None:
    """Name a run or an artifact version."""
    from tercet.flows.commands.browse import tag_ref

    tag_ref(ref, name, store)


@app.command()
def untag(
    names: Annotated[list[str], Argument(metavar="TAG…", help="what runs or versions are called")],
    store: StoreOption = STORE,
) -> None:
    """Remove tags."""
    from tercet.flows.commands.browse import untag as remove

    remove(names, store)


@app.command()
def du(
    format_: Annotated[str, Option("--format", help="table, csv or json")] = "table",
    store: StoreOption = STORE,
) -> None:
    """Show what takes the room in a store, by step and by run."""
    from tercet.flows.commands.du import show_room

    show_room(store, format_)


@app.command()
def rm(
    run_ids: Annotated[list[str], Argument(metavar="RUN…", help="ids, or their beginnings")],
    store: StoreOption = STORE,
) -> None:
    """Remove runs.

    What they alone used goes with the next `tercet gc --delete`.
    """
    from tercet.flows.commands.rm import remove_runs

    remove_runs(run_ids, store)


@app.command()
def copy(
    source: Annotated[str, Argument(help="a store: a directory, or s3://BUCKET/PREFIX")],
    target: Annotated[str, Argument(help="another, which may be new")],
) -> None:
    """Copy all of a store into a directory or a bucket."""
    from tercet.flows.commands.copy import copy_store

    copy_store(source, target)


@app.command()
def verify(
    mend: Annotated[
        bool, Option("--mend", help="discard what is damaged: the next run makes it again")
    ] = False,
    store: StoreOption = STORE,
) -> None:
    """Compare a store's files with their records.

    Exit code 1 if something is damaged.
    """
    from tercet.flows.commands.verify import verify_store

    raise typer.Exit(verify_store(store, mend))


@app.command()
def gc(
    keep: Annotated[
        int | None,
        Option("--keep", min=1, help="count only the last N runs of each recipe; default: all"),
    ] = None,
    delete: Annotated[bool, Option("--delete", help="delete it")] = False,
    store: StoreOption = STORE,
) -> None:
    """List what no run and no tag uses any more.

    Answers of language models stay, and what is younger than a day.
    """
    from tercet.flows.commands.gc import collect_garbage

    collect_garbage(store, keep, delete)
