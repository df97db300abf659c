"""Stage `labelled`: rows of every kind, every reason to refuse one, and what stops the stage."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failures import fails
from stages import emitted

from tercet.errors import ErrorKind
from tercet.models import seeding
from tercet.tasks.corpus import labelled
from tercet.tasks.corpus.ingest import DOCUMENT_PAIRS, SENTENCES

Made = dict[str, list[dict[str, Any]]]
Run = Callable[..., Made]
TRIPLET = ["anchor", "positive", "negative"]


def write(path: Path, rows: list[list[Any]], names: list[str]) -> str:
    """A table in the form that the path's name asks for."""
    if ".parquet" in path.name:
        columns = list(zip(*rows, strict=True))
        pq.write_table(pa.table([list(c) for c in columns], names=names), path)
        return str(path)
    if ".jsonl" in path.name:
        text = "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
    else:
        mark = "\t" if ".tsv" in path.name else ","
        lines = [names, *([str(v) if v is not None else "" for v in row] for row in rows)]
        text = "".join(mark.join(line) + "\n" for line in lines)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def short(made: Made) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in (*TRIPLET, "label")) for row in made["labelled"]]


def reasons(made: Made) -> list[tuple[str, str]]:
    return [(row["reason"], row["text"]) for row in made["rejects"]]


@pytest.fixture
def read(tmp_path: Path) -> Run:
    """Calls the stage on corpora."""

    def read(*corpora: dict[str, Any], inputs: Any = (), **more: Any) -> Made:
        config = labelled.LabelledConfig.model_validate(
            {"corpora": [{"role": "labelled", "name": "c", **one} for one in corpora], **more}
        )
        made = emitted(labelled.STAGE, config, dict(inputs), tmp_path / "scratch")
        return {name: table.to_pylist() for name, table in made.items()}

    return read


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz"])
@pytest.mark.parametrize("names", [TRIPLET, ["sent0", "sent1", "hard_neg"]])
def test_triplets_of_every_form(read: Run, tmp_path: Path, suffix: str, names: list[str]) -> None:
    path = write(tmp_path / f"mine{suffix}", [["007", "NA", "1e3"], ["a", "b", None]], names)
    made = read({"source": path, "kind": "triplets"})
    assert short(made) == [("007", "NA", "1e3", None)]
    assert made["labelled"][0]["row_id"] == seeding.text_id("007", "NA", "1e3")
    assert (made["labelled"][0]["corpus"], made["labelled"][0]["kind"]) == ("c", "triplets")
    (reject,) = made["rejects"]
    assert (reject["stage"], reject["reason"]) == ("labelled", "missing_text")
    assert reject["text"] == "a b"
    assert f"c: mine{suffix}:" in reject["detail"]
    assert repr(names[2]) in reject["detail"]


INFERRED = [
    ["man  walks", "moves", "entailment"], ["man walks", "goes", 0],
    ["man walks", "may rest", "neutral"], ["man walks", "sits", "CONTRADICTION "],
    ["dog barks", "noise", "0"], ["dog barks", "is mute", 2], ["dog barks", "sleeps", "2"],
    ["cat purrs", "is angry", 2],
]  # fmt: skip
MOVES = [("man walks", "moves", "sits", None), ("man walks", "goes", "sits", None),
         ("dog barks", "noise", "is mute", None)]  # fmt: skip
PAIRS = [["what", "that"], ["who", "she"], ["what", "that"], [" ", "x"]]
KNOWN = [("what", "that", None, None), ("who", "she", None, None)]
OWN = [["a", "b", "entailment"], ["a", "c", "2"]]


@pytest.mark.parametrize(
    ("kind", "names", "columns", "rows", "wanted", "refused"),
    [
        # HTML is taken out, and the first of it is kept.
        ("triplets", TRIPLET, None,
         [["Tea &amp; cake<br>at five.", "a", "b"], ["List<String>", "<p>c</p>", "d"],
          ["e", "<br>", "f"]],
         [("Tea & cake at five.", "a", "b", None), ("List<String>", "c", "d", None)],
         ["html Tea &amp; cake<br>at five.", "missing_text e f"]),
        # A teacher's cosine comes along.
        ("triplets", [*TRIPLET, "negative_similarity"], None,
         [["a", "b", "c", "0.5"], ["d", "e", "f", ""], ["g", "h", "i", "near"],
          ["j", "k", "l", "85"], ["m", "n", "o", "nan"]],
         [("a", "b", "c", 0.5), ("d", "e", "f", None)],
         ["bad_label g", "bad_label j", "bad_label m"]),
        # Entailment keeps every contradiction.
        *[("entailment", names, None,
           [*INFERRED, ["cat purrs", "is angry", "contradiction"], ["bird sings", "song", 0],
            ["bird sings", "song", 1], ["bird sings", "?", "-"]],
           [*MOVES, ("dog barks", None, "sleeps", None), ("cat purrs", None, "is angry", None)],
           ["ambiguous bird sings", "ambiguous bird sings", "bad_label bird sings",
            "duplicate cat purrs", "neutral man walks"])
          for names in (["premise", "hypothesis", "label"],
                        ["sentence1", "sentence2", "gold_label"],
                        ["sentence_A", "sentence_B", "entailment_judgment"])],
        # Of pairs, one contradiction serves all of a premise.
        ("pairs", ["premise", "hypothesis", "label"], None,
         [*INFERRED, ["bird sings", "song", "entailment"], ["bird sings", "?", "maybe"],
          ["bird sings", "?", -1], ["bird sings", "?", None], ["bird sings", "?", True],
          ["fish swims", "dives", 0], ["fish swims", "dives", 2], ["fish swims", "floats", 0],
          ["fish swims", "walks", 2], ["fish swims", "walks", 2]],
         [*MOVES, ("bird sings", "song", None, None), ("fish swims", "floats", "walks", None)],
         ["ambiguous fish swims", "ambiguous fish swims", *["bad_label bird sings"] * 4,
          "duplicate fish swims", "neutral man walks", "no_positive cat purrs",
          "surplus dog barks"]),
        # Pairs without classes are positives.
        *[("pairs", names, None, PAIRS, KNOWN, ["duplicate what", "missing_text x"])
          for names in (["query", "answer"], ["anchor", "positive"], ["question", "answer"])],
        # Scored pairs keep their scale.
        ("scored", ["sentence1", "sentence2", "score"], None,
         [["a", "b", 4.5], ["c", "d", "3"], ["e", "f", float("nan")], ["g", "h", "inf"],
          ["i", "j", None], ["k", "l", "high"], ["a", "b", 1.0]],
         [("a", "b", None, 4.5), ("c", "d", None, 3.0)],
         ["bad_label e", "bad_label g", "bad_label i", "bad_label k", "duplicate a"]),
        # The recipe may name the columns.
        ("pairs", ["one", "two", "how"], {"anchor": "one", "positive": "two", "label": "how"}, OWN,
         [("a", "b", "c", None)], []),
        ("pairs", ["one", "two", "how"], {"anchor": "one", "positive": "how"}, OWN,
         [("a", "entailment", None, None), ("a", "2", None, None)], []),
        ("entailment", ["a", "b", "y"], {"premise": "a", "hypothesis": "b", "label": "y"},
         [["It rains.", "It is dry.", "2"]], [("It rains.", None, "It is dry.", None)], []),
    ],
)  # fmt: skip
def test_rows_of_every_kind_and_why_others_are_refused(
    read: Run, tmp_path: Path, kind: str, names: Any, columns: Any, rows: Any, wanted: Any,
    refused: Any,
) -> None:  # fmt: skip
    corpus = {"source": write(tmp_path / "mine.jsonl", rows, names), "kind": kind}
    made = read(corpus if columns is None else {**corpus, "columns": columns})
    assert short(made) == wanted
    assert sorted(f"{reason} {text}" for reason, text in reasons(made)) == refused
    assert {row["entries"] and 1 for row in made["labelled"]} == {None}


def test_a_txt_may_be_a_table(read: Run, tmp_path: Path) -> None:
    """As SentEval has SICK, and MRPC with a byte order mark; a quotation mark is text there."""
    content = '#1 String\t#2 String\tQuality\nHe said " no , never "\tHe, too\t1\nx\ty, z\t0\n'
    path = tmp_path / "twins_train.txt"
    path.write_bytes(b"\xef\xbb\xbf" + content.encode())
    columns = {"anchor": "#1 String", "positive": "#2 String", "label": "Quality"}
    made = read({"source": str(path), "kind": "scored", "columns": columns})
    assert short(made) == [('He said " no , never "', "He, too", None, 1), ("x", "y, z", None, 0)]


def test_several_files_and_a_limit_over_all(read: Run, tmp_path: Path) -> None:
    for name in ("a", "b"):
        rows = [[f"{name}{i}", f"{name}{i} too"] for i in range(3)]
        write(tmp_path / f"{name}.csv", rows, ["anchor", "positive"])
    corpus = {"source": str(tmp_path / "*.csv"), "kind": "pairs"}
    assert [row[0] for row in short(read(corpus))] == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert [row[0] for row in short(read({**corpus, "limit": 4}))] == ["a0", "a1", "a2", "b0"]


def test_batches_change_no_row(read: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[f"p{i % 7}", f"h{i}", ("entailment", "contradiction")[i % 2]] for i in range(60)]
    path = write(tmp_path / "nli.csv", rows, ["premise", "hypothesis", "label"])
    whole = read({"source": path, "kind": "pairs"})
    monkeypatch.setattr(labelled, "BATCH_ROWS", 4)
    assert read({"source": path, "kind": "pairs"}) == whole


def test_what_dev_or_test_says_is_refused(read: Run, tmp_path: Path) -> None:
    tested = "the old baker sold his last loaf to a tired soldier"
    asked = "who planted three small apple trees behind the wall"
    trained = "nobody in the village had ever seen so large a whale"
    rows = [
        {"text": text, "split": split, "doc_id": i, "paragraph": 0, "position": 0}
        for i, (text, split) in enumerate([(tested, "test"), (trained, "train")])
    ]
    pairs = [{"query": asked, "answer": "she did", "split": "dev"}]
    inputs = {
        "sentences": pa.Table.from_pylist(rows, SENTENCES),
        "document_pairs": pa.Table.from_pylist(pairs, DOCUMENT_PAIRS),
    }
    own = [[trained, "x y"], ["x", f"yesterday {tested} again"], [asked, "y"]]
    path = write(tmp_path / "mine.csv", own, ["anchor", "positive"])
    made = read({"source": path, "kind": "pairs"}, inputs=inputs)
    assert [row[0] for row in short(made)] == [trained]
    assert reasons(made) == [("held_out_text", "x"), ("held_out_text", asked)]
    assert "positive: the old baker sold his last loaf to" in made["rejects"][0]["detail"]


def test_bad_lines_are_rejects_and_the_others_go_on(read: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    good = '{"anchor": "ä", "positive": "b"}\n'.encode()
    path.write_bytes(
        good
        + b'{"anchor": "caf\xe9", "positive": "b"}\n'
        + b"not json\n"
        + b'{"anchor": "' + b"x" * 10_000_000 + b'", "positive": "b"}\n'
        + b'{"anchor": ["list"], "positive": "b"}\n'
        + b'{"anchor": "\\ud800", "positive": "b"}\n'
        + b'{"positive": "b"}\n'
    )  # fmt: skip
    made = read({"source": str(path), "kind": "pairs"})
    assert short(made) == [("ä", "b", None, None)]
    assert [row["reason"] for row in made["rejects"]] == [
        "not_utf8", "bad_json", "line_too_long", "missing_text", "not_utf8", "missing_text",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "columns", "kind", "named"),
    [
        ("none.csv", None, None, "missing_file", "none.csv"),
        ("a.txt", b"x\n", None, "missing_column", "a.txt"),
        ("a.txt", b"", None, "no_rows", "a.txt"),
        ("a.csv", b"", None, "no_rows", "a.csv"),
        ("a.csv", b"anchor,positive\n", None, "no_rows", "a.csv"),
        ("a.csv", b"anchor,other\nx,y\n", None, "missing_column", "'other'"),
        ("a.csv", b"anchor,positive,label\nx,y,1\n", None, "missing_column", "'label'"),
        ("a.csv", b"anchor,positive\nx,y\n", {"anchor": "q", "positive": "positive"},
         "missing_column", "'q'"),
        ("a.csv", b"anchor,positive\n,y\n", None, "no_rows", "1 missing_text"),
        ("a.parquet", b"not parquet", None, "unreadable", "a.parquet"),
        ("a.csv", b"premise,hypothesis,label\nx,y,maybe\n", None, "no_rows", "1 bad_label"),
    ],
)  # fmt: skip
def test_what_stops_the_stage(
    read: Run, tmp_path: Path, name: str, content: bytes | None,
    columns: dict[str, str] | None, kind: ErrorKind, named: str,
) -> None:  # fmt: skip
    if content is not None:
        (tmp_path / name).write_bytes(content)
    corpus = {"source": str(tmp_path / name), "kind": "pairs"}
    with fails(kind, named):
        read(corpus if columns is None else {**corpus, "columns": columns})


def test_docstrings_are_not_labelled(read: Run) -> None:
    with fails("conflict"):
        read({"source": "pydocs", "kind": "pairs"})


def owners_of(made: Made) -> list[tuple[str, list[str]]]:
    """The entries of each definition."""
    names = {row["entry_id"]: row["text"] for row in made["entries"]}
    return [(r["anchor"], [names[entry] for entry in r["entries"]]) for r in made["labelled"]]


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
    assert owners_of(made) == [
        ("either of two", ["a|b", "||"]),
        ("one or the other", ["a|b", "||"]),
        ("of great size", ["big"]),
    ]
    assert [row["reason"] for row in made["rejects"]] == ["missing_text"] * 3


@pytest.mark.parametrize(
    ("rows", "owners", "rejects"),
    [
        # A row may name several entries.
        ([["vast|huge | ", "of great size"], ["huge", "of great size"],
          ["big|vast", "of great size"], ["big top", "a tent"], [" | ", "a hole"]],
         [("of great size", ["big", "huge", "vast"]), ("a tent", ["big top"])],
         [("duplicate", "of great size"), ("missing_text", "|")]),
        # Definitions in another spelling are the same.
        ([["big", "Of great size."], ["large", "of great size"], ["big", "of great  size!"],
          ["plus", "+"], ["minus", "-"]],
         [("Of great size.", ["big", "large"]), ("+", ["plus"]), ("-", ["minus"])],
         [("duplicate", "of great size!")]),
        # Signs tell them apart.
        ([["equal", "Return (x1 == x2) element-wise."],
          ["not_equal", "Return (x1 != x2) element-wise."],
          ["same", "return x1 == x2 element wise"],
          ["up", "A step of 1."], ["down", "A step of -1."], ["tenth", "A step of .1."]],
         [("Return (x1 == x2) element-wise.", ["equal", "same"]),
          ("Return (x1 != x2) element-wise.", ["not_equal"]),
          ("A step of 1.", ["up"]), ("A step of -1.", ["down"]), ("A step of .1.", ["tenth"])],
         []),
    ],
)  # fmt: skip
def test_rows_of_one_definition_join_their_entries(
    read: Run, tmp_path: Path, rows: Any, owners: Any, rejects: Any
) -> None:
    path = write(tmp_path / "words.tsv", rows, ["entry", "definition"])
    made = read({"source": path, "kind": "definitions"})
    assert owners_of(made) == owners
    assert sorted(reasons(made)) == rejects


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
def test_nor_is_one_that_a_pair_has(read: Run, tmp_path: Path, column: str) -> None:
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


def test_only_definitions_are_held_out(read: Run) -> None:
    with fails("no_effect", "held_out"):
        read({"source": "c.csv", "kind": "pairs", "held_out": 0.1})
