"""Which sign stands between the fields of a table."""

import gzip
from pathlib import Path

import pytest

from tercet.tasks.corpus.sources import tables

LIMIT = 2000


def read(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    return tables.columns_of(path, LIMIT), [row.values for row in tables.rows(path, LIMIT)]


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("header", ["title{}body", '"title"{}"body"', '\n"title"{}body'])
def test_the_header_of_a_csv_says_what_separates(mark: str, header: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    text = header.format(mark) + f'\r\nA{mark}"B{mark} ""b""\nC, c; c"\r\n'
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.encode()))
    found = {"title": "A", "body": f'B{mark} "b"\nC, c; c'}
    assert read(path) == (["title", "body"], [found])


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
def test_a_comma_goes_before_the_other_signs(
    header: str, columns: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(header + "\n")
    assert tables.columns_of(path, LIMIT) == columns


@pytest.mark.parametrize("mark", [";", ",", "|", "~", "\x1f"])
def test_a_tsv_has_tabs_unless_nearly_all_its_rows_have_another_sign(
    mark: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(f"a{mark}b\n1{mark}2\n")
    assert read(path) == (["a", "b"], [{"a": "1", "b": "2"}])
    for row in ("1", f"1{mark}2{mark}3"):
        path.write_text(f"a{mark}b\n{row}\n")
        assert read(path)[0] == [f"a{mark}b"]
    path.write_text(f"a{mark}b\tc\n1{mark}2\t3\n")
    assert read(path)[0] == [f"a{mark}b", "c"]


def test_a_line_that_is_not_utf8_among_semicolons_costs_its_record_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'a;b\n1;"caf\xe9 ""x""\ny"\n2;"so"\n')
    rows = list(tables.rows(path, LIMIT))
    assert [row.fault and row.fault[0] for row in rows] == ["not_utf8", None]
    assert rows[1].values == {"a": "2", "b": "so"}
