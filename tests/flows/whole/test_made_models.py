"""Models that a recipe makes: pretrained ones, counts for SARCSE, whitened encoders."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from good_and_bad import Place, Result
from sentence_transformers import SentenceTransformer
from tiny_models import WORDS
from tiny_run import Finished, copy_of, ended_well, query, states, tercet

from tercet.models.encoders.encoder import encode, load_encoder

QUICK = {"layers": 1, "width": 32, "vocabulary": 70, "max_length": 32}
QUICK |= {"steps": 4, "batch_tokens": 256, "measure_steps": 2, "precision": "fp32"}
CNN: dict[str, Any] = {"name": "token_cnn", "channels": 8, "filters": 2}
ANCHORS = {"rows": "anchors", "loss": "info_nce", "batch_size": 8, "max_steps": 1}
TEXTS = ["a new file is open", "read the old array", "one small red blue index"]


@pytest.fixture
def place(tmp_path: Path, tiny_backbone: Path) -> Place:
    """A folder of one's own."""
    return Place(tmp_path, tiny_backbone)


def run(place: Place, content: dict[str, Any], *words: str) -> Result:
    path = place.folder / f"{content['name']}.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return place.types("run", path, "--no-server", "--store", place.store, *words)


def went_well(done: Result) -> Result:
    assert done.returncode == 0, done.stderr
    return done


def exported(place: Place, step: str) -> Path:
    """The model of a step, as it is handed over."""
    folder = place.folder / f"{step}-out"
    went_well(place.types("export", step, folder, "--store", place.store))
    return folder


def test_a_model_is_pretrained_tagged_and_taken_by_another_recipe(place: Place) -> None:
    lines = [" ".join(WORDS[(i * k + k) % len(WORDS)] for k in range(1, 9)) for i in range(1, 300)]
    (place.folder / "general.txt").write_text("\n".join(lines), encoding="utf-8")
    (place.folder / "field.txt").write_text("\n".join(lines[:60:2]), encoding="utf-8")
    maker: dict[str, Any] = {
        "name": "maker",
        "corpora": [{"name": "general", "source": "general.txt", "role": "pretrain"}],
        "models": {"small": {"pretrain": {"form": "masked", **QUICK}}},
    }
    went_well(run(place, maker))
    log = query(place.store, "SELECT phase, step FROM training_log ORDER BY step")
    assert log[-1] == ("small", 4)
    assert ("train",) in query(place.store, "SELECT DISTINCT split FROM pretrain_sentences")
    # They are no sentences of the run.
    assert not list(place.store.glob("artifacts/*/*/data/sentences"))
    ((version,),) = query(
        place.store, "SELECT version FROM run_steps WHERE step = 'pretrain.small'"
    )
    went_well(place.types("tag", f"pretrain.small@{version}", "general", "--store", place.store))
    adapted = {"form": "masked", "init": "borrowed", "steps": 2, "precision": "fp32"}
    taker: dict[str, Any] = {
        "name": "taker",
        "corpora": [{"name": "field", "source": "field.txt"}],
        "models": {"borrowed": "tag:general", "adapted": {"pretrain": adapted}},
        "backbone": "adapted",
        "ingest": {"dev": 0.1, "test": 0.1},
        "train": {"phases": [ANCHORS]},
        "evaluate": {"retrieval": False},
    }
    went_well(run(place, taker, "--until", "train"))
    parents = query(
        place.store,
        "SELECT parent FROM lineage JOIN run_steps ON version = child "
        "WHERE step = 'pretrain.adapted'",
        "taker",
    )
    assert (version,) in parents
    went_well(run(place, taker, "--until", "train"))
    assert set(states(place.store).values()) == {"reused"}


def test_sarcse_counts_trains_and_measures_head_and_all(place: Place) -> None:
    draw = np.random.default_rng(3)
    texts = [" ".join(draw.choice(WORDS, size=9)) + "." for _ in range(160)]
    rows = [{"query": q, "answer": a} for q, a in zip(texts[::2], texts[1::2], strict=True)]
    (place.folder / "field.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    phase: dict[str, Any] = ANCHORS | {"name": "rebuilt", "loss": "token_reconstruction"}
    phase |= {"max_steps": 3, "models": {"frequencies": "counts"}}
    source = {"source": "field.jsonl", "query": "query", "answer": "answer"}
    content: dict[str, Any] = {
        "name": "sarcse",
        "backbone": str(place.backbone),
        "corpora": [{"name": "field", **source}],
        "ingest": {"dev": 0.1, "test": 0.3},
        "models": {"counts": {"count_tokens": {"tokenizer": str(place.backbone)}}},
        "train": {"pooling": CNN, "log_steps": 1, "phases": [phase]},
        "evaluate": {"pooling": CNN},
    }
    went_well(run(place, content))
    ((count, frequency),) = query(
        place.store, "SELECT sum(count), sum(frequency) FROM token_frequencies"
    )
    words = query(place.store, "SELECT sum(n_words) FROM sentences WHERE split = 'train'")
    # Each word is a token, and so is each full stop.
    assert count > words[0][0]
    assert frequency == pytest.approx(1)
    log = query(place.store, "SELECT step, terms FROM training_log ORDER BY step")
    assert [step for step, _ in log] == [1, 2, 3]
    assert {"contrastive", "reconstruction", "reconstruction_positive"} == set(log[0][1])
    pooled = query(place.store, "SELECT DISTINCT phase, pooling FROM evaluations ORDER BY phase")
    assert pooled == [("base", "token_cnn"), ("encoder", "token_cnn")]
    folder = exported(place, "train")
    plain = SentenceTransformer(str(folder), device="cpu", trust_remote_code=True).encode(TEXTS)
    assert plain.shape == (3, 14)
    np.testing.assert_allclose(
        encode(load_encoder(folder), TEXTS, normalise=False), plain, atol=1e-6
    )


def test_a_whitened_encoder_is_what_a_run_ends_with(finished: Finished, tmp_path: Path) -> None:
    store = copy_of(finished.store, tmp_path / "store")
    setting = ("--set", "whiten={dimensions: 20, power: 0.5}")
    ended_well(tercet(*finished.tiny.words(store, *setting)))
    steps = {step for step, state in states(store).items() if state == "made"}
    assert steps == {"whiten", "evaluate.encoder"}
    ((version,),) = query(
        store, "SELECT DISTINCT model_version FROM evaluations WHERE phase = 'encoder'"
    )
    spectrum = query(store, "SELECT direction, factor IS NULL FROM whitening ORDER BY direction")
    assert [cut for _, cut in spectrum] == [False] * 20 + [True] * 12
    folder = exported(Place(tmp_path, finished.tiny.backbone), "whiten")
    plain = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    assert plain.shape == (3, 20)
    (measured,) = store.glob(f"artifacts/whiten/{version}/files/*/modules.json")
    vectors = encode(load_encoder(measured.parent), TEXTS, normalise=False)
    assert np.abs(plain - vectors).max() < 1e-6
    assert "whitened" in (folder / "README.md").read_text()
