import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tercet.models.retrieval.rankings import NONE
from tercet.tasks.evaluation.suites.beir import beir_files, read_beir
from tercet.tasks.stage import BadInput

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
    said = "own: 1 of 2 queries have no relevant document in the split test and are not asked"
    assert found.left_out() == [("no_judgement", said, None)]


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        (QRELS + "3\ta\t1\n", r"line 5: the query '3' is not in queries.jsonl"),
        (QRELS + "1\tb\tgood\n", r"line 5: query, document and a whole number"),
        (QRELS + "1,b,1\n", r"line 5: query, document and a whole number, .* not '1,b,1'"),
        (QRELS + "1\tb\n", r"line 5: query, document and a whole number"),
        (QRELS + "1\t\t1\n", r"line 5: query, document and a whole number"),
        ("1\ta\t0\n", "no document with a grade above 0"),
        ("", "no document with a grade above 0"),
        ("1\tx\t1\n2\ty\t1\n", "None of the 2 relevant documents"),
    ],
)
def test_judgements_that_cannot_be_used(tmp_path: Path, qrels: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_beir("own", folder(tmp_path, qrels), "test", "test")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"corpus": "{\n"}, r"corpus.jsonl, line 1"),
        ({"corpus": ""}, r"corpus.jsonl is empty"),
        ({"corpus": [{"title": "x"}]}, "line 1: an object with the texts `_id` and `text`"),
        ({"corpus": [CORPUS[0], CORPUS[0]]}, "line 2: the id 'a' occurs a second time"),
        ({"queries": [{"_id": "1", "text": " "}]}, "the query '1' is empty"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, files: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_beir("own", folder(tmp_path, **files), "test", "test")


def test_what_is_missing_is_named_with_the_splits_that_are_there(tmp_path: Path) -> None:
    folder(tmp_path)
    with pytest.raises(
        BadInput, match=r"qrels/dev.tsv is missing .* \(qrels has the splits test\)"
    ):
        beir_files(tmp_path, "dev")
    with pytest.raises(BadInput, match=r"corpus\.jsonl is missing"):
        beir_files(tmp_path / "elsewhere", "test")
    (tmp_path / "corpus.jsonl.gz").write_bytes(b"")
    with pytest.raises(BadInput, match="remove one"):
        beir_files(tmp_path, "test")
