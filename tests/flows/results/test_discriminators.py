"""What the summary and the report say of discriminators."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from report_store import write_run

from tercet.flows.pages.blocks import Note, Table
from tercet.flows.report.measured import discriminators
from tercet.flows.report.subject import open_runs
from tercet.flows.results.discriminators import ARMS, in_words, judged
from tercet.storage.store import open_store
from tercet.tasks.training.discriminator_figures import DISCRIMINATOR_METRICS

AREAS = {"discriminator": 0.91, "hypothesis": 0.76, "pair_words": 0.87, "cosine": 0.84}


def metrics(margin: float = 0.02) -> list[dict[str, Any]]:
    """margin: what the interval of the gain over words of both texts begins at."""
    blank = {**dict.fromkeys(DISCRIMINATOR_METRICS.names), "pairs": 200, "anchors": 80}
    rows = []
    for arm, area in AREAS.items():
        figures = {"auc": area, "accuracy": 100 * area - 8, "calibration_error": 0.05}
        if arm != "discriminator":
            figures["auc_gain"] = AREAS["discriminator"] - area
        for metric, value in figures.items():
            low = margin if metric == "auc_gain" and arm == "pair_words" else value - 0.01
            rows.append(
                {**blank, "discriminator": "judge", "arm": arm, "subset": "all", "metric": metric}
                | {"value": value, "ci_low": low, "ci_high": value + 0.01}
            )
    rows.append({**rows[0], "subset": "one corpus", "value": 0.1})
    return rows


def connection(rows: list[dict[str, Any]]) -> duckdb.DuckDBPyConnection:
    db = duckdb.connect()
    db.register("discriminator_metrics", pa.Table.from_pylist(rows, schema=DISCRIMINATOR_METRICS))
    return db


def test_the_discriminator_stands_before_its_controls() -> None:
    (one,) = judged(connection(metrics()))
    assert (one.name, one.pairs, one.anchors) == ("judge", 200, 80)
    assert list(one.arms) == list(ARMS)
    assert {arm: found.auc for arm, found in one.arms.items()} == AREAS
    assert one.arms["discriminator"].gain is None
    gain = one.arms["cosine"].gain
    assert gain is not None
    assert round(gain[0], 2) == 0.07


def test_it_says_whether_it_is_better_than_what_anyone_could() -> None:
    (better,) = judged(connection(metrics()))
    assert "0.020" in in_words(better)
    (no_better,) = judged(connection(metrics(margin=-0.001)))
    assert "not surely better than words of both texts" in in_words(no_better)
    (alone,) = judged(connection([row for row in metrics() if row["arm"] != "cosine"]))
    assert "0.020" in in_words(alone)


def test_the_report_shows_verdicts_by_generator_and_method(tmp_path: Path) -> None:
    candidates = [
        {"candidate_id": i, "generation_id": i, "sentence_id": 1, "method": method}
        | {"role": role, "relation": relation, "text": f"text {i}"}
        for i, (method, role, relation) in enumerate(
            [
                ("paraphrase", "positive", "keeps"),
                ("paraphrase", "positive", "keeps"),
                ("negation", "negative", "alters"),
                ("next_sentences", "positive", "topic"),
            ]
        )
    ]
    scores = [
        {"candidate_id": i, "scorer": "pair", "measure": "p_true", "value": value}
        for i, value in enumerate([0.98, 0.5, 0.25, 0.1])
    ]
    run = write_run(
        tmp_path / "store",
        {
            "discriminator_metrics": metrics(),
            "reliability": [
                {"discriminator": "judge", "p_low": 0.95, "p_high": 1.0, "pairs": 50}
                | {"mean_p": 0.98, "share_true": 0.96, "ci_low": 0.91, "ci_high": 0.99}
            ],
            "candidates": candidates,
            "generations": [
                {"generation_id": i, "model": "/models/writer" if i < 2 else None} for i in range(4)
            ],
            "scores": scores,
            "rejects": [
                {"stage": "select", "row_id": 1, "reason": "below_p_min"},
                {"stage": "select", "row_id": 2, "reason": "surplus"},
            ],
        },
    )
    with open_runs(open_store(str(tmp_path / "store")), [run]) as subjects:
        figures, said, reliability, verdicts = discriminators(subjects).blocks
    assert isinstance(figures, Table)
    assert isinstance(said, Note)
    assert isinstance(reliability, Table)
    assert isinstance(verdicts, Table)
    assert figures.rows[0][:3] == ["the discriminator", "0.910", "0.900 to 0.920"]
    assert reliability.rows == [["0.95 to 1.00", 50, "0.980", "0.960", "0.910 to 0.990"]]
    assert verdicts.rows == [
        ["pair", "writer", "paraphrase", "positive", 2, "0.740", 1, 1],
        ["pair", "rule", "negation", "negative", 1, "0.750", 0, 0],
    ]
