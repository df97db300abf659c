"""What the generators of `vaegpt_alone.yaml` write: ROUGE, diversity, and how many texts end.

    python benchmarks/vaegpt_alone.py STORE SICK/SICK_trial.txt OUT.csv

For each fitted model in the store and 100 sources, four texts by three sampled beams, as
`generators` draws them; beside them the ROUGE of greedy answers on held-out pairs at each
measurement (`rouge_STEP`), by which the step is chosen.
"""

import csv
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import prompt_ban

from tercet.models.measures.generated import unshared
from tercet.models.measures.rouge import rouge, words
from tercet.storage.artifacts import artifacts_of
from tercet.storage.store import open_store

prompt_ban.SOURCES = 100
MODELS = ("first", "w0", "w01", "w1", "w01_entropy")


def figures(folder: str, sources: list[str], targets: list[str]) -> dict[str, float]:
    """In percent, means over sources."""
    written = prompt_ban.written(folder, sources)
    texts = [[words(text.raw) for text in several] for several in written]
    said = list(zip(map(words, sources), map(words, targets), texts, strict=True))
    values = {
        "rouge": [rouge(t, target).average for _, target, some in said for t in some],
        "source_diversity": [unshared(source, t) for source, _, some in said for t in some],
        "generation_diversity": [
            unshared(*two) for _, _, some in said for two in combinations(some, 2)
        ],
        "ended": [float(text.ended) for several in written for text in several],
        "words": [len(t) / 100 for _, _, some in said for t in some],
    }
    return {name: round(100 * float(np.mean(column)), 2) for name, column in values.items()}


def main(store: str, file: str, out: str) -> None:
    sources, targets = map(list, zip(*prompt_ban.pairs(file), strict=True))
    opened = open_store(store, create=False)
    rows: list[dict[str, object]] = []
    for name in MODELS:
        for artifact in artifacts_of(opened, f"fit_generator.{name}"):
            folder = artifact.model_dir()
            if folder is None:
                continue
            log = artifact.rows().table("training_log").to_pylist()
            greedy = {f"rouge_{row['step']}": row["dev_value"] for row in log if row["dev_metric"]}
            chosen = [row["step"] for row in log if row["chosen"]]
            about = {"model": name, "seed": log[0]["seed"], "chosen": chosen[-1]}
            rows.append(about | figures(str(folder), sources, targets) | greedy)
            print(rows[-1], flush=True)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with Path(out).open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
