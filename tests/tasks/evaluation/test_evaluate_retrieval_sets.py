"""Queries of one's own as the stage `evaluate` measures them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from beir_folder import write_beir
from evaluation_stage import encoder, model, run_stage, words
from failures import fails

from tercet.flows.pipeline.fingerprints import without
from tercet.tasks.evaluation.evaluate import STAGE, EvaluateConfig, externals

__all__ = ["encoder", "model"]

# By shared letters, "a b" is nearest to its own document, and "x y" to another's.
DOCUMENTS = {"1": "a b c", "2": "x y", "3": "x y z z z", "4": "m n"}
QUERIES = {"p": "a b", "q": "x y", "r": "m q"}
GRADES = [("p", "1", 1), ("q", "3", 2), ("q", "2", 0), ("r", "gone", 1), ("r", "4", 1)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_beir(tmp_path / "ours", DOCUMENTS, QUERIES, {"test": GRADES})


def measured(tmp_path: Path, model: Path, folder: Path, **more: Any) -> dict[str, pa.Table]:
    sets = {"ours": str(folder)}
    return run_stage(tmp_path / "work", model, [], retrieval=False, retrieval_sets=sets, **more)


def figures(table: pa.Table) -> dict[tuple[str, str], dict[str, Any]]:
    rows = [row for row in table.to_pylist() if row["suite"] == "retrieval_sets"]
    return {(row["task"], row["metric"]): row for row in rows}


def test_by_hand(tmp_path: Path, encoder: SimpleNamespace, model: Path, folder: Path) -> None:
    out = measured(tmp_path, model, folder)
    found = figures(out["evaluations"])
    metrics = {"ndcg@10", "recall@10", "recall@100", "map", "mrr@10"}
    tasks = {"ours", "ours bm25", "ours hybrid"}
    assert set(found) == {(task, metric) for task in tasks for metric in metrics}
    # p: first; q: second, behind its own words; r: 4 first, and one that cannot be found.
    second = 1 / np.log2(3)
    assert found["ours", "ndcg@10"]["value"] == pytest.approx(
        100 * (1 + second + 1 / (1 + second)) / 3
    )
    assert found["ours", "mrr@10"]["value"] == pytest.approx(100 * (1 + 1 / 2 + 1) / 3)
    assert found["ours", "recall@10"]["value"] == pytest.approx(100 * (1 + 1 + 1 / 2) / 3)
    assert found["ours", "ndcg@10"]["n"] == 3
    items = out["evaluation_items"].to_pylist()
    assert len(items) == len(tasks) * len(metrics) * len(QUERIES)
    assert {item["metric"] for item in items} == metrics
    (absent,) = out["rejects"].to_pylist()
    assert absent["reason"] == "no_document"


def test_only_what_an_encoder_changes_has_gains(
    tmp_path: Path, encoder: SimpleNamespace, model: Path, folder: Path
) -> None:
    base = measured(tmp_path, model, folder)

    def other(text: str) -> np.ndarray:
        return words(text[::-1]) + 0.1 * words(text[:1])

    encoder.embed = other
    found = figures(measured(tmp_path, model, folder, baseline=base)["evaluations"])
    before = figures(base["evaluations"])
    for task in ("ours", "ours hybrid"):
        gain = found[task, "ndcg@10_gain"]
        difference = found[task, "ndcg@10"]["value"] - before[task, "ndcg@10"]["value"]
        assert gain["value"] == pytest.approx(difference)
        assert gain["ci_low"] <= gain["value"] <= gain["ci_high"]
    assert ("ours bm25", "ndcg@10_gain") not in found
    assert found["ours bm25", "map"]["value"] == before["ours bm25", "map"]["value"]


def test_the_files_are_part_of_the_version_and_their_place_is_not(folder: Path) -> None:
    config = EvaluateConfig(retrieval=False, retrieval_sets=str(folder))
    assert set(externals(config)) == {
        f"retrieval_sets/ours/{name}"
        for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv")
    }
    stripped = without(config.model_dump(mode="json"), STAGE.locations)
    assert stripped["retrieval_sets"] == {"ours": {"dev": "dev", "test": "test"}}


def test_a_split_without_judgements_is_left_out_and_a_set_without_any_is_refused(
    tmp_path: Path, encoder: SimpleNamespace, model: Path, folder: Path
) -> None:
    out = measured(tmp_path, model, folder, splits=["dev", "test"])
    assert {task for task, _ in figures(out["evaluations"])} == {
        "ours", "ours bm25", "ours hybrid",
    }  # fmt: skip
    with fails("missing_file", "qrels/dev.tsv"):
        measured(tmp_path, model, folder, splits=["dev"])
