"""Bad evaluation files and bad encoders: each is named in one sentence, and no NaN is ever told."""

import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from evaluation_stage import compare

from tercet.models import seeding
from tercet.tasks.stage import BadInput

STS16 = ("answer-answer", "headlines", "plagiarism", "postediting", "question-question")
TASKS = ("STS16", "STS-B", "SICK-R", "MR", "reranking:ours", "pairs:ours")
STSB, SICK = "STS/STSBenchmark/sts-test.csv", "SICK/SICK_test_annotated.txt"
GOLD, PAIRS = "STS/STS16-en-test/STS.gs.headlines.txt", "STS/STS16-en-test/STS.input.headlines.txt"
RERANKING, TSV = "reranking/ours.jsonl", "pairs/ours.tsv"

Change = Callable[[str], str]


def words(text: str) -> np.ndarray:
    """Counts of hashed words: texts that share words are near."""
    vector = np.zeros(512)
    for word, count in Counter(text.lower().split()).items():
        vector[seeding.text_id(word) % 512] += count
    return vector


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A module in the encoder's place: `embed` is what it computes."""
    fake = SimpleNamespace(embed=words)

    def encode(model, texts, batch_size, precision, progress, normalise, side):
        return np.array([fake.embed(text) for text in texts], dtype=np.float32)

    fake.load_encoder = lambda *a, **kw: [SimpleNamespace(pooling_mode="mean")]
    fake.encode, fake.distinct_side = encode, lambda model, side: None
    monkeypatch.setitem(sys.modules, "tercet.models.encoders.encoder", fake)
    return fake


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text("{}")
    return path


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """One small task of each kind; the more words a pair shares, the higher its score."""
    root = tmp_path / "suite"
    files: dict[str, str] = {}

    def pair(name: str, i: int) -> tuple[str, str]:
        first = [f"{name}{i}w{k}" for k in range(5)]
        return " ".join(first), " ".join(
            first[: i % 6] + [f"{name}{i}x{k}" for k in range(5 - i % 6)]
        )

    for stem in STS16:
        pairs = [pair(stem, i) for i in range(1, 7)]
        files[f"STS/STS16-en-test/STS.input.{stem}.txt"] = "".join(f"{a}\t{b}\n" for a, b in pairs)
        files[f"STS/STS16-en-test/STS.gs.{stem}.txt"] = "".join(f"{i % 6}\n" for i in range(1, 7))
    rows = [f"g\tf\ty\t{i}\t{i % 6}\t{a}\t{b}\n" for i in range(1, 7) for a, b in [pair("b", i)]]
    files[STSB] = "".join(rows)
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    rows = [
        f"{i}\t{a}\t{b}\t{max(i % 6, 1)}\tNEUTRAL\n" for i in range(1, 7) for a, b in [pair("s", i)]
    ]
    files[SICK] = header + "".join(rows)
    for name, word in (("pos", "good"), ("neg", "poor")):
        files[f"MR/rt-polarity.{name}"] = "".join(f"{word} film {i}\n" for i in range(14))
    queries = [
        {"query": f"q{i}", "positive": [f"q{i} a"], "negative": [f"b{i}", f"q{i} c d"]}
        for i in range(4)
    ]
    files[RERANKING] = "".join(json.dumps(query) + "\n" for query in queries)
    labelled = [(*pair("p", i), int(i % 6 > 2)) for i in range(1, 7)]
    lines = ["sentence1\tsentence2\tlabel"] + [f"{a}\t{b}\t{label}" for a, b, label in labelled]
    files[TSV] = "\n".join(lines) + "\n"
    for file, text in files.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    return root


def measured(model: Path, suite: Path, *tasks: str) -> list[dict[str, Any]]:
    table = compare({"a": model, "b": model}, suite=suite, tasks=tasks or TASKS, bootstrap=100)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def sound(rows: list[dict[str, Any]]) -> bool:
    numbers = [row[key] for row in rows for key in ("value", "ci_low", "ci_high", "p")]
    return bool(rows) and all(n is None or np.isfinite(n) for n in numbers)


def test_the_sound_suite_is_measured(encoder, model, suite) -> None:
    rows = measured(model, suite)
    assert sound(rows)
    assert {row["suite"] for row in rows} == {"sts", "transfer", "reranking", "pairs"}
    perfect = {
        row["task"] for row in rows if row["metric"] in ("spearman", "ap", "accuracy", "map")
    }
    assert {"STS16", "STS-B", "SICK-R", "MR", "ours"} <= perfect
    assert all(r["value"] == 0 for r in rows if r["metric"].endswith("_gain"))


def lines_of(text: str) -> list[str]:
    return text.split("\n")


def without_line(number: int) -> Change:
    return lambda text: "\n".join(line for i, line in enumerate(lines_of(text), 1) if i != number)


def on_line(number: int, change: Change) -> Change:
    return lambda text: "\n".join(
        change(line) if i == number else line for i, line in enumerate(lines_of(text), 1)
    )


def column(number: int, new: str) -> Change:
    def change(line: str) -> str:
        cells = line.split("\t")
        cells[number] = new
        return "\t".join(cells)

    return change


def fewer(line: str) -> str:
    return line.rpartition("\t")[0]


def said(**values: Any) -> Change:
    return lambda line: json.dumps({**json.loads(line), **values})


FAULTS: list[tuple[str, str, Change, str]] = [
    # missing lines
    ("STS16", GOLD, without_line(3), "STS.gs.headlines.txt, line 6: missing"),
    ("STS16", PAIRS, without_line(6), "STS.input.headlines.txt, line 6: missing"),
    ("STS16", GOLD, lambda text: "", "STS.gs.headlines.txt, line 1: missing"),
    # scores that are none
    ("STS16", GOLD, on_line(2, lambda line: "nan"), "STS.gs.headlines.txt, line 2: .*'nan'"),
    ("STS16", GOLD, on_line(2, lambda line: "5.1"), "STS.gs.headlines.txt, line 2: .*'5.1'"),
    ("STS16", GOLD, lambda text: "\n" * 6, "headlines.txt holds no scored pair"),
    ("STS-B", STSB, on_line(4, column(4, "NaN")), "sts-test.csv, line 4: the score 'NaN'"),
    ("STS-B", STSB, on_line(4, column(4, "inf")), "sts-test.csv, line 4: the score 'inf'"),
    ("STS-B", STSB, on_line(4, column(4, "")), "sts-test.csv, line 4: the score ''"),
    ("SICK-R", SICK, on_line(3, column(3, "nan")), "annotated.txt, line 3: the score 'nan'"),
    ("SICK-R", SICK, on_line(3, column(3, "0")), "annotated.txt, line 3: the score '0'"),
    # one column too few
    ("STS16", PAIRS, on_line(2, fewer), "STS.input.headlines.txt, line 2: 1 columns"),
    ("STS-B", STSB, on_line(5, fewer), "sts-test.csv, line 5: 6 columns"),
    ("SICK-R", SICK, on_line(2, fewer), "annotated.txt, line 2: 4 columns"),
    (
        "SICK-R",
        SICK,
        on_line(1, lambda line: line.replace("B", "C")),
        "lacks the column sentence_B",
    ),
    ("pairs:ours", TSV, on_line(3, fewer), "ours.tsv, line 3: the label None"),
    ("pairs:ours", TSV, on_line(1, fewer), "ours.tsv has no column 'label'"),
    # nothing in it
    ("STS-B", STSB, lambda text: "", "sts-test.csv holds no scored pair"),
    ("SICK-R", SICK, lambda text: "", "annotated.txt, line 1: the header lacks"),
    ("SICK-R", SICK, lambda text: lines_of(text)[0], "annotated.txt holds no scored pair"),
    ("MR", "MR/rt-polarity.pos", lambda text: "", "rt-polarity.pos holds 0 sentences"),
    ("reranking:ours", RERANKING, lambda text: "", "ours.jsonl holds no query"),
    ("pairs:ours", TSV, lambda text: "", "ours.tsv has no column 'sentence1'"),
    ("pairs:ours", TSV, lambda text: lines_of(text)[0] + "\n", "ours.tsv holds 0 pairs"),
    # empty texts
    ("STS16", PAIRS, on_line(2, column(1, " ")), "headlines.txt, line 2: a sentence is empty"),
    ("STS-B", STSB, on_line(1, column(6, "")), "sts-test.csv, line 1: a sentence is empty"),
    ("pairs:ours", TSV, on_line(2, column(0, "")), "ours.tsv, line 2: sentence1 holds no text"),
    ("reranking:ours", RERANKING, on_line(2, said(query=[])), "ours.jsonl, line 2: the query"),
    ("reranking:ours", RERANKING, on_line(2, said(positive=[""])), "ours.jsonl, line 2: positive"),
    ("reranking:ours", RERANKING, on_line(2, said(negative=None)), "line 2: negative is missing"),
    ("reranking:ours", RERANKING, on_line(2, said(negative=[7])), "line 2: negative holds 7"),
    ("reranking:ours", RERANKING, on_line(3, lambda line: line[:-4]), "ours.jsonl, line 3: "),
    ("reranking:ours", RERANKING, on_line(3, lambda line: "[1]"), "ours.jsonl, line 3: .*a list"),
    ("pairs:ours", TSV, on_line(2, column(2, "nan")), "ours.tsv, line 2: the label 'nan'"),
    ("pairs:ours", TSV, on_line(2, column(2, "0.5")), "ours.tsv, line 2: the label '0.5'"),
]


@pytest.mark.parametrize(("task", "file", "change", "told"), FAULTS)
def test_a_faulty_file_is_named(
    encoder, model, suite, task: str, file: str, change: Change, told: str
) -> None:
    path = suite / file
    path.write_text(change(path.read_text()))
    with pytest.raises(BadInput) as raised:
        measured(model, suite, task)
    assert re.search(told, str(raised.value)), raised.value
    assert "\n" not in str(raised.value)


def constant_scores(text: str) -> str:
    return "".join("3\n" for _ in lines_of(text)[:-1])


@pytest.mark.parametrize(
    ("task", "file", "change", "told"),
    [
        ("STS16", GOLD, constant_scores, r"STS16 \(headlines\)"),
        ("STS16", GOLD, lambda text: "1" + "\n" * 6, r"STS16 \(headlines\)"),
        (
            "STS-B",
            STSB,
            lambda t: "\n".join(column(4, "2")(li) for li in lines_of(t)[:-1]),
            "STS-B",
        ),
        ("STS-B", STSB, lambda text: lines_of(text)[0], "STS-B"),
    ],
)
def test_scores_that_leave_the_correlation_undefined(
    encoder, model, suite, task: str, file: str, change: Change, told: str
) -> None:
    path = suite / file
    path.write_text(change(path.read_text()))
    with pytest.raises(BadInput, match=told):
        measured(model, suite, task)


@pytest.mark.parametrize("task", ["STS16", "STS-B", "SICK-R", "reranking:ours", "pairs:ours"])
@pytest.mark.parametrize("of", [np.ones(8), np.zeros(8)])
def test_an_encoder_that_tells_nothing_apart(encoder, model, suite, task: str, of) -> None:
    encoder.embed = lambda text: of
    with pytest.raises(BadInput, match="one similarity"):
        measured(model, suite, task)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("fault", [np.nan, np.inf])
def test_a_vector_that_is_no_vector(encoder, model, suite, task: str, fault: float) -> None:
    spoiled: list[str] = []

    def embed(text: str) -> np.ndarray:
        spoiled.append(text)
        return np.full(512, fault) if len(spoiled) == 5 else words(text)

    encoder.embed = embed
    with pytest.raises(BadInput, match=r"NaN or infinity for 1 of \d+ texts"):
        measured(model, suite, task)


def test_a_constant_encoder_classifies_as_the_commonest_class(encoder, model, suite) -> None:
    encoder.embed = lambda text: np.ones(8)
    rows = measured(model, suite, "MR")
    assert sound(rows)
    assert {r["value"] for r in rows if r["metric"] == "accuracy"} <= {50.0} | {
        r["value"] for r in rows if 0 <= r["value"] <= 60
    }


@pytest.mark.parametrize("name", ["ours.tsv", "ours.csv", "ours.jsonl", "ours.parquet"])
@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe\x80" * 50])
def test_files_of_pairs_that_are_something_else(
    encoder, model, suite, name: str, content: bytes
) -> None:
    (suite / TSV).unlink()
    (suite / "pairs" / name).write_bytes(content)
    with pytest.raises(BadInput, match=re.escape(name)):
        measured(model, suite, "pairs:ours")


@pytest.mark.parametrize("file", [TSV, RERANKING])
def test_a_compressed_file_that_is_cut_off(encoder, model, suite, file: str) -> None:
    path = suite / file
    packed = gzip.compress(path.read_bytes())
    path.unlink()
    path.with_name(path.name + ".gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(BadInput, match=re.escape(path.name + ".gz")):
        measured(model, suite, "reranking:ours" if file == RERANKING else "pairs:ours")


def test_labels_of_a_parquet_file_may_be_missing(encoder, model, suite) -> None:
    (suite / TSV).unlink()
    labels = pa.array([1.0, float("nan"), 0.0])
    table = pa.table(
        {"sentence1": ["a b", "c", "d"], "sentence2": ["a", "c", "e"], "label": labels}
    )
    pq.write_table(table, suite / "pairs" / "ours.parquet")
    with pytest.raises(BadInput, match=r"ours\.parquet, line 2: the label nan"):
        measured(model, suite, "pairs:ours")


def test_half_of_a_surrogate_pair_is_no_text(encoder, model, suite) -> None:
    """JSON can say one; no tokenizer takes it."""
    path = suite / RERANKING
    path.write_text(path.read_text().replace('"q1 a"', '"q1 \\ud800"'))
    with pytest.raises(BadInput, match=r"ours\.jsonl, line 2"):
        measured(model, suite, "reranking:ours")


def test_few_pairs_have_no_nan_for_an_interval(encoder, model, suite) -> None:
    """Of two pairs half of the resamples have one alone: there is a figure and no interval."""
    path = suite / STSB
    path.write_text("\n".join(lines_of(path.read_text())[:2]) + "\n")
    rows = measured(model, suite, "STS-B")
    assert sound(rows)
    first = next(row for row in rows if row["metric"] == "spearman" and row["subset"] == "all")
    assert first["value"] == pytest.approx(100)
    assert first["ci_low"] is None
    assert first["ci_high"] is None
