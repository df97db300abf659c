"""Scorer `gense`: which candidates it judges, and by which probability."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from awareness_corpus import emitted, stored
from failures import fails
from fitted_gense import init, opened, pairs

from tercet.models.t5 import judge, wording
from tercet.storage.rows import rows_of
from tercet.tasks.scoring import gense
from tercet.tasks.scoring.gense import GenseConfig


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random judge, calibrated to slope 0.5 and shift 1."""
    folder = tmp_path_factory.mktemp("gense")
    one = opened(folder / "init")
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in one.model.parameters():
            weight += 0.2 * torch.randn_like(weight)
    one.model.save_pretrained(folder / "judge")
    one.tokenizer.save_pretrained(folder / "judge")
    wording.write(folder / "judge", one.question.model_copy(update={"slope": 0.5, "shift": 1.0}))
    return folder / "judge"


def scored(tmp_path: Path, model: Path, relations: list[str], **settings: Any) -> Any:
    """Values by candidate, and rejects; candidate i stands beside sentence i."""
    rows = pairs(len(relations)).slice(0, len(relations))
    ids = pa.array(range(100, 100 + len(relations)), pa.uint64())
    # In another order than the candidates.
    sentences = pa.table({"sentence_id": ids, "text": rows["anchor"]})[::-1]
    candidates = pa.table(
        {
            "candidate_id": pa.array(range(len(relations)), pa.uint64()),
            "sentence_id": ids,
            "relation": relations,
            "text": rows["text"],
        }
    )
    inputs = {
        "candidates": rows_of({"candidates": stored(tmp_path, "c", candidates)}),
        "sentences": rows_of({"sentences": stored(tmp_path, "s", sentences)}),
    }
    config = GenseConfig(model="judge", **settings)
    tables = emitted(gense.STAGE, config, inputs, tmp_path, {"model": model})
    found = tables["scores"].to_pylist()
    assert {(row["scorer"], row["measure"]) for row in found} <= {("gense", "p_true")}
    return {row["candidate_id"]: row["value"] for row in found}, tables["rejects"].to_pylist()


def logits(model: Path, count: int) -> Any:
    rows = pairs(count).slice(0, count)
    texts = (rows[name].to_pylist() for name in ("anchor", "text"))
    return judge.logits(judge.load(model, "fp32", "cpu"), *texts, 1)  # type: ignore[call-arg]


def test_probabilities_are_calibrated_unless_the_plain_softmax_is_asked_for(
    tmp_path: Path, model: Path
) -> None:
    known = logits(model, 7)
    found, rejects = scored(tmp_path, model, ["keeps", "alters"] * 3 + ["keeps"])
    assert list(found) == list(range(7))
    assert list(found.values()) == pytest.approx(1 / (1 + np.exp(-(0.5 * known + 1))), abs=1e-5)
    plain, _ = scored(tmp_path, model, ["keeps", "alters"] * 3 + ["keeps"], calibrated=False)
    assert list(plain.values()) == pytest.approx(1 / (1 + np.exp(-known)), abs=1e-5)
    assert rejects == []


def test_what_neither_follows_nor_contradicts_is_not_judged(tmp_path: Path, model: Path) -> None:
    found, rejects = scored(tmp_path, model, ["topic", "keeps", "other", "alters"])
    assert list(found) == [1, 3]
    assert rejects == []
    assert scored(tmp_path, model, ["topic", "other"]) == ({}, [])


def test_batches_of_candidates_make_no_difference(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relations = ["keeps", "topic", "alters", "keeps", "alters", "alters", "keeps"]
    whole, _ = scored(tmp_path, model, relations)
    monkeypatch.setattr(gense, "_ROWS", 2)
    parts, _ = scored(tmp_path, model, relations)
    assert parts == pytest.approx(whole, abs=1e-6)


def test_a_spoilt_judge_scores_nothing(tmp_path: Path, model: Path) -> None:
    spoilt = tmp_path / "spoilt"
    one = judge.load(model, "fp32", "cpu")
    with torch.no_grad():
        next(one.model.parameters())[:] = float("nan")
    one.model.save_pretrained(spoilt)
    one.tokenizer.save_pretrained(spoilt)
    wording.write(spoilt, one.question)
    found, rejects = scored(tmp_path, spoilt, ["keeps", "alters"])
    assert found == {}
    assert [(row["row_id"], row["reason"]) for row in rejects] == [
        (0, "nan_score"),
        (1, "nan_score"),
    ]


def test_a_model_that_judges_nothing_is_refused(tmp_path: Path) -> None:
    with fails("unfit_model", "score.gense"):
        scored(tmp_path, init(tmp_path / "t5"), ["keeps"])
