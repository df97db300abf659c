"""Rows for GCSE's orders without a language model: people's texts stand where it would write.

    python benchmarks/decay_orders.py OUT [--seed 42]

Writes into the directory OUT:

- `nli.csv`: a premise, what follows from it, what contradicts it;
- `asset.csv`: a sentence of ASSET, one of its ten human rewrites, and another rewrite in which a
  rule changed one fact (of `fact_order_cases.py`), as GCSE's revisions are meant to be;
- for both `NAME_random.csv`, where each negative is one of another row, `NAME_self.csv`, where the
  positive is the sentence itself besides, and `NAME_pairs.csv`, without negatives;
- `texts.txt`: the sentences of both, for stage 1.

The data are read from TERCET_DATA, by default ../shared/data, and stay out of the project.
"""

import argparse
import csv
from collections import defaultdict
from pathlib import Path

from fact_order_cases import DATA, asset, changes, drawn

Row = tuple[str, str, str]
# Of what a batch of stage 2 needs, and no row of one sentence beside another.
ROWS = 3_840


def nli(seed: int) -> list[Row]:
    with (DATA / "nli" / "triplets.csv").open(newline="", encoding="utf-8") as file:
        rows = {
            row["sent0"]: (row["sent0"], row["sent1"], row["hard_neg"])
            for row in csv.DictReader(file)
        }
    return [rows[anchor] for anchor in drawn(rows, "nli", seed)]


def rewritten(seed: int) -> list[Row]:
    """At most two rows of a sentence, of other rewrites."""
    rewrites = asset(DATA, "valid") | asset(DATA, "test")
    texts = {anchor: drawn(found, "rewrite", seed)[:4] for anchor, found in rewrites.items()}
    changed: dict[str, list[str]] = defaultdict(list)
    for text, other, _ in changes(list({text for found in texts.values() for text in found[2:]})):
        changed[text].append(other)
    rows = [
        (anchor, positive, drawn(changed[source], "change", seed)[0])
        for anchor, found in texts.items()
        for positive, source in zip(found[:2], found[2:], strict=False)
        if source in changed
    ]
    order = {text: place for place, text in enumerate(drawn(rewrites, "asset", seed))}
    return sorted(rows, key=lambda row: order[row[0]])


def write(path: Path, rows: list[tuple[str, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("anchor", "positive", "negative")[: len(rows[0])])
        writer.writerows(rows)
    print(f"{path}: {len(rows):,} rows")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=42)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    sentences: list[str] = []
    for name, every in (("nli", nli(options.seed)), ("asset", rewritten(options.seed))):
        rows = every[:ROWS]
        others = [rows[(place + len(rows) // 2) % len(rows)][2] for place in range(len(rows))]
        write(options.out / f"{name}.csv", list(rows))
        write(
            options.out / f"{name}_random.csv",
            [
                (anchor, positive, other)
                for (anchor, positive, _), other in zip(rows, others, strict=True)
            ],
        )
        write(
            options.out / f"{name}_self.csv",
            [(row[0], row[0], other) for row, other in zip(rows, others, strict=True)],
        )
        write(options.out / f"{name}_pairs.csv", [row[:2] for row in rows])
        sentences += [row[0] for row in rows]
    texts = options.out / "texts.txt"
    texts.write_text("\n".join(dict.fromkeys(sentences)) + "\n", encoding="utf-8")
    print(f"{texts}: {len(set(sentences)):,} sentences")


if __name__ == "__main__":
    main()
