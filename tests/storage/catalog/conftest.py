"""A store that SQL is asked about."""

import pyarrow as pa
import pytest
from catalog_store import ONE, TWO, Schema, make, run

from tercet.storage import runs
from tercet.storage.store import Store


@pytest.fixture
def filled(store: Store) -> Store:
    """Two runs: the newer one reached `generations` (two methods) but not `triplets`."""
    rejects: Schema = [("reason", pa.string())]
    swap = make(
        store,
        "synthesise.swap",
        "5a00",
        {"generations": (ONE, {"x": [1, 2]}), "rejects": (rejects, {"reason": ["short"]})},
    )
    old = make(store, "synthesise.cut", "c000", {"generations": (ONE, {"x": [100]})})
    new = make(
        store,
        "synthesise.cut",
        "c111",
        {"generations": (TWO, {"y": ["a"], "x": [3]}), "rejects": (rejects, {"reason": ["long"]})},
    )
    select = make(
        store, "select", "ffff", {"triplets": (ONE, {"x": [7]})}, parents=("5a00", "c000")
    )
    runs.set_tag(store, "older", run(store, swap, old, select))
    run(store, swap, new)
    return store
