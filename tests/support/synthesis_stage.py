"""Rows for stage `synthesise`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tercet.models import seeding
from tercet.storage.rows import Rows, rows_of

SUBJECTS = ["dog", "horse", "woman", "city", "river", "table", "car", "doctor", "apple", "bird"]


THINGS = ["house", "school", "village", "engine", "book", "cat", "teacher", "orange"]


PATTERNS = [
    "The large {a} was near {n} {b}s in the open field.",
    "A {a} has {n} parts and is not far from the {b}.",
    "Every {a} begins with an old {b} and {n} % of the rest.",
    "In 19{n} the {a} bought a small {b} for the first time.",
]


def corpus(documents: int = 40) -> pa.Table:
    """Documents of two paragraphs of two sentences each; every tenth document is of split test."""
    rows: list[tuple[Any, ...]] = []
    seen: set[str] = set()
    for d in range(documents):
        for position in range(4):
            number = d * 4 + position
            text = PATTERNS[number * 7 % 4].format(
                a=SUBJECTS[number % 10], b=THINGS[number // 10 % 8], n=12 + number // 5
            )
            if text not in seen:
                seen.add(text)
                split = "test" if d % 10 == 9 else "train"
                rows.append((text, 100 + d, position // 2, position, len(text.split()), split))
    texts, docs, paragraphs, positions, words, splits = zip(*rows, strict=True)
    return pa.table(
        {
            "sentence_id": pa.array(seeding.text_ids(texts), pa.uint64()),
            "text": pa.array(texts),
            "corpus": ["c"] * len(rows),
            "source": ["s"] * len(rows),
            "doc_id": pa.array(docs, pa.uint64()),
            "paragraph": pa.array(paragraphs, pa.int32()),
            "position": pa.array(positions, pa.int32()),
            "n_words": pa.array(words, pa.int32()),
            "split": splits,
        }
    )


def stored(folder: Path, name: str, table: pa.Table) -> str:
    path = folder / f"{name}.parquet"
    pq.write_table(table, path)
    return str(path)


def shares(folder: Path, threshold: int = 2**64 - 1, corpora: Sequence[str] = ("c",)) -> Rows:
    count = len(corpora)
    table = pa.table(
        {
            "corpus": pa.array(corpora),
            "threshold": pa.array([threshold] * count, pa.uint64()),
            "min_words": pa.array([1] * count, pa.int32()),
            "max_words": pa.array([1000] * count, pa.int32()),
            "company": pa.array([0] * count, pa.int32()),
        }
    )
    return rows_of({"anchors": [stored(folder, f"shares{threshold}", table)]})
