"""Which metric a study compares its arms by, how, and what it says of them."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from failures import fails
from study_arms import DEV, TEST, arm_with

from tercet.flows.results.figures import Value
from tercet.flows.results.metric_names import parse_metric
from tercet.flows.studies.arms import Arm
from tercet.flows.studies.page import table_of
from tercet.flows.studies.results import ArmFigures, check_metric, results
from tercet.models.measures.metrics import spearman
from tercet.storage import runs
from tercet.storage.artifacts import open_artifact
from tercet.storage.part_writer import PartWriter
from tercet.storage.store import Store, open_store
from tercet.tasks.evaluation.items import EVALUATION_ITEMS


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


def arm_of(*metrics: str) -> ArmFigures:
    values: dict[int | None, Value] = {42: Value(60.0, 50.0, 70.0, 100, "trained", seed=42)}
    return ArmFigures(
        Arm("one", "one.yaml", ()), "run", None, 42, 100, {parse_metric(m): values for m in metrics}
    )


def test_a_study_of_unusual_metrics_takes_one_on_test(store: Store) -> None:
    arm = arm_of(
        "fact_order cases all accuracy_gain",
        "fact_order cases dev all accuracy",
        "fact_order cases negation accuracy",
        "fact_order cases all accuracy",
        "retrieval document_pairs test uniformity",
    )
    assert str(results([arm], None, store).metric) == "fact_order cases all accuracy"
    usual = arm_of("fact_order cases all accuracy", "sts STS-B all spearman")
    assert str(results([usual], None, store).metric) == "sts STS-B all spearman"


def test_ones_own_questions_come_before_all_others(store: Store) -> None:
    own = "retrieval_sets mine all ndcg@10"
    names = ["retrieval halves test recall@1", "retrieval_sets mine bm25 all ndcg@10"]
    arm = arm_of(*names, own, "retrieval_sets a dev all ndcg@10")
    assert str(results([arm], None, store).metric) == own
    few = {key: replace(value, n=29) for key, value in arm.figures[parse_metric(own)].items()}
    arm.figures[parse_metric(own)] = few  # type: ignore[index]
    assert str(results([arm], None, store).metric) == names[0]


def test_a_set_is_there_as_ranked_by_each_way() -> None:
    evaluate = SimpleNamespace(retrieval_sets={"mine": "mine.csv"})
    planned: Any = [
        SimpleNamespace(plan=SimpleNamespace(recipe=SimpleNamespace(evaluate=evaluate)))
    ]
    for task in ("mine", "mine hybrid", "mine bm25 dev"):
        check_metric(parse_metric(f"retrieval_sets {task} all ndcg@10"), planned)
    with fails("unknown_name", "evaluate.retrieval_sets"):
        check_metric(parse_metric("retrieval_sets other hybrid all ndcg@10"), planned)


def test_a_named_metric_must_be_there(store: Store) -> None:
    asked = "fact_order other all accuracy"
    with fails("unknown_name", asked):
        results([arm_of("fact_order cases all accuracy")], asked, store)
    with fails("no_rows", "evaluated"):
        results([arm_of()], None, store)


def test_arms_are_compared_over_the_same_seeds(store: Store) -> None:
    first = arm_with("first", {1: 50.0, 2: 52.0, 3: 54.0}, {1: 60.0, 2: 60.0, 3: 60.0})
    second = arm_with("second", {1: 51.0, 2: 54.0, 3: 57.0}, {1: 50.0, 2: 50.0, 3: 50.0})
    compared = results([first, second], None, store)
    assert compared.metric == TEST
    assert compared.over == "seeds"
    row = compared.rows[1]
    assert row.summary is not None
    assert row.difference is not None
    assert (row.summary.mean, row.summary.sd, row.summary.n) == (54.0, 3.0, 3)
    # t(0.975, 2 degrees of freedom) = 4.302653; differences 1, 2, 3 have sd 1.
    half = 4.302653 / 3**0.5
    assert row.difference.mean == pytest.approx(2.0)
    assert row.difference.low == pytest.approx(2 - half, abs=1e-5)
    assert row.difference.visible == pytest.approx(half, abs=1e-5)
    assert compared.rows[0].difference is None
    # Worse on test, better on dev: dev decides.
    assert compared.best == 0


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
            "metric": "spearman",
            "item": item,
            "gold": score,
            "value": cosine,
        }
        for item, (score, cosine) in enumerate(zip(gold, cosines, strict=True))
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
    metric = parse_metric("sts STS-B all spearman")
    arms = []
    for name, values in cosines.items():
        reached = ArmFigures(
            Arm(name, "r", ()), run_with_items(store, name * 4, gold, values), None, 1, 300
        )
        figure = Value(100 * spearman(values, gold), None, None, 60, name * 4)
        reached.figures[metric] = {1: figure}
        arms.append(reached)
    compared = results(arms, str(metric), store)
    good, bad, same = (row.summary.mean for row in compared.rows if row.summary is not None)
    bad_change, same_change = compared.rows[1].difference, compared.rows[2].difference
    assert compared.over == "queries"
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


def arm(name: str, recall: float, n: int = 50, dev: int = 0) -> ArmFigures:
    """An arm of two seeds. n, dev: of how many questions its figures are."""
    reached = ArmFigures(Arm(name, "r", ()), f"run-{name}", None, 1, 200, splits=("dev", "test"))
    for metric, count in ((TEST, n), (DEV, dev)):
        if count:
            reached.figures[metric] = {
                seed: Value(recall + seed, None, None, count, "m") for seed in (1, 2)
            }
    return reached


def test_arms_of_a_handful_of_questions_are_not_told_apart(store: Store) -> None:
    compared = results([arm("first", 50.0, 29, 29), arm("second", 70.0, 29, 29)], None, store)
    table = table_of(compared)
    lines = [[column.cell(row) for column in table.columns] for row in table.rows]
    assert [line[2] for line in lines] == ["51.50 (too few)", "71.50 (too few)"]
    assert lines[1][-2:] == ["+20.00 (too few)", None]
    assert "'second' is the best on dev" in " ".join(table.findings)


def test_without_dev_no_arm_is_the_best_and_a_failed_one_says_why(store: Store) -> None:
    failed = ArmFigures(Arm("broken", "r", ()), None, "no row to train on", 1, 200)
    arms = [arm_with("first", {1: 50.0, 2: 52.0}, {}), failed]
    compared = results(arms, str(TEST), store)
    assert compared.best is None
    assert compared.rows[1].why == "no row to train on"
    table = table_of(compared)
    notes = " ".join(table.findings)
    assert "--set 'evaluate.splits=[dev, test]'" in notes
    assert "40.00" in notes
    assert [column.cell(table.rows[1]) for column in table.columns] == ["broken", *[None] * 6]
