"""What smaller vectors cost a search: nDCG@10 of a run's questions against bytes a passage.

    tercet run recipe.yaml --store store --set choose=null    # in each FIELDS/NAME, as `fields.py`
    tercet run recipe.yaml --store store --set choose=null --set name=matryoshka --set \\
        train.phases.0.parts.0.loss="{name: matryoshka, with: info_nce, dimensions: [128, 64]}"
    python benchmarks/small_vectors.py FIELDS NAME [NAME …]

Three encoders: the untouched, the trained, and the one that was trained with `matryoshka`. Vectors
are cut to their first numbers, at length one again, and quantised by sentence-transformers'
`quantize_embeddings`, int8 by the passages' own ranges; queries stay float32. `binary` ranks by
Hamming distance; what follows it is how its first 40 are ranked anew: `bits`, float32 query by the
passage's bits, which takes no further bytes; `int8`, by its int8 vector, which may lie on a disk.
Differences from the same encoder's whole vectors, and from the trained encoder's of the same form,
with 95 % intervals by bootstrap over questions. Writes `results/small_vectors.csv`.
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sentence_transformers.util.quantization import quantize_embeddings

from tercet.flows.results.queries import find_artifact
from tercet.flows.results.search import AFTER, BEFORE, load_as_made, vectors_of
from tercet.models.encoders.encoder import encode
from tercet.storage import runs
from tercet.storage.store import Store, open_store
from tercet.tasks.evaluation.suites.beir import RetrievalTask
from tercet.tasks.evaluation.suites.judged import read_judged

Floats = npt.NDArray[np.float32]
Values = npt.NDArray[np.float64]
WIDTHS, RESCORED, DEPTH = (384, 256, 128, 64, 32), 40, 1000
# Encoder, run and which of the run's vectors.
ENCODERS = (
    ("untouched", "docs", BEFORE),
    ("trained", "docs", AFTER),
    ("matryoshka", "matryoshka", AFTER),
)
RESULTS = Path(__file__).parent / "results" / "small_vectors.csv"


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
        short_queries, short = cut(queries, width), cut(passages, width)
        yield f"{width} float32", 4 * width, short_queries @ short.T
        codes = short_queries @ as_int8(short).T
        yield f"{width} int8", width, codes
        bits = np.unpackbits(quantize_embeddings(short, "ubinary"), axis=1).astype(np.float32)
        signs = 2 * bits - 1
        near = np.sign(short_queries) @ signs.T
        yield f"{width} binary", width // 8, near
        yield f"{width} binary, bits", width // 8, rescored(near, short_queries @ signs.T)
        yield f"{width} binary, int8", width // 8, rescored(near, codes)


def rescored(near: Floats, scores: Floats) -> Floats:
    """The order of `near`, but that its first are ordered by `scores`."""
    order = np.argsort(-near, axis=1, kind="stable")[:, :RESCORED]
    raised = near.copy()
    first = np.take_along_axis(scores, order, axis=1)
    lift = near.max() + 1 - first.min()
    np.put_along_axis(raised, order, first + lift, axis=1)
    return raised


def measured(task: RetrievalTask, scores: Floats) -> Values:
    places = np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]
    return 100 * task.measure(places)["ndcg@10"]


def gain(name: str, gains: Values) -> dict[str, str]:
    draws = np.random.default_rng(42).integers(len(gains), size=(2000, len(gains)))
    low, high = np.percentile(gains[draws].mean(axis=1), [2.5, 97.5])
    return {name: f"{gains.mean():.2f}", f"{name}_low": f"{low:.2f}", f"{name}_high": f"{high:.2f}"}


def of_encoder(store: Store, run_ref: str, way: str) -> dict[tuple[str, int], Values]:
    """nDCG@10 of each question, by form and bytes."""
    vectors = vectors_of(store, runs.resolve_run(store, run_ref), way)
    inputs = {
        name: find_artifact(store, name, run_ref).rows() for name in ("judgements", "passages")
    }
    (task,) = read_judged({**inputs, "passage_vectors": vectors.artifact.rows()}, ["test"])
    assert task.vectors is not None
    encoder = load_as_made(vectors.folder, vectors.config)
    queries = encode(encoder, list(task.queries), side="query")
    scores = scores_of(queries, np.concatenate(list(task.vectors())))
    return {(form, size): measured(task, some) for form, size, some in scores}


def rows(field: str, store: Store) -> Iterator[dict[str, Any]]:
    values = {encoder: of_encoder(store, *run) for encoder, *run in ENCODERS}
    for encoder, by_form in values.items():
        whole = next(iter(by_form.values()))
        for (form, size), ndcg in by_form.items():
            yield {
                "field": field,
                "encoder": encoder,
                "form": form,
                "bytes": size,
                "ndcg@10": f"{ndcg.mean():.2f}",
                **gain("over_whole", ndcg - whole),
                **gain("over_trained", ndcg - values["trained"][form, size]),
                "questions": len(ndcg),
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fields", type=Path)
    parser.add_argument("names", nargs="+")
    arguments = parser.parse_args()
    table: list[dict[str, Any]] = []
    for name in arguments.names:
        store = open_store(str(arguments.fields / name / "store"), create=False)
        for row in rows(name, store):
            print(*row.values(), sep="\t", flush=True)
            table.append(row)
    with RESULTS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    main()
