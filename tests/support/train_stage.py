"""Calls of stage `train`, and rows for it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tercet.models import seeding
from tercet.storage.rows import Rows, rows_of
from tercet.tasks.corpus.sample import ANCHORS
from tercet.tasks.scoring.select import TRIPLETS
from tercet.tasks.stage import Resources, Stage, Work


@pytest.fixture
def inputs(tmp_path: Path, tiny_texts: list[str]) -> dict[str, Rows]:
    """24 triplets and 40 sentences, every second of the corpus `docs`, the last ten of test.

    All 30 training sentences are anchors.
    """
    texts = tiny_texts[:40]
    ids = seeding.text_ids(texts)
    sentences = pa.table(
        {
            "sentence_id": pa.array(ids, pa.uint64()),
            "text": texts,
            "corpus": ["docs" if i % 2 else "other" for i in range(40)],
            "split": ["train"] * 30 + ["test"] * 10,
            "doc_id": pa.array(ids, pa.uint64()),
            "n_words": pa.array([len(text.split()) for text in texts], pa.int32()),
        }
    )
    shares = [
        {
            "corpus": name,
            "threshold": 2**64 - 1,
            "min_words": 1,
            "max_words": 99,
            "company": 0,
        }
        for name in ("docs", "other")
    ]
    pq.write_table(pa.Table.from_pylist(shares, ANCHORS), tmp_path / "shares.parquet")
    rows = [
        {
            "triplet_id": i,
            "sentence_id": int(ids[i]),
            "relation": "alters" if i % 3 else "topic",
            "anchor": texts[i],
            "positive": " ".join(texts[i].split()[1:]),
            "negative": texts[i] + " not",
            "negative_similarity": 0.9 if i else None,
            "positive_id": 100 + i if i else None,
            "negative_id": 200 + i,
            "positive_method": "cut" if i else "self",
            "negative_method": "negation",
        }
        for i in range(24)
    ]
    pq.write_table(sentences, tmp_path / "sentences.parquet")
    pq.write_table(pa.Table.from_pylist(rows, TRIPLETS), tmp_path / "triplets.parquet")
    return {
        "sentences": rows_of({"sentences": [tmp_path / "sentences.parquet"]}),
        "triplets": rows_of({"triplets": [tmp_path / "triplets.parquet"]}),
        "anchors": rows_of({"anchors": [tmp_path / "shares.parquet"]}),
    }


def call(stage: Stage, config: Any, inputs: dict[str, Rows], backbone: Path, scratch: Path) -> Any:
    """The model's directory, the log's rows and what progress was told."""
    tables: dict[str, list[pa.Table]] = {}
    told: list[tuple[int, int | None, str]] = []
    scratch.mkdir(exist_ok=True)
    path = stage.run(
        Work(
            config=config,
            seed=3,
            inputs=inputs,
            models={"backbone": backbone},
            spec={},
            resources=Resources(progress=lambda *step: told.append(step)),
            scratch=scratch,
            emit=lambda name, table: tables.setdefault(name, []).append(table),
        )
    )
    log = pa.concat_tables(tables["training_log"]).cast(stage.tables["training_log"])
    rows = [{**row, "terms": dict(row["terms"])} for row in log.to_pylist()]
    return path, rows, told
