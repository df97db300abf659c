"""What a study's notes, table and plot say of its arms."""

from pathlib import Path

import pytest
from study_arms import BETA, DEV, REPEATED, TEST, arm_with

from tercet.flows.results.figures import Value
from tercet.flows.studies.arms import Arm
from tercet.flows.studies.page import notes_of, spec_of, table_of
from tercet.flows.studies.results import Found, results
from tercet.storage.store import Store, open_store


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


def test_arms_of_a_handful_of_questions_are_not_told_apart(store: Store) -> None:
    found = results([arm("first", 50.0, 29, 29), arm("second", 70.0, 29, 29)], None, store)
    assert [row[5:9] for row in table_of(found)[1]] == [
        ["too few", None, None, None],
        ["too few", "+20.00", "too few", None],
    ]
    notes = " ".join(notes_of(found))
    assert "Too few" in notes
    assert "'second' is the best on dev" in notes


def test_without_dev_no_arm_is_the_best_and_a_failed_one_says_why(store: Store) -> None:
    failed = Found(Arm("broken", "r", ()), None, "no row to train on", 1, 200)
    arms = [arm_with("first", {1: 50.0, 2: 52.0}, {}), failed]
    found = results(arms, str(TEST), store)
    assert found.best is None
    assert found.rows[1].why == "no row to train on"
    notes = " ".join(notes_of(found))
    assert "--set 'evaluate.splits=[dev, test]'" in notes
    assert "40.00" in notes
    assert table_of(found)[1][1] == ["broken", *[None] * 8]


def test_the_plot_is_a_line_over_a_key_with_numbers_else_dots(store: Store) -> None:
    grid = [
        arm_with(f"{b} {d}", {1: b, 2: b + 1}, {}, **{BETA: b, REPEATED: d})
        for b in (0.6, 0.9)
        for d in (True, False)
    ]
    spec = spec_of(results(grid, None, store))
    points = spec["data"]["values"]
    assert [(p["x"], p["series"]) for p in points] == [
        (0.6, "word_repetition=true"),
        (0.6, "word_repetition=false"),
        (0.9, "word_repetition=true"),
        (0.9, "word_repetition=false"),
    ]
    assert any(layer["mark"]["type"] == "line" for layer in spec["layer"])
    tried = sorted({point["x"] for point in points})
    assert spec["layer"][0]["encoding"]["x"]["axis"]["values"] == tried
    named = [arm_with(name, {1: 1.0, 2: 2.0}, {}) for name in ("a", "b")]
    spec = spec_of(results(named, None, store))
    assert not any(layer["mark"]["type"] == "line" for layer in spec["layer"])
    assert [value["arm"] for value in spec["data"]["values"]] == ["a", "b"]
