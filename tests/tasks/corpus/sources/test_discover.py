"""What `tercet init` learns of a source."""

import gzip
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failures import fails

from tercet.tasks.corpus.sources import discover, files
from tercet.tasks.corpus.sources.corpora import CorpusConfig, Document

LINE = "This line has six words here."
PROSE = "It starts here. It goes on\nto the second line.\n\nThen another.\n" * 20


@pytest.mark.parametrize(
    ("name", "text", "rows", "prose"),
    [
        ("a.txt", f"{LINE}\n" * 30, 30, False),
        ("a.txt", PROSE, 2, True),
        # Blank lines are no rows, and the last needs no line break.
        ("a.txt", "\n \n".join([LINE] * 30), 30, False),
        ("a.jsonl", "\n \n".join([json.dumps({"text": LINE})] * 30), 30, False),
    ],
)
def test_lines_and_prose(name: str, text: str, rows: int, prose: bool, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    found = discover.describe(str(tmp_path / name))
    assert (found.format, found.compression, found.files) == (Path(name).suffix, "", 1)
    assert (found.rows, found.exact, found.prose) == (rows, True, prose)
    assert prose or found.mean_words == 6.0


def test_table_with_its_text_column(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    row = {"id": "x1", "abstract": "One sentence is here. Another one follows it.", "year": 2020}
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(row) + "\n" for _ in range(30))
    found = discover.describe(str(path))
    assert (found.format, found.compression, found.text) == (".jsonl", ".gz", "abstract")
    assert found.columns == ("id", "abstract", "year")
    assert (found.rows, found.mean_sentences, found.prose) == (30, 2.0, True)


@pytest.mark.parametrize("compression", ["", ".gz", ".zst"])
def test_rows_of_a_large_file_are_estimated(compression: str, tmp_path: Path) -> None:
    chance = random.Random(0)
    rows = 60_000
    lines = (f"{chance.getrandbits(400):x} {chance.getrandbits(300):x}\n" for _ in range(rows))
    text = "".join(lines).encode()
    path = tmp_path / f"a.txt{compression}"
    if compression == ".gz":
        text = gzip.compress(text, 1)
    elif compression == ".zst":
        text = pa.compress(text, codec="zstd", asbytes=True)
    path.write_bytes(text)
    found = discover.describe(str(path))
    assert not found.exact
    assert abs(found.rows - rows) < 0.1 * rows


@pytest.mark.parametrize("compression", ["", ".gz"])
@pytest.mark.parametrize("rows", [300, 36_000])
def test_records_with_line_breaks_are_rows(rows: int, compression: str, tmp_path: Path) -> None:
    chance = random.Random(0)
    path = tmp_path / f"a.csv{compression}"
    with gzip.open(path, "wt", 1) if compression else path.open("w") as file:
        file.write("title;body\n")
        for number in range(rows):
            broken = "\n\n" if number % 2 else " "
            file.write(f'Row {number};"It is a heron.{broken}{chance.getrandbits(900):x}"\n')
    found = discover.describe(str(path))
    assert found.pair == ("title", "body")
    assert found.exact == (rows == 300)
    assert found.rows == pytest.approx(rows, rel=0 if found.exact else 0.02)


def test_docstrings_of_packages() -> None:
    found = discover.describe("pydocs")
    assert found.format == "pydocs"
    assert "numpy" in found.packages
    assert found.rows > 1000
    assert found.prose


@pytest.mark.parametrize("nothing", ["\ufeff", "\u200b\u200b", "\0", "\x1a", " \u2060 \xad"])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_lines_of_what_nobody_sees_are_blank(nothing: str, place: int, tmp_path: Path) -> None:
    lines = [f"Line {n} of it has six words." for n in range(3)]
    lines.insert(place, nothing)
    path = tmp_path / "a.txt"
    path.write_text("\n".join(lines))
    found = discover.describe(str(path))
    assert (found.rows, found.exact, found.prose) == (3, True, False)
    path.write_text(f"{nothing}\n{nothing}")
    with fails("no_rows"):
        discover.describe(str(path))


@pytest.mark.parametrize("other", ["bytes", "hash", "floats", "mixed"])
def test_what_is_no_text_costs_no_row_of_a_parquet(other: str, tmp_path: Path) -> None:
    count = 60
    chance = random.Random(0)
    raw = [chance.randbytes(16) for _ in range(count)]
    columns = {
        "bytes": pa.array(raw, pa.binary()),
        "hash": pa.array(raw, pa.binary(16)),
        "floats": pa.array([[0.5, 1.5]] * count),
        "mixed": pa.array([one if n % 3 else b"plain" for n, one in enumerate(raw)], pa.binary()),
    }
    texts = [f"Heron {n} stands in the water." for n in range(count)]
    labels = ["good", "bad"] * (count // 2)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({other: columns[other], "caption": texts, "label": labels}), path)
    found = discover.describe(str(path))
    assert (found.text, found.labels) == ("caption", {"label": ("bad", "good")})
    readings = list(files.read(CorpusConfig(name="c", source=str(path)), 10_000))
    assert sum(isinstance(reading, Document) for reading in readings) == count
    # Where it is asked for, its values are faults.
    asked = list(files.read(CorpusConfig(name="c", source=str(path), text=other), 10_000))
    assert sum(isinstance(one, Document) for one in asked) == (20 if other == "mixed" else 0)
    assert len(asked) == count


PARAGRAPH = "It starts here. It goes on\nto the second line.\n\n"


@pytest.mark.parametrize("kind", [".txt", ".md", ".md.gz"])
def test_documents_of_prose_are_counted(kind: str, tmp_path: Path) -> None:
    write = gzip.open if kind.endswith(".gz") else open
    for name, paragraphs in (("a", 1), ("b", 60), ("c", 19)):
        with write(tmp_path / f"{name}{kind}", "wt") as file:
            file.write(PARAGRAPH * paragraphs)
    found = discover.describe(str(tmp_path))
    assert (found.unit, found.files, found.rows, found.exact) == ("documents", 3, 5, True)
    # The sentences of all: what `tercet init` says.
    assert found.rows * found.mean_sentences == pytest.approx(2 * 80)


@pytest.mark.parametrize("files", [1, 60])
def test_documents_of_much_prose_are_estimated(files: int, tmp_path: Path) -> None:
    for number in range(files):
        (tmp_path / f"{number}.md").write_text(PARAGRAPH * (30_000 // files))
    found = discover.describe(str(tmp_path))
    assert (found.unit, found.files, found.exact) == ("documents", files, False)
    assert abs(found.rows - 1500) < 0.02 * 1500
