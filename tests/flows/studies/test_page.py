"""What a study's notes say where dev, or all of it, has too few questions."""

from pathlib import Path

import pytest

from tercet.flows.results import transductive
from tercet.flows.results.figures import Value
from tercet.flows.results.metric_names import metric_of
from tercet.flows.studies.arms import Arm
from tercet.flows.studies.page import notes_of, table_of
from tercet.flows.studies.results import Found, results
from tercet.storage.store import Store, open_store

TEST = metric_of("retrieval document_pairs test recall@1")
DEV = metric_of("retrieval document_pairs dev recall@1")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


def arm(name: str, recall: float, n: int = 50, dev: int = 0) -> Found:
    """An arm of two seeds. n, dev: of how many questions its figures are."""
    found = Found(Arm(name, "r", ()), f"run-{name}", None, 1, 200, splits=("dev", "test"))
    for metric, count in ((TEST, n), (DEV, dev)):
        if count:
            found.figures[metric] = {
                seed: Value(recall + seed, None, None, count, "m") for seed in (1, 2)
            }
    return found


def test_where_dev_was_measured_and_has_no_pairs_that_is_said(store: Store) -> None:
    notes = " ".join(notes_of(results([arm("first", 50.0), arm("second", 70.0)], None, store)))
    assert "--set" not in notes
    assert "dev has no such questions: take more text or a larger `ingest.dev`." in notes


def test_arms_whose_set_stood_in_training_are_marked(store: Store) -> None:
    seen = arm("seen", 50.0, dev=50)
    seen.transductive.add(TEST)
    found = results([arm("new", 40.0, dev=50), seen], None, store)
    assert [row[0] for row in table_of(found)[1]] == ["new", "seen (transductive) *"]
    assert transductive.WHY in notes_of(found)


def test_arms_of_a_handful_of_questions_are_not_told_apart(store: Store) -> None:
    found = results([arm("first", 50.0, 29, 29), arm("second", 70.0, 29, 29)], None, store)
    assert [row[5:9] for row in table_of(found)[1]] == [
        ["too few", None, None, None],
        ["too few", "+20.00", "too few", None],
    ]
    notes = " ".join(notes_of(found))
    assert "Too few: fewer than 30 questions" in notes
    assert "'second' is the best on dev" in notes
    assert "dev has fewer than 30 questions, which cannot tell arms apart: take more" in notes
