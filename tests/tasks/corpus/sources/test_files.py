"""Every kind of file, and every kind of fault in one."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failures import fails

from tercet.errors import ErrorKind
from tercet.storage.store import open_store
from tercet.tasks.corpus.sources import files, tables
from tercet.tasks.corpus.sources.corpora import CorpusConfig, Document, Fault
from tercet.tasks.corpus.sources.discover import describe

LIMIT = 2000
TEXTS = ["The cat sat on the warm mat.", 'Ünïcode, "quoted" text.\tIt has two sentences.']
FOLDED = ["The cat sat on the warm mat.", 'Ünïcode, "quoted" text. It has two sentences.']


def corpus(source: Path | str, **more: object) -> CorpusConfig:
    return CorpusConfig.model_validate({"name": "c", "source": str(source), **more})


def read(source: Path | str, **more: object) -> tuple[list[Document], list[Fault]]:
    readings = list(files.read(corpus(source, **more), LIMIT))
    documents = [reading for reading in readings if isinstance(reading, Document)]
    return documents, [reading for reading in readings if isinstance(reading, Fault)]


def texts(documents: list[Document]) -> list[str]:
    return [
        " ".join(sentence for paragraph in document.paragraphs for sentence in paragraph)
        for document in documents
    ]


def write(path: Path, data: bytes) -> Path:
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".zst":
        data = pa.compress(data, codec="zstd", asbytes=True)
    path.write_bytes(data)
    return path


def content(form: str, tmp_path: Path) -> bytes:
    if form == ".txt":
        return "\n".join(text.replace("\t", " ") for text in TEXTS).encode() + b"\n\n"
    if form == ".jsonl":
        return "".join(json.dumps({"id": 1, "text": text}) + "\n" for text in TEXTS).encode()
    if form == ".json":
        return json.dumps([{"id": 1, "text": text} for text in TEXTS], indent=1).encode()
    if form == ".csv":
        quoted = ['"' + text.replace('"', '""') + '"' for text in TEXTS]
        return ("id,text\r\n" + "".join(f"7,{text}\r\n" for text in quoted)).encode()
    if form == ".tsv":
        return (
            "id\ttext\n" + "".join(f"7\t{t}\n" for t in TEXTS).replace(".\tIt", ". It")
        ).encode()
    table = pa.table({"id": [1, 2], "text": TEXTS})
    pq.write_table(table, tmp_path / "made")
    return (tmp_path / "made").read_bytes()


@pytest.mark.parametrize("form", [".txt", ".jsonl", ".json", ".csv", ".tsv", ".parquet"])
@pytest.mark.parametrize("compression", ["", ".gz", ".zst"])
def test_each_format_gives_the_same_texts(form: str, compression: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"corpus{form}{compression}", content(form, tmp_path))
    files.check(corpus(path), LIMIT)
    documents, faults = read(path)
    assert faults == []
    assert texts(documents) == FOLDED
    sentences_of_second = len(documents[1].paragraphs[0])
    assert sentences_of_second == (1 if form == ".txt" else 2)
    assert documents[0].source == path.name
    first = 2 if form in (".csv", ".tsv") else 1
    assert documents[0].path == f"{path.name}:{first}"


EMPTY = {".txt": b"", ".csv": b"id,body\n", ".tsv": b"", ".jsonl": b"\n", ".csv.gz": b""}
EMPTY |= {".txt.zst": b"\n", ".parquet": b"", ".json": b""}


@pytest.mark.parametrize("kind", EMPTY)
def test_an_empty_first_file_is_passed_over(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    write(folder / f"0{kind}", EMPTY[kind])
    if kind == ".parquet":
        pq.write_table(pa.table({"id": [1], "text": ["a"]}).slice(0, 0), folder / "00.parquet")
    form = kind.removesuffix(".gz").removesuffix(".zst")
    write(folder / f"1{kind}", content(form, tmp_path))
    for source in (folder, folder / f"*{kind}"):
        found = describe(str(source))
        assert found.text == (None if form == ".txt" else "text")
        assert found.rows == pytest.approx(2, abs=1)
        files.check(corpus(source), LIMIT)
        documents, faults = read(source)
        assert (texts(documents), faults) == (FOLDED, [])


def test_glob_names_are_relative_to_its_fixed_part(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("b/two.txt", "one.txt"):
        (tmp_path / name).write_text(f"This is {name}\n")
    documents, _ = read(f"{tmp_path}/**/*.txt")
    assert [document.path for document in documents] == ["b/two.txt:1", "one.txt:1"]
    other = tmp_path / "elsewhere"
    other.mkdir()
    (tmp_path / "b").rename(other / "b")
    (tmp_path / "one.txt").rename(other / "one.txt")
    before = files.digest(corpus(f"{other}/**/*.txt"))
    other.rename(tmp_path / "moved")
    assert files.digest(corpus(f"{tmp_path}/moved/**/*.txt")) == before
    (tmp_path / "moved/one.txt").write_text("Something else\n")
    assert files.digest(corpus(f"{tmp_path}/moved/**/*.txt")) != before


def test_prose_has_paragraphs_and_long_files_several_documents(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text(
        "One starts here\nand ends. Two is short.\n\n \nA new one.\n" + "\nMore.\n" * 20
    )
    documents, _ = read(path, prose=True)
    assert documents[0].paragraphs[:2] == [
        ["One starts here and ends.", "Two is short."],
        ["A new one."],
    ]
    assert [len(document.paragraphs) for document in documents] == [20, 2]


@pytest.mark.parametrize("form", [".txt", ".jsonl", ".csv", ".tsv"])
def test_long_lines_are_rejected_and_the_others_arrive(form: str, tmp_path: Path) -> None:
    good = "This one is good."
    long = "long " * LIMIT
    rows = {
        ".txt": [good, long, good],
        ".jsonl": [json.dumps({"text": text}) for text in (good, long, good)],
        ".csv": ["text,n", f"{good},1", f'"{long}",2', f"{good},3"],
        ".tsv": ["text\tn", f"{good}\t1", f'"{long}\t2', f"{good}\t3"],
    }[form]
    path = tmp_path / f"a{form}"
    path.write_text("\n".join(rows) + "\n")
    documents, faults = read(path)
    assert texts(documents) == [good, good]
    assert [fault.reason for fault in faults] == ["line_too_long"]
    assert len(faults[0].text) == 200


@pytest.mark.parametrize(
    ("name", "data", "keys", "wanted", "faulty"),
    [
        # Text is made uniform.
        ("a.txt", "\ufeffe\u0301t\u00e9 \u00a0 is\x00 the\x07 \u200bsummer\r\n \x00 \n".encode(),
         {}, ["été is the summer"], []),
        ("a.txt", b"\xc3\x96ne.\n\xe9\nThree.\nFour.\n", {"limit": 3}, ["Öne.", "Three."],
         ["2 not_utf8"]),
        ("a.jsonl", b'{"text": "F\xc3\xafne."}\n{"text": \n[1]\n{"text": null}\n{"other": 1}\n'
         b'{"text": 5}\n{"text": "lone \\ud800 one"}\n{"text": " "}\n\n{"text": "caf\xe9"}\n'
         b'{"text": "Last."}', {}, ["Fïne.", "Last."],
         ["2 bad_json", "3 bad_json", "4 missing_text", "5 missing_text", "6 missing_text",
          "7 not_utf8", "8 missing_text", "10 not_utf8"]),
        # A line that is not UTF-8, inside of quotation marks and outside.
        ("a.csv", b'text,n\n"first\nline \xe9, ""so""\nthird",1\nG\xc3\xb6od.,2\n"caf\xe9",3\n'
         b"B\xc3\xa4tter.,4\n", {"prose": False}, ["Göod.", "Bätter."],
         ["3 not_utf8", "6 not_utf8"]),
        # More fields than the header.
        ("a.csv", b'id,text\n1,Good.\n2,first, and then the rest\n3,"Better, too.",\n',
         {"text": "text"}, ["Good.", "Better, too."], ["3 bad_csv"]),
        # One column keeps its commas.
        ("a.csv", b'sentence\nWell, it rains.\n"Good, too."\n', {},
         ["Well, it rains.", "Good, too."], []),
        # Frames of Zstandard one after another are one file.
        ("a.txt.zst", b"".join(pa.compress(text, codec="zstd", asbytes=True)
         for text in (b"One.\n", b"Two.\n")), {}, ["One.", "Two."], []),
    ],
)  # fmt: skip
def test_texts_and_faults_of_a_file(
    name: str, data: bytes, keys: Any, wanted: list[str], faulty: list[str], tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    documents, faults = read(tmp_path / name, **keys)
    assert texts(documents) == wanted
    assert [f"{one.path.split(':')[1]} {one.reason}" for one in faults] == faulty


def test_a_jsonl_of_unusable_lines_loses_none_in_silence(tmp_path: Path) -> None:
    row = '{"id": "a", "body": "A good text."}\n'
    for name, text in (("a", "#\n" * 150 + row), ("b", "#\n" * 3), ("c", "")):
        (tmp_path / f"{name}.jsonl").write_text(text)
    documents, faults = read(tmp_path / "*.jsonl")
    assert texts(documents) == ["A good text."]
    assert [fault.reason for fault in faults] == ["bad_json"] * 153


def test_columns_of_other_types_do_not_stop_a_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table(
        {
            "text": ["Good.", "Better."],
            "far": pa.array([10**7, 1], pa.date32()),
            "zone": pa.array([0, 1], pa.timestamp("s", "Foo/Bar")),
            "lists": pa.array([["a"], ["b", "c"]], pa.list_(pa.large_string())),
        }
    )
    pq.write_table(table, path)
    assert texts(read(path)[0]) == ["Good.", "Better."]
    (first, second) = tables.rows(path, LIMIT)
    assert (first.values["lists"], second.values["lists"]) == (["a"], ["b", "c"])
    assert (first.values["far"], str(second.values["far"])) == (None, "1970-01-02")
    pq.write_table(table.drop("lists").rename_columns(["text", "text", "zone"]), path)
    with fails("conflict", "2", "'text'"):
        read(path)


def test_a_parquet_damaged_within_is_told_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [f"Text {i} is here." for i in range(5000)]}), path)
    data = bytearray(path.read_bytes())
    data[200:3000] = b"\xff" * 2800
    path.write_bytes(data)
    with fails("unreadable", "a.parquet"):
        read(path)


def test_parquet_with_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    raw = pa.array([b"Good.", b"caf\xe9", None, b"x" * (LIMIT + 1), b"Last."], pa.binary())
    column = pa.StringArray.from_buffers(5, raw.buffers()[1], raw.buffers()[2], raw.buffers()[0])
    pq.write_table(pa.table({"text": column, "n": [1, 2, 3, 4, 5]}), path)
    documents, faults = read(path)
    assert texts(documents) == ["Good.", "Last."]
    assert [fault.reason for fault in faults] == ["not_utf8", "missing_text", "line_too_long"]


@pytest.mark.parametrize(
    ("name", "data", "kind", "names"),
    [
        ("none.txt", None, "missing_file", []),
        ("n*ne.txt", None, "missing_file", []),
        ("n" * 300 + ".txt", None, "missing_file", []),
        ("empty.txt", b"", "no_rows", []),
        ("blank.txt.gz", b"\n \n", "no_rows", []),
        ("header.csv", b"text\n", "no_rows", []),
        ("header.tsv", b"id\tn\n", "no_rows", []),
        ("h.csv", b"id;caf\xe9\n1;t\xc3\xa9\n", "unreadable", ["line 1", "UTF-8"]),
        ("a.doc", b"hello", "unreadable", []),
        ("b.txt", b"\x7fELF\2\1\1" + bytes(40), "unreadable", []),
        ("d.txt", gzip.compress(b"Hello"), "unreadable", ["gzip"]),
        ("e.parquet", b"PAR1 and nothing else", "unreadable", []),
        ("i.csv", b"id,body\n1,so,long\n", "missing_column", []),
        ("f.csv", b"title,abstract\nA,B\n", "missing_column", ["'body'", "'title', 'abstract'"]),
        ("g.jsonl", b'{"title": "A"}\n', "missing_column", ["'body'", "'title'"]),
        ("lines.txt", b"A line.\n", "missing_column", ["`text`", "'c'"]),
    ],
)
def test_bad_corpora(
    name: str, data: bytes | None, kind: ErrorKind, names: list[str], tmp_path: Path
) -> None:
    path = tmp_path / name
    if data is not None:
        write(path, data)
    with fails(kind, path.name, *names):
        asked = "body" if kind == "missing_column" and b"body" not in (data or b"") else None
        files.check(corpus(path, text=asked), LIMIT)


def test_a_folder_means_the_readable_kind_that_it_has_most_of(tmp_path: Path) -> None:
    with fails("missing_file"):
        files.files_of(str(tmp_path))
    for name in ("a.csv.yaml", "b.csv.yaml", "c.yaml", "d.txt.zip", "e.txt.zip", "f.txt.zip"):
        (tmp_path / name).write_text("no text")
    with fails("missing_file"):
        files.files_of(str(tmp_path))
    for name in ("g.csv", "h.CSV.gz", "i.txt"):
        (tmp_path / name).write_text("text")
    assert [name for name, _ in files.files_of(str(tmp_path))] == ["g.csv", "h.CSV.gz"]


def test_a_store_in_a_folder_is_no_corpus(tmp_path: Path) -> None:
    open_store(str(tmp_path / "tercet-store"))
    made = tmp_path / "tercet-store" / "artifacts" / "ingest"
    made.mkdir(parents=True)
    for name in ("a.parquet", "b.parquet"):
        (made / name).touch()
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "store.json").write_text("{}")  # of the user's
    for name in ("notes.md", "shop/more.md", "lines.txt"):
        (tmp_path / name).write_text("Some text is here.")
    found = files.files_of(str(tmp_path))
    assert [name for name, _ in found] == ["notes.md", "shop/more.md"]
    assert describe(str(tmp_path)).left_out == {".txt": 1, ".json": 1}
    assert files.digest(corpus(tmp_path)) == files.digest(corpus(tmp_path / "**/*.md"))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("cut", [3, 200, -4])
def test_a_file_that_is_cut_off_is_not_a_whole_one(suffix: str, cut: int, tmp_path: Path) -> None:
    path = write(tmp_path / f"a.txt{suffix}", b"".join(b"line %d\n" % i for i in range(90_000)))
    path.write_bytes(path.read_bytes()[:cut])
    for use in (lambda: read(path), lambda: describe(str(path))):
        with fails("unreadable", "damaged"):
            use()
