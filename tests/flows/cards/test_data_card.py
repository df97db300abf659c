from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from cards_store import birds_store, plain_encoder
from huggingface_hub import DatasetCard

from tercet.flows.cards.data_card import DataFiles, _meanings, data_card, meaning
from tercet.flows.results.queries import connect
from tercet.storage import runs
from tercet.tasks.stages import known_schemas


@pytest.mark.parametrize("table", ["triplets", "candidates", "sentences", "document_pairs"])
def test_every_column_that_people_export_is_explained(table: str) -> None:
    assert [name for name in known_schemas()[table].names if not meaning(table, name)] == []


def test_no_column_is_explained_that_is_not_there() -> None:
    tables = known_schemas()
    stale = [
        (table, column)
        for table, column in _meanings()
        if table in tables and column not in tables[table].names
    ]
    assert stale == []


def test_the_card_has_configs_sizes_funnel_and_reasons(tmp_path: Path) -> None:
    store, run_id = birds_store(tmp_path / "store", plain_encoder(tmp_path / "encoder"))
    detail = pa.struct([("old", pa.string()), ("node_id", pa.uint64())])
    schema = pa.schema([("triplet_id", pa.uint64()), ("x", pa.list_(pa.float32())), ("d", detail)])
    with closing(connect(store, run_id)) as connection:
        written = DataFiles(schema, 1_500, 900, 4_000)
        run = runs.get_run(store, run_id)
        card = data_card("triplets", written, run, connection, ["select@cccc3333"])
    data = DatasetCard(card).data.to_dict()
    assert data["configs"][0]["data_files"] == [{"split": "train", "path": "data/train-*.parquet"}]
    assert data["size_categories"] == ["1K<n<10K"]
    assert data["dataset_info"]["splits"][0]["num_examples"] == 1_500
    assert data["dataset_info"]["features"] == [
        {"name": "triplet_id", "dtype": "uint64"},
        {"name": "x", "list": "float32"},
        {
            "name": "d",
            "struct": [{"name": "old", "dtype": "string"}, {"name": "node_id", "dtype": "uint64"}],
        },
    ]
    assert "license" not in data
    for told in (
        "| ingest | too\\_short | 3 |",
        "| negative | negation | 9 | 4 |",
        "| sentences in train | 1 |",
        "| field | field.txt | domain | 2 | unknown |",
        "| docs | pydocs: numpy | general | 0 | unknown |",
        "`select@cccc3333`",
    ):
        assert told in card
    assert "/home" not in card
