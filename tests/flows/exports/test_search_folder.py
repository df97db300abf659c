"""A search that was taken along: the ranking of `tercet search`, in a process without Tercet."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands_store import make_artifact, make_run
from failures import fails
from searched_store import Searched, passages, searched

from tercet.flows.commands.export import export
from tercet.flows.exports import search_alone
from tercet.flows.exports.search_folder import export_search
from tercet.flows.results.search import open_passages, search

__all__ = ["searched"]

QUERIES = ["open the old file", "two red columns", "zzz", "文件"]
_ALONE = """
import json, sys
sys.modules["tercet"] = None
sys.path.insert(0, sys.argv[1])
import search
from pathlib import Path
loaded = search.load(Path(sys.argv[1]))
print(json.dumps([search.find(loaded, query, 20) for query in sys.argv[2:]]))
"""


def found_alone(folder: Path) -> list[list[dict[str, Any]]]:
    command = [sys.executable, "-I", "-c", _ALONE, str(folder), *QUERIES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    rows: list[list[dict[str, Any]]] = json.loads(done.stdout.splitlines()[-1])
    return rows


@pytest.fixture
def folder(searched: Searched, tmp_path: Path) -> Path:
    target = tmp_path / "taken"
    export("search", str(target), searched.store.location, None)
    return target


def test_the_ranking_is_that_of_tercet(searched: Searched, folder: Path) -> None:
    opened = open_passages(searched.store, None)
    for query, alone in zip(QUERIES, found_alone(folder), strict=True):
        expected = search(opened, query, 20, "both").rows.to_pylist()
        assert [row["id"] for row in alone] == [row["passage_id"] for row in expected]
        assert [row["score"] for row in alone] == pytest.approx(
            [row["both_score"] for row in expected], abs=1e-5
        )
        assert [row["text"] for row in alone] == [row["text"] for row in expected]


def test_other_tools_read_the_vectors(searched: Searched, folder: Path) -> None:
    table = pq.read_table(folder / "passages.parquet")
    assert table.schema.field("vector").type == pa.list_(pa.float32(), 32)
    assert table["id"].to_pylist() == searched.ids
    vectors = np.load(folder / "vectors.npy")
    flat = table["vector"].combine_chunks().flatten().to_numpy()
    assert (flat.reshape(60, 32) == vectors).all()
    nearest = duckdb.execute(
        f"""SELECT place FROM '{folder}/passages.parquet'
            ORDER BY array_cosine_similarity(vector::FLOAT[32], ?::FLOAT[32]) DESC LIMIT 10""",
        [vectors[7].tolist()],
    ).fetchall()
    expected = np.argsort(-(vectors @ vectors[7]), kind="stable")[:10]
    assert [place for (place,) in nearest] == expected.tolist()


def test_passages_that_come_with_tercet_stay_behind(searched: Searched, tmp_path: Path) -> None:
    table = passages([text.rpartition("\n")[2] for text in searched.texts], shipped=20)
    make_artifact(searched.store, "passages", "dddd", {"passages": table})
    steps = {"passages": ("dddd", "made", {"passages": 60})}
    steps["passage_vectors.encoder"] = ("ccccencoder", "made", {"passage_vectors": 60})
    plain = {"name": "plain", "source": "package:tercet.recipes/plain_english.txt"}
    recipe = {"name": "notes", "backbone": str(searched.backbone), "corpora": [plain]}
    run = make_run(searched.store, "mixed", steps, recipe)
    opened = open_passages(searched.store, run)
    assert export_search(searched.store, opened, tmp_path / "own") == 40
    own = table["passage_id"].to_pylist()[20:]
    assert pq.read_table(tmp_path / "own" / "passages.parquet")["id"].to_pylist() == own
    loaded = search_alone.load(tmp_path / "own")
    for query in QUERIES:
        expected = search(opened, query, 20, "both").rows["passage_id"].to_pylist()
        assert [row["id"] for row in search_alone.find(loaded, query, 20)] == expected


def test_a_run_without_vectors_is_one_sentence(searched: Searched, tmp_path: Path) -> None:
    half = make_run(searched.store, "half", {"passages": ("aaaa", "made", {})}, state="failed")
    with fails("not_reached"):
        export("search", str(tmp_path / "out"), searched.store.location, half)
    with fails("no_effect", "--onnx"):
        export("search", str(tmp_path / "out"), searched.store.location, None, onnx=True)
    assert not (tmp_path / "out").exists()
