"""Stage `labelled`: definitions and their entries, and which are held out."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failures import fails
from labelled_rows import Run, reasons, write

from tercet.tasks.corpus import labelled


def test_a_definition_has_all_its_entries_as_targets(read: Run, tmp_path: Path) -> None:
    big, small = "of great size", "of little size"
    first = write(
        tmp_path / "one.csv",
        [["large", big], ["small", small], ["big", big], ["large", big], ["", big]],
        ["lemma", "definition"],
    )
    second = write(tmp_path / "two.csv", [["big", "grown up"]], ["entry", "definition"])
    made = read(
        {"source": first, "kind": "definitions", "name": "wordnet"},
        {"source": second, "kind": "definitions", "name": "other"},
    )
    assert [tuple(row.values()) for row in made["entries"]] == [
        (0, "big"), (1, "large"), (2, "small")
    ]  # fmt: skip
    assert [(row["corpus"], row["anchor"], row["entries"]) for row in made["labelled"]] == [
        ("wordnet", big, [0, 1]),
        ("wordnet", small, [2]),
        ("other", "grown up", [0]),
    ]
    assert {row["positive"] for row in made["labelled"]} == {None}
    assert sorted(reasons(made)) == [("duplicate", big), ("missing_text", big)]


def test_a_row_may_name_several_entries(read: Run, tmp_path: Path) -> None:
    rows = [
        ["vast|huge | ", "of great size"],
        ["huge", "of great size"],
        ["big|vast", "of great size"],
        ["big top", "a tent"],
        [" | ", "a hole"],
    ]
    path = write(tmp_path / "synsets.tsv", rows, ["members", "definition"])
    made = read({"source": path, "kind": "definitions"})
    names = {row["entry_id"]: row["text"] for row in made["entries"]}
    assert [
        (row["anchor"], [names[entry] for entry in row["entries"]]) for row in made["labelled"]
    ] == [("of great size", ["big", "huge", "vast"]), ("a tent", ["big top"])]
    assert sorted(reasons(made)) == [("duplicate", "of great size"), ("missing_text", "|")]


@pytest.mark.parametrize("name", ["words.jsonl", "words.parquet"])
def test_entries_and_definitions_may_be_lists(read: Run, tmp_path: Path, name: str) -> None:
    rows = [
        {"entry": ["a|b", "||"], "definition": ["either  of two", "one or the other"]},
        {"entry": ["big"], "definition": ["of great size"]},
        {"entry": [], "definition": ["of no name"]},
        {"entry": ["odd"], "definition": ["peculiar", " "]},
        {"entry": [" "], "definition": ["a hole"]},
    ]
    path = tmp_path / name
    if name.endswith(".jsonl"):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    made = read({"source": str(path), "kind": "definitions"})
    names = {row["entry_id"]: row["text"] for row in made["entries"]}
    assert [
        (row["anchor"], [names[entry] for entry in row["entries"]]) for row in made["labelled"]
    ] == [
        ("either of two", ["a|b", "||"]),
        ("one or the other", ["a|b", "||"]),
        ("of great size", ["big"]),
    ]
    assert [row["reason"] for row in made["rejects"]] == ["missing_text"] * 3


def test_definitions_in_another_spelling_are_the_same(read: Run, tmp_path: Path) -> None:
    rows = [
        ["big", "Of great size."],
        ["large", "of great size"],
        ["big", "of great  size!"],
        ["plus", "+"],
        ["minus", "-"],
    ]
    path = write(tmp_path / "words.csv", rows, ["entry", "definition"])
    made = read({"source": path, "kind": "definitions"})
    names = {row["entry_id"]: row["text"] for row in made["entries"]}
    assert [
        (row["anchor"], [names[entry] for entry in row["entries"]]) for row in made["labelled"]
    ] == [("Of great size.", ["big", "large"]), ("+", ["plus"]), ("-", ["minus"])]
    assert reasons(made) == [("duplicate", "of great size!")]


def test_signs_tell_definitions_apart(read: Run, tmp_path: Path) -> None:
    rows = [
        ["equal", "Return (x1 == x2) element-wise."],
        ["not_equal", "Return (x1 != x2) element-wise."],
        ["same", "return x1 == x2 element wise"],
        ["up", "A step of 1."],
        ["down", "A step of -1."],
        ["tenth", "A step of .1."],
    ]
    path = write(tmp_path / "functions.csv", rows, ["entry", "definition"])
    made = read({"source": path, "kind": "definitions"})
    names = {row["entry_id"]: row["text"] for row in made["entries"]}
    owners = [[names[entry] for entry in row["entries"]] for row in made["labelled"]]
    assert owners == [["equal", "same"], ["not_equal"], ["up"], ["down"], ["tenth"]]


def definitions_file(path: Path, count: int = 400) -> str:
    """So many definitions of half as many entries, but the last, which has an entry of its own."""
    rows = [[f"word {i % (count // 2)}", f"definition number {i}"] for i in range(count)]
    return write(path, [*rows, ["alone", "defined once"]], ["entry", "definition"])


def test_definitions_are_held_out_whose_entries_keep_another(read: Run, tmp_path: Path) -> None:
    path = definitions_file(tmp_path / "words.csv")
    corpus = {"source": path, "kind": "definitions", "held_out": 0.5}
    made = read(corpus)
    held = made["held_out_definitions"]
    assert len(held) + len(made["labelled"]) == 401
    # Both definitions of a word are drawn a quarter of the time, and then both stay.
    assert 60 < len(held) < 140
    assert not {row["anchor"] for row in held} & {row["anchor"] for row in made["labelled"]}
    taught = {entry for row in made["labelled"] for entry in row["entries"]}
    assert {entry for row in held for entry in row["entries"]} <= taught
    assert "defined once" not in {row["anchor"] for row in held}
    assert {row["corpus"] for row in held} == {"c"}
    assert held == read(corpus)["held_out_definitions"]
    assert 2 <= len(read({**corpus, "held_out": None})["held_out_definitions"]) <= 20
    assert read({**corpus, "held_out": 0})["held_out_definitions"] == []


def test_a_definition_that_another_corpus_has_is_not_held_out(read: Run, tmp_path: Path) -> None:
    corpus = {"source": definitions_file(tmp_path / "words.csv"), "kind": "definitions"}
    one, other = {**corpus, "held_out": 0.5}, {**corpus, "name": "other", "held_out": 0}
    assert read(one, other)["held_out_definitions"] == []


@pytest.mark.parametrize("column", ["anchor", "positive"])
def test_nor_is_one_that_another_kind_has_in_another_spelling(
    read: Run, tmp_path: Path, column: str
) -> None:
    corpus = {"source": definitions_file(tmp_path / "words.csv"), "kind": "definitions"}
    rows = [[f"Definition, NUMBER {i}.", f"other {i}"] for i in range(400)]
    names = ["anchor", "positive"] if column == "anchor" else ["positive", "anchor"]
    pairs = {"source": write(tmp_path / "pairs.tsv", rows, names), "kind": "pairs", "name": "p"}
    assert read({**corpus, "held_out": 0.5}, pairs)["held_out_definitions"] == []


def test_a_definition_goes_with_all_its_entries(read: Run, tmp_path: Path) -> None:
    rows = [[f"word {i}|twin {i}", f"first of {i}"] for i in range(200)]
    rows += [[f"word {i}", f"second of {i}"] for i in range(200)]
    path = write(tmp_path / "twins.csv", rows, ["entry", "definition"])
    made = read({"source": path, "kind": "definitions", "held_out": 0.5})
    # No other definition has the twins, so the first ones stay; the second ones need only words.
    assert {row["anchor"].split()[0] for row in made["held_out_definitions"]} == {"second"}
    assert {len(row["entries"]) for row in made["held_out_definitions"]} == {1}


@pytest.mark.parametrize("kind", ["pairs", "triplets"])
def test_only_definitions_are_held_out(kind: str) -> None:
    corpus = {"name": "c", "source": "c.csv", "role": "labelled", "kind": kind, "held_out": 0.1}
    with fails("no_effect", "held_out"):
        labelled.LabelledConfig.model_validate({"corpora": [corpus]})
