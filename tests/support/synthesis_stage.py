"""Rows for stage `synthesise`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from awareness_corpus import SUBJECTS, THINGS
from stages import emitted, rows_in

from tercet.models import seeding
from tercet.storage.rows import Rows
from tercet.tasks.knowledge import extract, graph

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


def shares(threshold: int = 2**64 - 1, corpora: Sequence[str] = ("c",)) -> pa.Table:
    columns: dict[str, Any] = {
        "corpus": pa.array(corpora),
        "threshold": pa.array([threshold] * len(corpora), pa.uint64()),
    }
    for name, value in (("min_words", 1), ("max_words", 1000), ("company", 0)):
        columns[name] = pa.array([value] * len(corpora), pa.int32())
    return pa.table(columns)


def chain(folder: Path) -> dict[str, Rows]:
    """What the stages read of the corpus: it, and what is made of it."""
    sentences = rows_in(folder, sentences=corpus())
    found = emitted(extract.STAGE, extract.ExtractConfig(), {"sentences": sentences}, folder)
    mentions = found["mentions"]
    made = emitted(graph.STAGE, graph.GraphConfig(), {"mentions": mentions}, folder)
    about = found["sentence_categories"]
    return {
        "sentences": sentences,
        "pool": sentences,
        "mentions": rows_in(folder, mentions=mentions),
        "sentence_categories": rows_in(folder, sentence_categories=about),
        "graph": rows_in(folder, kg_nodes=made["kg_nodes"], kg_edges=made["kg_edges"]),
        "anchors": rows_in(folder, anchors=shares()),
    }
