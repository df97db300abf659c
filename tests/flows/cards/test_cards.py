"""Cards say what the catalog knows, in the form that the hub reads, and no more."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from cards_store import RECIPE, birds_store, plain_encoder
from huggingface_hub import DatasetCard, ModelCard
from known_tables import known_tables

from tercet.flows.cards.data_card import DataFiles, data_card
from tercet.flows.cards.facts import run_facts
from tercet.flows.cards.model_card import model_card
from tercet.flows.results.queries import connect
from tercet.flows.results.subject import Subject
from tercet.storage import runs
from tercet.storage.artifacts import all_artifacts, open_artifact
from tercet.storage.store import Store, open_store
from tercet.tasks.stages import known_schemas


def card_of(store: Store, run_id: str | None, version: str = "bbbb0042", **more: Any) -> str:
    artifact = open_artifact(store, more.pop("step", "train"), version)
    folder = artifact.model_dir()
    assert folder is not None
    run = None if run_id is None else runs.get_run(store, run_id)
    with closing(connect(store, run_id)) as connection:
        subject = None if run is None else Subject(store, run, "run", connection)
        return model_card(artifact, folder, subject, **more)


def recipe_in(card: str) -> Any:
    return yaml.safe_load(card.partition("```yaml\n")[2].partition("```")[0])


def test_the_hub_reads_the_front_matter_with_the_figures(tmp_path: Path) -> None:
    store, run_id = birds_store(tmp_path / "store", plain_encoder(tmp_path / "encoder"))
    data = ModelCard(card_of(store, run_id)).data
    assert data.library_name == "sentence-transformers"
    assert data.pipeline_tag == "sentence-similarity"
    assert "loss:gaussian_decay" in data.tags
    assert data.base_model is None
    assert "license" not in data.to_dict()
    assert data.model_name == "birds"
    assert [(r.metric_type, r.metric_value, r.dataset_split) for r in data.eval_results] == [
        ("cosine_recall@1", 66.0, "test")
    ]


def test_figures_stand_with_interval_gain_number_and_seed(tmp_path: Path) -> None:
    store, run_id = birds_store(tmp_path / "store", plain_encoder(tmp_path / "encoder"))
    card = card_of(store, run_id)
    for cells in (
        "| document pairs test, recall@1 | 60.00 | 66.00 | +6.00 (+1.50 to +10.25) | 200 "
        "| 59.50 to 72.50 | retrieval | 42 |",
        "| triplets | triplets | gaussian\\_decay (tau 0.05) | 64 |",
        "| torch | 2.13.0 |",
        "| triplets | 2 |",
        "`train@bbbb0042`",
        "`cccc3333`",
    ):
        assert cells in card


def test_warnings_of_the_run_stand_before_its_figures(tmp_path: Path) -> None:
    store, run_id = birds_store(tmp_path / "store", plain_encoder(tmp_path / "encoder"))
    assert "## Warnings" not in card_of(store, run_id)
    warning = {"step": "train", "stage": "train", "key": "both", "kind": "cut", "count": 9}
    warning |= {"total": 10, "message": "9 of 10 texts are cut", "example": None}
    (artifact,) = [one for one in all_artifacts(store) if one.step == "train"]
    manifest = store.local(f"{artifact.path}/manifest.json")
    content = json.loads(manifest.read_text()) | {"warnings": [warning | {"remedy": "raise it"}]}
    manifest.write_text(json.dumps(content))
    card = card_of(store, run_id)
    assert "| train | 9 of 10 texts are cut | raise it |" in card
    assert card.index("## Warnings") < card.index("## Figures")


def test_several_seeds_are_told_with_mean_and_deviation(tmp_path: Path) -> None:
    encoder = plain_encoder(tmp_path / "encoder")
    store, run_id = birds_store(tmp_path / "store", encoder, seeds=(42, 44))
    card = card_of(store, run_id)
    # 66 and 68: mean 67, deviation √2.
    assert "| document pairs test, recall@1 | 67.00 (54.29 to 79.71) | 1.41 |" in card
    other = card_of(store, run_id, "bbbb0044", step="train.seed44")
    assert "| 60.00 | 68.00 |" in other
    assert "Seed: 44." in other


def test_nothing_of_the_machine_stands_in_it(tmp_path: Path) -> None:
    store, run_id = birds_store(tmp_path / "store", plain_encoder(tmp_path / "encoder"))
    card = card_of(store, run_id)
    for secret in ("/home", "ann", "hf_abc", "pw@", "llm.internal", str(tmp_path), "private"):
        assert secret not in card
    recipe = recipe_in(card)
    assert recipe["backbone"] == "tiny bird"
    assert recipe["corpora"][0]["source"] == "field.txt"
    assert recipe["evaluate"]["suite"] == "suite"
    assert recipe["select"] == {"negative_max": 0.97}
    assert "run" not in recipe
    assert card.count("</details>") == 1


@pytest.mark.parametrize(
    ("evaluator", "start"),
    [({"fit": {"epochs": 1}}, "`base`"), ({"model": "somebody/teacher"}, "`somebody/teacher`")],
)
def test_what_training_started_from_is_not_what_stands_before(
    tmp_path: Path, evaluator: dict[str, Any], start: str
) -> None:
    phases = {"phases": [{"name": "triplets", "backbone": "evaluator"}]}
    recipe = RECIPE | {"backbone": "/some/where/base", "train": phases, "evaluator": evaluator}
    store, run_id = birds_store(tmp_path / "store", plain_encoder(tmp_path / "encoder"), recipe)
    card = card_of(store, run_id)
    assert f"from {start}" in card
    assert "Before: the untouched backbone `base`" in card


def test_the_base_is_named_for_the_hub_and_its_licence_repeated(tmp_path: Path) -> None:
    base = plain_encoder(tmp_path / "base")
    (base / "model.safetensors").write_text("x")
    (base / "README.md").write_text("---\nlicense: apache-2.0\n---\n# Base\n")
    cards = []
    for backbone in (str(base), "nobody-here/no-such-model"):
        store, run_id = birds_store(
            tmp_path / str(len(cards)),
            plain_encoder(tmp_path / f"encoder{len(cards)}"),
            RECIPE | {"backbone": backbone},
        )
        cards.append(card_of(store, run_id))
    assert "`apache-2.0`" in cards[0]
    assert ModelCard(cards[0]).data.license is None
    assert ModelCard(cards[1]).data.base_model == "nobody-here/no-such-model"


SEEN = {"text_id": 1, "suite": "sts", "task": "STS-B", "level": "exact", "removed": True}


@pytest.mark.parametrize(
    ("seen", "line"),
    [
        (None, "Not checked"),
        ([], "None were found."),
        ([SEEN, SEEN, SEEN | {"text_id": 2, "removed": False}], "| sts | STS-B | exact | 2 | 1 |"),
    ],
)
def test_contamination_is_counted_or_said_to_be_unknown(
    tmp_path: Path, seen: list[dict[str, Any]] | None, line: str
) -> None:
    encoder = plain_encoder(tmp_path / "encoder")
    store, run_id = birds_store(tmp_path / "store", encoder, contamination=seen)
    assert line in card_of(store, run_id)


def test_a_labelled_corpus_counts_its_rows(tmp_path: Path) -> None:
    corpora = [{"name": "notes"}, {"name": "nli", "role": "labelled"}]
    with known_tables() as connection:
        for name, table, rows in (("notes", "sentences", 3), ("nli", "labelled", 5)):
            schema = known_schemas()[table]
            blank = dict.fromkeys(schema.names)
            of_corpus = [blank | {"corpus": name}] * rows
            connection.register(table, pa.Table.from_pylist(of_corpus, schema))
        run = {"run_id": "r", "recipe": {"corpora": corpora}, "steps": []}
        facts = run_facts(Subject(open_store(str(tmp_path)), run, "run", connection))
    assert [(name, rows) for name, _, _, rows, _ in facts.corpora] == [("notes", 3), ("nli", 5)]


def test_the_card_of_a_table_has_configs_sizes_funnel_and_reasons(tmp_path: Path) -> None:
    store, run_id = birds_store(tmp_path / "store", plain_encoder(tmp_path / "encoder"))
    detail = pa.struct([("old", pa.string()), ("node_id", pa.uint64())])
    schema = pa.schema([("triplet_id", pa.uint64()), ("x", pa.list_(pa.float32())), ("d", detail)])
    with closing(connect(store, run_id)) as connection:
        written = DataFiles(schema, 1_500, 900, 4_000)
        subject = Subject(store, runs.get_run(store, run_id), "run", connection)
        card = data_card("triplets", written, subject, ["select@cccc3333"])
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
    for line in (
        "| ingest | too\\_short | 3 |",
        "| negative | negation | 9 | 4 |",
        "| field | field.txt | domain | 2 | unknown |",
        "| docs | pydocs: numpy | general | 0 | unknown |",
        "`select@cccc3333`",
    ):
        assert line in card
    assert "/home" not in card
