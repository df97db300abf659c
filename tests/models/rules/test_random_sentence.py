"""A text of another document, drawn by a ring over their ids."""

import numpy as np
import pyarrow as pa
from rules_given import generated, sentences

from tercet.models import seeding
from tercet.models.generation import Pool


def _pool(rows: pa.Table) -> Pool:
    ids = rows["sentence_id"].to_numpy()
    texts = dict(zip(ids.tolist(), rows["text"].to_pylist(), strict=True))
    order = np.argsort(seeding.mix(ids))
    return Pool(
        seeding.mix(ids)[order],
        ids[order],
        rows["doc_id"].to_numpy()[order],
        lambda wanted: [texts[i] for i in wanted.tolist()],
    )


def test_random_where_one_document_is_nearly_all() -> None:
    rows = sentences([[[f"big {s}" for s in range(50)]], [["other"]]])
    found = {row["source"]: row["raw"] for row in generated("random", rows, pool=_pool(rows))}
    assert {found[f"big {s}"] for s in range(50)} == {"other"}
    assert found["other"].startswith("big")
    lonely = sentences([[["a", "b"]]])
    assert generated("random", lonely, pool=_pool(lonely)) == []


def test_random_moves_little_when_the_pool_grows() -> None:
    rows = sentences([[[f"d{d}"]] for d in range(300)])
    before = {row["source"]: row["raw"] for row in generated("random", rows, pool=_pool(rows))}
    more = sentences([[[f"d{d}"]] for d in range(303)])
    after = {row["source"]: row["raw"] for row in generated("random", rows, pool=_pool(more))}
    moved = [source for source in before if before[source] != after[source]]
    assert all(after[source] in ("d300", "d301", "d302") for source in moved)
    assert len(moved) < 20
