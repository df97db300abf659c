"""Stage `labelled`: rows of every kind, every reason to refuse one, and what stops the stage."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failures import fails
from labelled_rows import TRIPLET, Run, reasons, short, write

from tercet.models import seeding
from tercet.storage.rows import rows_of
from tercet.tasks.corpus import labelled
from tercet.tasks.corpus.ingest import DOCUMENT_PAIRS, SENTENCES
from tercet.tasks.stage import BadInput


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz"])
@pytest.mark.parametrize("names", [TRIPLET, ["sent0", "sent1", "hard_neg"]])
def test_triplets_of_every_form(read: Run, tmp_path: Path, suffix: str, names: list[str]) -> None:
    path = write(tmp_path / f"mine{suffix}", [["007", "NA", "1e3"], ["a", "b", None]], names)
    made = read({"source": path, "kind": "triplets"})
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


def test_html_is_taken_out_and_the_first_of_it_is_kept(read: Run, tmp_path: Path) -> None:
    rows = [["Tea &amp; cake<br>at five.", "a", "b"], ["List<String>", "<p>c</p>", "d"],
            ["e", "<br>", "f"]]  # fmt: skip
    path = write(tmp_path / "mine.csv", rows, TRIPLET)
    made = read({"source": path, "kind": "triplets"})
    assert short(made) == [
        ("Tea & cake at five.", "a", "b", None),
        ("List<String>", "c", "d", None),
    ]
    told = [(row["reason"], row["text"]) for row in made["rejects"]]
    assert told == [("html", rows[0][0]), ("missing_text", "e f")]
    assert made["rejects"][0]["detail"] == "c: mine.csv:2: the first row in HTML"


def test_the_teachers_cosine_comes_along(read: Run, tmp_path: Path) -> None:
    rows = [["a", "b", "c", "0.5"], ["d", "e", "f", ""], ["g", "h", "i", "near"],
            ["j", "k", "l", "85"], ["m", "n", "o", "nan"]]  # fmt: skip
    path = write(tmp_path / "mine.csv", rows, [*TRIPLET, "negative_similarity"])
    made = read({"source": path, "kind": "triplets"})
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
def test_entailment_keeps_every_contradiction(read: Run, tmp_path: Path, names: list[str]) -> None:
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
    made = read({"source": path, "kind": "entailment"})
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


def test_entailment_reads_the_columns_that_the_recipe_names(read: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "own.csv", [["It rains.", "It is dry.", "2"]], ["a", "b", "y"])
    columns = {"premise": "a", "hypothesis": "b", "label": "y"}
    made = read({"source": path, "kind": "entailment", "columns": columns})
    assert short(made) == [("It rains.", None, "It is dry.", None)]


def test_inference_pairs_become_triplets(read: Run, tmp_path: Path) -> None:
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
    made = read({"source": path, "kind": "pairs"})
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
    read: Run, tmp_path: Path, names: list[str]
) -> None:
    rows = [["what", "that"], ["who", "she"], ["what", "that"], [" ", "x"]]
    made = read({"source": write(tmp_path / "qa.tsv", rows, names), "kind": "pairs"})
    assert short(made) == [("what", "that", None, None), ("who", "she", None, None)]
    assert sorted(reasons(made)) == [("duplicate", "what"), ("missing_text", "x")]
    assert [row["entries"] for row in made["labelled"]] == [None, None]


def test_scored_pairs_keep_their_scale(read: Run, tmp_path: Path) -> None:
    rows = [["a", "b", 4.5], ["c", "d", "3"], ["e", "f", float("nan")], ["g", "h", "inf"],
            ["i", "j", None], ["k", "l", "high"], ["a", "b", 1.0]]  # fmt: skip
    path = write(tmp_path / "sts.jsonl", rows, ["sentence1", "sentence2", "score"])
    made = read({"source": path, "kind": "scored"})
    assert short(made) == [("a", "b", None, 4.5), ("c", "d", None, 3.0)]
    assert sorted(reasons(made)) == [
        ("bad_label", "e"), ("bad_label", "g"), ("bad_label", "i"), ("bad_label", "k"),
        ("duplicate", "a"),
    ]  # fmt: skip


def test_columns_that_the_recipe_names(read: Run, tmp_path: Path) -> None:
    names = ["one", "two", "how"]
    path = write(tmp_path / "own.tsv", [["a", "b", "entailment"], ["a", "c", "2"]], names)
    columns = {"anchor": "one", "positive": "two", "label": "how"}
    made = read({"source": path, "kind": "pairs", "columns": columns})
    assert short(made) == [("a", "b", "c", None)]
    made = read({"source": path, "kind": "pairs", "columns": {"anchor": "one", "positive": "how"}})
    assert short(made) == [("a", "entailment", None, None), ("a", "2", None, None)]


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


def test_rows_do_not_depend_on_batches(
    read: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [[f"p{i % 7}", f"h{i}", ("entailment", "contradiction")[i % 2]] for i in range(60)]
    path = write(tmp_path / "nli.csv", rows, ["premise", "hypothesis", "label"])
    whole = read({"source": path, "kind": "pairs"})
    monkeypatch.setattr(labelled, "BATCH_ROWS", 4)
    assert read({"source": path, "kind": "pairs"}) == whole


def test_what_dev_or_test_says_is_refused(read: Run, tmp_path: Path) -> None:
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
        ("a.parquet", b"not parquet", {}, "not a whole Parquet file"),
        ("a.csv", b"premise,hypothesis,label\nx,y,maybe\n", {}, "1 bad_label"),
    ],
)  # fmt: skip
def test_what_stops_the_stage_is_one_sentence(
    read: Run, tmp_path: Path, name: str, content: bytes | None, more: dict[str, Any], said: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=said) as raised:
        read({"source": str(tmp_path / name), "kind": "pairs", **more})
    assert "\n" not in str(raised.value)


def test_docstrings_are_not_labelled(read: Run) -> None:
    with fails("conflict"):
        read({"source": "pydocs", "kind": "pairs"})
