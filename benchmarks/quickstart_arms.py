"""The quickstart against its controls, on the same seeds and with as many rows.

Each arm is the recipe with a few keys changed; arms of a seed share every artifact that is the
same. Writes one row an arm and seed, and prints the means with paired differences to the recipe:

    python benchmarks/quickstart_arms.py --store arms-store --seeds 1 2 3
"""

import argparse
import csv
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROWS = 3500
RESULTS = Path(__file__).parent / "results" / "quickstart_arms.csv"
# 0.975 quantile of Student's t by degrees of freedom.
T_975 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365}
PAIRS = ["train.phases.0.rows=pairs", "train.phases.0.loss=contrastive"]
ARMS: dict[str, list[str]] = {
    "recipe": [],
    "halves alone": [
        "synthesise={rest_of_paragraph: }",
        "sample.rows=9000",
        "select.positive_min=0.0",
        *PAIRS,
    ],
    "dropout pairs": ["train.phases.0.rows=dropout", "train.phases.0.loss=contrastive"],
    "no synthetic negatives": PAIRS,
    "no decay": ["train.phases.0.decay=false"],
}
METRICS = ("recall@1", "recall@10", "mrr")


def main() -> None:
    """Runs what is missing, writes the results, prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="arms-store")
    parser.add_argument("--recipe", default="quickstart")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--arms", nargs="+", default=list(ARMS))
    parser.add_argument("--set", dest="more", nargs="*", default=[], help="for every arm")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows = []
    for seed in options.seeds:
        for arm in options.arms:
            rows.append(measure(options, arm, seed))
            print(rows[-1], flush=True)
            options.output.parent.mkdir(parents=True, exist_ok=True)
            with options.output.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, fieldnames=list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
    report(rows)


def measure(options: argparse.Namespace, arm: str, seed: int) -> dict[str, str | float]:
    """One arm with one seed: before, after, gain with its interval, in percent points."""
    changes = [f"train.phases.0.max_rows={ROWS}", *ARMS[arm], *options.more]
    command = [sys.executable, "-m", "tercet.flows.cli", "run", options.recipe, "--no-server"]
    command += ["--store", options.store, "--seed", str(seed)]
    began = time.monotonic()
    subprocess.run([*command, *(f"--set={change}" for change in changes)], check=True)
    told: dict[str, str | float] = {"arm": arm, "seed": seed}
    for metric in METRICS:
        found = query(
            options.store,
            f"SELECT phase, metric, value, ci_low, ci_high, n FROM evaluations "
            f"WHERE metric IN ('{metric}', '{metric}_gain') AND subset = 'test'",
        )
        values = {(row["phase"], row["metric"]): row for row in found}
        told[f"{metric} before"] = round(values["base", metric]["value"], 3)
        told[f"{metric} after"] = round(values["encoder", metric]["value"], 3)
        gain = values["encoder", f"{metric}_gain"]
        told[f"{metric} gain"] = round(gain["value"], 3)
        told[f"{metric} low"] = round(gain["ci_low"], 3)
        told[f"{metric} high"] = round(gain["ci_high"], 3)
        told["pairs"] = gain["n"]
    told["seconds"] = round(time.monotonic() - began, 1)
    return told


def query(store: str, text: str) -> list[dict[str, float]]:
    """Rows of the newest run."""
    command = [sys.executable, "-m", "tercet.flows.cli", "sql", text, "--format", "json"]
    done = subprocess.run([*command, "--store", store], check=True, capture_output=True, text=True)
    return list(json.loads(done.stdout))


def report(rows: list[dict[str, str | float]]) -> None:
    """Means over the seeds, and each arm's paired difference to the recipe, as Markdown."""
    gains: dict[str, dict[int, float]] = {}
    for row in rows:
        gains.setdefault(str(row["arm"]), {})[int(row["seed"])] = float(row["recall@1 gain"])
    print("| arm | recall@1 gain, mean (sd) | less than the recipe by (95 %) | smallest visible |")
    print("|---|---|---|---|")
    for arm, by_seed in gains.items():
        values = list(by_seed.values())
        spread = statistics.stdev(values) if len(values) > 1 else float("nan")
        line = f"| {arm} | {statistics.mean(values):+.2f} ({spread:.2f})"
        apart = [gains["recipe"][s] - v for s, v in by_seed.items() if s in gains.get("recipe", {})]
        if arm != "recipe" and len(apart) > 1:
            half = T_975[len(apart) - 1] * statistics.stdev(apart) / len(apart) ** 0.5
            line += f" | {statistics.mean(apart):+.2f} ± {half:.2f} | {half:.2f} |"
        else:
            line += " | – | – |"
        print(line)


if __name__ == "__main__":
    main()
