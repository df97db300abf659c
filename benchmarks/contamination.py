"""What the guard finds in known training data, and what it costs over a million rows.

    python benchmarks/contamination.py [--rows 1000000] [--only counts|scale] [--show 30]

Counts: three sets of texts against STS12 to STS16, STS-B and SICK-R, dev and test. `sentences` are
distinct evaluation sentences, told apart by their letters and digits alone in lower case, by the
surest level at which some training text says them; `sentences_15` are those of at least 15 letters
and digits, which is how the table of ../shared/data/README.md counts; `texts` are distinct training
texts by their surest level. Results: `results/contamination.csv`.

Scale: sentences of Wikipedia, said again with one word changed until there are so many, in parts of
20,000 as a run has them, through the stage's own function in a process of its own. Peak of its
resident memory, and the ratio of its processor time to that of reading and hashing the same lines
(one thread each; wall time beside it says how much else the machine did). Results:
`results/contamination_scale.csv`.
"""

import argparse
import csv
import gzip
import hashlib
import itertools
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from scale import watch

from tercet.models import seeding
from tercet.models.text import overlap
from tercet.storage.rows import rows_of
from tercet.tasks import guarding
from tercet.tasks.corpus.ingest import SENTENCES
from tercet.tasks.evaluation.suites.sts import STS_TASKS
from tercet.tasks.evaluation.suites.suite import read_suite
from tercet.tasks.stage import Resources, Work

HERE = Path(__file__).parent
PART = 20_000
LETTERS = 15
LEVELS = ("exact", "near", "ngram")
SETTINGS = guarding.GuardConfig()


def distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def training_sets(data: Path) -> dict[str, list[str]]:
    """The three sets whose overlap is known."""
    with gzip.open(data / "corpora" / "wiki_300k.txt.gz", "rt", encoding="utf-8") as file:
        wiki = file.read().splitlines()
    lexicon = data / "lexicon" / "oewn2024_definitions.tsv.gz"
    with gzip.open(lexicon, "rt", encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        definitions = [row["definition"] for row in reader]
    with (data / "nli" / "triplets.csv").open(encoding="utf-8", newline="") as file:
        triplets = [text for row in list(csv.reader(file))[1:] for text in row]
    return {
        "wiki_300k": distinct(wiki),
        "oewn_definitions": distinct(definitions),
        "nli_triplets": distinct(triplets),
    }


def evaluation_sets(data: Path) -> dict[str, set[str]]:
    """Sentences by task; STS-B and SICK-R by split."""
    found: dict[str, set[str]] = {}
    for task in read_suite(data, STS_TASKS, ("dev", "test")):
        name = f"{task.name} {task.split}" if task.name in ("STS-B", "SICK-R") else task.name
        found.setdefault(name, set()).update(task.texts())
    return found


def matches(
    index: overlap.Index, texts: Sequence[str]
) -> Iterator[tuple[int, str, overlap.Matches]]:
    """The pairs of each level, batch by batch, with the number of the batch's first text."""
    assert SETTINGS.ngram is not None
    for first in range(0, len(texts), guarding.BATCH):
        words = overlap.words_of(pa.array(texts[first : first + guarding.BATCH]))
        shares = index.shares(words)
        yield first, "exact", index.exact(words)
        yield first, "near", index.near(words)
        yield first, "ngram", shares.filter(shares.scores >= SETTINGS.ngram)


def count(
    name: str, texts: Sequence[str], sets: Mapping[str, set[str]], show: int
) -> list[dict[str, Any]]:
    """Rows of the counts of one training set; prints some of what was found."""
    sentences = distinct(text for task in sets.values() for text in task)
    letters = [re.sub(r"[\W_]+", "", text).lower() for text in sentences]
    index = overlap.Index(
        pa.array(sentences), guarding.ORDER, guarding.MIN_WORDS, guarding.SHORTLIST
    )
    pairs: dict[str, list[tuple[int, int, float]]] = {level: [] for level in LEVELS}
    for first, level, found in matches(index, texts):
        rows = (found.rows + first).tolist()
        pairs[level] += zip(rows, found.sentences.tolist(), found.scores.tolist(), strict=True)
    made = []
    for task, own in sets.items():
        said: set[str] = set()
        seen: set[int] = set()
        for level in LEVELS:
            here = [(row, number) for row, number, _ in pairs[level] if sentences[number] in own]
            new = {letters[number] for _, number in here} - said
            rows_found = {row for row, _ in here} - seen
            said |= new
            seen |= rows_found
            made.append(
                {
                    "training": name,
                    "task": task,
                    "level": level,
                    "texts": len(rows_found),
                    "sentences": len(new),
                    "sentences_15": sum(len(one) >= LETTERS for one in new),
                }
            )
    for level in LEVELS:
        draw = random.Random(1)
        for row, number, score in sorted(draw.sample(pairs[level], min(show, len(pairs[level])))):
            print(f"{name} {level} {score:.2f} | {texts[row]} | {sentences[number]}")
    return made


def changed(texts: Sequence[str], rows: int) -> Iterator[str]:
    """The texts again and again, each time with another word replaced by a made-up one."""
    for number in range(rows):
        words = texts[number % len(texts)].split()
        if again := number // len(texts):
            words[(number * 7 + again) % len(words)] = f"word{again}x{number % 9973}"
        yield " ".join(words)


def write_rows(texts: Sequence[str], rows: int, folder: Path) -> Path:
    """Sentences in parts of `PART`, and the same as lines. Returns the file of lines."""
    lines = folder / "lines.txt"
    piece: list[str] = []
    with lines.open("w", encoding="utf-8") as file:
        for number, text in enumerate(changed(texts, rows), start=1):
            file.write(text + "\n")
            piece.append(text)
            if len(piece) == PART or number == rows:
                table = pa.table(
                    {
                        "sentence_id": pa.array(seeding.text_ids(piece)),
                        "text": piece,
                        "split": pa.repeat("train", len(piece)),
                    }
                )
                for column in SENTENCES.names:
                    if column not in table.column_names:
                        nulls = pa.nulls(len(piece), SENTENCES.field(column).type)
                        table = table.append_column(column, nulls)
                path = folder / f"part-{number:09d}.parquet"
                pq.write_table(table.select(SENTENCES.names).cast(SENTENCES), path)
                piece = []
    return lines


def guard_parts(folder: Path, suite: Path) -> None:
    """The stage over all parts in this process; prints the rows found, and seconds."""
    config = guarding.GuardConfig(suite=suite, tasks=STS_TASKS)
    found = 0

    def emit(name: str, table: pa.Table) -> None:
        nonlocal found
        found += table.num_rows if name == "contamination" else 0

    began = time.perf_counter()
    for path in sorted(folder.glob("part-*.parquet")):
        inputs = {"sentences": rows_of({"sentences": [path]})}
        guarding.SENTENCES.run(Work(config, 1, inputs, {}, {}, Resources(), folder, emit))
    (folder / "cpu.txt").write_text(f"{time.process_time()}")
    print(f"{found} rows of contamination in {time.perf_counter() - began:.1f} s")


def cpu_of(lines: Path, rows: int) -> float:
    """Processor seconds of reading lines and hashing each."""
    began = time.process_time()
    with gzip.open(lines, "rb") if lines.suffix == ".gz" else lines.open("rb") as file:
        for line in itertools.islice(file, rows):
            hashlib.md5(line, usedforsecurity=False).digest()
    return time.process_time() - began


def scale(options: argparse.Namespace, texts: Sequence[str]) -> dict[str, Any]:
    """One measurement over so many rows."""
    with tempfile.TemporaryDirectory(prefix="tercet-bench-") as name:
        folder = Path(name)
        lines = write_rows(texts, options.rows, folder)
        baseline = min(cpu_of(lines, options.rows) for _ in range(3))
        script = [sys.executable, __file__, "--data", str(options.data), "--parts", name]
        seconds, _, peak, code = watch(script)
        cpu = float((folder / "cpu.txt").read_text()) if code == 0 else 0.0
    return {
        "rows": options.rows,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "peak_mib": round(peak * 1e6 / 2**20),
        "baseline_cpu_seconds": round(baseline, 2),
        "ratio": round(cpu / baseline, 1),
        "exit_code": code,
    }


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> int:
    data = Path(os.environ.get("TERCET_DATA", HERE.parent.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=data)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", choices=("counts", "scale"))
    parser.add_argument("--show", type=int, default=0, help="print so many pairs of each level")
    parser.add_argument("--parts", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    options = parser.parse_args()
    if not options.data.is_dir():
        sys.exit(f"There is no data at {options.data}: set TERCET_DATA or --data.")
    if options.parts is not None:
        guard_parts(options.parts, options.data)
        return 0
    trained, sets = training_sets(options.data), evaluation_sets(options.data)
    if options.only != "scale":
        rows = [
            row for name, texts in trained.items() for row in count(name, texts, sets, options.show)
        ]
        write(options.out / "contamination.csv", rows)
        for row in rows:
            if row["texts"]:
                print(*row.values())
    if options.only == "counts":
        return 0
    one = scale(options, trained["wiki_300k"])
    write(options.out / "contamination_scale.csv", [one])
    print(one)
    return int(one["exit_code"])


if __name__ == "__main__":
    sys.exit(main())
