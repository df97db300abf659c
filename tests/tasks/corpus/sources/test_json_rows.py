"""A .json as a table: a list of rows, or a key that holds one."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failures import fails

from tercet.errors import ErrorKind
from tercet.tasks.corpus.sources import files, json_rows, tables
from tercet.tasks.corpus.sources.corpora import CorpusConfig
from tercet.tasks.corpus.sources.discover import describe
from tercet.tasks.corpus.sources.registry import reader_of

LIMIT = 2000
ROWS = [{"id": n, "body": f"Heron {n} stands in the water and waits."} for n in range(40)]


def read(path: Path, content: str | bytes) -> list[tuple[int, dict[str, Any], str | None]]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    found = tables.rows(path, LIMIT)
    return [(row.number, row.values, row.fault and row.fault[0]) for row in found]


@pytest.mark.parametrize("given", [ROWS, {"data": ROWS}, {"n": 1, "tags": ["a"], "rows": ROWS}])
def test_a_list_of_rows_is_found_where_it_stands(given: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    assert read(path, json.dumps(given)) == [(n, row, None) for n, row in enumerate(ROWS, 1)]
    found = describe(str(path))
    assert (found.format, found.text, found.rows, found.exact) == (".json", "body", 40, True)
    assert tables.columns_of(path, LIMIT) == ["id", "body"]


def test_the_keys_of_a_dictionary_of_rows_are_their_ids(tmp_path: Path) -> None:
    given = {"a1": {"body": "Herons wait."}, "a2": {"id": "own", "body": "They stand."}}
    assert read(tmp_path / "a.json", json.dumps(given)) == [
        (1, {"id": "a1", "body": "Herons wait."}, None),
        (2, {"id": "own", "body": "They stand."}, None),
    ]


def test_a_row_that_cannot_be_used_costs_no_other(tmp_path: Path) -> None:
    long = json.dumps("x" * (LIMIT + 1))
    rows = ['{"a": "1"}', '"text"', '{"a": "1", "a": "2"}', f'{{"a": {long}}}', '{"a": "3"}']
    assert read(tmp_path / "a.json", f"[{','.join(rows)}]") == [
        (1, {"a": "1"}, None),
        (2, {}, "bad_json"),
        (3, {}, "bad_json"),
        (4, {}, "line_too_long"),
        (5, {"a": "3"}, None),
    ]


@pytest.mark.parametrize("content", ["", " \n", "[]", '{"rows": [], "others": [{"a": "b"}]}'])
def test_no_row_is_no_error_of_the_file(content: str, tmp_path: Path) -> None:
    assert len(read(tmp_path / "a.json", content)) == ("a" in content)


@pytest.mark.parametrize(
    ("content", "kind", "names"),
    [
        ('{"a": "b"}\n{"a": "c"}', "unreadable", [".jsonl"]),
        ('[{"a": "b"', "unreadable", []),
        ("[" * 200_000, "unreadable", []),
        ('{"name": "a", "files": ["b", "c"]}', "no_rows", [".jsonl"]),
        ('"text"', "no_rows", []),
        ('{"text": {"0": "a", "1": "b"}, "n": {"0": 1, "1": 2}}', "no_rows", []),
        ('{"options": {"a": 1}}', "no_rows", []),
        ('{"a": [{"b": 1}], "c": [{"d": 1}]}', "unreadable", ["'a'", "'c'"]),
        (b'[{"a": "caf\xc3\xa9"},\n{"a": "caf\xe9"}]', "unreadable", ["UTF-8"]),
    ],
)
def test_what_is_no_table(
    content: str | bytes, kind: ErrorKind, names: list[str], tmp_path: Path
) -> None:
    with fails(kind, "a.json", *names):
        read(tmp_path / "a.json", content)


def test_a_file_too_large_to_be_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = json.dumps(ROWS)
    monkeypatch.setattr(json_rows, "MOST_BYTES", len(whole))
    assert len(read(tmp_path / "a.json", whole)) == 40
    monkeypatch.setattr(json_rows, "MOST_BYTES", len(whole) - 1)
    with fails("limit", "2"):
        read(tmp_path / "a.json", whole)


def test_json_is_a_folders_corpus_only_where_there_is_nothing_else(tmp_path: Path) -> None:
    for name in ("package.json", "more.json"):
        (tmp_path / name).write_text('[{"text": "Herons wait in the water."}]')
    assert len(files.files_of(str(tmp_path))) == 2
    (tmp_path / "readme.md").write_text("Herons wait in the water.")
    assert [name for name, _ in files.files_of(str(tmp_path))] == ["readme.md"]
    assert describe(str(tmp_path)).left_out == {".json": 2}


def test_what_lies_in_objects_is_named_by_its_path(tmp_path: Path) -> None:
    given = [
        {"_id": {"$oid": "a"}, "_source": {"title": "Herons", "body": row["body"]}} for row in ROWS
    ]
    assert read(tmp_path / "a.json", json.dumps(given))[0] == (
        1,
        {"_id.$oid": "a", "_source.title": "Herons", "_source.body": ROWS[0]["body"]},
        None,
    )
    pq.write_table(pa.Table.from_pylist(given), tmp_path / "a.parquet")
    bulk = [
        json.dumps({"index": {"_id": n, "routing": "a"}}) + "\n" + json.dumps(row)
        for n, row in enumerate(given)
    ]
    (tmp_path / "bulk.jsonl").write_text("\n".join(bulk))
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a.jsonl").write_text("\n".join(map(json.dumps, given)))
    paths = [tmp_path / name for name in ("a.json", "a.parquet", "bulk.jsonl")]
    for source in [*map(str, paths), f"hf:{tmp_path / 'set'}"]:
        corpus = CorpusConfig(name="c", source=source)
        found = list(reader_of(source).read(corpus, LIMIT))
        assert [getattr(read, "paragraphs", None) for read in found] == [
            [[row["body"]]] for row in ROWS
        ]
        assert describe(source).text == "_source.body"


def test_a_list_of_paragraphs_is_a_text(tmp_path: Path) -> None:
    rows = [
        {"title": f"Heron {n}", "paragraphs": [row["body"], "It flies."]}
        for n, row in enumerate(ROWS)
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    found = describe(str(path))
    assert (found.text, found.looks[1].words) == ("paragraphs", 10)
    corpus = CorpusConfig(name="c", source=str(path))
    (first, *_) = files.read(corpus, LIMIT)
    assert first.paragraphs == [[ROWS[0]["body"]], ["It flies."]]
    assert first.title == "Heron 0"
