"""Which metric a study compares its arms by, if none is named."""

from pathlib import Path

import pytest

from tercet.flows.results.figures import Value
from tercet.flows.results.metric_names import metric_of
from tercet.flows.studies.arms import Arm
from tercet.flows.studies.results import Found, results
from tercet.storage.store import Store, open_store
from tercet.tasks.stage import BadInput


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"))


def found(*metrics: str) -> Found:
    values: dict[int | None, Value] = {42: Value(60.0, 50.0, 70.0, 100, "trained", seed=42)}
    return Found(
        Arm("one", "one.yaml", ()), "run", None, 42, 100, {metric_of(m): values for m in metrics}
    )


def test_a_study_of_unusual_metrics_takes_one_on_test(store: Store) -> None:
    arm = found(
        "fact_order cases all accuracy_gain",
        "fact_order cases dev all accuracy",
        "fact_order cases negation accuracy",
        "fact_order cases all accuracy",
        "retrieval document_pairs test uniformity",
    )
    assert str(results([arm], None, store).metric) == "fact_order cases all accuracy"
    usual = found("fact_order cases all accuracy", "sts STS-B all spearman")
    assert str(results([usual], None, store).metric) == "sts STS-B all spearman"


def test_a_named_metric_must_be_there(store: Store) -> None:
    asked = "fact_order other all accuracy"
    with pytest.raises(BadInput, match=f"No arm has the metric '{asked}': choose one"):
        results([found("fact_order cases all accuracy")], asked, store)
    with pytest.raises(BadInput, match="No arm was evaluated"):
        results([found()], None, store)
