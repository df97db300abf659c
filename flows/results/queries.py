"""A connection to the tables of a store's runs."""

import duckdb

from tercet.storage.catalog import views
from tercet.storage.store import Store
from tercet.tasks.stages import known_schemas


def connect(store: Store, run_ref: str | None) -> duckdb.DuckDBPyConnection:
    """The tables of all stages; those that no run has reached are empty."""
    return views.connect(store, run_ref, known_schemas=known_schemas())
