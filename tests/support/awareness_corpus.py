"""A small corpus with its mentions and graph, and calls of stages on it."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from stages import emitted

from tercet.models import seeding
from tercet.storage.rows import Rows, rows_of
from tercet.tasks.knowledge import extract, graph

SUBJECTS = ["dog", "horse", "woman", "city", "river", "table", "car", "doctor", "apple", "bird"]
THINGS = ["house", "school", "village", "engine", "book", "cat", "teacher", "orange"]
PATTERNS = [
    "The large {a} was near {n} {b}s in the open field.",
    "A {a} has {n} parts and is not far from the {b}.",
    "The {a} begins with an old {b} and ends there.",
    "The {a} bought {n} small {b}s for the first time.",
]
SPLITS = ("train", "dev", "test")


def sentences_of(rows: Iterable[tuple[str, str]]) -> pa.Table:
    """The table of these (text, split), one document each."""
    texts, splits = (list(column) for column in zip(*rows, strict=True))
    count = len(texts)
    return pa.table(
        {
            "sentence_id": pa.array(seeding.text_ids(texts), pa.uint64()),
            "text": pa.array(texts, pa.string()),
            "corpus": ["c"] * count,
            "source": ["s"] * count,
            "doc_id": pa.array(range(count), pa.uint64()),
            "paragraph": pa.array([0] * count, pa.int32()),
            "position": pa.array([0] * count, pa.int32()),
            "n_words": pa.array([len(text.split()) for text in texts], pa.int32()),
            "split": pa.array(splits, pa.string()),
        }
    )


def corpus(count: int = 180) -> pa.Table:
    rows: dict[str, str] = {}
    for i in range(count):
        text = PATTERNS[i * 7 % 4].format(a=SUBJECTS[i % 10], b=THINGS[i // 10 % 8], n=12 + i // 5)
        rows.setdefault(text, SPLITS[i // 2 % 3])
    return sentences_of(rows.items())


def stored(folder: Path, name: str, *tables: pa.Table) -> list[str]:
    files = []
    for number, table in enumerate(tables):
        files.append(str(folder / f"{name}{number}.parquet"))
        pq.write_table(table, files[-1])
    return files


def inputs_of(folder: Path, sentences: pa.Table) -> dict[str, Rows]:
    """What the stage reads of these sentences: them, their mentions, the graph of all."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = rows_of({"sentences": stored(folder, "sentences", sentences)})
    found = emitted(extract.STAGE, extract.ExtractConfig(), {"sentences": rows}, folder)
    mentions = rows_of({"mentions": stored(folder, "mentions", found["mentions"])})
    made = emitted(graph.STAGE, graph.GraphConfig(), {"mentions": mentions}, folder)
    known = rows_of({name: stored(folder, name, made[name]) for name in ("kg_nodes", "kg_edges")})
    return {"sentences": rows, "mentions": mentions, "graph": known}
