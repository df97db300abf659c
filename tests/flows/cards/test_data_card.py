from contextlib import closing
from pathlib import Path

import pyarrow as pa
from cards_store import birds_store, plain_encoder
from huggingface_hub import DatasetCard

from tercet.flows.cards.data_card import DataFiles, data_card
from tercet.flows.results.queries import connect
from tercet.storage import runs


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
    assert "| `triplet_id` | uint64 | id of the anchor, the positive's id" in card
    assert "| `x` | list\\<item: float\\> |  |" in card
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
