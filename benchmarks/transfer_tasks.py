"""What do frozen vectors know? SentEval's seven transfer tasks, and words alone beside them.

    python benchmarks/transfer_tasks.py [--suite DIR] [--tasks NAME …] [--limit N]

all-MiniLM-L6-v2 twice, encoded anew each time, and a bag of words under the same protocol: counts
of the words of a text (letter case aside), brought to length one, of the words that the task's own
texts hold. Writes `results/transfer_tasks.csv`; exit code 1 when the two runs differ in a printed
digit. About 135,000 texts twice and some 4,000 classifiers. --limit takes so many examples of each
class and part, to try it out.
"""

import argparse
import csv
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import f1_score
from sts_selftest import packaged_minilm

from tercet.models.encoders.encoder import encode, load_encoder
from tercet.tasks.evaluation.suites.layout import suite_root, text_form
from tercet.tasks.evaluation.suites.transfer import (
    TRANSFER_TASKS,
    Examples,
    LabelledTask,
    read_task,
)

HERE = Path(__file__).parent
MODEL = "all-MiniLM-L6-v2"
WORDS = "bag of words"

Vectors = Callable[[Sequence[str]], Any]


def by_encoder(task: LabelledTask, model: Any, seconds: list[float]) -> Vectors:
    """Vectors of the task's texts as the model gives them; appends the time they took."""
    distinct = list(dict.fromkeys(task.texts()))
    places = {text: place for place, text in enumerate(distinct)}
    began = time.monotonic()
    found = encode(model, distinct, normalise=False)
    seconds.append(time.monotonic() - began)
    return lambda texts: found[[places[text] for text in texts]]


def by_words(task: LabelledTask) -> Vectors:
    """Counts of words, brought to length one, as sparse rows."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.preprocessing import normalize

    counter = CountVectorizer(token_pattern=r"\S+").fit(task.texts())
    return lambda texts: normalize(counter.transform(texts).astype(np.float64))


def limited(task: LabelledTask, limit: int) -> LabelledTask:
    """The first examples of each class in each part."""

    def few(part: Examples | None) -> Examples | None:
        if part is None:
            return None
        rows = [np.flatnonzero(part.labels == label)[:limit] for label in np.unique(part.labels)]
        kept = np.sort(np.concatenate(rows))
        first, second = (
            tuple(side[row] for row in kept) if side else () for side in (part.first, part.second)
        )
        return Examples(first, part.labels[kept], second)

    train = few(task.train)
    assert train is not None
    return replace(task, train=train, dev=few(task.dev), test=few(task.test))


def main() -> int:
    data = Path(os.environ.get("TERCET_DATA", HERE.parent.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--suite", type=Path, default=data / "downstream")
    parser.add_argument("--tasks", nargs="+", choices=TRANSFER_TASKS, default=TRANSFER_TASKS)
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "transfer_tasks.csv")
    options = parser.parse_args()
    model = load_encoder(packaged_minilm())
    rows: list[dict[str, object]] = []
    for name in options.tasks:
        task = read_task(suite_root(options.suite), name)
        if options.limit:
            task = limited(task, options.limit)
        for who, run in ((MODEL, 1), (MODEL, 2), (WORDS, 1)):
            seconds: list[float] = []
            vectors = by_words(task) if who == WORDS else by_encoder(task, model, seconds)
            began = time.monotonic()
            found = task.outcome(vectors)
            f1 = f1_score(found.labels, found.predictions, average=None)[-1]
            rows.append(
                {
                    "task": name,
                    "model": who,
                    "run": run,
                    "accuracy": f"{100 * found.right.mean():.2f}",
                    "f1": f"{100 * f1:.2f}" if name == "MRPC" else "",
                    "examples": len(found.labels),
                    "chosen_c": " ".join(f"{c:g}" for c in found.chosen),
                    "encoding_s": f"{sum(seconds):.0f}",
                    "classifiers_s": f"{time.monotonic() - began:.0f}",
                    "text_form": text_form(task.texts()),
                    "data_digest": task.digest(),
                }
            )
            shown = "{task:<8}{model:<20}{run}{accuracy:>8}{f1:>8}  {classifiers_s} s"
            print(shown.format(**rows[-1]), flush=True)
        write(options.out, rows)
    write(options.out, [*rows, *averages(rows)])
    return 0 if same_twice(rows) else 1


def write(path: Path, rows: Sequence[dict[str, object]]) -> None:
    """What is known so far, as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(rows)


def averages(rows: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """The average accuracy of each model's runs, where all seven are there."""
    found: list[dict[str, object]] = []
    for who, run in dict.fromkeys((row["model"], row["run"]) for row in rows):
        own = [r for r in rows if (r["model"], r["run"]) == (who, run)]
        if len(own) == len(TRANSFER_TASKS):
            mean = np.mean([float(str(row["accuracy"])) for row in own])
            found.append({"task": "average", "model": who, "run": run, "accuracy": f"{mean:.2f}"})
            print(f"average {who:<20}{run}{mean:8.2f}")
    return found


def same_twice(rows: Sequence[dict[str, object]]) -> bool:
    """Whether both runs of the encoder printed the same figures and chose the same C."""
    keys = ("task", "accuracy", "f1", "chosen_c")
    runs = [
        [
            tuple(row.get(key) for key in keys)
            for row in rows
            if row["model"] == MODEL and row["run"] == run
        ]
        for run in (1, 2)
    ]
    print("the same twice" if runs[0] == runs[1] else "the two runs DIFFER")
    return runs[0] == runs[1]


if __name__ == "__main__":
    sys.exit(main())
