"""One call of a stage's function: tables in, tables out."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tercet.storage.rows import Rows, rows_of
from tercet.tasks.stage import REJECTS, Resources, Stage, Work


def rows_in(folder: Path, **tables: pa.Table) -> Rows:
    """These tables in files of the folder, as a stage reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    # A folder for each call: rows of an earlier one of the same name stay.
    place = Path(tempfile.mkdtemp(dir=folder))
    for name, table in tables.items():
        pq.write_table(table, place / f"{name}.parquet")
    return rows_of({name: [place / f"{name}.parquet"] for name in tables})


def stored(folder: Path, **tables: pa.Table) -> dict[str, Rows]:
    """Each table in a file, as the slot of its name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
    return {name: rows_of({name: [folder / f"{name}.parquet"]}) for name in tables}


def work_of(config: Any, inputs: Mapping[str, Rows], scratch: Path, **more: Any) -> Work:
    """What one call sees, whose rows go nowhere unless `emit` is given."""
    given = {"seed": 3, "models": {}, "spec": {}, "resources": Resources()}
    given |= {"emit": lambda name, table: None, **more}
    return Work(config=config, inputs=inputs, scratch=scratch, **given)


def emitted(*call: Any, **more: Any) -> dict[str, pa.Table]:
    """The tables that the stage emits, and its rejects. The arguments are those of `ran`."""
    return ran(*call, **more)[1]


def ran(
    stage: Stage,
    config: Any,
    inputs: Mapping[str, Rows | pa.Table],
    scratch: Path,
    models: Mapping[str, Path] | None = None,
    seed: int = 3,
    resources: Resources | None = None,
) -> tuple[Any, dict[str, pa.Table]]:
    """The directory that the stage leaves, the tables that it emits, and its rejects.

    inputs: a slot's rows, or the one table of a slot of that table's name.
    """
    tables: dict[str, list[pa.Table]] = {}
    scratch.mkdir(parents=True, exist_ok=True)
    slots = {
        name: given if isinstance(given, Rows) else rows_in(scratch, **{name: given})
        for name, given in inputs.items()
    }
    path = stage.run(
        Work(
            config,
            seed,
            slots,
            models or {},
            {},
            resources or Resources(),
            scratch,
            lambda name, table: tables.setdefault(name, []).append(table),
            stage.name,
        )
    )
    return path, {
        name: pa.concat_tables(
            [*(t.cast(schema) for t in tables.get(name, [])), schema.empty_table()]
        )
        for name, schema in {**stage.tables, "rejects": REJECTS}.items()
    }
