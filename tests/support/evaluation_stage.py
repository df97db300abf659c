"""The stage `evaluate` with a stand-in for the encoder, whose vectors the tests know."""

import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from stages import emitted, stored

from tercet.models import seeding
from tercet.storage.rows import Rows, rows_of
from tercet.tasks.corpus.questions import QUESTIONS
from tercet.tasks.evaluation import evaluate
from tercet.tasks.evaluation.evaluate import EvaluateConfig, evaluate_models
from tercet.tasks.evaluation.evaluation_rows import EVALUATIONS
from tercet.tasks.stage import Resources

PAIRS = pa.schema(
    [
        ("pair_id", pa.uint64()),
        ("doc_id", pa.uint64()),
        ("query", pa.string()),
        ("answer", pa.string()),
        ("split", pa.string()),
    ]
)


def words(text: str) -> np.ndarray:
    """Counts of hashed words: texts that share words are near."""
    vector = np.zeros(1024)
    for word, count in Counter(text.lower().split()).items():
        vector[seeding.text_id(word) % 1024] += count
    return vector


def constant(text: str) -> np.ndarray:
    return np.ones(64)


@pytest.fixture
def encoder(monkeypatch):
    """A module in the encoder's place: `embed` is what it computes, `seen` what it was given."""
    fake = SimpleNamespace(embed=words, seen=[], loaded=[])

    def load_encoder(
        path,
        pooling=None,
        max_length=None,
        device="cpu",
        trust_remote_code=False,
        prompt=None,
        cnn_seed=None,
        prompts=None,
    ):
        fake.loaded.append((path, pooling, max_length, device, trust_remote_code))
        return [SimpleNamespace(), SimpleNamespace(pooling_mode=pooling or "mean")]

    def encode(model, texts, batch_size=64, precision="", progress=None, normalise=True, side=None):
        fake.seen += texts
        if progress:
            progress(len(texts))
        rows = np.array([fake.embed(text) for text in texts], dtype=np.float32)
        with np.errstate(invalid="ignore"):
            lengths = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
            return rows / lengths if normalise else rows

    fake.load_encoder, fake.encode = load_encoder, encode
    fake.distinct_side = lambda model, side: None
    monkeypatch.setitem(sys.modules, "tercet.models.encoders.encoder", fake)
    return fake


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text("{}")
    return path


def pairs_table(rows: list[tuple[str, str, str]]) -> pa.Table:
    columns = {
        "pair_id": seeding.text_ids([r[0] for r in rows], [r[1] for r in rows]),
        "doc_id": seeding.text_ids([r[0] for r in rows]),
        "query": [r[0] for r in rows],
        "answer": [r[1] for r in rows],
        "split": [r[2] for r in rows],
    }
    return pa.table(columns, schema=PAIRS)


def many_pairs(count: int, split: str = "test") -> list[tuple[str, str, str]]:
    """Pairs that share one word of three; there are fewer words than slots would need."""
    return [(f"q{i} w{i} x{i % 7}", f"a{i} w{i} y{i % 5}", split) for i in range(count)]


def written(folder: Path, tables: dict[str, pa.Table], *names: str) -> Rows:
    """Some of the tables as files that a stage reads."""
    stored(folder, **{name: tables[name] for name in names})
    return rows_of({name: [folder / f"{name}.parquet"] for name in names})


def run_stage(
    tmp_path,
    model,
    pairs,
    baseline=None,
    awareness=None,
    seed=1,
    questions=None,
    more=None,
    **config,
):
    """The tables that the stage emits for these pairs. more: rows of other slots."""
    asked = QUESTIONS.empty_table() if questions is None else questions
    inputs = stored(tmp_path, document_pairs=pairs_table(pairs), questions=asked)
    if baseline is not None:
        inputs["baseline"] = written(tmp_path, baseline, "retrieval_ranks", "evaluation_items")
    if awareness is not None:
        inputs["awareness"] = written(tmp_path, {"awareness_pairs": awareness}, "awareness_pairs")
    inputs |= more or {}
    settings = EvaluateConfig(bootstrap=200, **config)
    return emitted(evaluate.STAGE, settings, inputs, tmp_path, {"model": model}, seed)


def compare(models: dict[str, Path], pairs=(), tasks_of_run=(), seed=0, **config) -> pa.Table:
    """The rows of several models beside each other."""
    return evaluate_models(models, EvaluateConfig(**config), Resources(), pairs, tasks_of_run, seed)


def evaluate_model(path: Path, suite: Path, tasks=(), **config) -> pa.Table:
    """The rows of one model on a suite."""
    found = compare({"": path}, suite=suite, tasks=tuple(tasks), **config)
    return found.select(EVALUATIONS.names)


def values(table: pa.Table, **where: str) -> dict[str, float]:
    rows = [r for r in table.to_pylist() if all(r[k] == v for k, v in where.items())]
    return {row["metric"]: row["value"] for row in rows}


def write_stsb(root: Path, rows: list[tuple[float, str, str]], split: str = "test") -> Path:
    folder = root / "downstream" / "STS" / "STSBenchmark"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"g\tf\ty\t{i}\t{s}\t{a}\t{b}\n" for i, (s, a, b) in enumerate(rows)]
    (folder / f"sts-{split}.csv").write_text("".join(lines))
    return root / "downstream"


STSB = [
    (5.0, "a red apple", "a red apple"),
    (4.5, "a red apple", "a red pear"),
    (2.0, "a red apple", "a blue plum"),
    (0.0, "a red apple", "some green fish"),
]


def write_year(root: Path, task: str, files: dict[str, list[tuple[str, str, str]]]) -> Path:
    folder = root / "STS" / f"{task}-en-test"
    folder.mkdir(parents=True)
    for stem, rows in files.items():
        (folder / f"STS.input.{stem}.txt").write_text("".join(f"{a}\t{b}\n" for _, a, b in rows))
        (folder / f"STS.gs.{stem}.txt").write_text("".join(f"{score}\n" for score, _, _ in rows))
    return root
