"""`tercet encode`: the vectors of a table's texts, and what it cannot encode."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands_store import make_artifact, make_run, small_store
from failures import fails
from typer.testing import CliRunner

from tercet.errors import ErrorKind
from tercet.flows.cli import app
from tercet.flows.commands import encode as command
from tercet.flows.commands.encode import encode_table
from tercet.models.encoders.encoder import encode, load_encoder


@pytest.fixture
def store(tmp_path: Path, tiny_backbone: Path) -> str:
    opened, _ = small_store(tmp_path / "store")
    make_artifact(opened, "train", "7777", {}, model=tiny_backbone)
    make_run(opened, "notes", {"train": ("7777", "made", {})})
    return opened.location


def test_every_text_has_its_row_and_vector(
    store: str, tmp_path: Path, tiny_backbone: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(command, "_BATCH", 2)
    table, target = tmp_path / "texts.jsonl", tmp_path / "vectors.parquet"
    texts = ["the old file is open", None, "two red columns", " ", "read a row", "green", "text"]
    table.write_text("\n".join(json.dumps({"n": n, "text": t}) for n, t in enumerate(texts)))
    encode_table(str(table), str(target), None, None, store, None)
    assert "2 of 7 rows" in capsys.readouterr().out
    rows = pq.read_table(target)
    assert rows.schema.field("vector").type == pa.list_(pa.float32(), 32)
    kept = [number for number, text in enumerate(texts, start=1) if text and text.strip()]
    assert rows["id"].to_pylist() == kept
    assert rows["text"].to_pylist() == [texts[number - 1] for number in kept]
    expected = encode(load_encoder(tiny_backbone), rows["text"].to_pylist(), side="document")
    vectors = np.array(rows["vector"].to_pylist(), np.float32)
    assert np.abs(vectors - expected).max() < 1e-6


def test_a_column_and_a_model_can_be_named(tmp_path: Path, tiny_backbone: Path) -> None:
    table, target = tmp_path / "texts.csv", tmp_path / "v.parquet"
    table.write_text("text,other\nfirst,green\nsecond,red\n")
    words = ["encode", str(table), "--column", "other", "--model", str(tiny_backbone)]
    done = CliRunner().invoke(app, [*words, "-o", str(target)], catch_exceptions=False)
    assert done.exit_code == 0
    assert pq.read_table(target)["text"].to_pylist() == ["green", "red"]
    with fails("exists"):
        encode_table(str(table), str(target), None, str(tiny_backbone), "", None)


def test_what_cannot_be_encoded_writes_nothing(store: str, tmp_path: Path) -> None:
    table, target = tmp_path / "texts.csv", tmp_path / "v.parquet"
    table.write_text("text,empty\nfirst,\n")
    (tmp_path / "lines.txt").write_text("first\nsecond\n")
    cases: list[tuple[str, str | None, str | None, str | None, ErrorKind, str]] = [
        ("nowhere.csv", None, None, None, "missing_file", "nowhere.csv"),
        (str(tmp_path), None, None, None, "missing_file", str(tmp_path)),
        (str(tmp_path / "lines.txt"), None, None, None, "missing_column", ".txt"),
        (str(table), "body", None, None, "missing_column", "'body'"),
        (str(table), "empty", None, None, "no_rows", "'empty'"),
        (str(table), None, "no/model", None, "unreachable", "no/model"),
        (str(table), None, None, "nowhere", "unknown_name", "nowhere"),
    ]
    for source, column, model, run, kind, name in cases:
        with fails(kind, name):
            encode_table(source, str(target), column, model, store, run)
    assert not target.exists()
    assert not list(tmp_path.glob(".*.writing"))
