"""The written runs, open_runs as a report reads them."""

from collections.abc import Iterator

import pytest
from report_store import Written

from tercet.flows.results.subject import Subject, open_runs
from tercet.storage.store import open_store


@pytest.fixture
def whole(written: Written) -> Iterator[tuple[Subject, ...]]:
    with open_runs(open_store(str(written.store), create=False), [written.whole]) as subjects:
        yield subjects


@pytest.fixture
def both(written: Written) -> Iterator[tuple[Subject, ...]]:
    store = open_store(str(written.store), create=False)
    with open_runs(store, [written.whole, written.seeds]) as subjects:
        yield subjects
