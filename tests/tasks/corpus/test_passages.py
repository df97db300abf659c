"""The stage `passages` behind `ingest`: its rows, what it leaves out, what it depends on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failures import fails

from tercet.models import seeding
from tercet.models.text.lengths import count_words
from tercet.storage.rows import rows_of
from tercet.tasks.corpus import ingest, passages
from tercet.tasks.corpus.passages import PassagesConfig, passage_text
from tercet.tasks.corpus.sources.corpora import CorpusConfig, IngestConfig
from tercet.tasks.corpus.sources.registry import reader_of
from tercet.tasks.stage import REJECTS, Resources, Work

Tables = dict[str, list[dict[str, Any]]]
Run = Callable[..., Tables]
PAGE = """\
---
title: Birds of the lake
---
# Herons

The heron stands in shallow water. It waits there for a fish.

## Food

It eats fish and frogs.

# Gulls

No.
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Calls both stages on the same corpora."""

    def call(stage: Any, config: Any, inputs: Any, models: Any, part: int) -> dict[str, pa.Table]:
        made: dict[str, list[pa.Table]] = {}
        emit = lambda name, table: made.setdefault(name, []).append(table)  # noqa: E731
        resources, scratch = Resources(part_rows=part), tmp_path / "scratch"
        stage.run(Work(config, 0, inputs, models, {}, resources, scratch, emit))
        schemas = {**stage.tables, "rejects": REJECTS}
        assert all(piece.schema == schemas[name] for name in made for piece in made[name])
        return {
            name: pa.concat_tables(made.get(name, [schema.empty_table()]))
            for name, schema in schemas.items()
        }

    def run(
        *sources: Path,
        part: int = 50,
        tokenizer: Path | None = None,
        corpus: Any = None,
        **own: Any,
    ) -> Tables:
        corpora = [
            {"name": f"c{number}", "source": str(source), **(corpus or {})}
            for number, source in enumerate(sources)
        ]
        read = IngestConfig.model_validate({"corpora": corpora, "min_words": 2, "max_words": 1_000})
        made = call(ingest.STAGE, read, {}, {}, part)
        pq.write_table(made["documents"], tmp_path / "documents.parquet")
        inputs = {"documents": rows_of({"documents": [tmp_path / "documents.parquet"]})}
        config = PassagesConfig.model_validate(
            {"corpora": corpora, "max_line_bytes": read.max_line_bytes, **own}
        )
        models = {} if tokenizer is None else {"tokenizer": tokenizer}
        cut = call(passages.STAGE, config, inputs, models, part)
        tables = {"documents": made["documents"], **cut}
        return {name: table.to_pylist() for name, table in tables.items()}

    return run


def test_a_page_is_cut_at_its_headings_which_are_context(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(PAGE)
    tables = run(tmp_path / "a.md")
    document = tables["documents"][0]
    rows = tables["passages"]
    assert [(row["context"], row["text"], row["n_tokens"]) for row in rows] == [
        (
            "Birds of the lake > Herons",
            "The heron stands in shallow water. It waits there for a fish.",
            18,
        ),
        ("Birds of the lake > Herons > Food", "It eats fish and frogs.", 13),
        # Too short for a sentence of `sentences`, but the document says it.
        ("Birds of the lake > Gulls", "No.", 7),
    ]
    for position, row in enumerate(rows):
        read = passage_text(row["context"], row["text"])
        assert row["passage_id"] == seeding.text_id(read)
        assert read == f"{row['context']}\n{row['text']}"
        assert row["position"] == position
        for name in ("doc_id", "corpus", "source", "path", "split"):
            assert row[name] == document[name]
    assert tables["rejects"] == []
    without = run(tmp_path / "a.md", context=False)["passages"]
    assert [(row["context"], row["text"]) for row in without] == [("", row["text"]) for row in rows]
    assert (
        without[2]["passage_id"]
        == seeding.text_id("No.")
        == seeding.text_id(passage_text("", "No."))
    )


def test_rows_of_a_table_have_their_title_and_line(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("title,body\nHerons,The heron stands in the water.\n,Gulls are loud.\nx,\n")
    rows = run(path, corpus={"text": "body"})["passages"]
    assert [(row["path"], row["context"], row["text"]) for row in rows] == [
        ("a.csv:2", "Herons", "The heron stands in the water."),
        ("a.csv:3", "", "Gulls are loud."),
    ]


def test_the_title_of_a_pair_is_context_and_not_text(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("title,body\nGrey herons,The heron stands in the water.\n")
    row = run(path, corpus={"query": "title", "answer": "body"})["passages"][0]
    assert (row["context"], row["text"]) == ("Grey herons", "The heron stands in the water.")


def test_documents_that_ingest_left_out_are_counted(run: Run, tmp_path: Path) -> None:
    text = "The heron stands in the water. It waits."
    lines = [text, "A gull cries loudly. It flies.", text, "Short", "A gull cries loudly. It eats."]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": one}) + "\n" for one in lines))
    tables = run(tmp_path / "a.jsonl")
    assert [row["path"] for row in tables["passages"]] == ["a.jsonl:1", "a.jsonl:2", "a.jsonl:5"]
    kept = {row["doc_id"] for row in tables["documents"]}
    assert {row["doc_id"] for row in tables["passages"]} == kept
    found = [(row["reason"], row["text"]) for row in tables["rejects"]]
    assert found == [("document_left_out", text), ("document_left_out", "Short")]


def test_of_equal_passages_the_first_stays(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "## Notes\nSee the list below.\n## Use\nCall it once.\n## Notes\nSee the list below.\n"
        "## Notes again\nSee the list below.\n"
    )
    tables = run(tmp_path / "a.md")
    assert [(row["context"], row["position"]) for row in tables["passages"]] == [
        ("Notes", 0),
        ("Use", 1),
        ("Notes again", 3),
    ]
    assert [(row["reason"], row["row_id"]) for row in tables["rejects"]] == [
        ("duplicate", tables["passages"][0]["passage_id"])
    ]


def test_passages_join_to_what_the_reader_read(run: Run, tmp_path: Path) -> None:
    for number in range(30):
        sentences = (f"Bird {number} of the lake said word {n} of {n * n}." for n in range(90))
        text = "".join(s + (" ", "\n\n", " ")[len(s) % 3] for s in sentences)
        (tmp_path / f"{number:02}.txt").write_text(text)
    (tmp_path / "empty.txt").write_text("\n \n")
    source, corpus = tmp_path / "*.txt", {"prose": True}
    whole = {
        document.path: " ".join(text for paragraph in document.paragraphs for text in paragraph)
        for document in reader_of(str(source)).read(
            CorpusConfig(name="c", source=str(source), prose=True), 1_000_000
        )
    }
    assert len(whole) > 30
    made = [run(source, corpus=corpus, part=part, tokens=64) for part in (7, 5_000)]
    assert made[0] == made[1]
    joined: dict[str, list[str]] = {}
    for row in made[0]["passages"]:
        joined.setdefault(row["path"], []).append(row["text"].replace("\n", " "))
        assert row["n_tokens"] <= 64
    assert {path: " ".join(texts) for path, texts in joined.items()} == whole


@pytest.mark.parametrize(
    "sentence", ["鹭{}站在浅水里。它{}等着一条鱼！", "鹭{}站在浅水里{}等着一条鱼"]
)
def test_chinese_is_cut_at_sentences_else_between_letters(
    run: Run, tmp_path: Path, sentence: str
) -> None:
    text = "".join(sentence.format(chr(0x4E00 + n), chr(0x5E00 + n)) for n in range(60))
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": text}) + "\n" + '{"text": "It is."}\n')
    rows = run(tmp_path / "a.jsonl", tokens=40)["passages"][:-1]
    assert "".join(row["text"] for row in rows).replace(" ", "") == text
    assert len(rows) > 5
    assert all(row["n_tokens"] <= 40 for row in rows)


def test_tokens_are_those_of_the_backbone(run: Run, tmp_path: Path, tiny_backbone: Path) -> None:
    line = "The old file is open, and was not new."
    (tmp_path / "a.txt").write_text(f"{line}\n")
    assert run(tmp_path / "a.txt", tokenizer=tiny_backbone)["passages"][0]["n_tokens"] == 11
    assert run(tmp_path / "a.txt")["passages"][0]["n_tokens"] == count_words(line) == 9


def test_an_overlap_of_more_than_half_is_refused() -> None:
    with fails("bad_value", "overlap"):
        passages.PassageSettings(tokens=100, overlap=51)
