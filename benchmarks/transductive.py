"""How much of STS-B's and SICK's training sentences are sentences of the seven STS test sets.

    python benchmarks/transductive.py DIRECTORY      (SentEval's layout)

Distinct sentences of at least 15 letters and digits, told apart by these alone in lower case, and
the share of them that stand in STS12 to STS16, STS-B or SICK-R, test.
"""

import csv
import sys
from collections.abc import Iterable
from pathlib import Path

from tercet.tasks.evaluation.suites.layout import suite_root
from tercet.tasks.evaluation.suites.suite import read_suite

_LEAST = 15


def distinct(texts: Iterable[str]) -> set[str]:
    """Their letters and digits, of those with enough of them."""
    bare = ("".join(filter(str.isalnum, text.lower())) for text in texts)
    return {text for text in bare if len(text) >= _LEAST}


def columns(file: Path, first: int, skipped: int) -> list[str]:
    """The texts of two neighbouring columns, without so many lines at the top."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))[skipped:]
    return [text for row in rows for text in row[first : first + 2]]


def main() -> None:
    root = suite_root(Path(sys.argv[1]))
    measured = read_suite(root)
    seen = distinct(text for task in measured for text in task.texts())
    for name, file, first, skipped in (
        ("STS-B train", root / "STS/STSBenchmark/sts-train.csv", 5, 0),
        ("SICK train", root / "SICK/SICK_train.txt", 1, 1),
    ):
        own = distinct(columns(file, first, skipped))
        print(f"{name}: {len(own):,} sentences, {100 * len(own & seen) / len(own):.1f} % in them")


if __name__ == "__main__":
    main()
