"""Candidates that are longer than the evaluator reads are told."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tercet.storage.rows import rows_of
from tercet.tasks.scoring import embed_warnings
from tercet.tasks.scoring.embed import EmbedConfig
from tercet.tasks.stage import Resources, Work


def test_candidates_that_are_longer_than_max_length_are_told(tmp_path: Path) -> None:
    texts = [" ".join(["word"] * 33)] * 10 + ["short"] * 90
    pq.write_table(pa.table({"text": texts}), tmp_path / "c.parquet")
    candidates = rows_of({"candidates": [tmp_path / "c.parquet"]})
    for longest, told in ((32, [("cut", 10, 100)]), (33, [])):
        config = EmbedConfig(max_length=longest)
        inputs = {"candidates": candidates}
        work = Work(config, 0, inputs, {}, {}, Resources(), tmp_path, lambda name, rows: None)
        found = list(embed_warnings.find(work, candidates, []))
        assert [(one.kind, one.count, one.total) for one in found] == told
        assert all("raise embed.max_length" in one.remedy for one in found)
