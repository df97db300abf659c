"""The same forty rows in tables as people have them, through `init` and `run --until ingest`."""

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from good_and_bad import Place, sentence
from tiny_run import query

TEXTS = [
    f'The {n} old "ships", of harbour {n}; carry grain | and salt, since the year {n * 37}.'
    for n in range(40)
]
ROWS = [[str(n), text, "ab"[n % 2]] for n, text in enumerate(TEXTS)]
HEADER = ["id", "text", "label"]
LINES = "".join(json.dumps(dict(zip(HEADER, row, strict=True))) + "\r\n" for row in ROWS)
BYTES = [b"\xff\xfe" + bytes([n, 200]) for n in range(40)]


def written(header: list[str] = HEADER, rows: list[list[str]] = ROWS, **dialect: object) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, **dialect).writerows([header, *rows])  # type: ignore[arg-type]
    return out.getvalue().encode()


def by_hand(mark: str, quoted: Callable[[str], str]) -> bytes:
    lines = [HEADER, *([n, quoted(text), label] for n, text, label in ROWS)]
    return "".join(mark.join(line) + "\n" for line in lines).encode()


def doubled(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def parquet(**columns: object) -> bytes:
    out = io.BytesIO()
    labels = [label for *_, label in ROWS]
    pq.write_table(pa.table({"text": TEXTS, "label": labels} | columns), out)
    return out.getvalue()


def nothing(text: object) -> list[list[str]]:
    return [[n, said, label, str(text)] for n, said, label in ROWS]


BOM = b"\xef\xbb\xbf"
BROKEN = [[n, text.replace(", of", ",\nof"), label] for n, text, label in ROWS]
OTHER = ["id", "body", "label", "text"]
TABLES: dict[str, dict[str, bytes]] = {
    "bom.csv.gz": {"a.csv.gz": gzip.compress(BOM + written(quoting=csv.QUOTE_ALL))},
    "bom.tsv": {"a.tsv": BOM + written(delimiter="\t")},
    "crlf.jsonl": {"a.jsonl": BOM + LINES.encode()},
    "cr.jsonl": {"a.jsonl": LINES.replace("\r\n", "\r").encode()},
    "colons": {"a.csv": written(delimiter=":")},
    "tildes": {"a.csv": written(delimiter="~", rows=BROKEN)},
    "unit separators": {"a.csv.gz": gzip.compress(written(delimiter="\x1f"))},
    "a tsv of commas": {"a.tsv": written()},
    "a tsv of bars": {"a.tsv.gz": gzip.compress(written(delimiter="|", rows=BROKEN))},
    "a tsv of semicolons": {"a.tsv": written(delimiter=";", lineterminator="\r")},
    "spaces behind commas": {"a.csv": by_hand(", ", doubled)},
    "spaces behind semicolons": {"a.csv": by_hand("; ", doubled)},
    "spaces behind bars": {"a.csv": by_hand("| ", doubled)},
    "a hint": {"a.csv": b"sep=;\r\n" + written(delimiter=";")},
    "a hint of a rare sign": {"a.csv": BOM + b'"sep=!"\n' + written(delimiter="!")},
    "breaks escaped": {"a.tsv": by_hand("\t", lambda text: text.replace(" ", "\\\n"))},
    "marks escaped": {
        "a.csv": written(delimiter=";", escapechar="\\", doublequote=False, quoting=csv.QUOTE_ALL)
    },
    "nothing before the header": {"a.tsv": b"\x1a\n\x00\n" + written(delimiter="\t")},
    "nothing at the end": {"a.csv": written() + b"\x1a"},
    "nothing among objects": {"a.jsonl": BOM + BOM + b"\n" + LINES.encode() + b"\x1a\n\0\0"},
    "text is empty": {"a.csv": written(OTHER, nothing(""))},
    "text is null": {"a.tsv": written(OTHER, nothing("NULL"), delimiter="\t")},
    "text is nothing to see": {"a.csv": written(OTHER, nothing("\u200b"))},
    "text is binary": {"a.parquet": parquet(text=pa.array(BYTES), body=TEXTS)},
    "text is of fixed size": {"a.parquet": parquet(Text=pa.array(BYTES, pa.binary(4)))},
    "lists of bytes": {"a.parquet": parquet(other=pa.array([[b] for b in BYTES]))},
    "structs of bytes": {"a.parquet": parquet(other=pa.array([{"b": b} for b in BYTES]))},
    "dictionaries of bytes": {"a.parquet": parquet(other=pa.array(BYTES).dictionary_encode())},
    "no text in the first file": {
        "0.csv": written(rows=[["-1", "", "a"]] * 3), "1.csv": written(),
    },
    "the first file at fault": {"0.csv": b"id,text,label\n1,2,3,4\n", "1.csv": written()},
    "nothing in the first file": {
        "0.parquet.gz": gzip.compress(b""), "1.parquet.gz": gzip.compress(parquet()),
    },
}  # fmt: skip
REJECTS = {"no text in the first file": 3, "the first file at fault": 1}


@pytest.mark.parametrize("case", TABLES)
def test_each_row_is_a_sentence(case: str, tmp_path: Path) -> None:
    place = Place(tmp_path, tmp_path)
    for name, content in TABLES[case].items():
        (tmp_path / "table").mkdir(exist_ok=True)
        (tmp_path / "table" / name).write_bytes(content)
    source = "table" if len(TABLES[case]) > 1 else f"table/{next(iter(TABLES[case]))}"
    made = place.types("init", source, "-o", "r.yaml")
    assert made.returncode == 0, made.stderr
    words = ["run", "r.yaml", "--until", "ingest", "--no-server", "--store", place.store]
    result = place.types(*words)
    assert result.returncode == 0, result.stderr
    rows = query(
        place.store,
        "SELECT text, label FROM sentences JOIN documents USING (doc_id) "
        "WHERE sentences.corpus <> 'plain' ORDER BY TRY_CAST(split_part(text, ' ', 2) AS INT)",
    )
    assert rows == [(text, label) for _, text, label in ROWS]
    rejected = "SELECT count(*) FROM rejects WHERE detail NOT LIKE 'plain_english%'"
    assert query(place.store, rejected) == [(REJECTS.get(case, 0),)]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", b'{"text": "One.", "text": "Two."}\n', "the key 'text' stands twice"),
        ("a.jsonl", b'{"te\\udc00xt": "One."}\n' * 9, "is not valid Unicode"),
        ("a.csv", by_hand(",", lambda text: f"“{text}”"), "line 2 has 5 fields, the header 3"),
    ],
)
def test_what_cannot_be_read_is_told(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert said in sentence(Place(tmp_path, tmp_path).types("init", name, "-o", "r.yaml"), 2)
