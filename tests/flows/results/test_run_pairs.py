"""The pairs and questions of a run that `tercet eval` measures anew."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from commands_store import make_artifact, make_run, small_store
from failures import fails

from tercet.flows.results.run_pairs import own_files, read_pairs
from tercet.storage.store import Store
from tercet.tasks.corpus.passages import PASSAGES
from tercet.tasks.evaluation.awareness import AWARENESS_PAIRS
from tercet.tasks.evaluation.judgements import JUDGEMENTS


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A run with two passages, one question to the second, and a table that asks both."""
    rows = [
        dict.fromkeys(PASSAGES.names)
        | {"passage_id": place, "doc_id": place, "corpus": "c", "source": f"{name}.md"}
        | {"path": f"{name}.md:1", "context": "", "text": f"the text of {name}"}
        for place, name in enumerate("ab")
    ]
    judged = dict(zip(JUDGEMENTS.names, ("mine", 7, "b?", "test", "file", 1, 1), strict=True))
    opened, _ = small_store(tmp_path / "store")
    tables = {
        "passages": pa.Table.from_pylist(rows, PASSAGES),
        "judgements": pa.Table.from_pylist([judged], JUDGEMENTS),
    }
    for name, table in tables.items():
        make_artifact(opened, name, "cccc0000", {name: table})
    content: dict[str, Any] = {
        "name": "asked",
        "seed": 3,
        "corpora": [{"name": "c", "source": str(tmp_path / "pages"), "role": "domain"}],
        "evaluate": {"retrieval_sets": {"mine": "mine.csv", "other": "folder"}},
    }
    steps = {name: ("cccc0000", "made", {name: table.num_rows}) for name, table in tables.items()}
    make_run(opened, "asked", {**steps, "evaluate.base": ("eeee0000", "made", {})}, content)
    (tmp_path / "q.csv").write_text("question,file\nwhat of a?,a\nwhat of b?,b.md\nof c?,c.md\n")
    return opened.location


def test_the_questions_of_its_recipe(store: str) -> None:
    found = read_pairs(store, "asked", ["retrieval_sets"], ["test"])
    (task,) = found.judged
    assert (task.title, task.queries) == ("mine", ("b?",))
    assert (task.judged, task.units) == (({1: 1},), (0, 1))
    # A folder is read as ever.
    assert list(found.retrieval_sets) == ["other"]
    assert found.left_out == []


def test_a_table_asks_a_run_that_exists_already(store: str, tmp_path: Path) -> None:
    asked = own_files([f"questions:{tmp_path / 'q.csv'}"], "retrieval_sets")
    found = read_pairs(store, None, [], ["test"], asked)
    (task,) = found.judged
    assert (task.title, task.queries) == ("q", ("what of a?", "what of b?"))
    assert task.judged == ({0: 1}, {1: 1})
    (left_out,) = found.left_out
    assert "'c.md'" in left_out
    assert (found.seed, found.pairs) == (3, [])


def test_what_it_lacks_is_said(store: str, tmp_path: Path) -> None:
    asked = {"q": str(tmp_path / "q.csv")}
    with fails("not_reached", "--run"):
        read_pairs(store, "birds", [], ["test"], asked)
    with fails("not_reached", "evaluate.retrieval_sets"):
        read_pairs(store, "birds", ["retrieval_sets"], ["test"])
    with fails("missing_file", "--tasks", "FILE"):
        read_pairs(str(tmp_path / "none"), None, [], ["test"], asked)
    with fails("conflict", "'q'"):
        own_files(["questions:q.csv", "questions:x/q.csv"], "retrieval_sets")


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
    make_artifact(store, "awareness", "eeee5555", empty)
    few = make_run(store, "few", {"awareness": ("eeee5555", "made", {})})
    newest = make_run(store, "newest", {"train": ("tttt", "made", {})})
    for ref, tasks, splits, name in (
        (newest, ["retrieval"], ["test"], "test"),
        (run, ["retrieval"], ["dev", "test"], "dev"),
        (newest, ["awareness"], ["test"], "awareness"),
        (few, ["awareness"], ["test"], "awareness"),
    ):
        with fails("not_reached", ref, name):
            read_pairs(store.location, ref, tasks, splits)
