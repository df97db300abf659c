"""Labelled pairs of inference, made by hand, of which a machine can learn which follows."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tercet.models import seeding
from tercet.storage.rows import Rows, rows_of
from tercet.tasks.corpus.labelled import LABELLED

THINGS = ["lamp", "boat", "fence", "kettle", "ladder", "violin", "tent", "saddle", "barrel", "gate"]
PLACES = ["in the yard", "by the river", "under the roof", "near the mill", "on the hill"]


def rows(anchors: int, seed: int = 1, corpus: str = "nli") -> list[dict[str, object]]:
    """Rows of `labelled`: an anchor names a thing, its positive the same, its negative another."""
    generator = np.random.default_rng(seed)
    found: list[dict[str, object]] = []
    for number in range(anchors):
        thing, other = generator.choice(THINGS, 2, replace=False)
        place = PLACES[number % len(PLACES)]
        texts = (
            f"Number {number}: the {thing} stands {place}.",
            f"There is a {thing}.",
            f"There is a {other}.",
        )
        names = ("anchor", "positive", "negative")
        blank: dict[str, object] = dict.fromkeys(LABELLED.names)
        row_id = seeding.text_id(*texts)
        given = {"row_id": row_id, "corpus": corpus, "kind": "triplets"}
        found.append({**blank, **given, **dict(zip(names, texts, strict=True))})
    return found


def labelled(folder: Path, given: list[dict[str, object]], name: str = "labelled") -> Rows:
    """The rows as the slot `labelled` gives them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.parquet"
    pq.write_table(pa.Table.from_pylist(given, schema=LABELLED), path)
    return rows_of({"labelled": [str(path)]})
