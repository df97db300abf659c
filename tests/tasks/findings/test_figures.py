"""What is told of measures: at their ceiling before training, and without a gain after it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from stages import stored

from tercet.storage.rows import rows_of
from tercet.tasks.evaluation.evaluate import EvaluateConfig
from tercet.tasks.evaluation.evaluation_rows import EVALUATIONS
from tercet.tasks.findings.figures import FINDINGS
from tercet.tasks.findings.finding import Look, look_for
from tercet.tasks.findings.warning import StageWarning
from tercet.tasks.scoring.select import SelectConfig
from tercet.tasks.stage import REJECTS, Resources, Work
from tercet.tasks.training.phases import PhaseConfig
from tercet.tasks.training.train_settings import TrainConfig


def figure(metric: str, value: float, n: int = 181, **more: Any) -> dict[str, Any]:
    blank = dict.fromkeys(EVALUATIONS.names)
    named = {"suite": "retrieval", "task": "document_pairs", "subset": "test", "n": n}
    return {**blank, **named, "metric": metric, "value": value, **more}


@pytest.fixture
def found(tmp_path: Path) -> Any:
    """Looks for warnings over these figures, of the untouched or the trained model."""

    def _found(*rows: dict[str, Any], trained: bool = False, **config: Any) -> list[StageWarning]:
        left_out = [dict.fromkeys(REJECTS.names) | one for one in config.pop("rejects", [])]
        stored(
            tmp_path,
            evaluations=pa.Table.from_pylist(list(rows), EVALUATIONS),
            rejects=pa.Table.from_pylist(left_out, REJECTS),
        )
        names = ("evaluations", "rejects")
        made = rows_of({name: [tmp_path / f"{name}.parquet"] for name in names})
        inputs = {"baseline": made} if trained else {}
        of_step = EvaluateConfig.model_validate(config.pop("evaluate", {}))
        models = {"model": tmp_path}
        work = Work(of_step, 0, inputs, models, {}, Resources(), tmp_path, lambda name, rows: None)
        configs = [
            SelectConfig.model_validate(settings)
            if name == "select"
            else TrainConfig(phase=PhaseConfig.model_validate(settings))
            for name, settings in config.items()
        ]
        return list(look_for(FINDINGS["evaluate"], Look(work, made, configs)))

    return _found


def test_a_measure_at_its_ceiling_before_training_is_told(found: Any) -> None:
    (warning,) = found(figure("recall@1", 99.45), figure("recall@10", 100.0), figure("mrr", 99.7))
    assert (warning.kind, warning.key, warning.count, warning.total) == (
        *("ceiling", "document_pairs test recall@1"),
        *(180, 181),
    )
    assert found(figure("recall@1", 94.9)) == []
    # Three questions show no ceiling.
    assert found(figure("recall@1", 100.0, n=3)) == []
    assert found(figure("recall@1", 99.45), trained=True, train={}) == []


def test_a_search_is_at_its_ceiling_by_vectors_alone(found: Any) -> None:
    own = {"suite": "retrieval_sets", "subset": "all"}
    tasks = ("ours", "ours bm25", "ours hybrid", "ours bm25 dev")
    rows = [figure("ndcg@10", 98.5, task=task, **own) for task in tasks]
    (warning,) = found(*rows, figure("map", 98.0, task="ours", **own))
    assert (warning.kind, warning.key, warning.count) == ("ceiling", "ours ndcg@10", 178)


def test_judged_documents_that_are_not_there_are_counted(found: Any) -> None:
    detail = "ours: 1,203 relevant documents are not in corpus.jsonl and count as not found"
    missing = {"stage": "evaluate", "reason": "no_document", "detail": detail}
    unasked = {"stage": "evaluate", "reason": "no_judgement", "detail": "ours: 3 of 9 queries"}
    (warning,) = found(figure("mrr", 50.0), rejects=[missing, unasked])
    assert (warning.kind, warning.key, warning.count) == ("no_document", "ours", 1203)


def test_rows_of_graded_pairs_that_cannot_be_used_are_counted(found: Any) -> None:
    faults = ["ours: row 3: no score", "ours: row 9: no text", "other: row 1: no score"]
    rejects = [{"stage": "evaluate", "reason": "bad_label", "detail": one} for one in faults]
    own = {"suite": "sts_sets", "subset": "all", "task": "ours"}
    (warning,) = found(
        figure("spearman", 50.0, n=40, **own),
        figure("spearman", 50.0, n=8, **own | {"task": "ours dev"}),
        figure("spearman", 50.0, n=5, **own | {"task": "other name"}),
        rejects=rejects,
        evaluate={"sts_sets": {"ours": "pairs.csv", "mine": "mine.csv"}},
    )
    assert (warning.kind, warning.key) == ("unusable", "ours")
    assert (warning.count, warning.total, warning.example) == (2, 50, "row 3: no score")


def test_an_encoder_with_prompts_of_which_no_search_is_measured_is_told(found: Any) -> None:
    settings = {"prompts": {"query": "query: "}}
    rows = [figure("mrr", 50.0, task="halves"), figure("spearman", 80.0, suite="sts")]
    (warning,) = found(*rows, evaluate=settings)
    assert (warning.kind, warning.count, warning.total) == ("no_side", 2, 2)
    assert found(*rows) == []
    assert found(*rows, trained=True, evaluate=settings) == []
    assert found(*rows, figure("mrr", 50.0), evaluate=settings) == []


def test_own_questions_that_got_worse_are_told(found: Any) -> None:
    own = {"suite": "retrieval_sets", "subset": "all", "task": "ours"}
    loss = figure("ndcg@10_gain", -4.0, ci_low=-8.0, ci_high=-0.2, **own)
    (warning,) = found(loss, trained=True, train={})
    assert (warning.kind, warning.key) == ("worse", "ours ndcg@10")
    assert found({**loss, "n": 29}, trained=True, train={}) == []
    assert len(found({**loss, "n": 30}, trained=True, train={})) == 1
    assert found({**loss, "ci_high": 0.2}, trained=True, train={}) == []
    assert found({**loss, "task": "ours hybrid"}, trained=True, train={}) == []
    assert found({**loss, "suite": "fact_order"}, trained=True, train={}) == []
