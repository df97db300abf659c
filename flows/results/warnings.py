"""The table `warnings` as the summary, the report and the cards show it."""

from typing import Any

import duckdb

from tercet.flows.results.queries import fetch_dicts
from tercet.tasks.warning import sentence

Row = dict[str, Any]


def read_warnings(connection: duckdb.DuckDBPyConnection) -> list[Row]:
    """The warnings of the connection's run, in the order of its steps."""
    return fetch_dicts(connection, "FROM warnings")


def list_warnings(found: list[Row]) -> list[str]:
    """For a terminal: how many there are, and a sentence for each; empty without one."""
    count = "1 warning" if len(found) == 1 else f"{len(found)} warnings"
    said = f'{count} (all of them: tercet sql "FROM warnings"):'
    return [said, *(f"  {sentence(row)}" for row in found)] if found else []
