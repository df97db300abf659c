"""One call of a stage's function: tables in, tables out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from tercet.storage.rows import Rows
from tercet.tasks.stage import REJECTS, Resources, Stage, Work


def emitted(
    stage: Stage,
    config: Any,
    inputs: Mapping[str, Rows],
    scratch: Path,
    models: Mapping[str, Path] | None = None,
    seed: int = 3,
) -> dict[str, pa.Table]:
    """The tables that it emits, and its rejects."""
    tables: dict[str, list[pa.Table]] = {}
    stage.run(
        Work(
            config,
            seed,
            inputs,
            models or {},
            {},
            Resources(),
            scratch,
            lambda name, table: tables.setdefault(name, []).append(table),
        )
    )
    return {
        name: pa.concat_tables(
            [*(t.cast(schema) for t in tables.get(name, [])), schema.empty_table()]
        )
        for name, schema in {**stage.tables, "rejects": REJECTS}.items()
    }
