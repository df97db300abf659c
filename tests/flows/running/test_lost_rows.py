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
    others: Mapping[tuple[str, str], int] | None = None,
) -> list[str]:
    rows = [{"corpus": "tickets", "unit": "pair", "outcome": o, "n": n} for o, n in pairs.items()]
    rows.append({"corpus": "tickets", "unit": "document", "outcome": "train", "n": documents})
    for (unit, outcome), n in (others or {}).items():
        rows.append({"corpus": "tickets", "unit": unit, "outcome": outcome, "n": n})
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


SAID = (
    "ingest: corpus 'tickets': of 296 documents 0 are in test and 0 are in dev, where 20% and "
    "5% were asked for"
)


def test_documents_that_stay_together_are_told_with_what_parts_them() -> None:
    parted = {("parted", "train"): 220, ("parted", "dev"): 10, ("parted", "test"): 60}
    assert said({}, documents=296, others=parted) == [
        f"{SAID}; documents that share runs of eight words or nearly all words stay together: "
        "ingest.rare=1 parts them, and leaves 220 in train and 60 in test."
    ]
    assert said({}, documents=40) == []
    assert said({}, documents=296) == [f"{SAID}."]


@pytest.mark.parametrize("train", [0, 147])
def test_what_does_not_help_is_not_advised(train: int) -> None:
    parted = {("parted", "train"): train, ("parted", "dev"): 10, ("parted", "test"): 60}
    (line,) = said({}, documents=296, others=parted)
    assert line == (
        f"{SAID}; documents that share runs of eight words or nearly all words stay together: they "
        f"are too alike to be parted (ingest.rare=1 would leave {train} in train), so leave copies "
        "out, or measure on texts of another corpus."
    )


@pytest.mark.parametrize(("lost", "told"), [(9, 0), (10, 1), (80, 1)])
def test_sentences_that_the_splits_keep_out_are_told(lost: int, told: int) -> None:
    counts = {("sentence", "shared_with_test"): lost, ("sentence", "train"): 70 - lost // 2}
    counts |= {("sentence", "test"): 30 - lost + lost // 2, ("sentence", "duplicate"): 500}
    lines = said({}, others=counts)
    assert len(lines) == told
    if lost == 10:
        assert lines == [
            "ingest: corpus 'tickets': 10 of 100 sentences are left out (shared_with_test 10), and "
            "65 are in train; to keep more, lower ingest.test."
        ]
