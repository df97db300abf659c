"""Dialects of separated files, and records that a stray quotation mark glues together."""

import csv
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from tercet.tasks.corpus.sources import files, separated, tables
from tercet.tasks.corpus.sources.corpora import CorpusConfig
from tercet.tasks.corpus.sources.discover import describe, guesses
from tercet.tasks.corpus.sources.separated import Dialect, DialectSettings

LIMIT = 20_000
USUAL = Dialect(",", '"', "")
ROWS = [
    [str(n), f"The heron number {n} waits, and so does the grebe.", "ab"[n % 2]] for n in range(300)
]


def read(path: Path, **given: str) -> tuple[list[list[str]], list[tables.Row]]:
    found = list(tables.rows(path, LIMIT, dialect=DialectSettings.model_validate(given)))
    whole = [list(row.values.values()) for row in found if row.fault is None]
    return whole, [row for row in found if row.fault is not None]


def write(path: Path, rows: list[list[str]], **dialect: object) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, **dialect)  # type: ignore[arg-type]
        writer.writerows([["id", "text", "label"], *rows])
    return path


@pytest.mark.parametrize("mark", ["|", ";", "^", "\t", "\x01", "~"])
def test_fields_may_be_separated_by_other_signs(mark: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ROWS, delimiter=mark)
    assert read(path) == (ROWS, [])
    assert separated.dialect_of(path, LIMIT) == USUAL._replace(delimiter=mark)
    (row, *_), _ = read(path, delimiter=",")
    assert row != ROWS[0]


@pytest.mark.parametrize(
    "header",
    ["title;body", '"title"; "body"', '\n"title";"body"', "sep=;\ntitle;body", "title ; body"],
)
def test_the_header_says_what_separates(header: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    text = header + '\r\nA;"B; ""b""\nC, c; c"\r\n'
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.encode()))
    assert tables.columns_of(path, LIMIT) == ["title", "body"]
    assert read(path) == ([["A", 'B; "b"\nC, c; c']], [])


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("text", ["text"]),
        ('"a;b"', ["a;b"]),
        ("a;b,c\td", ["a;b", "c\td"]),
        ("a;b\tc\td", ["a;b", "c", "d"]),
        ('"a\n1";b', ["a\n1", "b"]),
        ("x" * (LIMIT + 1) + ";y", []),
    ],
)
def test_a_comma_goes_before_others(header: str, columns: list[str], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(header + "\n")
    assert tables.columns_of(path, LIMIT) == columns


@pytest.mark.parametrize("mark", [";", ",", "|", "~", "\x1f"])
def test_a_tsv_has_tabs_unless_its_rows_have_another_sign(mark: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    for text, columns in (
        (f"a{mark}b\n1{mark}2\n", ["a", "b"]),
        (f"a{mark}b\n1\n", [f"a{mark}b"]),
        (f"a{mark}b\n1{mark}2{mark}3\n", [f"a{mark}b"]),
        (f"a{mark}b\tc\n1{mark}2\t3\n", [f"a{mark}b", "c"]),
    ):
        path.write_text(text)
        assert tables.columns_of(path, LIMIT) == columns


def test_spaces_behind_the_separator_are_none_of_a_quoted_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id, text, label\n" + "".join(f'{n}, "{t}", {c}\n' for n, t, c in ROWS))
    assert read(path) == (ROWS, [])
    assert tables.columns_of(path, LIMIT) == ["id", "text", "label"]


@pytest.mark.parametrize("words", ['said "yes"', 'wrote "a, b", then "c"', 'ended with "x"'])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_quotation_marks_may_be_escaped(words: str, name: str, tmp_path: Path) -> None:
    rows = [[n, text if int(n) % 5 else f"{text} He {words}", c] for n, text, c in ROWS]
    mark = "," if name == "a.csv" else "\t"
    escaped = {"escapechar": "\\", "doublequote": False, "quoting": csv.QUOTE_ALL}
    path = write(tmp_path / name, rows, delimiter=mark, **escaped)
    assert read(path) == (rows, [])
    assert separated.dialect_of(path, LIMIT).escape == "\\"


def test_a_backslash_that_escapes_nothing_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = [rf'{n},"In C:\new\{n} he said \"no\", twice",a' for n in range(50)]
    path.write_text("id,text,label\n" + "\n".join(lines) + "\n")
    found, faults = read(path)
    assert [row[1] for row in found] == [rf'In C:\new\{n} he said "no", twice' for n in range(50)]
    assert not faults
    # Where none is needed, it escapes nothing.
    rows = [[n, rf"The folder \\share\{n}" + "\\", c] for n, _, c in ROWS]
    assert read(write(tmp_path / "b.csv", rows, quoting=csv.QUOTE_ALL)) == (rows, [])


def test_fields_may_be_quoted_by_apostrophes(tmp_path: Path) -> None:
    rows = [[n, f"It's {text}", c] for n, text, c in ROWS]
    path = write(tmp_path / "a.csv", rows, quotechar="'")
    assert read(path) == (rows, [])
    assert separated.dialect_of(path, LIMIT).quote == "'"
    plain = write(tmp_path / "b.csv", [[n, "'tis so, " + text, c] for n, text, c in ROWS])
    assert separated.dialect_of(plain, LIMIT) == USUAL


def test_line_breaks_in_a_tsv_are_read_as_they_are_written(tmp_path: Path) -> None:
    rows = [[n, text.replace(", ", "\n\n" if int(n) % 2 else '"\n'), c] for n, text, c in ROWS]
    assert read(write(tmp_path / "a.tsv", rows, delimiter="\t")) == (rows, [])
    last = [[n, c, text] for n, text, c in rows]
    path = write(tmp_path / "b.tsv.gz", last, delimiter="\t", lineterminator="\n")
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert read(path) == (last, [])


def test_a_tsv_without_quoting_keeps_its_quotation_marks(tmp_path: Path) -> None:
    rows = [[n, '"Yes", ' + text if int(n) % 3 else '"' + text, c] for n, text, c in ROWS]
    path = tmp_path / "a.tsv"
    path.write_text("id\ttext\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows))
    assert read(path) == (rows, [])
    assert read(path, quote="") == (rows, [])


def stray(place: Callable[[str], str], every: int, name: str, folder: Path) -> Path:
    """All texts quoted, and in one row of so many a mark where none belongs."""
    mark = "," if name.endswith(".csv") else "\t"
    lines = [mark.join(["id", "text", "label"])]
    for number, text, label in ROWS:
        quoted = place(text) if int(number) % every == 7 else f'"{text}"'
        lines.append(mark.join([number, quoted, label]))
    path = folder / name
    path.write_text("\r\n".join(lines) + "\r\n")
    return path


@pytest.mark.parametrize("every", [40, 299, 8])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
@pytest.mark.parametrize(
    "place", [lambda text: f'"{text}', lambda text: f'"{text[:20]}"{text[20:]}']
)
def test_a_stray_quotation_mark_costs_its_own_row_at_most(
    place: Callable[[str], str], name: str, every: int, tmp_path: Path
) -> None:
    found, faults = read(stray(place, every, name, tmp_path))
    wrong = {row[0] for row in ROWS if int(row[0]) % every == 7}
    good = [row for row in ROWS if row[0] not in wrong]
    assert [row for row in found if row[0] not in wrong] == good
    assert len(found) + len(faults) == len(ROWS)
    assert all(row.fault and row.fault[0] == "bad_csv" for row in faults)
    assert len(faults) == len(wrong) or name == "a.tsv"


def test_marks_within_a_quoted_text_that_nobody_doubled_are_its_own(tmp_path: Path) -> None:
    lines = [f'{n},"She said "wait" to heron {n}",a' for n in range(40)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["id,text,label", *lines]) + "\n")
    found, faults = read(path)
    assert [row[1] for row in found] == [f'She said "wait" to heron {n}' for n in range(40)]
    assert not faults


def test_the_rest_of_a_text_that_cannot_be_read_is_no_text(tmp_path: Path) -> None:
    rows = [f'{n},"Heron {n}, ""quietly""\nwaits",a' for n in range(30)]
    rows[9] = '9,"Heron 9 says "no", again,\nand again,\nand once more",a'
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["id,text,label", *rows]) + "\n")
    found, faults = read(path)
    assert [row[0] for row in found] == [str(n) for n in range(30) if n != 9]
    assert {row.number for row in faults} == {20, 21, 22}
    # Where the row itself has but one line, the next is whole.
    rows[9] = '9,"Heron 9 is open,a'
    path.write_text("\n".join(["id,text,label", *rows]) + "\n")
    found, faults = read(path)
    assert [row[0] for row in found] == [str(n) for n in range(30) if n != 9]
    assert [row.number for row in faults] == [20]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_columns_of_one_name_are_one_with_a_paragraph_each(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, ROWS, delimiter="," if name == "a.csv" else "\t")
    path.write_text(path.read_text().replace("label", "text", 1))
    corpus = CorpusConfig(name="c", source=str(path))
    assert files.table_of(corpus, name, path, LIMIT).columns == ["id", "text"]
    assert guesses(corpus, LIMIT) == ["text in column 'text'", "2 columns 'text' read as one"]
    assert describe(str(path)).read_as == ["2 columns 'text' read as one"]
    texts = [row.values["text"] for row in tables.rows(path, LIMIT, ["text"])]
    assert texts == ["\n\n".join(filter(str.strip, row[1:])) for row in ROWS]


def test_a_field_that_never_ends_is_read_in_bounded_pieces(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('id,text\n0,"open\n' + "".join(f"{n},Heron {n}.\n" for n in range(9000)))
    found, faults = read(path)
    assert (len(found), len(faults)) == (9000, 1)
