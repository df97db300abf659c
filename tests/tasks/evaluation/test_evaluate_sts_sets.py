"""Graded pairs of one's own as the stage `evaluate` and `tercet eval` measure them."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from evaluation_stage import encoder, model, run_stage
from scipy.stats import spearmanr

from tercet.flows.pipeline.fingerprints import without
from tercet.tasks.evaluation.evaluate import STAGE, EvaluateConfig, externals

__all__ = ["encoder", "model"]

# Two texts, their score and their split: by shared words, not all are in order.
PAIRS = [
    ("a b c d", "a b c d", 5, "test"),
    ("a b c d", "a b c x", 2, "test"),
    ("a b c d", "a b x y", 3, "test"),
    ("e f g h", "e x y z", 1, "test"),
    ("e f g h", "w x y z", 0, "test"),
    ("i j k l", "i j k l", 9, "dev"),
    ("i j k l", "i j k x", 8, "dev"),
    ("i j k l", "w x y z", 1, "dev"),
    ("m n o p", "", 1, "test"),
]


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    path = tmp_path / "ours.tsv"
    lines = [("one", "two", "gold", "split"), *PAIRS]
    path.write_text("\n".join("\t".join(map(str, line)) for line in lines))
    return str(path)


def measured(tmp_path: Path, model: Path, sets: Any, **more: Any) -> dict[str, pa.Table]:
    return run_stage(tmp_path / "work", model, [], retrieval=False, sts_sets=sets, **more)


def figures(table: pa.Table) -> dict[tuple[str, str, str], dict[str, Any]]:
    rows = [row for row in table.to_pylist() if row["suite"] == "sts_sets"]
    return {(row["task"], row["subset"], row["metric"]): row for row in rows}


def test_by_hand(tmp_path: Path, encoder: SimpleNamespace, model: Path, pairs: str) -> None:
    out = measured(tmp_path, model, {"ours": pairs}, splits=["dev", "test"])
    found = figures(out["evaluations"])
    assert set(found) == {("ours", "all", "spearman"), ("ours dev", "all", "spearman")}
    row = found["ours", "all", "spearman"]
    expected = 100 * spearmanr([1, 0.75, 0.5, 0.25, 0], [5, 2, 3, 1, 0]).statistic
    assert row["value"] == pytest.approx(expected)
    assert row["ci_low"] <= row["value"] <= row["ci_high"]
    assert row["n"] == 5
    assert found["ours dev", "all", "spearman"]["value"] == pytest.approx(100)
    items = out["evaluation_items"].to_pylist()
    assert [(item["task"], item["gold"]) for item in items[:6]] == [
        *(("ours", score) for _, _, score, split in PAIRS[:5]),
        ("ours dev", 9),
    ]
    (left_out,) = out["rejects"].to_pylist()
    assert left_out["reason"] == "missing_text"
    assert "row 10" in left_out["detail"]


def test_where_a_file_lies_is_no_part_of_the_version_but_its_columns_are(pairs: str) -> None:
    def version(**given: Any) -> Any:
        config = EvaluateConfig.model_validate({"sts_sets": {"ours": given}})
        assert externals(config) == {"sts_sets/ours": Path(given["source"])}
        return without(config.model_dump(mode="json"), STAGE.locations)

    moved = f"{pairs}.copy.tsv"
    shutil.copy(pairs, moved)
    assert version(source=pairs) == version(source=moved)
    columns = {"anchor": "two", "positive": "one", "label": "gold"}
    assert version(source=pairs) != version(source=pairs, columns=columns)
