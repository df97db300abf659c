"""Rows of the table `evaluations` in a catalog of nothing else."""

from typing import Any

import duckdb
import pyarrow as pa
from known_tables import known_tables

from tercet.tasks.evaluation.evaluation_rows import EVALUATIONS


def stored(rows: list[dict[str, Any]]) -> duckdb.DuckDBPyConnection:
    blank = dict.fromkeys(EVALUATIONS.names)
    connection = known_tables()
    table = pa.Table.from_pylist([blank | row for row in rows], EVALUATIONS)
    connection.register("evaluations", table)
    return connection
