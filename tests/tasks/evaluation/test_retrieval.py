"""Questions beside the natural pairs, each ranked among its own answers."""

import pyarrow as pa
import pytest
from evaluation_stage import constant, encoder, many_pairs, model, pairs_table, run_stage

from tercet.tasks.evaluation.evaluation_rows import LEAST

__all__ = ["encoder", "model"]


def questions(**asked: list[tuple[str, str, str]]) -> pa.Table:
    tables = []
    for name, rows in asked.items():
        table = pairs_table(rows)
        tables.append(table.append_column("question", pa.array([name] * len(rows))))
    return pa.concat_tables(tables)


def test_each_question_is_a_task_of_its_own(tmp_path, encoder, model):
    natural = many_pairs(6)
    asked = questions(
        name=[*many_pairs(LEAST), *many_pairs(LEAST - 1, "dev")], other=many_pairs(LEAST + 3)
    )
    base = run_stage(tmp_path / "a", model, natural, questions=asked, splits=["dev", "test"])
    rows = base["evaluations"].to_pylist()
    found = {(r["task"], r["subset"]): r for r in rows if r["metric"] == "recall@1"}
    # Too few of dev.
    assert set(found) == {("document_pairs", "test"), ("name", "test"), ("other", "test")}
    assert found["name", "test"]["n"] == LEAST
    assert found["other", "test"]["n"] == LEAST + 3
    alone = run_stage(tmp_path / "b", model, natural, splits=["dev", "test"])
    assert [r for r in rows if r["task"] == "document_pairs"] == alone["evaluations"].to_pylist()
    ranks = base["retrieval_ranks"].to_pylist()
    assert {row["task"] for row in ranks} == {"document_pairs", "name", "other"}
    trained = run_stage(
        tmp_path / "c", model, natural, baseline=base, questions=asked, splits=["dev", "test"]
    )
    gains = {r["task"]: r["value"] for r in trained["evaluations"].to_pylist()
             if r["metric"] == "recall@1_gain"}  # fmt: skip
    assert gains == {"document_pairs": 0.0, "name": 0.0, "other": 0.0}


def test_the_nearest_answer_stands_beside_the_rank(tmp_path, encoder, model):
    rows = [("a b", "a c", "test"), ("d e", "a b", "test"), ("f g", "f h", "test")]
    ids = pairs_table(rows)["pair_id"].to_pylist()
    out = run_stage(tmp_path / "a", model, rows)["retrieval_ranks"].sort_by("pair_id").to_pylist()
    found = {row["pair_id"]: (row["nearest_id"], row["nearest_similarity"]) for row in out}
    assert found[ids[0]] == (ids[1], pytest.approx(1, abs=1e-6))
    assert found[ids[2]] == (ids[2], pytest.approx(0.5, abs=1e-6))
    assert {row["rank"] for row in out if row["pair_id"] == ids[0]} == {2}
    encoder.embed = constant
    out = run_stage(tmp_path / "b", model, rows)["retrieval_ranks"].to_pylist()
    assert {row["nearest_id"] for row in out} < set(ids)
