"""SARCSE's mechanism: can a text's rare tokens be read from its vector better for the decoder?

    python benchmarks/rare_tokens.py UNTUNED wiki.txt.gz OUT.csv --steps 2000

Trains copies of one encoder and one head (`pooling: token_cnn`) on the same batches: with
reconstruction by weighted tokens, with all tokens alike, and without a decoder. Head and decoder,
which start from random weights, learn at a rate of their own here. Every --every steps a probe is
fitted to texts that trained nothing: ridge regression from the vector to the sum of the text's
tokens in the un-tuned encoder's own word table. Its figure, on other texts: how often a token of
the text scores higher than one of another text, in percent; 50 is chance. `rare`: tokens that make
up less than 1 in 10,000 of the corpus; `other`: those that make up more. Intervals are bootstrap
ones over texts; `over` is the difference to the arm without a decoder.
"""

import argparse
import csv
import gzip
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import Ridge

from tercet.models.encoders.encoder import encode, load_encoder
from tercet.models.losses.registry import FREQUENCIES, loss_named
from tercet.models.losses.token_frequencies import vocabulary_size, write_frequencies
from tercet.models.weights import fetch

ARMS: dict[str, dict[str, Any]] = {
    "weighted": {},
    "all tokens alike": {"adaptive": False},
    "without decoder": {"decoder": False},
}
COUNTED, FIT, TEST, SHORTEST, LONGEST = 100_000, 3_000, 1_500, 6, 20
ALPHA = 1000
RARE = 1e-4
NEGATIVES = 20


class Probe:
    """Texts with their tokens, by which the vectors of any encoder are judged alike."""

    def __init__(self, texts: list[str], ids: list[list[int]], freq: Any, table: Any) -> None:
        self.texts, self.table = texts, table
        rng = np.random.default_rng(7)
        self.kinds = {}
        for kind in ("rare", "other"):
            of_kind = [
                sorted({t for t in row if (freq[t] < RARE) == (kind == "rare")}) for row in ids
            ]
            pool = np.array([token for row in of_kind for token in row])
            self.kinds[kind] = (of_kind, [rng.choice(pool, NEGATIVES) for _ in texts])

    def scores(self, vectors: Any) -> dict[str, Any]:
        """By kind, one value a test text (NaN: it has no such token)."""
        vectors = (vectors - vectors[:FIT].mean(0)) / (vectors[:FIT].std(0) + 1e-6)
        targets = [
            np.stack([self.table[row].sum(0) for row in tokens])
            for tokens, _ in self.kinds.values()
        ]
        ridge = Ridge(alpha=ALPHA).fit(vectors[:FIT], np.hstack(targets)[:FIT])
        made = np.split(ridge.predict(vectors[FIT:]), len(targets), axis=1)
        found = {}
        for (kind, (tokens, others)), rows in zip(self.kinds.items(), made, strict=True):
            values = []
            for row, negatives, vector in zip(tokens[FIT:], others[FIT:], rows, strict=True):
                foreign = self.table[[t for t in negatives if t not in row]] @ vector
                own = self.table[row] @ vector
                values.append(100 * (own[:, None] > foreign).mean() if row else np.nan)
            found[kind] = np.array(values)
        return found


def interval(values: Any) -> tuple[float, float, float]:
    """Mean, and the 95 % bootstrap interval over texts."""
    known = values[~np.isnan(values)]
    drawn = np.random.default_rng(3).integers(len(known), size=(2000, len(known)))
    low, high = np.percentile(known[drawn].mean(1), [2.5, 97.5])
    return round(float(known.mean()), 2), round(float(low), 2), round(float(high), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("encoder", type=fetch)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--rate", type=float, default=3e-5)
    parser.add_argument("--head-rate", type=float, default=1e-3)
    options = parser.parse_args()
    with gzip.open(options.corpus, "rt", encoding="utf-8") as file:
        lines = file.read().splitlines()
    lines = [line for line in lines if SHORTEST <= len(line.split()) <= LONGEST]
    np.random.default_rng(0).shuffle(lines)
    start = load_encoder(options.encoder, "token_cnn", 40, cnn_seed=options.seed)
    tokenizer = start.tokenizer
    counts = np.zeros(vocabulary_size(tokenizer))
    ids = tokenizer(lines[:COUNTED], add_special_tokens=False, verbose=False)["input_ids"]
    np.add.at(counts, np.concatenate(ids), 1)
    frequencies = counts / counts.sum()
    table = start[0].auto_model.get_input_embeddings().weight.detach().numpy()
    table = table - frequencies @ table
    table = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-9)
    held = FIT + TEST
    probe = Probe(lines[:held], ids[:held], frequencies, table.copy())
    texts = lines[held:]

    with tempfile.TemporaryDirectory() as folder:
        slots = {FREQUENCIES: write_frequencies(Path(folder), frequencies, tokenizer)}
        kind = loss_named("token_reconstruction")
        running = {}
        for name, numbers in ARMS.items():
            model: Any = load_encoder(options.encoder, "token_cnn", 40, cnn_seed=options.seed)
            torch.manual_seed(options.seed)
            loss: Any = kind.build(model, kind.params(**numbers), slots)
            body = {id(weight) for weight in model[0].parameters()}
            # The loss holds the encoder too.
            weights = {id(w): w for module in (model, loss) for w in module.parameters()}
            groups = [
                {"params": [w for key, w in weights.items() if key in body], "lr": options.rate},
                {
                    "params": [w for key, w in weights.items() if key not in body],
                    "lr": options.head_rate,
                },
            ]
            running[name] = (model, loss, torch.optim.AdamW(groups, weight_decay=0.0))

    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ("seed", "step", "arm", "tokens", "auc", "low", "high", "over", "over_low", "over_high")
        )

        def measure(step: int) -> None:
            found: dict[str, dict[str, Any]] = {}
            for name, (model, _, _) in running.items():
                # Before the first step all are one encoder.
                if step == 0 and found:
                    found[name] = next(iter(found.values()))
                    continue
                vectors = encode(model.eval(), probe.texts, precision="bf16", normalise=False)
                found[name] = probe.scores(vectors)
            for name, values in found.items():
                for tokens, column in values.items():
                    apart = column - found["without decoder"][tokens]
                    row = (options.seed, step, name, tokens, *interval(column), *interval(apart))
                    writer.writerow(row)
                    print(*row, flush=True)
            file.flush()

        measure(0)
        for step in range(1, options.steps + 1):
            place = (step - 1) * 64 % (len(texts) - 64)
            for name, (model, loss, optimizer) in running.items():
                model.train()
                torch.manual_seed(options.seed * 100_000 + step)
                optimizer.zero_grad()
                batch = [dict(model.preprocess(texts[place : place + 64])) for _ in range(2)]
                with torch.autocast("cpu", torch.bfloat16):
                    value = loss(batch, None)
                value.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                if step % 20 == 0:
                    terms = {k: round(float(v), 4) for k, v in getattr(loss, "terms", {}).items()}
                    print(step, name, round(float(value), 4), terms, flush=True)
            if step % options.every == 0:
                measure(step)


if __name__ == "__main__":
    main()
