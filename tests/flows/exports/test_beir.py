"""A run's passages and questions as a folder that `--beir` and other tools read."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from commands_store import make_artifact, make_run, small_store
from evaluation_stage import compare, encoder, model
from failures import fails

from tercet.flows.commands.export import export
from tercet.models import seeding
from tercet.storage.store import open_store
from tercet.tasks.corpus.passages import PASSAGES, passage_text
from tercet.tasks.evaluation.judgements import JUDGEMENTS
from tercet.tasks.evaluation.suites.judged import judged_tasks
from tercet.tasks.scoring.select import TRIPLETS
from tercet.tasks.stage import REJECTS

__all__ = ["encoder", "model"]

DOCUMENTS = [
    ("a.md", "Pumps", "they feed the boiler"),
    ("a.md", "Pumps", "they stand in the cellar"),
    ("b.md", "", "valves close and feed nothing"),
    ("c.md", "", "pumps and valves"),
]


def passages(sources: tuple[str, ...] = ("c",)) -> pa.Table:
    rows = [
        dict.fromkeys(PASSAGES.names)
        | {"passage_id": seeding.text_id(passage_text(context, text)), "doc_id": place}
        | {"corpus": sources[place % len(sources)], "source": source, "path": f"{source}:1"}
        | {"context": context, "text": text, "position": place}
        for place, (source, context, text) in enumerate(DOCUMENTS)
    ]
    return pa.Table.from_pylist(rows, PASSAGES)


def judgements(unit: str) -> pa.Table:
    ids = passages()["passage_id"].to_pylist()
    asked = [("what feeds the boiler?", "test", 0), ("what feeds the boiler?", "test", 1)]
    asked += [("where are valves", "test", 3), ("where are valves", "test", 2)]
    asked += [("what closes?", "dev", 2)]
    rows = [("mine", seeding.text_id(q), q, split, unit, ids[at], 2) for q, split, at in asked]
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=JUDGEMENTS)


def triplets() -> pa.Table:
    ids = passages()["passage_id"].to_pylist()
    rows = [
        (1, ids[2], "what is a valve"),
        (2, ids[0], "they"),
        (3, 5, "a sentence"),
        (4, ids[1], "x"),
    ]
    named = [
        dict.fromkeys(TRIPLETS.names) | {"triplet_id": one, "sentence_id": at, "anchor": anchor}
        for one, at, anchor in rows
    ]
    return pa.Table.from_pylist(named, TRIPLETS)


def store_with(root: Path, unit: str | None, **more: pa.Table) -> str:
    """A store whose guard keeps the triplet 4 out."""
    store, _ = small_store(root)
    lost = dict.fromkeys(REJECTS.names) | {"stage": "guard", "row_id": 4}
    tables = {"passages": passages(), "rejects": pa.Table.from_pylist([lost], REJECTS)}
    tables |= {} if unit is None else {"judgements": judgements(unit)}
    names = {"triplets": "select", "rejects": "guard.triplets"}
    steps = {}
    for number, (name, table) in enumerate((tables | more).items()):
        step, version = names.get(name, name), f"cccc{number}000"
        make_artifact(store, step, version, {name: table})
        steps[step] = (version, "made", {name: table.num_rows})
    make_run(store, "asked", steps)
    return store.location


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def grades(folder: Path, split: str) -> list[list[str]]:
    text = (folder / "qrels" / f"{split}.tsv").read_text().splitlines()
    assert text[0] == "query-id\tcorpus-id\tscore"
    return [line.split("\t") for line in text[1:]]


def test_the_folder_gives_the_figures_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], encoder: Any, model: Path
) -> None:
    store = store_with(tmp_path / "store", "passage", triplets=triplets())
    target = tmp_path / "out"
    export("beir", str(target), store, None)
    assert "queries: 1 of dev, 2 of test, 2 of train." in capsys.readouterr().out
    ids = [str(one) for one in passages()["passage_id"].to_pylist()]
    assert lines(target / "corpus.jsonl")[0] == {
        "_id": ids[0], "title": "Pumps", "text": "they feed the boiler"
    }  # fmt: skip
    # Those of sentences, and what the guard keeps out, are none.
    texts = {row["_id"]: row["text"] for row in lines(target / "queries.jsonl")}
    train = [(texts[query], document) for query, document, _ in grades(target, "train")]
    assert train == [("what is a valve", ids[2]), ("they", ids[0])]

    own = judged_tasks(judgements("passage"), passages(), ("test", "dev"))
    given = {"retrieval": False, "splits": ("test", "dev")}
    from_run = compare({"m": model}, tasks_of_run=own, **given)
    from_folder = compare({"m": model}, retrieval_sets={"mine": str(target)}, **given)
    key = [("task", "ascending"), ("metric", "ascending")]
    ours, theirs = from_run.sort_by(key), from_folder.sort_by(key)
    assert ours.num_rows == 2 * 3 * 5
    assert ours.select(["task", "metric", "n"]) == theirs.select(["task", "metric", "n"])
    assert np.abs(np.array(ours["value"]) - np.array(theirs["value"])).max() < 1e-9


def test_where_questions_name_files_a_file_is_a_document(tmp_path: Path) -> None:
    store = store_with(tmp_path / "store", "file")
    target = tmp_path / "out"
    export("beir", str(target), store, "asked")
    assert lines(target / "corpus.jsonl")[0] == {
        "_id": "a.md", "title": "Pumps", "text": "they feed the boiler\nthey stand in the cellar"
    }  # fmt: skip
    boiler = str(seeding.text_id("what feeds the boiler?"))
    assert [row for row in grades(target, "test") if row[0] == boiler] == [[boiler, "a.md", "2"]]


def test_files_of_several_corpora_are_told_apart(tmp_path: Path) -> None:
    store = store_with(tmp_path / "store", "file", passages=passages(("c", "d")))
    export("beir", str(tmp_path / "out"), store, None)
    names = [row["_id"] for row in lines(tmp_path / "out" / "corpus.jsonl")]
    assert names == ["c/a.md", "d/a.md", "c/b.md", "d/c.md"]


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    store = store_with(tmp_path / "store", None)
    bare = open_store(str(tmp_path / "bare")).location
    for location, run in ((store, None), (store, "birds"), (bare, None)):
        with fails("not_reached"):
            export("beir", str(tmp_path / "out"), location, run)
    assert not (tmp_path / "out").exists()
    with fails("no_effect", "--onnx"):
        export("beir", str(tmp_path / "out"), store, None, onnx=True)
