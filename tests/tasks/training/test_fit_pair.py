"""Stage `fit_pair`: a discriminator with its figures, from labelled pairs and an evaluator."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from failures import fails
from inference_pairs import THINGS, labelled, rows
from stages import ran

from tercet.models import discriminators
from tercet.models.encoders import encoder
from tercet.tasks import encoders
from tercet.tasks.scoring.embed import EmbedConfig
from tercet.tasks.stage import Resources, Work
from tercet.tasks.training import fit_pair
from tercet.tasks.training.fit_pair import FitPairConfig
from tercet.tasks.training.judged_pairs import JudgedConfig, read_judged

Given = list[dict[str, object]]


class Evaluator:
    """In the encoder's place: a text's vector holds the things that it names, and noise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loaded: list[tuple[Any, ...]] = []
        self.encoded: list[str] = []
        self.fails_at: int | None = None
        self.scale = 1.0
        monkeypatch.setattr(encoder, "load_encoder", self._load)
        monkeypatch.setattr(encoder, "encode", self._encode)

    def _load(self, *given: Any, **_: Any) -> str:
        self.loaded.append(given)
        return "model"

    def _encode(self, model: str, texts: list[str], *_: Any) -> npt.NDArray[np.float32]:
        if self.fails_at is not None and len(self.encoded) >= self.fails_at:
            raise KeyboardInterrupt
        self.encoded += texts
        found = np.array([[float(thing in text) for thing in THINGS] for text in texts])
        noise = np.array([[len(text) % 7, text.count("e")] for text in texts])
        return self.scale * np.hstack([found, 0.05 * noise + 0.1]).astype(np.float32)


@pytest.fixture
def evaluator(monkeypatch: pytest.MonkeyPatch) -> Evaluator:
    return Evaluator(monkeypatch)


def fitted(folder: Path, given: Given, **settings: Any) -> tuple[Path, dict[str, Any]]:
    encoding = EmbedConfig(max_length=77, pooling="mean").model_dump()
    own = {"corpora": ("nli",), "validation": 0.25, "test": 0.25, **settings, **encoding}
    config = FitPairConfig(name="judge", **own)
    inputs, models = {"labelled": labelled(folder, given)}, {"evaluator": folder / "evaluator"}
    path, tables = ran(fit_pair.STAGE, config, inputs, folder / "scratch", models)
    return path, {name: table.to_pylist() for name, table in tables.items()}


def test_it_leaves_a_discriminator_that_knows_the_things(
    tmp_path: Path, evaluator: Evaluator
) -> None:
    directory, tables = fitted(tmp_path, rows(400))
    encoded = list(evaluator.encoded)
    model = discriminators.read(directory)
    assert model.dimension == len(THINGS) + 2
    first, same, other = evaluator._encode(
        "model", ["Behind the mill: the boat.", "There is a boat.", "There is a tent."]
    )
    assert model.probabilities(first[None], same[None])[0] > 0.9
    assert model.probabilities(first[None], other[None])[0] < 0.1
    assert {path.suffix for path in directory.iterdir()} == {".safetensors", ".json"}
    auc = {row["arm"]: row["value"] for row in tables["discriminator_metrics"] if
           (row["metric"], row["subset"]) == ("auc", "all")}  # fmt: skip
    assert set(auc) == {"discriminator", "hypothesis", "pair_words", "cosine"}
    assert auc["discriminator"] > 0.99
    assert auc["hypothesis"] < 0.7
    # Vectors are made as `embed` makes them, and each text once.
    ((path, pooling, max_length, device, remote, prompt),) = evaluator.loaded
    assert (path, pooling, max_length) == (tmp_path / "evaluator", "mean", 77)
    assert (device, remote, prompt) == ("cpu", False, None)
    assert len(encoded) == len(set(encoded))
    assert {row["discriminator"] for row in tables["reliability"]} == {"judge"}


@pytest.mark.usefixtures("evaluator")
def test_pairs_held_out_for_the_figures_move_no_weight(tmp_path: Path) -> None:
    given = rows(400)
    inputs = {"labelled": labelled(tmp_path, given)}
    work = Work(None, 3, inputs, {}, {}, Resources(), tmp_path, lambda *_: None, "fit_pair")
    config = JudgedConfig(corpora=("nli",), validation=0.25, test=0.25)
    parts = read_judged(work, config, "fit_pair: judge")

    def swapped(name: str) -> tuple[npt.NDArray[np.float64], float]:
        """Weights, and the judge's AUC, where pairs of this part are false if they were true."""
        anchors = set(getattr(parts, name)["anchor"].to_pylist()) if name else set()
        changed = [
            {**row, "positive": row["negative"], "negative": row["positive"]}
            if row["anchor"] in anchors
            else row
            for row in given
        ]
        directory, tables = fitted(tmp_path / f"of{name}", changed)
        (auc,) = (
            row["value"]
            for row in tables["discriminator_metrics"]
            if (row["arm"], row["metric"], row["subset"]) == ("discriminator", "auc", "all")
        )
        return discriminators.read(directory).weights, auc

    weights, _ = swapped("")
    others, auc = swapped("test")
    assert np.array_equal(others, weights)
    assert auc < 0.1
    assert not np.array_equal(swapped("fit")[0], weights)


def test_a_killed_fit_encodes_only_what_is_missing(
    tmp_path: Path, evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoders, "BLOCK", 50)
    expected, _ = fitted(tmp_path / "whole", rows(200))
    whole = len(evaluator.encoded)
    evaluator.encoded, evaluator.fails_at = [], 100
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path / "killed", rows(200))
    evaluator.fails_at = None
    directory, _ = fitted(tmp_path / "killed", rows(200))
    assert len(evaluator.encoded) == whole
    weights = (discriminators.read(where).weights for where in (expected, directory))
    assert np.array_equal(next(weights), next(weights))


def test_labels_or_vectors_that_nothing_can_be_fitted_to(
    tmp_path: Path, evaluator: Evaluator
) -> None:
    with fails("no_rows", "fit_pair"):
        fitted(tmp_path, [{**row, "negative": None} for row in rows(100)])
    evaluator.scale = np.nan
    with fails("unfit_model", "fit_pair"):
        fitted(tmp_path / "none", rows(100))
