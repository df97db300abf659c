"""Gains and differences over seeds, from the files that `what_each_part_earns.py` writes.

    python benchmarks/over_seeds.py benchmarks/results/every_recipe_seeds.csv --to quickstart

For each figure and arm: the mean gain over the untouched encoder, its 95 % interval (Student's t)
and the seeds. Where the second interval, of 90 %, lies within ±M, two one-sided tests at 5 % show
that the gain does (equivalence). With --to, the mean difference to that arm over the seeds that
both have, and its interval. The two of a pair must come of one machine.
"""

import argparse
import csv
from collections import defaultdict
from pathlib import Path

from tercet.models.measures.resampling import compare_seeds, summarise_seeds

Values = dict[int, float]


def read(files: list[Path]) -> dict[str, dict[str, Values]]:
    """Gains by figure, arm and seed. The same seed of an arm twice is an error."""
    found: dict[str, dict[str, Values]] = defaultdict(lambda: defaultdict(dict))
    for path in files:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                values = found[row["metric"]][row["arm"]]
                if int(row["seed"]) in values:
                    raise SystemExit(f"{path}: {row['arm']} has seed {row['seed']} twice")
                values[int(row["seed"])] = float(row["after"]) - float(row["before"])
    return found


def spread(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" ({low:+.2f} to {high:+.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--to", help="the arm that the others are compared with")
    parser.add_argument("--metric", default="", help="only figures whose name has this in it")
    asked = parser.parse_args()
    for metric, arms in read(asked.files).items():
        if asked.metric not in metric:
            continue
        print(f"\n{metric}")
        for arm, gains in arms.items():
            all_of_them = list(gains.values())
            wide, narrow = summarise_seeds(all_of_them), summarise_seeds(all_of_them, 0.9)
            line = f"  {arm:<28}{wide.mean:+7.2f}{spread(wide.low, wide.high)}"
            line += f", 90 %{spread(narrow.low, narrow.high)}" if wide.n > 1 else ""
            line += f", seeds: {wide.n}"
            if asked.to in arms and arm != asked.to and gains.keys() & arms[asked.to].keys():
                apart = compare_seeds(gains, arms[asked.to])
                line += f"; less {asked.to} {apart.mean:+.2f}{spread(apart.low, apart.high)}"
                line += f", seeds: {apart.n}"
            print(line)


if __name__ == "__main__":
    main()
