"""The stage `extract`: its tables, ids and configuration."""

from importlib import metadata
from pathlib import Path

import pyarrow as pa
import pytest
from stages import emitted

from tercet.models import seeding
from tercet.tasks.knowledge import extract

TEXTS = [
    "The two dogs of Anna Meyer ate 5 kg of rice in 1997.",
    "Pass n_jobs=2 to the estimator.",
    "Nothing here.",
    "Cats and dogs, 😀 half of the cats.",
]


def _run(tmp_path: Path, config: extract.ExtractConfig, texts: list[str]) -> dict[str, pa.Table]:
    columns = {"sentence_id": seeding.text_ids(texts), "text": pa.array(texts, pa.string())}
    return emitted(extract.STAGE, config, {"sentences": pa.table(columns)}, tmp_path)


def test_mentions_have_ids_offsets_and_what_they_count(tmp_path: Path) -> None:
    tables = _run(tmp_path, extract.ExtractConfig(), TEXTS)
    rows = tables["mentions"].to_pylist()
    texts = dict(zip(seeding.text_ids(TEXTS).tolist(), TEXTS, strict=True))
    assert len({row["mention_id"] for row in rows}) == len(rows)
    for row in rows:
        assert texts[row["sentence_id"]][row["start"] : row["end"]] == row["text"]
    mentioned = {(row["sentence_id"], row["text"]): row for row in rows}
    first, second = (int(one) for one in seeding.text_ids(TEXTS[:2]))
    dogs = mentioned[first, "dogs"]
    assert dogs["node_id"] == seeding.text_id("entity", "dog")
    assert (dogs["kind"], dogs["type"]) == ("entity", "animal")
    assert (dogs["value"], dogs["unit"]) == (None, None)
    assert dogs["of_mention_id"] is None
    two = mentioned[first, "two"]
    assert two["node_id"] == seeding.text_id("quantity", "two")
    assert (two["kind"], two["type"], two["value"]) == ("quantity", "number", 2.0)
    assert two["of_mention_id"] == dogs["mention_id"]
    assert mentioned[first, "5"]["unit"] == "kg"
    assert mentioned[first, "5"]["of_mention_id"] == mentioned[first, "rice"]["mention_id"]
    assert mentioned[first, "1997"]["type"] == "year"
    assert mentioned[first, "Anna Meyer"]["type"] == "name"
    assert mentioned[second, "n_jobs"]["type"] == "identifier"
    assert tables["sentence_categories"].to_pydict() == {
        "sentence_id": [int(one) for one in seeding.text_ids([TEXTS[0], TEXTS[1], TEXTS[3]])],
        "category": ["animal", "identifier", "animal"],
    }


def test_batch_sizes_change_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _run(tmp_path, extract.ExtractConfig(), TEXTS)
    monkeypatch.setattr(extract, "BATCH_ROWS", 1)
    assert _run(tmp_path, extract.ExtractConfig(), TEXTS) == whole


def test_a_lexicon_file_is_an_external_and_replaces_ours(tmp_path: Path) -> None:
    path = tmp_path / "mine.tsv"
    path.write_text("noun\ttypes\ncat\tpet\n")
    config = extract.ExtractConfig(lexicon=str(path))
    assert extract.externals(config) == {"lexicon": path}
    assert extract.externals(extract.ExtractConfig()) == {}
    rows = _run(tmp_path, config, TEXTS)["mentions"].to_pylist()
    found = [(row["text"], row["type"]) for row in rows]
    assert [one for one in found if one[1] == "pet"] == [("Cats", "pet"), ("cats", "pet")]


def test_a_pipeline_s_files_and_spacy_are_externals(pipelines: Path) -> None:
    (folder,) = pipelines.glob("fr_core_news_sm-*")
    for name in ("fr_core_news_sm", f"package:fr_core_news_sm/{folder.name}", str(folder)):
        found = extract.externals(extract.ExtractConfig(pipeline=name))
        assert found == {"pipeline": folder, "spacy": metadata.version("spacy")}


def test_a_pipeline_s_types_are_those_of_the_mentions(pipelines: Path, tmp_path: Path) -> None:
    config = extract.ExtractConfig(pipeline=str(pipelines))
    tables = _run(tmp_path, config, ["Marie Dupont vit à Lyon depuis 12 ans.", "Il pleut."])
    rows = {row["text"]: row for row in tables["mentions"].to_pylist()}
    assert rows["Lyon"]["node_id"] == seeding.text_id("entity", "lyon")
    assert {text: row["type"] for text, row in rows.items()} == {
        "Marie Dupont": "PER",
        "Lyon": "LOC",
        "12": "number",
    }
    assert tables["sentence_categories"].num_rows == 1
    assert tables["rejects"].num_rows == 0
