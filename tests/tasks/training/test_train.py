"""Stages `train` and `fit_evaluator`: what they leave, and their errors."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from failures import fails
from stages import ran, stored
from tiny_models import WORDS
from tiny_t5 import tiny_t5
from train_stage import call, inputs

from tercet.models.encoders.encoder import encode, load_encoder
from tercet.storage.rows import Rows
from tercet.tasks.training import fit_evaluator, train
from tercet.tasks.training.fit_evaluator import FitEvaluatorConfig
from tercet.tasks.training.phases import PhaseConfig
from tercet.tasks.training.train_settings import TrainConfig

__all__ = ["inputs"]

GATE = {"gate_opening", "gradient_share", "student_negative", "teacher_negative"}


def trained(
    inputs: dict[str, Rows], backbone: Path, scratch: Path, phase: dict[str, Any], **more: Any
) -> Any:
    """The encoder's directory, the log and the progress of one phase."""
    config = TrainConfig(phase=PhaseConfig.model_validate(phase), **more)
    return call(train.STAGE, config, inputs, backbone, scratch)


def test_a_phase_leaves_a_plain_encoder_that_moved(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    phase = {"name": "main", "batch_size": 8, "epochs": 2, "word_repetition": "many"}
    path, log, steps = trained(
        inputs, tiny_backbone, tmp_path / "work", phase, pooling="cls", log_steps=2
    )
    assert [(row["phase"], row["step"]) for row in log] == [("main", 2), ("main", 4), ("main", 6)]
    assert steps == [(i, 6, "steps") for i in range(1, 7)]
    assert set(log[-1]["terms"]) == GATE
    assert log[-1]["terms"]["teacher_negative"] == pytest.approx(0.9)
    files = {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}
    assert "modules.json" in files
    assert not any(name.endswith((".bin", ".pt", ".pth", ".md")) for name in files)
    assert str(tmp_path) not in json.dumps(json.loads((path / "config.json").read_text()))
    before = encode(load_encoder(tiny_backbone, "cls"), tiny_texts[:5])
    after = load_encoder(path)
    assert after[1].pooling_mode == "cls"
    assert float(np.abs(encode(after, tiny_texts[:5]) - before).max()) > 1e-4


def test_a_phase_goes_on_from_what_the_one_before_left(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    warm = {"name": "warm", "rows": "anchors", "loss": {"name": "info_nce", "head": True}}
    first, log, _ = trained(
        inputs, tiny_backbone, tmp_path / "a", {**warm, "batch_size": 8}, log_steps=2
    )
    assert {tuple(row["terms"]) for row in log} == {()}
    still = {"name": "main", "batch_size": 8, "max_steps": 1, "learning_rate": 1e-12}
    second, _, _ = trained(inputs, first, tmp_path / "b", still)
    texts = tiny_texts[:5]
    left = encode(load_encoder(first), texts)
    assert np.allclose(left, encode(load_encoder(second), texts), atol=1e-6)
    assert not np.allclose(left, encode(load_encoder(tiny_backbone, "mean"), texts), atol=1e-4)


def test_an_encoder_decoder_trains_through_phases_by_its_first_decoder_state(
    inputs: dict[str, Rows], tmp_path: Path, tiny_texts: list[str]
) -> None:
    """GenSE's form: each phase leaves it in its form, with its prompt, and moved in all parts."""
    prompt = " is it new"
    form = {"pooling": "first_decoder", "prompt": prompt}
    path = tiny_t5(tmp_path / "t5", WORDS)
    first = load_encoder(path, "first_decoder", prompt=prompt)
    left = path
    common = {"loss": "info_nce", "batch_size": 12, "mini_batch": 5, "learning_rate": 1e-3}
    for name, rows in (("synthetic", "triplets"), ("last", "pairs")):
        phase = {"name": name, "rows": rows, "max_steps": 3, **common}
        left, log, _ = trained(inputs, left, tmp_path / name, phase, log_steps=1, **form)
        assert [row["step"] for row in log] == [1, 2, 3]
    after = load_encoder(left)
    assert (after[0].state, after[0].template) == ("first_decoder", "{sentence}" + prompt)
    assert (left / "tercet_template_encoder.py").is_file()
    moved = {
        name.split(".")[2]
        for (name, weight), old in zip(after.named_parameters(), first.parameters(), strict=True)
        if float((weight - old).detach().abs().max()) > 1e-4
    }
    assert moved == {"shared", "encoder", "decoder"}
    vectors = encode(after, tiny_texts[:5])
    assert vectors.shape == (5, 32)
    assert float(np.abs(vectors - encode(first, tiny_texts[:5])).max()) > 1e-4


def test_parts_of_two_sources_train_in_one_batch(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path
) -> None:
    parts = [
        {"name": "topical", "rows": "anchors", "loss": "info_nce", "share": 0.5},
        {"name": "strict", "weight": 0.5, "share": 0.5},
    ]
    phase = {"name": "mixed", "parts": parts, "batch_size": 8}
    _, log, _ = trained(inputs, tiny_backbone, tmp_path / "work", phase, log_steps=1)
    names = {"topical.loss", "strict.loss", *(f"strict.{name}" for name in GATE)}
    # A teacher's cosine is not known for every row.
    assert names - {"strict.teacher_negative"} <= set(log[0]["terms"]) <= names
    for row in log:
        summed = row["terms"]["topical.loss"] + 0.5 * row["terms"]["strict.loss"]
        assert row["loss"] == pytest.approx(summed, rel=1e-4)
    # 30 anchors, four a batch.
    assert [row["step"] for row in log] == list(range(1, 9))


def drawn(
    inputs: dict[str, Rows], backbone: Path, scratch: Path, phase: dict[str, Any], **more: Any
) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table."""
    config = TrainConfig(phase=PhaseConfig.model_validate(phase), **more)
    _, tables = ran(train.STAGE, config, inputs, scratch, {"backbone": backbone})
    return {name: table.to_pylist() for name, table in tables.items()}


def test_draws_are_afresh_in_each_epoch(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path
) -> None:
    """Three triplets of each of eight sentences: one of them an epoch."""
    table = inputs["triplets"].table("triplets")
    place = table.schema.get_field_index("sentence_id")
    sentences = pa.array([i // 3 for i in range(24)], pa.uint64())
    given = stored(tmp_path, triplets=table.set_column(place, "sentence_id", sentences))
    phase = {"name": "main", "rows": {"one_per": "sentence"}, "batch_size": 4, "epochs": 3}
    tables = drawn({**inputs, **given}, tiny_backbone, tmp_path, phase)
    epochs: list[dict[int, int]] = [{}, {}, {}]
    for row in tables["draws"]:
        if row["method"] == "negation":
            assert (row["candidate_id"] - 200) // 3 == row["sentence_id"]
            assert epochs[row["epoch"]].setdefault(row["sentence_id"], row["candidate_id"])
    assert [len(chosen) for chosen in epochs] == [8, 8, 8]
    assert len({tuple(sorted(chosen.items())) for chosen in epochs}) == 3
    assert max(row["step"] for row in tables["training_log"]) == 6


def test_positives_are_drawn_afresh_in_each_epoch(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path
) -> None:
    rows = {"from": "anchors", "draw": {"cutoff": 0}}
    phase = {"rows": rows, "loss": {"name": "nt_xent", "head": True}, "batch_size": 8, "epochs": 3}
    found = drawn(inputs, tiny_backbone, tmp_path, phase, model_seed=9)["drawn_pairs"]
    assert {row["seed"] for row in found} == {9}
    epochs = [{r["sentence_id"]: r["text"] for r in found if r["epoch"] == n} for n in range(3)]
    # The 30 anchors, each once an epoch.
    assert [len(texts) for texts in epochs] == [30, 30, 30]
    assert len({tuple(texts.values()) for texts in epochs}) == 3
    sentences = {
        row["sentence_id"]: row["text"]
        for row in inputs["sentences"].table("sentences").to_pylist()
    }
    triplets = inputs["triplets"].table("triplets").to_pylist()
    kept = {t["positive_id"]: t for t in triplets if t["relation"] == "alters"}
    assert {row["operation"] for row in found} == {"word_shuffle", "word_repetition", "generated"}
    for row in found:
        source, text = sentences[row["sentence_id"]], row["text"]
        if row["operation"] == "generated":
            # What is on the topic alone is no generation of the sentence.
            triplet = kept[row["candidate_id"]]
            assert (triplet["sentence_id"], triplet["positive"]) == (row["sentence_id"], text)
        else:
            assert row["candidate_id"] is None
            assert set(text.split()) == set(source.split())
            assert text != source


def test_a_missing_backbone_is_named(inputs: dict[str, Rows], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with fails("unfit_model"):
        trained(inputs, tmp_path / "empty", tmp_path / "work", {})


def test_the_evaluator_is_fitted_on_the_train_split(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path
) -> None:
    config = FitEvaluatorConfig(batch_size=8, log_steps=1)
    path, log, steps = call(fit_evaluator.STAGE, config, inputs, tiny_backbone, tmp_path / "all")
    assert steps[-1] == (4, 4, "steps")  # 30 sentences in batches of eight
    assert {row["phase"] for row in log} == {"fit_evaluator"}
    assert load_encoder(path).get_embedding_dimension() == 32
    sentences = inputs["sentences"].table("sentences")
    nothing = stored(tmp_path, sentences=sentences.filter(pc.equal(sentences["split"], "test")))
    with fails("no_rows"):
        call(fit_evaluator.STAGE, config, nothing, tiny_backbone, tmp_path / "none")
