"""What a warning of `select` names: the keys that set a threshold."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tercet.storage.rows import rows_of
from tercet.tasks.scoring.embed import EmbedConfig
from tercet.tasks.scoring.select import SelectConfig
from tercet.tasks.stage import Resources, Work
from tercet.tasks.synthesis import answer_warnings
from tercet.tasks.synthesis.answer_warnings import threshold_keys


def test_beside_the_general_key_each_that_takes_its_place() -> None:
    relations = {"topic": {"positive_min": 0.2}, "keeps": {"positive_min": 0.5}}
    methods = {"cutoff": {"positive_min": 0.4}, "negation": {"weight": 2.0}}
    config = SelectConfig.model_validate({"relations": relations, "methods": methods})
    keys = threshold_keys("positive_min", config.model_dump(mode="json"))
    assert re.findall(r"select[\w.]+", keys) == [
        "select.positive_min",
        "select.relations.topic.positive_min",
        "select.relations.keeps.positive_min",
        "select.methods.cutoff.positive_min",
    ]


def test_candidates_that_are_longer_than_max_length_are_told(tmp_path: Path) -> None:
    texts = [" ".join(["word"] * 33)] * 10 + ["short"] * 90
    pq.write_table(pa.table({"text": texts}), tmp_path / "c.parquet")
    candidates = rows_of({"candidates": [tmp_path / "c.parquet"]})
    for longest, told in ((32, [("cut", 10, 100)]), (33, [])):
        config = EmbedConfig(max_length=longest)
        inputs = {"candidates": candidates}
        work = Work(config, 0, inputs, {}, {}, Resources(), tmp_path, lambda name, rows: None)
        found = list(answer_warnings.find_embed(work, candidates, []))
        assert [(one.kind, one.count, one.total) for one in found] == told
