"""`tercet study`: what it refuses, what its arms share, and how it goes on."""

import csv
import json
import multiprocessing
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from failures import fails
from study_arms import REPEATED
from tiny_run import LIMIT, Finished, copy_of, start, tercet

from tercet.errors import ErrorKind
from tercet.flows.commands.study import run_study
from tercet.flows.running.arguments import RunArguments
from tercet.storage import runs
from tercet.storage.artifacts import artifacts_of
from tercet.storage.store import open_store

SHARE = "select.methods.word_repetition.weight"
BOTH = "evaluate.splits=[dev, test]"


def given(recipe: Path | str, store: Path | str, *overrides: str) -> RunArguments:
    """Arguments as the command line makes them."""
    return RunArguments(str(recipe), str(store), overrides)


@pytest.mark.parametrize(
    ("change", "kind", "name"),
    [
        ({"select.negativ_max": 0.6}, "unknown_key", "'select.negativ_max'"),
        ({"select.negative_max": 7}, "bad_value", "select.negative_max"),
        ({"recipe": "nowhere"}, "unknown_name", "'nowhere'"),
        ({"train.choose": {"by": "test"}}, "unknown_name", "evaluate.sts_sets"),
    ],
)
def test_an_arm_that_fails_validation_is_named_before_anything_runs(
    tmp_path: Path, change: dict[str, Any], kind: ErrorKind, name: str
) -> None:
    file = tmp_path / "arms.yaml"
    file.write_text(yaml.safe_dump({"good": {}, "the bad one": change}, sort_keys=False))
    output = str(tmp_path / "study.html")
    with fails(kind, "'the bad one'", name):
        run_study(given("quickstart", tmp_path / "store"), [], str(file), None, output)
    assert not list((tmp_path / "store").glob("runs/*"))


def test_arms_that_are_the_same_run_are_refused(tmp_path: Path) -> None:
    with fails("conflict", "'epochs=1'", "'epochs=1.0'"):
        run_study(
            given("quickstart", tmp_path / "store"),
            ["train.phases.0.epochs=[1, 1.0]"],
            None,
            None,
            str(tmp_path / "study.html"),
        )
    assert not list((tmp_path / "store").glob("runs/*"))


@pytest.mark.parametrize(
    ("metric", "output", "kind", "name"),
    [
        ("recall@1", "s.html", "bad_value", "recall@1"),
        ("retrieval document_pairs test recall@5", "s.html", "unknown_name", "recall@5"),
        ("sts STS all spearman", "s.html", "missing_key", "evaluate.suite"),
        (None, "s.pdf", "bad_value", ".html"),
        (None, "missing/s.html", "missing_file", "missing"),
    ],
)
def test_what_cannot_be_told_or_written_is_said_first(
    tmp_path: Path, metric: str | None, output: str, kind: ErrorKind, name: str
) -> None:
    vary = ["train.phases.0.epochs=[1, 2]"]
    store = str(tmp_path / "store")
    with fails(kind, name):
        run_study(given("quickstart", store), vary, None, metric, str(tmp_path / output))
    assert not list((tmp_path / "store").glob("runs/*"))


@pytest.mark.slow
def test_arms_share_what_is_the_same(
    finished: Finished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = copy_of(finished.store, tmp_path / "store")
    html = tmp_path / "study.html"
    vary = [f"{SHARE}=[0.2, 0.5]", f"{REPEATED}=[many, null]"]
    arguments = given(finished.tiny.recipe, store, BOTH)
    assert run_study(arguments, vary, None, None, str(html)) == 0
    planned, _, ran = capsys.readouterr().err.partition("Arm 1 of 4")
    counts = {words[0]: words[1:] for line in planned.splitlines() if (words := line.split())}
    # Steps, then in how many arms, how many artifacts, how many of them there, how many to make.
    assert counts["parse"] == ["4", "1", "1", "0"]
    assert counts["score.evaluator"] == ["4", "1", "1", "0"]
    assert counts["select"] == ["4", "2", "1", "1"]
    assert counts["train"] == ["4", "4", "1", "3"]
    done = ran.rpartition("─")[2]
    made = {words[0]: words[1:] for line in done.splitlines() if (words := line.split())}
    assert made["parse"] == ["0", "4"]
    assert made["select"] == ["1", "3"]
    assert made["train"] == ["3", "1"]

    with (tmp_path / "study.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row[SHARE], row[REPEATED]) for row in rows] == [
        ("0.2", "many"),
        ("0.2", "null"),
        ("0.5", "many"),
        ("0.5", "null"),
    ]
    dev = [float(row["dev"]) for row in rows]
    assert [row["best_by_dev"] for row in rows].count("true") == 1
    assert rows[dev.index(max(dev))]["best_by_dev"] == "true"
    for row in rows[1:]:
        change = float(row["mean"]) - float(rows[0]["mean"])
        assert float(row["difference"]) == pytest.approx(change)
        assert float(row["difference_low"]) <= change <= float(row["difference_high"])
    assert 'src="http' not in html.read_text()


def test_an_arm_that_fails_is_told_and_the_others_go_on(
    finished: Finished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = copy_of(finished.store, tmp_path / "store")
    file = tmp_path / "arms.yaml"
    nothing = {"next_sentences": {"weight": 0}, "word_repetition": {"weight": 0}}
    arms = {"empty": {"select.methods": nothing}, "recipe": {}}
    file.write_text(yaml.safe_dump(arms, sort_keys=False))
    output = str(tmp_path / "study.html")
    recipe = finished.tiny.recipe
    assert run_study(given(recipe, store), [], str(file), None, output) == 1
    shown = capsys.readouterr().err
    assert "'empty'" in shown
    assert f"\n  tercet study {recipe}" in shown
    with (tmp_path / "study.csv").open(newline="") as table:
        rows = {row["arm"]: row for row in csv.DictReader(table)}
    assert rows["recipe"]["mean"]
    assert not rows["empty"]["mean"]
    assert rows["empty"]["why"]


@pytest.mark.slow
def test_two_arms_at_once_are_told_apart_and_equal_those_in_order(
    finished: Finished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "arms.yaml"
    nothing = {"next_sentences": {"weight": 0}, "word_repetition": {"weight": 0}}
    arms = {"fast": {"train.phases.0.learning_rate": 2e-3}, "no rows": {"select.methods": nothing}}
    file.write_text(yaml.safe_dump(arms, sort_keys=False))
    rows = []
    for at_once in (2, 1):
        store = copy_of(finished.store, tmp_path / f"store{at_once}")
        html = tmp_path / f"study{at_once}.html"
        arguments = given(finished.tiny.recipe, store)
        assert run_study(arguments, [], str(file), None, str(html), at_once) == 1
        shown = capsys.readouterr().err
        with html.with_suffix(".csv").open(newline="") as table:
            rows.append([{**row, "run_id": ""} for row in csv.DictReader(table)])
        assert ("--at-once 2" in shown) == (at_once == 2)
        if at_once == 2:
            assert re.search(r"^fast    \| train +made ", shown, re.MULTILINE)
            assert re.search(r"^no rows \| select +made ", shown, re.MULTILINE)
    assert rows[0] == rows[1]
    weights = [
        [file["digest"] for file in record["files"]]
        for at_once in (2, 1)
        for artifact in artifacts_of(open_store(str(tmp_path / f"store{at_once}")), "train")
        for record in artifact.records().values()
    ]
    assert len(weights) == 4
    assert sorted(weights[:2]) == sorted(weights[2:])
    assert multiprocessing.active_children() == []


# The second arm is never trained, however late it is killed.
STOPS = """
import time
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running import runner
from tercet.flows.cli import main
real, trained = runner.run_step, []
def run_step(handle, step, progress):
    if trained and step.name == "train":
        time.sleep(3600)
    trained.extend([step] if step.name == "train.seed8" else [])
    return real(handle, step, progress)
runner.run_step = run_step
main()
"""


@pytest.mark.slow
def test_killed_and_typed_again_it_goes_on_over_all_seeds(
    finished: Finished, tmp_path: Path
) -> None:
    store = copy_of(finished.store, tmp_path / "store")
    html = tmp_path / "study.html"
    words = ["study", str(finished.tiny.recipe), "--store", str(store), "-o", str(html)]
    words += ["--set", "seeds=2", "--vary", f"{REPEATED}=[many, null]"]
    child = start(*words, script=STOPS)
    made = store / "artifacts" / "train.seed8"
    deadline = time.monotonic() + LIMIT
    while not list(made.glob("*/manifest.json")) and child.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    (kept,) = [path.parent.name for path in made.glob("*/manifest.json")]
    done = tercet(*words)
    assert done.returncode == 0, done.stderr[-3000:]
    arms = done.stderr.split("Arm ")[1:]
    assert re.search(r"train\.seed8 +reused", arms[0])
    assert re.search(r"train\.seed8 +made", arms[1])
    assert kept in {path.parent.name for path in made.glob("*/manifest.json")}
    with html.with_suffix(".csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["seeds"] for row in rows] == ["2", "2"]
    assert [value.split(":")[0] for value in rows[1]["values"].split()] == ["7", "8"]
    ours, theirs = (
        [float(value.split(":")[1]) for value in row["values"].split()] for row in rows[::-1]
    )
    assert float(rows[1]["difference"]) == pytest.approx((sum(ours) - sum(theirs)) / 2, abs=1e-3)
    found = runs.list_runs(open_store(str(store), create=False))
    assert json.dumps(found[0]["info"]["arguments"]["overrides"]) == json.dumps(
        ["seeds=2", f"{REPEATED}=null"]
    )
