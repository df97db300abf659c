"""What a run says of documents that come with Tercet beside the user's own."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from commands_store import make_artifact

from tercet.flows.running import own_documents
from tercet.storage.store import open_store
from tercet.tasks.corpus.outcomes import CORPUS_OUTCOMES
from tercet.tasks.corpus.sources.corpora import IngestConfig

PLAIN = {"name": "plain", "source": "package:tercet.recipes/plain_english.txt"}
COUNTS = [
    ("docs", "document", "train", 500),
    ("docs", "document", "large_cluster", 84),
    ("docs", "document", "nothing_kept", 7),
    ("docs", "sentence", "train", 9000),
    ("docs", "parted", "train", 584),
    ("plain", "document", "train", 1000),
    ("plain", "document", "test", 496),
]


def lines(tmp_path: Path, *corpora: dict[str, str]) -> list[str]:
    columns = [list(column) for column in zip(*COUNTS, strict=True)]
    table = pa.table(columns, schema=CORPUS_OUTCOMES)
    store = open_store(str(tmp_path / "store"))
    artifact = make_artifact(store, "ingest", "aaaa", {"corpus_outcomes": table})
    config = IngestConfig.model_validate({"corpora": corpora})
    step: Any = SimpleNamespace(name="ingest", config=config)
    return list(own_documents.lines(step, artifact))


def test_documents_that_are_kept_are_counted_apart(tmp_path: Path) -> None:
    docs = {"name": "docs", "source": "docs"}
    assert lines(tmp_path, docs, PLAIN) == [
        "ingest: 584 documents of yours, 1,496 that come with Tercet."
    ]


def test_nothing_is_said_where_no_corpus_comes_with_tercet(tmp_path: Path) -> None:
    assert lines(tmp_path, {"name": "docs", "source": "docs"}, {**PLAIN, "source": "p.txt"}) == []


def test_other_steps_and_texts_to_pretrain_on_have_no_such_line(tmp_path: Path) -> None:
    artifact = make_artifact(open_store(str(tmp_path / "store")), "ingest.pretrain", "bbbb", {})
    step: Any = SimpleNamespace(name="graph", config=None)
    assert own_documents.lines(step, artifact) == ()
    step.config = IngestConfig.model_validate({"corpora": [PLAIN]})
    assert own_documents.lines(step, artifact) == ()
