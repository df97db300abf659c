"""Figures of a discriminator beside controls, on the anchors held out for them."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from inference_pairs import labelled, rows

from tercet.models.discriminators import Platt
from tercet.tasks.stage import Resources, Work
from tercet.tasks.training import discriminator_figures as figures
from tercet.tasks.training.discriminator_figures import emit_figures
from tercet.tasks.training.judged_pairs import Judged, JudgedConfig, labels_of, read_judged

Rows = list[dict[str, Any]]


def emitted(
    folder: Path, skill: float, corpora: tuple[str, ...] = ("nli",)
) -> tuple[Rows, Rows, Judged]:
    """Both tables, of a judge whose logit is skill · (±1) and noise of deviation 1."""
    given = [row for place, name in enumerate(corpora) for row in rows(150, 9 + place, name)]
    tables: dict[str, pa.Table] = {}
    inputs = {"labelled": labelled(folder, given)}
    work = Work(None, 5, inputs, {}, {}, Resources(), folder, tables.__setitem__, stage="fit_pair")
    judged = read_judged(
        work, JudgedConfig(corpora=corpora, validation=0.3, test=0.3), "fit_pair: judge"
    )
    generator = np.random.default_rng(1)

    def noisy(part: pa.Table, by: float) -> Any:
        return by * (2 * labels_of(part) - 1) + generator.normal(size=part.num_rows)

    logits = noisy(judged.test, skill)
    cosines = {name: noisy(part, 0.5) for name, part in judged._asdict().items()}
    emit_figures(work, "judge", judged, logits, Platt(2.0 * skill, 0.0), cosines)
    assert tables["discriminator_metrics"].schema == figures.DISCRIMINATOR_METRICS
    assert tables["reliability"].schema == figures.RELIABILITY
    metrics, bins = (tables[name].to_pylist() for name in ("discriminator_metrics", "reliability"))
    return metrics, bins, judged


def value(metrics: Rows, arm: str, metric: str, subset: str = "all") -> dict[str, Any]:
    (found,) = (r for r in metrics if (r["arm"], r["metric"], r["subset"]) == (arm, metric, subset))
    return found


def test_the_judge_stands_beside_its_controls(tmp_path: Path) -> None:
    metrics, _, judged = emitted(tmp_path, skill=1.0)
    assert {row["arm"] for row in metrics} == {
        "discriminator",
        "hypothesis",
        "pair_words",
        "cosine",
    }
    own, words = (value(metrics, arm, "auc") for arm in ("discriminator", "hypothesis"))
    assert own["value"] > 0.8
    assert own["ci_low"] < own["value"] < own["ci_high"]
    # The second text alone gives nothing away.
    assert words["value"] < 0.6
    assert 0.65 < value(metrics, "cosine", "auc")["value"] < 0.85
    anchors = len(set(judged.test["anchor"].to_pylist()))
    assert (own["pairs"], own["anchors"]) == (judged.test.num_rows, anchors)
    assert value(metrics, "discriminator", "accuracy")["value"] > 70
    assert value(metrics, "discriminator", "calibration_error")["value"] < 0.2
    assert value(metrics, "discriminator", "log_loss")["value"] < 0.6


def test_the_gain_is_paired_over_the_same_resamples(tmp_path: Path) -> None:
    metrics, _, _ = emitted(tmp_path, skill=1.0)
    for arm, gains in (("hypothesis", True), ("pair_words", False)):
        gain = value(metrics, arm, "auc_gain")
        own, control = (value(metrics, of, "auc") for of in ("discriminator", arm))
        assert gain["value"] == pytest.approx(own["value"] - control["value"])
        assert (gain["ci_low"] > 0) == gains
    assert not any(r["metric"] == "auc_gain" for r in metrics if r["arm"] == "discriminator")


def test_a_judge_that_guesses_gains_nothing(tmp_path: Path) -> None:
    metrics, bins, _ = emitted(tmp_path, skill=1e-9)
    assert value(metrics, "pair_words", "auc_gain")["ci_high"] < 0
    assert {row["p_low"] for row in bins} <= {0.45, 0.5}


def test_several_corpora_are_subsets(tmp_path: Path) -> None:
    metrics, _, judged = emitted(tmp_path, skill=1.0, corpora=("first", "second"))
    assert {row["subset"] for row in metrics} == {"all", "first", "second"}
    parts = [value(metrics, "discriminator", "auc", name)["pairs"] for name in ("first", "second")]
    assert sum(parts) == judged.test.num_rows
