"""Scorers: the evaluator's cosine, the discriminator's probability, the judge's."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from failures import fails
from fitted_gense import init, opened, pairs
from stages import emitted, stored

from tercet.models import discriminators, seeding
from tercet.models.discriminators import PairModel, Platt
from tercet.models.t5 import judge, wording
from tercet.storage.rows import rows_of
from tercet.tasks.scoring import embed, evaluator, gense, pair

Scored = tuple[dict[int, float], list[tuple[int, str, str]]]


def scored(
    stage: Any, config: Any, folder: Path, given: list[tuple[str, str]], **more: Any
) -> Scored:
    """Values by place of the (anchor, candidate), and the rejects. more: models, inputs, kinds."""
    anchors, texts = ([one[side] for one in given] for side in (0, 1))
    candidates = pa.table(
        {
            "candidate_id": pa.array(range(len(given)), pa.uint64()),
            "sentence_id": pa.array(seeding.text_ids(anchors), pa.uint64()),
            "relation": more.get("kinds", ["keeps"] * len(given)),
            "anchor": pa.nulls(len(given), pa.string()),
            "text": texts,
        }
    )
    inputs = stored(folder, candidates=candidates) | more["inputs"]
    tables = emitted(stage, config, inputs, folder, more.get("models"))
    measure = "similarity" if stage is evaluator.STAGE else "p_true"
    assert set(tables["scores"]["measure"].to_pylist()) <= {measure}
    scores = {row["candidate_id"]: row["value"] for row in tables["scores"].to_pylist()}
    rejects = tables["rejects"].to_pylist()
    return scores, [(row["row_id"], row["reason"], row["text"]) for row in rejects]


def embeddings(folder: Path, vectors: dict[str, Any]) -> dict[str, Any]:
    """The texts' vectors, in two parts."""
    ids = pa.array(seeding.text_ids(list(vectors)), pa.uint64())
    table = embed.embeddings_table(ids, np.array(list(vectors.values()), dtype=np.float32))
    half = table.num_rows // 2
    parts = {"first": table.slice(0, half), "second": table.slice(half)}
    stored(folder, **parts)
    files = [folder / f"{name}.parquet" for name in parts]
    return {"embeddings": rows_of({"embeddings": files})}


def cosines(folder: Path, vectors: dict[str, Any], given: list[tuple[str, str]]) -> Scored:
    inputs = embeddings(folder, vectors)
    return scored(evaluator.STAGE, evaluator.STAGE.config(), folder, given, inputs=inputs)


def test_cosines_by_hand(tmp_path: Path) -> None:
    vectors = {"x": [1.0, 0.0], "same": [3.0, 0.0], "across": [0.0, 2.0], "half": [1.0, 1.0]}
    given = [("x", "same"), ("x", "across"), ("half", "x"), ("x", "x")]
    scores, rejects = cosines(tmp_path, vectors, given)
    assert scores == pytest.approx({0: 1.0, 1: 0.0, 2: 2**-0.5, 3: 1.0}, abs=1e-7)
    assert rejects == []


def test_more_candidates_than_are_read_at_once(tmp_path: Path) -> None:
    texts = [f"t{i}" for i in range(50)]
    vectors = {t: [float(np.cos(i)), float(np.sin(i))] for i, t in enumerate(texts)}
    given = [(texts[i % 50], texts[7 * i % 50]) for i in range(20_000)]
    scores, rejects = cosines(tmp_path, vectors, given)
    expected = {i: float(np.cos(i % 50 - 7 * i % 50)) for i in range(20_000)}
    assert scores == pytest.approx(expected, abs=1e-6)
    assert rejects == []
    # What was laid out of other embeddings is not read.
    same, _ = cosines(tmp_path, {text: [1.0, 0.0] for text in texts}, given[:50])
    assert same == pytest.approx(dict.fromkeys(range(50), 1.0))


def test_a_row_without_a_number_is_a_reject(tmp_path: Path) -> None:
    vectors = {"x": [1.0, 0.0], "zero": [0.0, 0.0], "odd": [float("nan"), 1.0], "y": [1.0, 1.0]}
    given = [("x", "zero"), ("x", "odd"), ("x", "never seen"), ("x", "y")]
    scores, rejects = cosines(tmp_path, vectors, given)
    assert list(scores) == [3]
    assert rejects == [
        (0, "nan_score", "zero"),
        (1, "nan_score", "odd"),
        (2, "no_embedding", "never seen"),
    ]


def test_a_pair_has_the_discriminators_probability_with_its_sentence_first(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    texts = [f"Text {number}." for number in range(12)]
    vectors = generator.normal(size=(12, 6)).astype(np.float32)
    vectors[11] = 0.0
    places = [(row, (row * 5 + 1) % 11) for row in range(10)]
    given = [(texts[a], texts[b]) for a, b in places]
    given += [(texts[0], "A text that nobody has encoded."), (texts[1], texts[11])]
    inputs = embeddings(tmp_path, dict(zip(texts, vectors, strict=True)))
    (tmp_path / "judge").mkdir()
    models = {"discriminator": tmp_path / "judge"}

    def judged(model: PairModel) -> Scored:
        discriminators.write(tmp_path / "judge", model)
        config = pair.PairConfig(model="judge")
        return scored(pair.STAGE, config, tmp_path, given, inputs=inputs, models=models)

    model = PairModel(generator.normal(size=(4, 6)), 0.2, Platt(1.5, 0.1))
    scores, rejects = judged(model)
    first, second = (vectors[[one[side] for one in places]] for side in (0, 1))
    expected = dict(enumerate(model.probabilities(first, second).tolist()))
    assert scores == pytest.approx(expected, abs=1e-6)
    assert all(0 < value < 1 for value in scores.values())
    assert set(rejects) == {
        (10, "no_embedding", "A text that nobody has encoded."),
        (11, "nan_score", texts[11]),
    }
    with fails("unfit_model", "4", "6"):
        judged(PairModel(generator.normal(size=(4, 4)), 0.2, Platt(1.5, 0.1)))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random judge, calibrated to slope 0.5 and shift 1."""
    folder = tmp_path_factory.mktemp("gense")
    one = opened(folder / "init")
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in one.model.parameters():
            weight += 0.2 * torch.randn_like(weight)
    return saved(one, folder / "judge", slope=0.5, shift=1.0)


def saved(one: Any, folder: Path, **calibration: float) -> Path:
    one.model.save_pretrained(folder)
    one.tokenizer.save_pretrained(folder)
    wording.write(folder, one.question.model_copy(update=calibration))
    return folder


def judged(folder: Path, model: Path, *kinds: str, **settings: Any) -> Scored:
    """Of as many candidates, each beside a sentence, in another order than these."""
    rows = pairs(len(kinds)).slice(0, len(kinds))
    given = [(row["anchor"], row["text"]) for row in rows.to_pylist()]
    anchors = list(dict.fromkeys(anchor for anchor, _ in given))[::-1]
    ids = pa.array(seeding.text_ids(anchors), pa.uint64())
    inputs = stored(folder, sentences=pa.table({"sentence_id": ids, "text": anchors}))
    more = {"inputs": inputs, "models": {"model": model}, "kinds": list(kinds)}
    config = gense.GenseConfig(model="judge", **settings)
    return scored(gense.STAGE, config, folder, given, **more)


def test_probabilities_are_calibrated_unless_the_plain_softmax_is_asked_for(
    tmp_path: Path, model: Path
) -> None:
    rows = pairs(7).slice(0, 7)
    texts = (rows[name].to_pylist() for name in ("anchor", "text"))
    known: Any = judge.logits(judge.load(model, "fp32", "cpu"), *texts, 1)  # type: ignore[call-arg]
    kinds = ["keeps", "alters"] * 3 + ["keeps"]
    found, rejects = judged(tmp_path, model, *kinds)
    assert list(found) == list(range(7))
    assert list(found.values()) == pytest.approx(1 / (1 + np.exp(-(0.5 * known + 1))), abs=1e-5)
    plain, _ = judged(tmp_path, model, *kinds, calibrated=False)
    assert list(plain.values()) == pytest.approx(1 / (1 + np.exp(-known)), abs=1e-5)
    assert rejects == []


def test_what_neither_follows_nor_contradicts_is_not_judged(tmp_path: Path, model: Path) -> None:
    found, rejects = judged(tmp_path, model, "topic", "keeps", "other", "alters")
    assert (list(found), rejects) == ([1, 3], [])
    assert judged(tmp_path, model, "topic", "other") == ({}, [])


def test_a_spoilt_judge_scores_nothing_and_what_judges_nothing_is_refused(
    tmp_path: Path, model: Path
) -> None:
    one = judge.load(model, "fp32", "cpu")
    with torch.no_grad():
        next(one.model.parameters())[:] = float("nan")
    found, rejects = judged(tmp_path, saved(one, tmp_path / "spoilt"), "keeps", "alters")
    assert found == {}
    assert [reject[:2] for reject in rejects] == [(0, "nan_score"), (1, "nan_score")]
    with fails("unfit_model", "score.gense"):
        judged(tmp_path, init(tmp_path / "t5"), "keeps")
