"""What smaller vectors cost a search: nDCG@10 of a run's questions against bytes a passage.

    tercet run recipe.yaml --set choose=null
    tercet run recipe.yaml --set choose=null --set name=matryoshka --set \\
        train.phases.0.parts.0.loss="{name: matryoshka, with: info_nce, dimensions: [128, 64]}"
    python benchmarks/small_vectors.py STORE docs matryoshka

The first run's untouched encoder, then each run's own. Vectors are cut to their first numbers, at
length one again, and quantised by sentence-transformers' `quantize_embeddings`, int8 by the
passages' own ranges; queries stay float32. `binary` ranks by Hamming distance; what follows it is
how the first 40 are ranked anew: `bits`, float32 query by the passage's bits, which takes no
further bytes; `int8`, by its int8 vector, read from a disk. Differences from the same encoder's
whole vectors, with 95 % intervals by bootstrap over questions.
"""

import argparse
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from sentence_transformers.util.quantization import quantize_embeddings

from tercet.flows.results.refs import find_artifact
from tercet.flows.results.search import AFTER, BEFORE, load_as_made, vectors_of
from tercet.models.encoders.encoder import encode
from tercet.storage import runs
from tercet.storage.store import Store, open_store
from tercet.tasks.evaluation.suites.beir import RetrievalTask
from tercet.tasks.evaluation.suites.judged import read_judged

Floats = npt.NDArray[np.float32]
WIDTHS, RESCORED, DEPTH = (384, 256, 128, 64, 32), 40, 1000


def cut(vectors: Floats, width: int) -> Floats:
    shorter = vectors[:, :width]
    return shorter / np.linalg.norm(shorter, axis=1, keepdims=True)


def as_int8(vectors: Floats) -> Floats:
    """What int8 keeps of the vectors, as float32 again."""
    starts, ends = vectors.min(axis=0), vectors.max(axis=0)
    codes = quantize_embeddings(vectors, "int8", ranges=np.stack([starts, ends]))
    return (codes.astype(np.float32) + 128.5) * (ends - starts) / 255 + starts


def scores_of(queries: Floats, passages: Floats) -> Iterator[tuple[str, int, Floats]]:
    """Each form's name, its bytes a passage, and its scores (queries, passages)."""
    for width in WIDTHS:
        asked, kept = cut(queries, width), cut(passages, width)
        yield f"{width} float32", 4 * width, asked @ kept.T
        codes = asked @ as_int8(kept).T
        yield f"{width} int8", width, codes
        bits = np.unpackbits(quantize_embeddings(kept, "ubinary"), axis=1).astype(np.float32)
        signs = 2 * bits - 1
        near = np.sign(asked) @ signs.T
        yield f"{width} binary", width // 8, near
        yield f"{width} binary, bits", width // 8, rescored(near, asked @ signs.T)
        yield f"{width} binary, int8", width // 8, rescored(near, codes)


def rescored(near: Floats, scores: Floats) -> Floats:
    """The order of `near`, but that its first are ordered by `scores`."""
    order = np.argsort(-near, axis=1, kind="stable")[:, :RESCORED]
    raised = near.copy()
    first = np.take_along_axis(scores, order, axis=1)
    lift = near.max() + 1 - first.min()
    np.put_along_axis(raised, order, first + lift, axis=1)
    return raised


def measured(task: RetrievalTask, scores: Floats) -> npt.NDArray[np.float64]:
    places = np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]
    return 100 * task.measure(places)["ndcg@10"]


def interval(gains: npt.NDArray[np.float64]) -> tuple[float, float]:
    draws = np.random.default_rng(42).integers(len(gains), size=(2000, len(gains)))
    low, high = np.percentile(gains[draws].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def print_rows(store: Store, run_ref: str, way: str) -> None:
    run = runs.resolve_run(store, run_ref)
    made = vectors_of(store, run, way)
    steps = {
        name: find_artifact(store, name, run_ref).rows() for name in ("judgements", "passages")
    }
    (task,) = read_judged({**steps, "passage_vectors": made.artifact.rows()}, ["test"])
    assert task.vectors is not None
    passages = np.concatenate(list(task.vectors()))
    encoder = load_as_made(made.folder, made.config)
    queries = encode(encoder, list(task.queries), side="query")
    whole = measured(task, queries @ passages.T)
    for form, size, scores in scores_of(queries, passages):
        values = measured(task, scores)
        low, high = interval(values - whole)
        ends = f"{low:+.1f}\t{high:+.1f}"
        gain = f"{(values - whole).mean():+.1f}"
        print(run_ref, way, form, size, f"{values.mean():.1f}", gain, ends, sep="\t", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("runs", nargs="+")
    asked = parser.parse_args()
    store = open_store(asked.store, create=False)
    print("run", "way", "form", "bytes", "ndcg@10", "over whole", "low", "high", sep="\t")
    print_rows(store, asked.runs[0], BEFORE)
    for run_ref in asked.runs:
        print_rows(store, run_ref, AFTER)


if __name__ == "__main__":
    main()
