"""Anchors: how many a corpus gives, and that a threshold tells them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from failures import fails
from stages import emitted

from tercet.models import seeding
from tercet.tasks.corpus import sample
from tercet.tasks.corpus.anchors import anchor_mask


def sentences(counts: dict[str, int]) -> pa.Table:
    names = [name for name, count in counts.items() for _ in range(count)]
    total = len(names)
    return pa.table(
        {
            "sentence_id": seeding.text_ids([f"{number}" for number in range(total)]),
            "corpus": names,
            "doc_id": seeding.text_ids([f"document {number // 2}" for number in range(total)]),
            "n_words": pa.array(np.arange(total) % 20 + 1, pa.int32()),
            "split": ["test" if number % 10 == 0 else "train" for number in range(total)],
        }
    )


Shares = Callable[..., tuple[pa.Table, pa.Table]]


@pytest.fixture
def shares_of(tmp_path: Path) -> Shares:
    """The tables `anchors` and `anchor_shares` of these sentences."""

    def run(table: pa.Table, seed: int = 0, **config: object) -> tuple[pa.Table, pa.Table]:
        chosen = sample.SampleConfig.model_validate(config)
        made = emitted(sample.STAGE, chosen, {"sentences": table}, tmp_path, seed=seed)
        return made["anchors"], made["anchor_shares"]

    return run


@pytest.mark.parametrize(
    ("eligible", "shares", "rows", "expected"),
    [
        ([1000, 9000], [1.0, 3.0], 400, [100, 300]),
        ([50, 9000], [1.0, 3.0], 400, [50, 300]),
        ([1000, 9000], [1.0, 3.0], None, [1000, 3000]),
        ([1000, 600], [1.0, 3.0], None, [200, 600]),
        ([1000, 0], [1.0, 3.0], None, [1000, 0]),
        ([7], [5.0], None, [7]),
        ([0], [5.0], None, [0]),
    ],
)
def test_anchors_by_share(
    eligible: list[int], shares: list[float], rows: int | None, expected: list[int]
) -> None:
    assert sample.anchor_counts(eligible, shares, rows) == expected


def test_the_mask_finds_as_many_anchors_as_the_table_says(shares_of: Shares) -> None:
    table = sentences({"near": 300, "far": 700, "unused": 50})
    corpora = [{"name": "near", "share": 1.0}, {"name": "far", "role": "general", "share": 3.0}]
    made, counts = shares_of(table, corpora=corpora, rows=100, min_words=3, max_words=18)
    assert counts["anchors"].to_pylist() == [25, 75]
    assert counts["role"].to_pylist() == ["domain", "general"]
    mask = anchor_mask(table, made, 0)
    chosen = table.filter(pa.array(mask))
    assert chosen["corpus"].value_counts().to_pylist() == [
        {"values": "near", "counts": 25},
        {"values": "far", "counts": 75},
    ]
    assert set(chosen["split"].to_pylist()) == {"train"}
    assert min(chosen["n_words"].to_pylist()) >= 3
    assert max(chosen["n_words"].to_pylist()) <= 18
    eligible = (table["n_words"].to_numpy() >= 3) & (table["n_words"].to_numpy() <= 18)
    eligible &= np.asarray(table["split"].to_pylist()) == "train"
    near = eligible & (np.asarray(table["corpus"].to_pylist()) == "near")
    assert counts["sentences"].to_pylist()[0] == near.sum()


def test_more_rows_keep_the_anchors_there_are(shares_of: Shares) -> None:
    table = sentences({"a": 400})
    few, more, other = (
        anchor_mask(table, shares_of(table, seed, corpora=[{"name": "a"}], rows=rows)[0], seed)
        for seed, rows in ((0, 50), (0, 120), (1, 50))
    )
    assert few.sum() == 50
    assert more.sum() == 120
    assert (more | ~few).all()
    assert (other != few).any()


def test_all_sentences_stay_anchors_when_more_come(shares_of: Shares) -> None:
    few, _ = shares_of(sentences({"a": 200}), corpora=[{"name": "a"}])
    more, _ = shares_of(sentences({"a": 400}), corpora=[{"name": "a"}])
    assert few["threshold"].to_pylist() == [2**64 - 1]
    assert few.equals(more)


def test_no_anchor_at_all_is_told(shares_of: Shares) -> None:
    with fails("no_rows", "90"):
        shares_of(sentences({"a": 200}), corpora=[{"name": "a"}], min_words=90, max_words=99)


def test_an_anchor_is_among_as_many_others_as_are_asked_for(shares_of: Shares) -> None:
    # Two sentences a document; of every tenth sentence's document the other one stands alone.
    table = sentences({"a": 200})
    made, counts = shares_of(table, corpora=[{"name": "a"}], min_context_sentences=1)
    assert counts["anchors"].to_pylist() == [160]
    assert made["company"].to_pylist() == [1]
    chosen = table.filter(pa.array(anchor_mask(table, made, 0)))
    documents = chosen["doc_id"].value_counts()
    assert {row["counts"] for row in documents.to_pylist()} == {2}
    with fails("no_rows"):
        shares_of(table, corpora=[{"name": "a"}], min_context_sentences=2)
