"""A connection to what a store's runs have made."""

import duckdb

from tercet.storage.catalog import views
from tercet.storage.store import Store
from tercet.tasks.stages import known_schemas


def connect(store: Store, run_ref: str | None) -> duckdb.DuckDBPyConnection:
    """The store's tables, those of all stages at once, with no rows where no run reached them."""
    return views.connect(store, run_ref, known_schemas=known_schemas())
