"""Garbage is collected all the while as runs start, reuse and make: nothing that they use goes.

`benchmarks/gc_beside_runs.py` is the long form.
"""

import threading
from pathlib import Path

import pytest
from marked_files import marked
from tiny_run import (
    DOCUMENTS,
    Finished,
    copy_of,
    documents,
    ended_well,
    query,
    tercet,
    write_corpus,
)

from tercet.storage import garbage
from tercet.storage.garbage import collect
from tercet.storage.runs import list_runs, remove_run
from tercet.storage.store import open_store


def test_runs_beside_a_collection_find_or_make_all_that_they_use(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage, "YOUNG_SECONDS", 0.0)
    store = open_store(str(copy_of(finished.store, tmp_path / "store")))
    words = finished.tiny.words(Path(store.location), "--until", "triplets")
    freed = []
    stop = threading.Event()

    def collecting() -> None:
        while not stop.wait(0.02):
            freed.append(sum(collect(store, 1, delete=True).objects.values()))

    beside = threading.Thread(target=collecting)
    # Without figures: vectors that were found differ in the last digit from those made anew.
    asked = "SELECT triplet_id, anchor, positive, negative FROM triplets ORDER BY ALL"
    expected = query(finished.store, asked)
    try:
        # A run of more documents, which finds most of its parts in the first one.
        write_corpus(finished.tiny.corpus, documents(DOCUMENTS + 20))
        ended_well(tercet(*words))
        remove_run(store, list_runs(store)[-1]["run_id"])
        write_corpus(finished.tiny.corpus, documents(DOCUMENTS))
        # Now the first one's artifacts go, while they are wanted again.
        beside.start()
        ended_well(tercet(*words))
    finally:
        stop.set()
        beside.join()
        write_corpus(finished.tiny.corpus, documents(DOCUMENTS))
    collect(store, 1, delete=True)
    assert sum(map(bool, freed)) >= 1
    assert query(Path(store.location), asked) == expected
    assert store.sizes("artifacts") == marked(store)
    assert collect(store, 1).objects == {}
