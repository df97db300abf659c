"""A recipe with `choose`: questions decide how much of the training a run ends with."""

import csv
import signal
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from question_pages import COUNT, write_pages
from tiny_run import Tiny, digest_of, documents, ended_well, query, states, tercet

from tercet import open as open_tercet
from tercet.flows.commands.export import export
from tercet.models.encoders.encoder import load_encoder

KILLED = """
import os, signal
from tercet.tasks.training import choose

choose._candidate_gains = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
from tercet.flows.cli import main; main()
"""


def write(tiny: Tiny, folder: Path, questions: int, mix: float = 0.25) -> list[str]:
    """Pages, a table of questions and a recipe that chooses; the words that run it."""
    ask(folder, questions)
    return write_pages(tiny, folder, choose={"mix": mix})


def ask(folder: Path, questions: int, first: str = "what is said of") -> None:
    with (folder / "mine.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("question", "file"))
        for number, row in enumerate(documents(COUNT, seed=3)[:questions]):
            text = f"{first if number == 0 else 'what is said of'} {row['query'].split('. ')[0]}?"
            table.writerow((text, f"page{number:02}.md"))


def files_of(store: Path) -> set[Path]:
    """What training and encoding passages have written."""
    steps = (store / "artifacts").glob("train*"), (store / "artifacts").glob("passage_vectors*")
    files = (file for step in chain(*steps) for file in step.rglob("*"))
    return {file for file in files if file.suffix in (".parquet", ".safetensors")}


def test_questions_choose_and_an_edited_one_trains_and_encodes_nothing(
    tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, store = write(tiny, tmp_path, COUNT), tmp_path / "store"
    done = ended_well(tercet(*words))
    assert f"{COUNT} questions chose" in done.stdout
    assert "/choose/" in done.stdout
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
    export("train", str(tmp_path / "before"), str(store), None)
    assert "`tercet export choose DEST`" in capsys.readouterr().out
    export("choose", str(tmp_path / "out"), str(store), None)
    assert "questions chose" in (tmp_path / "out" / "README.md").read_text()
    assert load_encoder(tmp_path / "out").encode("the old list").shape == (32,)

    kept = files_of(store)
    ask(tmp_path, COUNT, first="which report speaks of")
    ended_well(tercet(*words))
    made = {step for step, state in states(store).items() if state != "reused"}
    assert {"judgements", "choose", "evaluate.encoder"} <= made
    # The guard reads the questions, so these steps have new versions; but of the same files.
    assert files_of(store) == kept


def test_few_questions_leave_the_default(tiny: Tiny, tmp_path: Path) -> None:
    done = ended_well(tercet(*write(tiny, tmp_path, 29, mix=0)))
    assert "29 questions choose nothing" in done.stdout
    found = query(tmp_path / "store", "SELECT mix, chosen_by, gain FROM choices")
    assert found == [(0, "default", None)]
    export("choose", str(tmp_path / "out"), str(tmp_path / "store"), None)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "It was taken as it is from `tiny`" in card
    assert "The run ends with the untouched encoder" in card
    assert "## How it was trained" not in card
    untouched, shipped = load_encoder(tiny.backbone), load_encoder(tmp_path / "out")
    weights = shipped.state_dict()
    assert all(bool((weights[k] == v).all()) for k, v in untouched.state_dict().items())


def test_a_run_killed_in_choose_ends_with_the_same_encoder(tiny: Tiny, tmp_path: Path) -> None:
    words = write(tiny, tmp_path, COUNT)
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
