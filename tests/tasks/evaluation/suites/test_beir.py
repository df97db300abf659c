import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from failures import fails

from tercet.models.retrieval.rankings import NONE
from tercet.tasks.evaluation.suites.beir import beir_files, read_beir

CORPUS = [
    {"_id": "a", "title": "Pumps", "text": "They feed the boiler."},
    {"_id": "b", "title": "", "text": "Valves close."},
    {"_id": "c", "text": "Nobody asks for this."},
]
QUERIES = [{"_id": "2", "text": "what closes?"}, {"_id": "1", "text": "what feeds?"}]
QRELS = "query-id\tcorpus-id\tscore\n1\ta\t2\n1\tb\t0\n2\tb\t1\n"


def folder(tmp_path: Path, qrels: str = QRELS, **files: object) -> Path:
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text(qrels)
    for name, rows in {"corpus": CORPUS, "queries": QUERIES, **files}.items():
        text = rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(text)
    return tmp_path


def test_queries_documents_and_grades(tmp_path: Path) -> None:
    found = read_beir("own", folder(tmp_path), "test", "test")
    assert found.queries == ("what closes?", "what feeds?")
    assert found.documents == ("Pumps They feed the boiler.", "Valves close.", CORPUS[2]["text"])
    assert found.judged == ({1: 1}, {0: 2, 1: 0})
    assert (found.absent, found.unjudged) == (0, 0)


def test_compressed_files_and_trec_columns_are_the_same_set(tmp_path: Path) -> None:
    plain = read_beir("own", folder(tmp_path), "test", "test")
    for path in (tmp_path / "corpus.jsonl", tmp_path / "queries.jsonl"):
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    (tmp_path / "qrels" / "test.tsv").write_text("1 0 a 2\n1 0 b 0\n\n2 0 b 1\n")
    assert read_beir("own", tmp_path, "test", "test") == plain


def test_a_judged_document_that_is_not_there_is_counted_and_cannot_be_found(tmp_path: Path) -> None:
    found = read_beir("own", folder(tmp_path, QRELS + "2\tgone\t1\n\n\t\t\n"), "test", "test")
    assert found.absent == 1
    assert found.judged[0] == {1: 1, -2: 1}


def test_a_document_under_the_id_of_its_query_is_left_out_unless_it_answers(tmp_path: Path) -> None:
    queries = [{"_id": "a", "text": "They feed the boiler."}, {"_id": "b", "text": "what closes?"}]
    found = read_beir(
        "own", folder(tmp_path, "a\tb\t1\nb\tb\t1\n", queries=queries), "test", "test"
    )
    assert found.same_ids == (0, NONE)
    assert found.digest() != replace(found, same_ids=None).digest()


def test_queries_without_a_relevant_document_are_not_asked(tmp_path: Path) -> None:
    found = read_beir("own", folder(tmp_path, "1\ta\t1\n2\tb\t0\n"), "test", "test")
    assert found.queries == ("what feeds?",)
    assert found.unjudged == 1
    assert [reason for reason, _, _ in found.left_out()] == ["no_judgement"]


@pytest.mark.parametrize(
    ("files", "kind", "place"),
    [
        ({"qrels": QRELS + "3\ta\t1\n"}, "bad_row", "line 5"),
        ({"qrels": QRELS + "1\tb\tgood\n"}, "bad_row", "line 5"),
        ({"qrels": QRELS + "1\tb\n"}, "bad_row", "line 5"),
        ({"qrels": QRELS + "1\t\t1\n"}, "bad_row", "line 5"),
        ({"qrels": "1\ta\t0\n"}, "no_rows", "test.tsv"),
        ({"qrels": ""}, "no_rows", "test.tsv"),
        ({"qrels": "1\tx\t1\n2\ty\t1\n"}, "no_rows", "2"),
        ({"corpus": "{\n"}, "bad_row", "corpus.jsonl, line 1"),
        ({"corpus": ""}, "no_rows", "corpus.jsonl"),
        ({"corpus": [{"title": "x"}]}, "bad_row", "line 1"),
        ({"corpus": [CORPUS[0], CORPUS[0]]}, "bad_row", "line 2"),
        ({"queries": [{"_id": "1", "text": " "}]}, "bad_row", "'1'"),
    ],
)
def test_bad_files(tmp_path: Path, files: dict[str, Any], kind: Any, place: str) -> None:
    with fails(kind, place):
        read_beir("own", folder(tmp_path, **files), "test", "test")


def test_what_is_missing_is_named_with_the_splits_that_are_there(tmp_path: Path) -> None:
    folder(tmp_path)
    with fails("missing_file", "qrels/dev.tsv"):
        beir_files(tmp_path, "dev")
    with fails("missing_file", "corpus.jsonl"):
        beir_files(tmp_path / "elsewhere", "test")
    (tmp_path / "corpus.jsonl.gz").write_bytes(b"")
    with fails("conflict", "corpus.jsonl.gz"):
        beir_files(tmp_path, "test")
