"""Studies: arms of a recipe in one store, what they share, and the table that compares them."""

import csv
import json
import re
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from tiny_run import LIMIT, Finished, copy_of, start, tercet

from tercet.flows.commands.study import again, plan_lines, run_study
from tercet.flows.results.figures import Value
from tercet.flows.results.metric_names import metric_of
from tercet.flows.running.arguments import RunArguments
from tercet.flows.studies import arms as studies
from tercet.flows.studies import page as study_page
from tercet.flows.studies.arms import Arm, arms_of
from tercet.flows.studies.results import Found, results
from tercet.models.measures.metrics import spearman
from tercet.storage import runs
from tercet.storage.artifacts import open_artifact
from tercet.storage.part_writer import PartWriter
from tercet.storage.store import Store, open_store
from tercet.tasks.evaluation.items import EVALUATION_ITEMS
from tercet.tasks.stage import BadInput

BETA, REPEATED = "select.negative_max", "train.phases.0.word_repetition"
SHARE = "select.methods.word_repetition.weight"
TEST = metric_of("retrieval document_pairs test recall@1")
DEV = metric_of("retrieval document_pairs dev recall@1")
BOTH = "evaluate.splits=[dev, test]"


def given(recipe: Path | str, store: Path | str, *overrides: str) -> RunArguments:
    """Arguments as the command line makes them."""
    return RunArguments(str(recipe), str(store), overrides)


def test_a_grid_is_every_combination() -> None:
    arms = arms_of(
        "quickstart", [f"{BETA}=[0.6, 0.75]", f"{REPEATED}=[true, false]"], None, ["seed=3"]
    )
    assert [arm.name for arm in arms] == [
        "negative_max=0.6, word_repetition=true",
        "negative_max=0.6, word_repetition=false",
        "negative_max=0.75, word_repetition=true",
        "negative_max=0.75, word_repetition=false",
    ]
    assert arms[2].overrides == (
        "seed=3",
        "select.negative_max=0.75",
        "train.phases.0.word_repetition=true",
    )
    assert arms[2].values == {BETA: 0.75, REPEATED: True}


def test_values_are_said_as_they_were_typed(tmp_path: Path) -> None:
    arms = arms_of("quickstart", ["train.phases.0.learning_rate=[2.0e-5, 1.0e-05, 0.001]"])
    rates = [prepared(arm, tmp_path).train.phases[0].learning_rate for arm in arms]
    assert rates == [2e-5, 1e-5, 1e-3]
    arms = arms_of("quickstart", ["select.negative_max=[{quantile: 0.5}, null]"])
    found = [prepared(arm, tmp_path).select.negative_max for arm in arms]
    assert found[0].quantile == 0.5
    assert found[1] is None


def prepared(arm: Arm, folder: Path) -> Any:
    return studies.prepare(RunArguments(arm.recipe, str(folder), arm.overrides)).recipe


def test_named_arms_have_any_keys_and_another_recipe(tmp_path: Path) -> None:
    file = tmp_path / "arms.yaml"
    named = {"recipe": {}, "other": {"recipe": "simcse", "sample.rows": 9}, "empty": None}
    file.write_text(yaml.safe_dump(named, sort_keys=False))
    arms = arms_of("quickstart", [], str(file), ["seeds=2"])
    assert [(arm.name, arm.recipe) for arm in arms] == [
        ("recipe", "quickstart"),
        ("other", "simcse"),
        ("empty", "quickstart"),
    ]
    assert arms[1].overrides == ("seeds=2", "sample.rows=9")
    crossed = arms_of("quickstart", ["seed=[1, 2]"], str(file))
    assert [arm.name for arm in crossed][:2] == ["recipe, seed=1", "recipe, seed=2"]
    assert len(crossed) == 6


def test_what_fitting_chose_is_said_once(tmp_path: Path) -> None:
    corpus = tmp_path / "reviews.csv"
    rows = [f"Film number {i} is a long and quiet story about a farm." for i in range(60)]
    corpus.write_text("\n".join(["text", *rows]), encoding="utf-8")
    arguments = RunArguments("quickstart", str(tmp_path / "store"), corpus=str(corpus))
    store = open_store(arguments.store)
    planned = studies.plan_arms(arms_of("quickstart", ["seed=[1, 2]"], None), store, arguments)
    chosen = planned[0].plan.chosen
    assert chosen is not None
    lines = plan_lines(planned, store)
    assert lines[0] == chosen
    assert lines.count(chosen) == 1


@pytest.mark.parametrize(
    ("vary", "arms", "said"),
    [
        (["select.negative_max=0.6"], None, "does not list values"),
        (["select.negative_max"], None, "does not list values"),
        (["seed=[1, 2]", "seed=[3]"], None, "--vary seed is given twice"),
        (["seed=[1, 1]"], None, "Two arms have the name 'seed=1'"),
        (["seed=[1]"], None, "at least two arms"),
        ([], None, "at least two arms"),
        ([], "a: {}\na: {}\n", "duplicate key 'a'"),
        ([], "- a\n", "has no arms"),
        ([], "a: 3\n", "arm 'a' must be a mapping"),
        ([], "a: [\n", "not valid YAML"),
    ],
)
def test_bad_arms_are_one_sentence(
    tmp_path: Path, vary: list[str], arms: str | None, said: str
) -> None:
    file = None
    if arms is not None:
        file = str(tmp_path / "arms.yaml")
        Path(file).write_text(arms)
    with pytest.raises(BadInput, match=re.escape(said)) as raised:
        arms_of("quickstart", vary, file)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"select.negativ_max": 0.6}, "unknown key 'select.negativ_max'"),
        ({"select.negative_max": 7}, "select.negative_max is 7"),
        ({"train.phases.4.decay": True}, "no key 'train.phases.4.decay'"),
        ({"recipe": "nowhere"}, "no recipe 'nowhere'"),
        (
            {"train.choose": {"by": "test"}},
            "known: retrieval, STS-B, SICK-R, fact_order, and the names under evaluate.sts_sets",
        ),
    ],
)
def test_an_arm_that_fails_validation_is_named_before_anything_runs(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    file = tmp_path / "arms.yaml"
    file.write_text(yaml.safe_dump({"good": {}, "the bad one": change}, sort_keys=False))
    output = str(tmp_path / "study.html")
    with pytest.raises(BadInput, match=r"^Arm 'the bad one': ") as raised:
        run_study(given("quickstart", tmp_path / "store"), [], str(file), None, output)
    assert said in str(raised.value)
    assert not list((tmp_path / "store").glob("runs/*"))


def test_arms_that_are_the_same_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"'epochs=1' and 'epochs=1\.0' are the same run"):
        run_study(
            given("quickstart", tmp_path / "store"),
            ["train.phases.0.epochs=[1, 1.0]"],
            None,
            None,
            str(tmp_path / "study.html"),
        )
    assert not list((tmp_path / "store").glob("runs/*"))


@pytest.mark.parametrize(
    ("metric", "output", "said"),
    [
        ("recall@1", "s.html", "does not name a metric"),
        ("retrieval document_pairs test recall@5", "s.html", "No arm has the metric"),
        ("sts STS all spearman", "s.html", "evaluate.suite is not set"),
        (None, "s.pdf", "must end in .html"),
        (None, "missing/s.html", "There is no directory"),
    ],
)
def test_what_cannot_be_told_or_written_is_said_first(
    tmp_path: Path, metric: str | None, output: str, said: str
) -> None:
    vary = ["train.phases.0.epochs=[1, 2]"]
    place, store = str(tmp_path / output), str(tmp_path / "store")
    with pytest.raises(BadInput, match=re.escape(said)):
        run_study(given("quickstart", store), vary, None, metric, place)
    assert not list((tmp_path / "store").glob("runs/*"))


def test_a_metric_has_its_like_on_the_other_split() -> None:
    assert TEST.on_dev() == DEV
    assert DEV.on_test() == TEST
    year = metric_of("sts STS12 wmean spearman")
    assert str(year.on_dev()) == "sts STS-B dev all spearman"
    assert str(metric_of("sts STS-B dev all spearman").on_test()) == "sts STS-B all spearman"
    assert metric_of("transfer MR all accuracy").on_dev() is None


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "empty"))


def arm_with(name: str, test: dict[int, float], dev: dict[int, float], **values: Any) -> Found:
    """An arm as its runs would have left it."""
    found = Found(Arm(name, "r", (), values), f"run-{name}", None, 1, 200)
    for metric, by_seed in ((TEST, test), (DEV, dev)):
        if by_seed:
            found.figures[metric] = {
                seed: Value(value, value - 1, value + 1, 50, "m") for seed, value in by_seed.items()
            }
    found.untouched[TEST] = 40.0
    return found


def test_arms_are_compared_over_the_same_seeds(store: Store) -> None:
    first = arm_with("first", {1: 50.0, 2: 52.0, 3: 54.0}, {1: 60.0, 2: 60.0, 3: 60.0})
    second = arm_with("second", {1: 51.0, 2: 54.0, 3: 57.0}, {1: 50.0, 2: 50.0, 3: 50.0})
    found = results([first, second], None, store)
    assert found.metric == TEST
    assert found.over == "seeds"
    row = found.rows[1]
    assert row.asked is not None
    assert row.difference is not None
    assert (row.asked.mean, row.asked.sd, row.asked.n) == (54.0, 3.0, 3)
    # t(0.975, 2 degrees of freedom) = 4.302653; differences 1, 2, 3 have sd 1.
    half = 4.302653 / 3**0.5
    assert row.difference.mean == pytest.approx(2.0)
    assert row.difference.low == pytest.approx(2 - half, abs=1e-5)
    assert row.difference.visible == pytest.approx(half, abs=1e-5)
    assert found.rows[0].difference is None
    # Worse on test, better on dev: dev decides.
    assert found.best == 0
    assert "'first' is the best on dev (retrieval document_pairs dev recall@1)" in " ".join(
        study_page.notes_of(found)
    )


def test_arms_of_one_seed_and_of_several_have_no_difference(store: Store) -> None:
    one = arm_with("one", {1: 50.0}, {1: 60.0})
    two = arm_with("two", {1: 50.0, 2: 40.0}, {1: 60.0, 2: 60.0})
    # The mean of two is 45: a difference of 0, that of the seed in common, would mislead.
    for arms in ([one, two], [two, one]):
        assert results(arms, None, store).rows[1].difference is None


def test_arms_that_were_measured_on_other_data_have_no_difference(store: Store) -> None:
    first = arm_with("first", {1: 50.0, 2: 52.0}, {})
    second = arm_with("second", {1: 51.0, 2: 55.0}, {})
    second.figures[TEST] = {
        seed: replace(figure, digest="other") for seed, figure in second.figures[TEST].items()
    }
    assert results([first, second], str(TEST), store).rows[1].difference is None


def run_with_items(store: Store, model: str, gold: list[float], cosines: list[float]) -> str:
    """A run that measured this model on STS-B; its id."""
    artifact = open_artifact(store, "evaluate.encoder", model)
    artifact.adopt_plan([{"spec": {}}])
    schemas = {"evaluation_items": EVALUATION_ITEMS}
    rows = [
        {
            "model_version": model,
            "suite": "sts",
            "task": "STS-B",
            "subset": "sts-test",
            "item": item,
            "gold": said,
            "value": cosine,
        }
        for item, (said, cosine) in enumerate(zip(gold, cosines, strict=True))
    ]
    with PartWriter(artifact.scratch() / "staging", schemas, 1000) as writer:
        writer.emit("evaluation_items", pa.Table.from_pylist(rows, schema=EVALUATION_ITEMS))
        artifact.commit(0, writer.close(None), "key", {})
    artifact.finish({"components": {"stage": "evaluate"}, "inputs": []})
    run_id = runs.start_run(store, "r", {}, {})
    entry = {"stage": "evaluate", "version": model, "state": "made", "seconds": 0.1, "tables": {}}
    runs.record_step(store, run_id, "evaluate.encoder", entry)
    runs.end_run(store, run_id, "done", {})
    return run_id


def test_with_one_seed_arms_are_compared_over_the_same_pairs(store: Store) -> None:
    gold = [float(i % 6) for i in range(60)]
    cosines = {
        "good": [0.1 * g + 0.001 * (i % 7) for i, g in enumerate(gold)],
        "bad": [0.1 * g + 0.4 * (i % 3) for i, g in enumerate(gold)],
    }
    cosines["same"] = cosines["good"]
    metric = metric_of("sts STS-B all spearman")
    arms = []
    for name, values in cosines.items():
        found = Found(
            Arm(name, "r", ()), run_with_items(store, name * 4, gold, values), None, 1, 300
        )
        figure = Value(100 * spearman(values, gold), None, None, 60, name * 4)
        found.figures[metric] = {1: figure}
        arms.append(found)
    told = results(arms, str(metric), store)
    good, bad, same = (row.asked.mean for row in told.rows if row.asked is not None)
    bad_change, same_change = told.rows[1].difference, told.rows[2].difference
    assert told.over == "queries"
    assert good == same
    assert bad_change is not None
    assert same_change is not None
    assert bad_change.mean == pytest.approx(bad - good)
    assert bad_change.low is not None
    assert bad_change.high is not None
    assert bad_change.low < bad - good < bad_change.high < 0
    assert bad_change.visible == pytest.approx((bad_change.high - bad_change.low) / 2)
    assert (same_change.mean, same_change.low, same_change.high) == (0.0, 0.0, 0.0)
    # Other pairs, be they as many: the difference is told, an interval would mean nothing.
    other = run_with_items(store, "other", gold[::-1], cosines["bad"])
    arms[1].run_id = other
    arms[1].figures[metric] = {1: Value(50.0, None, None, 60, "other")}
    change = results(arms, str(metric), store).rows[1].difference
    assert change is not None
    assert (change.mean, change.low) == (pytest.approx(50.0 - good), None)
    fewer = run_with_items(store, "fewer", gold[:50], cosines["bad"][:50])
    arms[1].run_id = fewer
    arms[1].figures[metric] = {1: Value(50.0, None, None, 50, "fewer")}
    change = results(arms, str(metric), store).rows[1].difference
    assert change is not None
    assert (change.mean, change.low) == (pytest.approx(50.0 - good), None)


def test_without_dev_no_arm_is_the_best_and_a_failed_one_says_why(store: Store) -> None:
    failed = Found(Arm("broken", "r", ()), None, "no row to train on", 1, 200)
    arms = [arm_with("first", {1: 50.0, 2: 52.0}, {}), failed]
    found = results(arms, str(TEST), store)
    assert found.best is None
    assert found.rows[1].why == "no row to train on"
    notes = " ".join(study_page.notes_of(found))
    assert "--set 'evaluate.splits=[dev, test]'" in notes
    assert "untouched backbone scores 40.00" in notes
    assert study_page.table_of(found)[1][1] == ["broken", *[None] * 8]


def test_a_metric_that_no_arm_has_is_one_sentence(store: Store) -> None:
    with pytest.raises(BadInput, match=r"No arm has the metric 'sts STS all spearman'.*recall@1"):
        results([arm_with("a", {1: 1.0}, {})], "sts STS all spearman", store)


def test_the_plot_is_a_line_over_a_key_with_numbers_else_dots(store: Store) -> None:
    grid = [
        arm_with(f"{b} {d}", {1: b, 2: b + 1}, {}, **{BETA: b, REPEATED: d})
        for b in (0.6, 0.9)
        for d in (True, False)
    ]
    spec = study_page.spec_of(results(grid, None, store))
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
    spec = study_page.spec_of(results(named, None, store))
    assert not any(layer["mark"]["type"] == "line" for layer in spec["layer"])
    assert [value["arm"] for value in spec["data"]["values"]] == ["a", "b"]


def test_the_command_to_go_on_is_the_one_that_was_typed() -> None:
    line = again(given("mine.yaml", "st", "seeds=2"), ["a=[1, 2]"], "arms.yaml", None, "s.html")
    assert line == (
        "tercet study mine.yaml --vary 'a=[1, 2]' --arms arms.yaml --set seeds=2 --store st "
        "-o s.html"
    )


@pytest.mark.slow
def test_arms_share_what_is_the_same(
    finished: Finished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = copy_of(finished.store, tmp_path / "store")
    html = tmp_path / "study.html"
    vary = [f"{SHARE}=[0.2, 0.5]", f"{REPEATED}=[true, false]"]
    arguments = given(finished.tiny.recipe, store, BOTH)
    assert run_study(arguments, vary, None, None, str(html)) == 0
    said = capsys.readouterr()
    planned, _, ran = said.err.partition("Arm 1 of 4")
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
        ("0.2", "true"),
        ("0.2", "false"),
        ("0.5", "true"),
        ("0.5", "false"),
    ]
    dev = [float(row["dev"]) for row in rows]
    assert [row["best_by_dev"] for row in rows].count("true") == 1
    assert rows[dev.index(max(dev))]["best_by_dev"] == "true"
    for row in rows[1:]:
        change = float(row["mean"]) - float(rows[0]["mean"])
        assert float(row["difference"]) == pytest.approx(change)
        assert float(row["difference_low"]) <= change <= float(row["difference_high"])
    assert "over the queries of one seed" in said.out
    text = html.read_text()
    assert "Study of" in text
    assert 'src="http' not in text
    assert "best by dev" in text


def test_an_arm_that_fails_is_told_and_the_others_go_on(
    finished: Finished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = copy_of(finished.store, tmp_path / "store")
    file = tmp_path / "arms.yaml"
    no_positive = {"next_sentences": {"weight": 0}, "word_repetition": {"weight": 0}}
    nothing = {"select.methods": no_positive}
    arms = {"empty": nothing, "recipe": {}}
    file.write_text(yaml.safe_dump(arms, sort_keys=False))
    output = str(tmp_path / "study.html")
    recipe = finished.tiny.recipe
    assert run_study(given(recipe, store), [], str(file), None, output) == 1
    said = capsys.readouterr()
    assert "Arm 'empty' failed: " in said.err
    assert f"1 of 2 arms failed ('empty'). Resume with:\n  tercet study {recipe}" in said.err
    assert "empty: " in said.out
    with (tmp_path / "study.csv").open(newline="") as table:
        rows = {row["arm"]: row for row in csv.DictReader(table)}
    assert rows["recipe"]["mean"]
    assert not rows["empty"]["mean"]
    assert rows["empty"]["why"]


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
    words += ["--set", "seeds=2", "--vary", f"{REPEATED}=[true, false]"]
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
        ["seeds=2", f"{REPEATED}=false"]
    )
