"""Small artifacts and runs of a store that SQL is asked about."""

from typing import Any

import duckdb
import pyarrow as pa

from tercet.storage import runs
from tercet.storage.artifacts import Artifact, open_artifact
from tercet.storage.catalog.read_only import checked
from tercet.storage.part_writer import PartWriter
from tercet.storage.store import Store

Schema = list[tuple[str, pa.DataType]]
ONE: Schema = [("x", pa.int64())]
TWO: Schema = [("y", pa.string()), ("x", pa.int64())]


def make(
    store: Store,
    step: str,
    version: str,
    tables: dict[str, tuple[Schema, dict[str, list[Any]]]],
    done: bool = True,
    parents: tuple[str, ...] = (),
) -> Artifact:
    artifact = open_artifact(store, step, version)
    artifact.adopt_plan([{}] if done else [{}, {}])
    schemas = {name: pa.schema(schema) for name, (schema, _) in tables.items()}
    with PartWriter(artifact.scratch(), schemas, 10) as writer:
        for name, (_, rows) in tables.items():
            writer.emit(name, pa.table(rows, schema=schemas[name]))
        part = writer.close()
    artifact.commit(0, part, f"key-{version}", {})
    if done:
        inputs = {"slot": [f"other@{parent}" for parent in parents]}
        artifact.finish({"stage": step.partition(".")[0], "inputs": inputs})
    return artifact


def run(store: Store, *artifacts: Artifact) -> str:
    run_id = runs.start_run(store, "quickstart", {}, {})
    for artifact in artifacts:
        entry = {"version": artifact.version, "state": "made", "seconds": 1.0, "tables": {}}
        runs.record_step(store, run_id, artifact.step, entry)
    runs.end_run(store, run_id, "done", {})
    return run_id


def ask(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    return connection.execute(checked(connection, query)).fetchall()
