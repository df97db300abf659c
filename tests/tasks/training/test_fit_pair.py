"""Stage `fit_pair`: a discriminator with its figures, from labelled pairs and an evaluator."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from inference_pairs import THINGS, labelled, rows

from tercet.models.discriminators import pair
from tercet.models.encoders import encoder
from tercet.tasks.scoring.embed import EmbedConfig
from tercet.tasks.stage import BadInput, Resources, Work
from tercet.tasks.training import fit_pair, kept_vectors
from tercet.tasks.training.fit_pair import FitPairConfig
from tercet.tasks.training.judged_pairs import Judged, read_judged

Given = list[dict[str, object]]


class Evaluator:
    """In the encoder's place: a text's vector holds the things that it names, and noise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loaded: list[tuple[Any, ...]] = []
        self.encoded: list[str] = []
        self.fails_at: int | None = None
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
        return np.hstack([found, 0.05 * noise + 0.1]).astype(np.float32)


@pytest.fixture
def evaluator(monkeypatch: pytest.MonkeyPatch) -> Evaluator:
    return Evaluator(monkeypatch)


def fitted(folder: Path, given: Given, **settings: Any) -> tuple[Path, dict[str, Any]]:
    tables: dict[str, pa.Table] = {}
    (folder / "scratch").mkdir(parents=True, exist_ok=True)
    encoding = EmbedConfig(max_length=77, pooling="mean").model_dump()
    own = {"corpora": ("nli",), "validation": 0.25, "test": 0.25, **settings, **encoding}
    config = FitPairConfig(name="judge", **own)
    work = Work(
        config=config,
        seed=3,
        inputs={"labelled": labelled(folder, given)},
        models={"evaluator": folder / "evaluator"},
        spec={},
        resources=Resources(),
        scratch=folder / "scratch",
        emit=tables.__setitem__,
        stage="fit_pair",
    )
    directory = fit_pair.STAGE.run(work)
    assert directory is not None
    for name, schema in fit_pair.STAGE.tables.items():
        assert tables[name].schema == schema
    return directory, {name: table.to_pylist() for name, table in tables.items()}


def test_it_leaves_a_discriminator_that_knows_the_things(
    tmp_path: Path, evaluator: Evaluator
) -> None:
    directory, tables = fitted(tmp_path, rows(400))
    model = pair.read(directory)
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
    assert {row["discriminator"] for row in tables["reliability"]} == {"judge"}


def test_each_part_of_the_pairs_has_its_own_use(
    tmp_path: Path, evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Judged] = {}
    used: dict[str, pair.Vectors] = {}

    def read(*arguments: Any) -> Judged:
        given["all"] = read_judged(*arguments)
        return given["all"]

    def fit(parts: pair.Vectors, validation: pair.Vectors) -> pair.PairModel:
        used.update(fit=parts, validation=validation)
        return plain_fit(parts, validation)

    def logits(model: pair.PairModel, pairs: pair.Vectors) -> Any:
        # Fitting asks too, of its validation part.
        used["test"] = pairs
        return plain_logits(model, pairs)

    plain_fit, plain_logits = pair.fitted, pair.pair_logits
    monkeypatch.setattr(fit_pair, "read_judged", read)
    monkeypatch.setattr(pair, "fitted", fit)
    monkeypatch.setattr(pair, "pair_logits", logits)
    fitted(tmp_path, rows(400))
    for name, table in given["all"]._asdict().items():
        firsts = evaluator._encode("model", table["anchor"].to_pylist())
        assert np.array_equal(used[name].vectors[used[name].first], firsts), name
        seconds = evaluator._encode("model", table["text"].to_pylist())
        assert np.array_equal(used[name].vectors[used[name].second], seconds), name
        assert used[name].labels.tolist() == [int(true) for true in table["true"].to_pylist()]


def test_vectors_are_made_as_embed_makes_them_and_each_text_once(
    tmp_path: Path, evaluator: Evaluator
) -> None:
    fitted(tmp_path, rows(200))
    ((path, pooling, max_length, device, remote, prompt),) = evaluator.loaded
    assert (path, pooling, max_length) == (tmp_path / "evaluator", "mean", 77)
    assert (device, remote, prompt) == ("cpu", False, None)
    assert len(evaluator.encoded) == len(set(evaluator.encoded))


def test_a_killed_fit_encodes_only_what_is_missing(
    tmp_path: Path, evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_vectors, "BLOCK", 50)
    expected, _ = fitted(tmp_path / "whole", rows(200))
    whole = len(evaluator.encoded)
    evaluator.encoded, evaluator.fails_at = [], 100
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path / "killed", rows(200))
    evaluator.fails_at = None
    directory, _ = fitted(tmp_path / "killed", rows(200))
    assert len(evaluator.encoded) == whole
    weights = (pair.read(where).weights for where in (expected, directory))
    assert np.array_equal(next(weights), next(weights))


def test_chunks_change_no_number(
    tmp_path: Path, evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pair.read(fitted(tmp_path / "whole", rows(200))[0])
    monkeypatch.setattr(kept_vectors, "BLOCK", 37)
    cut = pair.read(fitted(tmp_path / "cut", rows(200))[0])
    assert np.array_equal(whole.weights, cut.weights)


@pytest.mark.usefixtures("evaluator")
def test_labels_without_contradictions_are_one_sentence(tmp_path: Path) -> None:
    given = [{**row, "negative": None} for row in rows(100)]
    with pytest.raises(BadInput, match=r"fit_pair: judge: none of the 100 labelled pairs is false"):
        fitted(tmp_path, given)


def test_an_evaluator_that_gives_no_numbers_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder, "load_encoder", lambda *given, **_: "model")
    monkeypatch.setattr(
        encoder, "encode", lambda model, texts, *_: np.full((len(texts), 3), np.nan, np.float32)
    )
    with pytest.raises(BadInput, match="fit_pair: judge: the evaluator gives NaN"):
        fitted(tmp_path, rows(100))
