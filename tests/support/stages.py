"""One call of a stage's function: tables in, tables out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tercet.storage.rows import Rows, rows_of
from tercet.tasks.stage import REJECTS, Resources, Stage, Work


def stored(folder: Path, **tables: pa.Table) -> dict[str, Rows]:
    """Each table in a file, as the slot of its name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
    return {name: rows_of({name: [folder / f"{name}.parquet"]}) for name in tables}


def emitted(*call: Any, **more: Any) -> dict[str, pa.Table]:
    """The tables that the stage emits, and its rejects. The arguments are those of `ran`."""
    return ran(*call, **more)[1]


def ran(
    stage: Stage,
    config: Any,
    inputs: Mapping[str, Rows],
    scratch: Path,
    models: Mapping[str, Path] | None = None,
    seed: int = 3,
    resources: Resources | None = None,
) -> tuple[Any, dict[str, pa.Table]]:
    """The directory that the stage leaves, the tables that it emits, and its rejects."""
    tables: dict[str, list[pa.Table]] = {}
    scratch.mkdir(parents=True, exist_ok=True)
    path = stage.run(
        Work(
            config,
            seed,
            inputs,
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
