"""A BM25 index as a directory: written once, then read without building it again."""

import json
from dataclasses import fields
from pathlib import Path

from tercet.models.retrieval.bm25 import Bm25

_OTHERS, _INDEX = "bm25.json", "index"


def save(bm25: Bm25, folder: Path) -> None:
    """Writes the index into a new directory."""
    folder.mkdir(parents=True)
    others = {f.name: getattr(bm25, f.name) for f in fields(bm25) if f.name != "index"}
    (folder / _OTHERS).write_text(json.dumps(others))
    # Documents without any word have no index.
    if bm25.index is not None:
        bm25.index.save(folder / _INDEX)


def load(folder: Path) -> Bm25:
    """The index that `save` wrote, its numbers mapped from their files. Raises OSError."""
    import bm25s

    others = json.loads((folder / _OTHERS).read_text())
    there = (folder / _INDEX).is_dir()
    return Bm25(bm25s.BM25.load(folder / _INDEX, mmap=True) if there else None, **others)
