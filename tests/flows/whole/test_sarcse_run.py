"""SARCSE from a corpus to a measured encoder, and what it is told of recipes that cannot be."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from good_and_bad import Place, Result, sentence
from sentence_transformers import SentenceTransformer
from tiny_models import WORDS
from tiny_run import query

from tercet.models.encoders.encoder import encode, load_encoder

FORM = {"name": "token_cnn", "channels": 8, "filters": 2}
REBUILT = {"rows": "anchors", "loss": "token_reconstruction"}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, tiny_backbone: Path) -> Place:
    """A folder with questions and answers of the tiny vocabulary."""
    folder = tmp_path_factory.mktemp("sarcse")
    draw = np.random.default_rng(3)
    texts = [" ".join(draw.choice(WORDS, size=9)) + "." for _ in range(160)]
    rows = [{"query": q, "answer": a} for q, a in zip(texts[::2], texts[1::2], strict=True)]
    (folder / "field.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return Place(folder, tiny_backbone)


def recipe(own: Place, loss: Any = "token_reconstruction", **content: Any) -> Path:
    phase = {"name": "rebuilt", "rows": "anchors", "loss": loss, "batch_size": 8, "max_steps": 3}
    given = {
        "name": "small",
        "backbone": str(own.backbone),
        "corpora": [
            {"name": "field", "source": "field.jsonl", "query": "query", "answer": "answer"}
        ],
        "ingest": {"dev": 0.1, "test": 0.3},
        "models": {"counts": {"count_tokens": {"tokenizer": str(own.backbone)}}},
        "train": {
            "pooling": FORM,
            "log_steps": 1,
            "phases": [{**phase, "models": {"frequencies": "counts"}}],
        },
        "evaluate": {"pooling": FORM},
    }
    path = own.folder / "small.yaml"
    path.write_text(yaml.safe_dump({**given, **content}), encoding="utf-8")
    return path


def run(own: Place, path: Path, *words: str) -> Result:
    return own.types("run", path, "--no-server", "--store", own.store, *words)


def test_a_run_counts_trains_and_measures_head_and_all(own: Place) -> None:
    done = run(own, recipe(own))
    assert done.returncode == 0, done.stderr
    counted = query(own.store, "SELECT sum(count), sum(frequency) FROM token_frequencies")
    words = query(own.store, "SELECT sum(n_words) FROM sentences WHERE split = 'train'")
    # Each word is a token, and so is each full stop.
    assert counted[0][0] > words[0][0]
    assert counted[0][1] == pytest.approx(1)
    log = query(own.store, "SELECT step, terms FROM training_log ORDER BY step")
    assert [step for step, _ in log] == [1, 2, 3]
    assert {"contrastive", "reconstruction", "reconstruction_positive"} == set(log[0][1])
    pooled = query(own.store, "SELECT DISTINCT phase, pooling FROM evaluations ORDER BY phase")
    assert pooled == [("base", "token_cnn"), ("encoder", "token_cnn")]

    folder = own.folder / "out"
    exported = own.types("export", "train", folder, "--store", own.store)
    assert exported.returncode == 0, exported.stderr
    assert "trust_remote_code" in exported.stdout
    texts = ["a new file is open", "read the old array"]
    plain = SentenceTransformer(str(folder), device="cpu", trust_remote_code=True).encode(texts)
    assert plain.shape == (2, 14)
    loaded = load_encoder(folder)
    np.testing.assert_allclose(encode(loaded, texts, normalise=False), plain, atol=1e-6)
    untrained = encode(
        load_encoder(own.backbone, loaded_form(), cnn_seed=0), texts, normalise=False
    )
    assert np.abs(untrained - plain).max() > 1e-4
    card = (folder / "README.md").read_text()
    assert "| dimension | 14 |" in card
    assert "token\\_cnn" in card

    again = run(own, recipe(own, loss={"name": "token_reconstruction", "weight": 1.0}))
    assert again.returncode == 0, again.stderr
    newest = "SELECT max(run_id) FROM run_steps"
    states = dict(query(own.store, f"SELECT step, state FROM run_steps WHERE run_id = ({newest})"))
    assert states["count_tokens.counts"] == "reused"
    assert (states["evaluate.base"], states["train"]) == ("reused", "made")


def loaded_form() -> Any:
    from tercet.models.encoders.pooling import TokenCnnForm

    return TokenCnnForm(**FORM)  # type: ignore[arg-type]


def test_the_ablations_need_no_other_recipe(own: Place) -> None:
    loss = {"name": "token_reconstruction", "with": {"name": "info_nce", "tau": 0.1}}
    path = recipe(own, loss)
    for key in ("adaptive", "decoder"):
        done = run(own, path, "--set", f"train.phases.0.loss.{key}=false", "--until", "train")
        assert done.returncode == 0, done.stderr
    terms = query(own.store, "SELECT DISTINCT terms FROM training_log")
    assert terms == [({},)]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"train": {"phases": [REBUILT]}},
            "reads the model frequencies: name it",
        ),
        ({"backbone": "counts"}, "'counts' counts tokens, which is no model that could stand here"),
        (
            {
                "models": {
                    "counts": {"count_tokens": {"tokenizer": "x"}},
                    "again": {"count_tokens": {"tokenizer": "counts"}},
                }
            },
            "models.again.count_tokens.tokenizer: 'counts' counts tokens",
        ),
        (
            {"models": {"counts": {"count_tokens": {"tokenizer": "x", "corpora": ["no"]}}}},
            "no corpus 'no'",
        ),
        (
            {"models": {"counts": {"pretrain": {"form": "masked"}}}},
            "is a model, but the loss reads",
        ),
        (
            {"train": {"phases": [{**REBUILT, "models": {"frequencies": "base"}}]}},
            "'base' is a model, but the loss reads",
        ),
        (
            {"models": {"counts": {"count_tokens": {}}}},
            "'models.counts.count_tokens.tokenizer' is missing",
        ),
        ({"evaluate": {"pooling": "token_cn"}}, "evaluate.pooling"),
        (
            {"evaluate": {"pooling": "token_cnn"}},
            "evaluate.pooling: token_cnn has other numbers here than under train.pooling",
        ),
        (
            {
                "train": {
                    "pooling": "mean",
                    "phases": [{**REBUILT, "models": {"frequencies": "counts"}}],
                }
            },
            "train.pooling: the loss token_reconstruction decodes vectors of pooling: token_cnn",
        ),
        ({"evaluate": {"pooling": {"name": "token_cnn", "chanels": 3}}}, "pooling: chanels of"),
        (
            {
                "train": {"pooling": {"name": "token_cnn", "channels": 1}, "phases": []},
                "whiten": {},
            },
            "train.pooling: channels of pooling: token_cnn: Input should be gr",
        ),
    ],
)
def test_a_recipe_that_cannot_be_is_one_sentence(
    own: Place, changes: dict[str, Any], said: str
) -> None:
    done = run(own, recipe(own, **changes))
    assert said in sentence(done, 2)
