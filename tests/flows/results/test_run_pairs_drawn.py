"""The document pairs and awareness pairs of a run that `tercet eval` measures anew."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from commands_store import make_artifact, make_run, small_store

from tercet.flows.results.run_pairs import read_pairs
from tercet.storage.store import Store, open_store
from tercet.tasks.evaluation.awareness import AWARENESS_PAIRS
from tercet.tasks.stage import BadInput


def document_pairs(count: int) -> pa.Table:
    ids = np.arange(1, count + 1, dtype=np.uint64)
    texts = {name: [f"{name} {i}" for i in ids] for name in ("query", "answer")}
    return pa.table({"pair_id": ids, "doc_id": ids, **texts, "split": ["test"] * count})


def awareness_pairs(count: int) -> pa.Table:
    rows = [
        dict.fromkeys(AWARENESS_PAIRS.names)
        | {"pair_id": i, "kind": "entity", "anchor": f"anchor {i}", "text": f"text {i}"}
        | {"teacher_similarity": i / count}
        for i in range(count)
    ]
    return pa.Table.from_pylist(rows, schema=AWARENESS_PAIRS)


def store_of_pairs(root: Path, **settings: Any) -> tuple[Store, str]:
    """A store whose older run has pairs of both kinds, and whose newest has reached neither."""
    store, _ = small_store(root)
    make_artifact(store, "ingest", "cccc3333", {"document_pairs": document_pairs(40)})
    make_artifact(store, "awareness", "dddd4444", {"awareness_pairs": awareness_pairs(30)})
    steps = {
        "ingest": ("cccc3333", "made", {"document_pairs": 40}),
        "awareness": ("dddd4444", "made", {"awareness_pairs": 30}),
    }
    recipe = {"name": "paired", "seed": 5, "evaluate": settings, "run": {"batch_size": 16}}
    older = make_run(store, "paired", steps, recipe)
    make_run(store, "bare", {})
    return store, older


def test_a_run_says_which_pairs_are_drawn(tmp_path: Path) -> None:
    store, run = store_of_pairs(tmp_path / "store", max_pairs=10, max_length=64)
    found = read_pairs(store.location, run, ("retrieval", "awareness"), ["test"])
    assert (found.run_id, found.seed) == (run, 5)
    assert (found.settings.max_length, found.settings.bootstrap) == (64, 2_000)
    (pairs,) = found.pairs
    assert len(pairs.ids) == 10
    assert [task.name for task in found.awareness] == ["entity", "all"]
    assert read_pairs(store.location, "paired", ["awareness"], ["dev"]).pairs == []
    assert read_pairs(store.location, run, ["retrieval"], ["test"]).awareness == []


def test_without_a_name_the_newest_run_that_has_trained_or_measured_is_taken(
    tmp_path: Path,
) -> None:
    store, _ = small_store(tmp_path / "store")
    make_artifact(store, "ingest", "cccc3333", {"document_pairs": document_pairs(40)})
    steps = {"ingest": ("cccc3333", "made", {"document_pairs": 40}), "evaluate": ("e", "made", {})}
    run = make_run(store, "paired", steps)
    make_run(store, "stopped", {})
    assert read_pairs(store.location, None, ["retrieval"], ["test"]).run_id == run
    # Its encoder is what `train` names from now on: other pairs might be among those it saw.
    make_artifact(store, "ingest", "dddd4444", {"document_pairs": document_pairs(40)})
    steps = {"ingest": ("dddd4444", "made", {"document_pairs": 40}), "train": ("t", "made", {})}
    trained = make_run(store, "trained", steps)
    assert read_pairs(store.location, None, ["retrieval"], ["test"]).run_id == trained


def test_what_a_run_lacks_is_refused(tmp_path: Path) -> None:
    store, run = store_of_pairs(tmp_path / "store")
    empty = {"awareness_pairs": AWARENESS_PAIRS.empty_table()}
    make_artifact(open_store(str(store.work)), "awareness", "eeee5555", empty)
    few = make_run(store, "few", {"awareness": ("eeee5555", "made", {})})
    newest = make_run(store, "newest", {"train": ("tttt", "made", {})})
    for ref, tasks, splits, words in (
        (newest, ["retrieval"], ["test"], "no document pairs in split test"),
        (run, ["retrieval"], ["dev", "test"], "in split dev"),
        (newest, ["awareness"], ["test"], "has not made awareness pairs"),
        (few, ["awareness"], ["test"], "too few entities"),
    ):
        with pytest.raises(BadInput, match=words):
            read_pairs(store.location, ref, tasks, splits)
