"""What `tercet run` says after `ingest` of rows and pairs that a corpus lost."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from tercet.flows.pipeline.step import Step
from tercet.flows.running import lost_rows
from tercet.storage.artifacts import Artifact
from tercet.tasks.corpus import ingest
from tercet.tasks.corpus.outcomes import CORPUS_OUTCOMES

CONFIG = ingest.IngestConfig.model_validate(
    {"corpora": [{"name": "tickets", "source": "tickets.csv"}], "test": 0.2}
)


def said(
    pairs: Mapping[str, int],
    documents: int = 5,
    config: ingest.IngestConfig = CONFIG,
) -> list[str]:
    rows = [{"corpus": "tickets", "unit": "pair", "outcome": o, "n": n} for o, n in pairs.items()]
    rows.append({"corpus": "tickets", "unit": "document", "outcome": "train", "n": documents})
    table = pa.Table.from_pylist(rows, schema=CORPUS_OUTCOMES)
    made: Any = SimpleNamespace(rows=lambda: SimpleNamespace(table=lambda name: table))
    step: Any = SimpleNamespace(stage=ingest.STAGE, config=config)
    return lost_rows.warnings(cast(Step, step), cast(Artifact, made))


def test_pairs_that_are_left_out_are_told_with_what_to_set() -> None:
    pairs = {"train": 15, "test": 57, "like_test": 169, "shared_with_test": 59}
    assert said(pairs) == [
        "ingest: corpus 'tickets': 228 of 300 pairs are left out (like_test 169, shared_with_test "
        "59), and 15 are in train; to keep more, lower ingest.test."
    ]


@pytest.mark.parametrize(("lost", "told"), [(9, 0), (10, 1)])
def test_a_tenth_is_told(lost: int, told: int) -> None:
    counts = {"train": 100 - lost, "incomplete_pair": lost, "duplicate_query": 50}
    assert len(said(counts)) == told
    assert said({}) == []


def test_documents_that_stay_together_are_told_with_what_parts_them() -> None:
    assert said({}, documents=296) == [
        "ingest: corpus 'tickets': of 296 documents 0 are in test and 0 are in dev, where 20% and "
        "5% were asked for; documents that share runs of eight words stay together: ingest.rare=1 "
        "parts them, and leaves out of train what they share with test."
    ]
    assert said({}, documents=40) == []
    parted = CONFIG.model_copy(update={"rare": 1})
    assert said({}, documents=296, config=parted)[0].endswith("5% were asked for.")
