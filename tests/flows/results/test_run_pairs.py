"""Questions to a run's passages: those of its recipe, and those of a table that is named."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from commands_store import make_artifact, make_run, small_store
from failures import fails

from tercet.flows.results.run_pairs import own_files, read_pairs
from tercet.tasks.corpus.passages import PASSAGES
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
    assert (task.title, task.queries, task.judged, task.units) == (
        "mine",
        ("b?",),
        ({1: 1},),
        (0, 1),
    )
    # A folder is read as ever.
    assert list(found.retrieval_sets) == ["other"]
    assert found.left_out == []


def test_a_table_asks_a_run_that_exists_already(store: str, tmp_path: Path) -> None:
    asked = own_files([f"questions:{tmp_path / 'q.csv'}"], "retrieval_sets")
    found = read_pairs(store, None, [], ["test"], asked)
    (task,) = found.judged
    assert (task.title, task.queries, task.judged) == (
        *("q", ("what of a?", "what of b?")),
        ({0: 1}, {1: 1}),
    )
    (left_out,) = found.left_out
    assert left_out.startswith("q: 1 row")
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
