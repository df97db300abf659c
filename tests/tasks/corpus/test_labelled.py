"""Stage `labelled`: rows of every kind, every reason to refuse one, and what stops the stage."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tercet.models import seeding
from tercet.storage.rows import Rows, rows_of
from tercet.tasks.corpus import labelled
from tercet.tasks.corpus.corpus_tables import DOCUMENT_PAIRS, SENTENCES
from tercet.tasks.stage import REJECTS, BadInput, Resources, Work

Made = dict[str, list[dict[str, Any]]]
Run = Callable[..., Made]

TRIPLET = ["anchor", "positive", "negative"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(*corpora: dict[str, Any], inputs: dict[str, Rows] | None = None, **more: Any) -> Made:
        config = labelled.LabelledConfig.model_validate(
            {"corpora": [{"role": "labelled", "name": "c", **one} for one in corpora], **more}
        )
        made: dict[str, list[pa.Table]] = {}
        emit = lambda name, table: made.setdefault(name, []).append(table)  # noqa: E731
        scratch = tmp_path / "scratch"
        labelled.run(Work(config, 0, inputs or {}, {}, {}, Resources(), scratch, emit))
        schemas = {**labelled.STAGE.tables, "rejects": REJECTS}
        assert all(piece.schema == schemas[name] for name in made for piece in made[name])
        return {name: pa.concat_tables(made.get(name, [s.empty_table()])).to_pylist()
                for name, s in schemas.items()}  # fmt: skip

    return run


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


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz"])
@pytest.mark.parametrize("names", [TRIPLET, ["sent0", "sent1", "hard_neg"]])
def test_triplets_of_every_form(run: Run, tmp_path: Path, suffix: str, names: list[str]) -> None:
    path = write(tmp_path / f"mine{suffix}", [["007", "NA", "1e3"], ["a", "b", None]], names)
    made = run({"source": path, "kind": "triplets"})
    assert short(made) == [("007", "NA", "1e3", None)]
    assert made["labelled"][0]["row_id"] == seeding.text_id("007", "NA", "1e3")
    assert (made["labelled"][0]["corpus"], made["labelled"][0]["kind"]) == ("c", "triplets")
    (reject,) = made["rejects"]
    assert (reject["stage"], reject["reason"], reject["text"]) == (
        "labelled",
        "missing_text",
        "a b",
    )
    assert f"c: mine{suffix}:" in reject["detail"]
    assert repr(names[2]) in reject["detail"]


def test_the_teachers_cosine_comes_along(run: Run, tmp_path: Path) -> None:
    rows = [["a", "b", "c", "0.5"], ["d", "e", "f", ""], ["g", "h", "i", "near"],
            ["j", "k", "l", "85"], ["m", "n", "o", "nan"]]  # fmt: skip
    path = write(tmp_path / "mine.csv", rows, [*TRIPLET, "negative_similarity"])
    made = run({"source": path, "kind": "triplets"})
    assert short(made) == [("a", "b", "c", 0.5), ("d", "e", "f", None)]
    assert reasons(made) == [("bad_label", "g"), ("bad_label", "j"), ("bad_label", "m")]
    assert "'85' is not a cosine" in made["rejects"][1]["detail"]


@pytest.mark.parametrize(
    "names",
    [
        ["premise", "hypothesis", "label"],
        ["sentence1", "sentence2", "gold_label"],
        ["sentence_A", "sentence_B", "entailment_judgment"],
    ],
)
def test_entailment_keeps_every_contradiction(run: Run, tmp_path: Path, names: list[str]) -> None:
    rows = [
        ["man  walks", "moves", "entailment"],
        ["man walks", "goes", 0],
        ["man walks", "may rest", "neutral"],
        ["man walks", "sits", "CONTRADICTION "],
        ["dog barks", "noise", "0"],
        ["dog barks", "is mute", 2],
        ["dog barks", "sleeps", "2"],
        ["cat purrs", "is angry", 2],
        ["cat purrs", "is angry", "contradiction"],
        ["bird sings", "song", 0],
        ["bird sings", "song", 1],
        ["bird sings", "?", "-"],
    ]
    path = write(tmp_path / "nli.jsonl", rows, names)
    made = run({"source": path, "kind": "entailment"})
    assert short(made) == [
        ("man walks", "moves", "sits", None),
        ("man walks", "goes", "sits", None),
        ("dog barks", "noise", "is mute", None),
        ("dog barks", None, "sleeps", None),
        ("cat purrs", None, "is angry", None),
    ]
    assert sorted(reasons(made)) == [
        ("ambiguous", "bird sings"),
        ("ambiguous", "bird sings"),
        ("bad_label", "bird sings"),
        ("duplicate", "cat purrs"),
        ("neutral", "man walks"),
    ]


def test_entailment_reads_the_columns_that_the_recipe_names(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "own.csv", [["It rains.", "It is dry.", "2"]], ["a", "b", "y"])
    columns = {"premise": "a", "hypothesis": "b", "label": "y"}
    made = run({"source": path, "kind": "entailment", "columns": columns})
    assert short(made) == [("It rains.", None, "It is dry.", None)]


def test_inference_pairs_become_triplets(run: Run, tmp_path: Path) -> None:
    rows = [
        ["man  walks", "moves", "entailment"],
        ["man walks", "goes", 0],
        ["man walks", "may rest", "neutral"],
        ["man walks", "sits", "Contradiction "],
        ["dog barks", "noise", "0"],
        ["dog barks", "is mute", 2],
        ["dog barks", "sleeps", "2"],
        ["cat purrs", "is angry", 2],
        ["bird sings", "song", "entailment"],
        ["bird sings", "?", "maybe"],
        ["bird sings", "?", -1],
        ["bird sings", "?", None],
        ["bird sings", "?", True],
        ["fish swims", "dives", 0],
        ["fish swims", "dives", 2],
        ["fish swims", "floats", 0],
        ["fish swims", "walks", 2],
        ["fish swims", "walks", 2],
    ]
    path = write(tmp_path / "nli.jsonl", rows, ["premise", "hypothesis", "label"])
    made = run({"source": path, "kind": "pairs"})
    assert short(made) == [
        ("man walks", "moves", "sits", None),
        ("man walks", "goes", "sits", None),  # one contradiction serves both
        ("dog barks", "noise", "is mute", None),
        ("bird sings", "song", None, None),
        ("fish swims", "floats", "walks", None),
    ]
    assert sorted(reasons(made)) == [
        ("ambiguous", "fish swims"),
        ("ambiguous", "fish swims"),
        ("bad_label", "bird sings"),
        ("bad_label", "bird sings"),
        ("bad_label", "bird sings"),
        ("bad_label", "bird sings"),
        ("duplicate", "fish swims"),
        ("neutral", "man walks"),
        ("no_positive", "cat purrs"),
        ("surplus", "dog barks"),
    ]
    details = [row["detail"] for row in made["rejects"]]
    assert any("'maybe' is none of entailment, neutral, contradiction" in one for one in details)


@pytest.mark.parametrize(
    "names", [["query", "answer"], ["anchor", "positive"], ["question", "answer"]]
)
def test_pairs_without_classes_are_all_positives(
    run: Run, tmp_path: Path, names: list[str]
) -> None:
    rows = [["what", "that"], ["who", "she"], ["what", "that"], [" ", "x"]]
    made = run({"source": write(tmp_path / "qa.tsv", rows, names), "kind": "pairs"})
    assert short(made) == [("what", "that", None, None), ("who", "she", None, None)]
    assert sorted(reasons(made)) == [("duplicate", "what"), ("missing_text", "x")]
    assert [row["entries"] for row in made["labelled"]] == [None, None]


def test_scored_pairs_keep_their_scale(run: Run, tmp_path: Path) -> None:
    rows = [["a", "b", 4.5], ["c", "d", "3"], ["e", "f", float("nan")], ["g", "h", "inf"],
            ["i", "j", None], ["k", "l", "high"], ["a", "b", 1.0]]  # fmt: skip
    path = write(tmp_path / "sts.jsonl", rows, ["sentence1", "sentence2", "score"])
    made = run({"source": path, "kind": "scored"})
    assert short(made) == [("a", "b", None, 4.5), ("c", "d", None, 3.0)]
    assert sorted(reasons(made)) == [
        ("bad_label", "e"), ("bad_label", "g"), ("bad_label", "i"), ("bad_label", "k"),
        ("duplicate", "a"),
    ]  # fmt: skip


def test_a_definition_has_all_its_entries_as_targets(run: Run, tmp_path: Path) -> None:
    big, small = "of great size", "of little size"
    first = write(
        tmp_path / "one.csv",
        [["large", big], ["small", small], ["big", big], ["large", big], ["", big]],
        ["lemma", "definition"],
    )
    second = write(tmp_path / "two.csv", [["big", "grown up"]], ["entry", "definition"])
    made = run(
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


def test_a_row_may_name_several_entries(run: Run, tmp_path: Path) -> None:
    rows = [
        ["vast|huge | ", "of great size"],
        ["huge", "of great size"],
        ["big|vast", "of great size"],
        ["big top", "a tent"],
        [" | ", "a hole"],
    ]
    path = write(tmp_path / "synsets.tsv", rows, ["members", "definition"])
    made = run({"source": path, "kind": "definitions"})
    names = {row["entry_id"]: row["text"] for row in made["entries"]}
    assert [
        (row["anchor"], [names[entry] for entry in row["entries"]]) for row in made["labelled"]
    ] == [("of great size", ["big", "huge", "vast"]), ("a tent", ["big top"])]
    assert sorted(reasons(made)) == [("duplicate", "of great size"), ("missing_text", "|")]


@pytest.mark.parametrize("name", ["words.jsonl", "words.parquet"])
def test_entries_and_definitions_may_be_lists(run: Run, tmp_path: Path, name: str) -> None:
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
    made = run({"source": str(path), "kind": "definitions"})
    names = {row["entry_id"]: row["text"] for row in made["entries"]}
    assert [
        (row["anchor"], [names[entry] for entry in row["entries"]]) for row in made["labelled"]
    ] == [
        ("either of two", ["a|b", "||"]),
        ("one or the other", ["a|b", "||"]),
        ("of great size", ["big"]),
    ]
    assert [row["reason"] for row in made["rejects"]] == ["missing_text"] * 3


def test_definitions_in_another_spelling_are_the_same(run: Run, tmp_path: Path) -> None:
    rows = [
        ["big", "Of great size."],
        ["large", "of great size"],
        ["big", "of great  size!"],
        ["plus", "+"],
        ["minus", "-"],
    ]
    path = write(tmp_path / "words.csv", rows, ["entry", "definition"])
    made = run({"source": path, "kind": "definitions"})
    names = {row["entry_id"]: row["text"] for row in made["entries"]}
    assert [
        (row["anchor"], [names[entry] for entry in row["entries"]]) for row in made["labelled"]
    ] == [("Of great size.", ["big", "large"]), ("+", ["plus"]), ("-", ["minus"])]
    assert reasons(made) == [("duplicate", "of great size!")]


def test_signs_tell_definitions_apart(run: Run, tmp_path: Path) -> None:
    rows = [
        ["equal", "Return (x1 == x2) element-wise."],
        ["not_equal", "Return (x1 != x2) element-wise."],
        ["same", "return x1 == x2 element wise"],
        ["up", "A step of 1."],
        ["down", "A step of -1."],
        ["tenth", "A step of .1."],
    ]
    path = write(tmp_path / "functions.csv", rows, ["entry", "definition"])
    made = run({"source": path, "kind": "definitions"})
    names = {row["entry_id"]: row["text"] for row in made["entries"]}
    owners = [[names[entry] for entry in row["entries"]] for row in made["labelled"]]
    assert owners == [["equal", "same"], ["not_equal"], ["up"], ["down"], ["tenth"]]


def definitions_file(path: Path, count: int = 400) -> str:
    """So many definitions of half as many entries, but the last, which has an entry of its own."""
    rows = [[f"word {i % (count // 2)}", f"definition number {i}"] for i in range(count)]
    return write(path, [*rows, ["alone", "defined once"]], ["entry", "definition"])


def test_definitions_are_held_out_whose_entries_keep_another(run: Run, tmp_path: Path) -> None:
    path = definitions_file(tmp_path / "words.csv")
    corpus = {"source": path, "kind": "definitions", "held_out": 0.5}
    made = run(corpus)
    held = made["held_out_definitions"]
    assert len(held) + len(made["labelled"]) == 401
    # Both definitions of a word are drawn a quarter of the time, and then both stay.
    assert 60 < len(held) < 140
    assert not {row["anchor"] for row in held} & {row["anchor"] for row in made["labelled"]}
    taught = {entry for row in made["labelled"] for entry in row["entries"]}
    assert {entry for row in held for entry in row["entries"]} <= taught
    assert "defined once" not in {row["anchor"] for row in held}
    assert {row["corpus"] for row in held} == {"c"}
    assert held == run(corpus)["held_out_definitions"]
    assert 2 <= len(run({**corpus, "held_out": None})["held_out_definitions"]) <= 20
    assert run({**corpus, "held_out": 0})["held_out_definitions"] == []


def test_a_definition_that_another_corpus_has_too_is_not_held_out(run: Run, tmp_path: Path) -> None:
    corpus = {"source": definitions_file(tmp_path / "words.csv"), "kind": "definitions"}
    one, other = {**corpus, "held_out": 0.5}, {**corpus, "name": "other", "held_out": 0}
    assert run(one, other)["held_out_definitions"] == []


@pytest.mark.parametrize("column", ["anchor", "positive"])
def test_nor_is_one_that_another_kind_has_in_another_spelling(
    run: Run, tmp_path: Path, column: str
) -> None:
    corpus = {"source": definitions_file(tmp_path / "words.csv"), "kind": "definitions"}
    rows = [[f"Definition, NUMBER {i}.", f"other {i}"] for i in range(400)]
    names = ["anchor", "positive"] if column == "anchor" else ["positive", "anchor"]
    pairs = {"source": write(tmp_path / "pairs.tsv", rows, names), "kind": "pairs", "name": "p"}
    assert run({**corpus, "held_out": 0.5}, pairs)["held_out_definitions"] == []


def test_a_definition_goes_with_all_its_entries(run: Run, tmp_path: Path) -> None:
    rows = [[f"word {i}|twin {i}", f"first of {i}"] for i in range(200)]
    rows += [[f"word {i}", f"second of {i}"] for i in range(200)]
    path = write(tmp_path / "twins.csv", rows, ["entry", "definition"])
    made = run({"source": path, "kind": "definitions", "held_out": 0.5})
    # No other definition has the twins, so the first ones stay; the second ones need only words.
    assert {row["anchor"].split()[0] for row in made["held_out_definitions"]} == {"second"}
    assert {len(row["entries"]) for row in made["held_out_definitions"]} == {1}


@pytest.mark.parametrize("kind", ["pairs", "triplets"])
def test_only_definitions_are_held_out(kind: str) -> None:
    corpus = {"name": "c", "source": "c.csv", "role": "labelled", "kind": kind, "held_out": 0.1}
    with pytest.raises(ValueError, match="held_out is for labelled corpora of kind definitions"):
        labelled.LabelledConfig.model_validate({"corpora": [corpus]})


def test_columns_that_the_recipe_names(run: Run, tmp_path: Path) -> None:
    names = ["one", "two", "how"]
    path = write(tmp_path / "own.tsv", [["a", "b", "entailment"], ["a", "c", "2"]], names)
    columns = {"anchor": "one", "positive": "two", "label": "how"}
    made = run({"source": path, "kind": "pairs", "columns": columns})
    assert short(made) == [("a", "b", "c", None)]
    made = run({"source": path, "kind": "pairs", "columns": {"anchor": "one", "positive": "how"}})
    assert short(made) == [("a", "entailment", None, None), ("a", "2", None, None)]


def test_a_txt_may_be_a_table(run: Run, tmp_path: Path) -> None:
    """As SentEval has SICK, and MRPC with a byte order mark; a quotation mark is text there."""
    content = '#1 String\t#2 String\tQuality\nHe said " no , never "\tHe, too\t1\nx\ty, z\t0\n'
    path = tmp_path / "twins_train.txt"
    path.write_bytes(b"\xef\xbb\xbf" + content.encode())
    columns = {"anchor": "#1 String", "positive": "#2 String", "label": "Quality"}
    made = run({"source": str(path), "kind": "scored", "columns": columns})
    assert short(made) == [('He said " no , never "', "He, too", None, 1), ("x", "y, z", None, 0)]


def test_several_files_and_a_limit_over_all(run: Run, tmp_path: Path) -> None:
    for name in ("a", "b"):
        rows = [[f"{name}{i}", f"{name}{i} too"] for i in range(3)]
        write(tmp_path / f"{name}.csv", rows, ["anchor", "positive"])
    corpus = {"source": str(tmp_path / "*.csv"), "kind": "pairs"}
    assert [row[0] for row in short(run(corpus))] == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert [row[0] for row in short(run({**corpus, "limit": 4}))] == ["a0", "a1", "a2", "b0"]


def test_rows_do_not_depend_on_batches(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [[f"p{i % 7}", f"h{i}", ("entailment", "contradiction")[i % 2]] for i in range(60)]
    path = write(tmp_path / "nli.csv", rows, ["premise", "hypothesis", "label"])
    whole = run({"source": path, "kind": "pairs"})
    monkeypatch.setattr(labelled, "BATCH_ROWS", 4)
    assert run({"source": path, "kind": "pairs"}) == whole


def test_what_dev_or_test_says_is_refused(run: Run, tmp_path: Path) -> None:
    said = "the old baker sold his last loaf to a tired soldier"
    asked = "who planted three small apple trees behind the wall"
    trained = "nobody in the village had ever seen so large a whale"
    rows = [
        {"text": text, "split": split, "doc_id": i, "paragraph": 0, "position": 0}
        for i, (text, split) in enumerate([(said, "test"), (trained, "train")])
    ]
    pairs = [{"query": asked, "answer": "she did", "split": "dev"}]
    pq.write_table(pa.Table.from_pylist(rows, SENTENCES), tmp_path / "s.parquet")
    pq.write_table(pa.Table.from_pylist(pairs, DOCUMENT_PAIRS), tmp_path / "p.parquet")
    inputs = {
        "sentences": rows_of({"sentences": [tmp_path / "s.parquet"]}),
        "document_pairs": rows_of({"document_pairs": [tmp_path / "p.parquet"]}),
    }
    own = [[trained, "x y"], ["x", f"yesterday {said} again"], [asked, "y"]]
    path = write(tmp_path / "mine.csv", own, ["anchor", "positive"])
    made = run({"source": path, "kind": "pairs"}, inputs=inputs)
    assert [row[0] for row in short(made)] == [trained]
    assert reasons(made) == [("held_out_text", "x"), ("held_out_text", asked)]
    assert "positive: the old baker sold his last loaf to" in made["rejects"][0]["detail"]


def test_bad_lines_are_rejects_and_the_others_go_on(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    good = b'{"anchor": "a", "positive": "b"}\n'
    path.write_bytes(
        good
        + b'{"anchor": "caf\xe9", "positive": "b"}\n'
        + b"not json\n"
        + b'{"anchor": "' + b"x" * 10_000_000 + b'", "positive": "b"}\n'
        + b'{"anchor": ["list"], "positive": "b"}\n'
        + b'{"anchor": "\\ud800", "positive": "b"}\n'
        + b'{"positive": "b"}\n'
    )  # fmt: skip
    made = run({"source": str(path), "kind": "pairs"})
    assert short(made) == [("a", "b", None, None)]
    assert [row["reason"] for row in made["rejects"]] == [
        "not_utf8", "bad_json", "line_too_long", "missing_text", "not_utf8", "missing_text",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "more", "said"),
    [
        ("none.csv", None, {}, "no such file"),
        ("a.txt", b"x\n", {}, "lines of text have no columns"),
        ("a.txt", b"", {}, "is empty"),
        ("a.md", b"anchor\tpositive\nx\ty\n", {}, "lines of text have no columns"),
        ("a.csv", b"", {}, "is empty"),
        ("a.csv", b"anchor,positive\n", {}, "is empty"),
        ("a.csv", b"anchor,other\nx,y\n", {}, "none of the layouts of kind pairs .*'other'"),
        ("a.csv", b"anchor,positive,label\nx,y,1\n", {}, "column 'label', which kind pairs"),
        ("a.csv", b"anchor,positive\nx,y\n", {"columns": {"anchor": "q", "positive": "positive"}},
         "no column 'q'"),
        ("a.csv", b"anchor,positive\n,y\n", {}, "no row of .* can be used .1 missing_text."),
        ("a.csv", "anchor,positive\nx,y\n".encode("utf-16"), {}, "UTF-16, not UTF-8"),
        ("a.parquet", b"not parquet", {}, "not a whole Parquet file"),
        ("a.csv", b"premise,hypothesis,label\nx,y,maybe\n", {}, "1 bad_label"),
    ],
)  # fmt: skip
def test_what_stops_the_stage_is_one_sentence(
    run: Run, tmp_path: Path, name: str, content: bytes | None, more: dict[str, Any], said: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=said) as raised:
        run({"source": str(tmp_path / name), "kind": "pairs", **more})
    assert "\n" not in str(raised.value)


def test_docstrings_are_not_labelled(run: Run) -> None:
    with pytest.raises(BadInput, match="docstrings carry no labels"):
        run({"source": "pydocs", "kind": "pairs"})
