"""Figures of runs with the same seeds side by side: gains, and differences to the first run.

    python benchmarks/what_each_part_earns.py --store tercet-store recipe=RUN 'pairs alone=RUN' …

Gains over the untouched encoder in points: mean over seeds, their deviation, 95 % interval
(Student's t), and with --together an interval over seeds and questions at once: a bootstrap that
draws both. Differences are of each run to the first, over the seeds that both have.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from duckdb import DuckDBPyConnection

from tercet.flows.results.figure_differences import Measured, sampled
from tercet.flows.results.figures import Figure, read_figures
from tercet.flows.results.queries import connect
from tercet.models.measures.resampling import summarise_seeds
from tercet.storage.store import open_store

_METRICS = {
    ("retrieval", "recall@1"),
    ("retrieval", "mrr"),
    ("sts", "spearman"),
    ("fact_order", "accuracy"),
    ("labels", "accuracy"),
}
_RESAMPLES = 1000


def shown(figure: Figure) -> bool:
    metric = figure.metric
    part_of_sts = metric.suite == "sts" and metric.subset != "all"
    known = (metric.suite, metric.name) in _METRICS and figure.before is not None
    return known and not part_of_sts


def gains(figure: Figure) -> dict[int | None, float]:
    """After minus before, by seed."""
    assert figure.before is not None
    return {seed: value - figure.before.value for seed, value in figure.values().items()}


def told(values: list[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:+.2f}" if values else ""
    found = summarise_seeds(values)
    if found.low is None:
        return f"{found.mean:+.2f}"
    return f"{found.mean:+.2f} ({found.sd:.2f}; {found.low:+.2f} to {found.high:+.2f})"


def together(db: DuckDBPyConnection, figure: Figure) -> str:
    """The gain's interval over seeds and questions; nothing if results by question are missing."""
    assert figure.before is not None
    draws = []
    for value in (figure.before, *figure.after.values()):
        found = sampled(Measured(db, value.model, _RESAMPLES), figure.metric, _RESAMPLES, 0)
        if found is None:
            return ""
        # Every encoder is drawn on the same questions.
        draws.append(found[0].draws)
    before, *after = draws
    drawn = np.random.default_rng(0).integers(len(after), size=(len(after), _RESAMPLES))
    means = np.stack(after)[drawn, np.arange(_RESAMPLES)].mean(axis=0)
    low, high = np.nanquantile(means - before, [0.025, 0.975])
    return f"   seeds and questions {low:+.2f} to {high:+.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", help="NAME=RUN")
    parser.add_argument("--store", default="tercet-store")
    parser.add_argument("--csv", type=Path, help="every seed's values, put beside those it has")
    parser.add_argument("--together", action="store_true", help="the wider interval too")
    asked = parser.parse_args()
    store = open_store(asked.store, create=False)
    rows: list[list[str]] = []
    first: dict[str, dict[int | None, float]] = {}
    for named in asked.runs:
        name, _, run = named.partition("=")
        with connect(store, run) as db:
            found = [figure for figure in read_figures(db) if shown(figure)]
            wide = {f.metric: together(db, f) for f in found} if asked.together else {}
        print(f"\n{name} ({run})")
        for figure in found:
            metric = figure.metric
            assert figure.before is not None
            mine = gains(figure)
            rest = ""
            if named is asked.runs[0]:
                first[str(metric)] = mine
            elif str(metric) in first:
                other = first[str(metric)]
                both = [mine[seed] - other[seed] for seed in mine if seed in other]
                rest = f"   to the first {told(both)}"
            mean = figure.mean()
            print(
                f"  {metric!s:<52}{figure.before.value:>7.2f} → {mean:>6.2f}   "
                f"{told(list(mine.values()))}{wide.get(metric, '')}{rest}"
            )
            rows += [
                [name, str(metric), str(seed), f"{figure.before.value:.4f}", f"{value:.4f}"]
                for seed, value in figure.values().items()
            ]
    if asked.csv is not None:
        put_beside(asked.csv, rows)


def put_beside(path: Path, rows: list[list[str]]) -> None:
    """Writes the rows, and those of the file that are of another arm, figure or seed."""
    kept = []
    if path.exists():
        new = {tuple(row[:3]) for row in rows}
        with path.open(newline="", encoding="utf-8") as file:
            kept = [row for row in list(csv.reader(file))[1:] if tuple(row[:3]) not in new]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["arm", "metric", "seed", "before", "after"])
        writer.writerows([*kept, *rows])


if __name__ == "__main__":
    main()
