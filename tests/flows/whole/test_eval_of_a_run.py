"""`tercet eval` on the document pairs and the awareness pairs of a run."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from commands_store import make_artifact, make_run, small_store
from tiny_run import Finished, query, tercet

from tercet.flows.commands.evaluate import evaluate_encoders
from tercet.flows.results.run_pairs import read_pairs
from tercet.storage.store import Store, open_store
from tercet.tasks.evaluation import evaluate
from tercet.tasks.evaluation.awareness import AWARENESS_PAIRS
from tercet.tasks.evaluation.evaluate_settings import list_tasks
from tercet.tasks.stage import BadInput

COMPARED = "task, subset, metric, value, ci_low, ci_high, n, pooling, text_form, data_digest"


def ask(*models: str, store: Path, **options: Any) -> None:
    given: dict[str, Any] = {"suite": None, "tasks": "retrieval", "splits": "test"}
    given |= {"pooling": None, "precision": None, "format_": "json"}
    evaluate_encoders(models, **given | options, store=str(store))


def close(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> None:
    """The same rows; figures may differ by what other shapes of a batch do to them."""
    assert len(found) == len(expected) > 0
    for ours, theirs in zip(found, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert one == (pytest.approx(other, abs=1e-4) if isinstance(other, float) else other)


def test_the_figures_are_those_of_the_run(
    finished: Finished, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    ask(str(finished.tiny.backbone), "train", store=finished.store)
    rows = json.loads(capsysbinary.readouterr().out)
    asked = COMPARED.split(", ")
    for model, phase in ((str(finished.tiny.backbone), "base"), ("train", "encoder")):
        own = [tuple(row[key] for key in asked) for row in rows if row["model"] == model]
        expected = query(
            finished.store,
            f"SELECT {COMPARED} FROM evaluations WHERE suite = 'retrieval' AND phase = '{phase}'",
        )
        close(sorted(own), sorted(expected))
    # With the backbone first, the differences are the run's gains, and have their p.
    gains = [row for row in rows if row["metric"].endswith("_gain")]
    assert [row["metric"] for row in gains] == ["recall@1_gain", "recall@10_gain", "mrr_gain"]
    assert {row["model"] for row in gains} == {"train"}
    assert all(0 < row["p"] <= 1 for row in gains)


def test_both_splits_stand_in_the_table(
    finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    ask("train", store=finished.store, splits="dev,test", format_="table", pooling="max")
    lines = capsys.readouterr().out.splitlines()
    shown = [line[:40].split("  ")[0] for line in lines[2:14]]
    assert shown == [
        f"document_pairs ({split})" for split in ("dev", "dev", "dev", "test", "test", "test")
    ] + [f"document_pairs ({split})" for split in ("dev", "dev", "dev", "test", "test", "test")]
    assert [lines[row].split()[2] for row in (2, 3, 4)] == ["recall@1", "recall@10", "MRR"]
    assert any(line.startswith("train, version ") and "pooling max" in line for line in lines)
    assert "seed 7, at most 2000 a split, 200 resamples" in lines[-1]


def test_the_command_says_what_a_run_lacks(finished: Finished, tmp_path: Path) -> None:
    words = ["eval", "train", "--store", str(finished.store)]
    done = tercet(*words, "--tasks", "awareness,retrieval")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "has not made awareness pairs" in done.stderr
    assert "awareness: {teacher: MODEL}" in done.stderr
    done = tercet("eval", "a/b", "--tasks", "retrieval", "--store", str(tmp_path / "none"))
    assert done.returncode == 2
    assert "is not a store: name one with --store, or run a recipe first." in done.stderr


def document_pairs(count: int, split: str = "test") -> pa.Table:
    ids = np.arange(1, count + 1, dtype=np.uint64)
    return pa.table(
        {
            "pair_id": ids,
            "doc_id": ids,
            "query": [f"query {i}" for i in ids],
            "answer": [f"answer {i}" for i in ids],
            "split": [split] * count,
        }
    )


def awareness_pairs(count: int) -> pa.Table:
    rows = [
        dict.fromkeys(AWARENESS_PAIRS.names)
        | {"pair_id": i, "kind": "entity", "anchor": f"anchor {i}", "text": f"text {i}"}
        | {"teacher_similarity": i / count}
        for i in range(count)
    ]
    return pa.Table.from_pylist(rows, schema=AWARENESS_PAIRS)


def store_of_pairs(root: Path, **settings: Any) -> tuple[Store, str]:
    """A store whose older run has pairs of both kinds, and whose newest has reached neither."""
    store, _ = small_store(root)
    pairs = document_pairs(40)
    make_artifact(store, "ingest", "cccc3333", {"document_pairs": pairs})
    make_artifact(store, "awareness", "dddd4444", {"awareness_pairs": awareness_pairs(30)})
    steps = {
        "ingest": ("cccc3333", "made", {"document_pairs": 40}),
        "awareness": ("dddd4444", "made", {"awareness_pairs": 30}),
    }
    recipe = {"name": "paired", "seed": 5, "evaluate": settings, "run": {"batch_size": 16}}
    recipe["prompts"] = {"query": "find: ", "document": None}
    older = make_run(store, "paired", steps, recipe)
    make_run(store, "bare", {})
    return store, older


def test_a_run_says_which_pairs_are_drawn(tmp_path: Path) -> None:
    store, run = store_of_pairs(tmp_path / "store", max_pairs=10, max_length=64)
    both = ("retrieval", "awareness")
    found = read_pairs(store.location, run, both, ["test"])
    assert (found.run_id, found.seed) == (run, 5)
    assert (found.settings.max_length, found.settings.bootstrap) == (64, 2_000)
    (pairs,) = found.pairs
    assert len(pairs.ids) == 10
    assert [task.name for task in found.awareness] == ["entity", "all"]
    assert read_pairs(store.location, "paired", ["awareness"], ["dev"]).pairs == []
    assert read_pairs(store.location, run, ["retrieval"], ["test"]).awareness == []


def test_without_a_name_the_newest_run_that_has_trained_or_measured_is_taken(
    tmp_path: Path,
) -> None:
    store, _ = small_store(tmp_path / "store")
    make_artifact(store, "ingest", "cccc3333", {"document_pairs": document_pairs(40)})
    steps = {"ingest": ("cccc3333", "made", {"document_pairs": 40}), "evaluate": ("e", "made", {})}
    run = make_run(store, "paired", steps)
    make_run(store, "stopped", {})
    assert read_pairs(store.location, None, ["retrieval"], ["test"]).run_id == run
    # Its encoder is what `train` names from now on: other pairs might be among those it saw.
    make_artifact(store, "ingest", "dddd4444", {"document_pairs": document_pairs(40)})
    steps = {"ingest": ("dddd4444", "made", {"document_pairs": 40}), "train": ("t", "made", {})}
    trained = make_run(store, "trained", steps)
    assert read_pairs(store.location, None, ["retrieval"], ["test"]).run_id == trained


def test_the_settings_of_the_run_reach_the_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store, run = store_of_pairs(tmp_path / "store", max_length=64, bootstrap=300)
    calls: list[dict[str, Any]] = []

    def stub(models: Any, config: Any, resources: Any, **arguments: Any) -> pa.Table:
        calls.append({"config": config, "resources": resources, **arguments})
        return evaluate.COMPARED.empty_table()

    monkeypatch.setattr(evaluate, "evaluate_models", stub)
    ask("train@bbbb", store=store.work, run_ref=run, tasks="awareness, retrieval", format_="csv")
    (call,) = calls
    config = call["config"]
    assert (config.suite, list_tasks(config), config.splits) == (None, (), ("test",))
    assert (config.max_length, config.bootstrap, call["seed"]) == (64, 300, 5)
    assert call["resources"].batch_size == 16
    assert config.prompts.given() == {"query": "find: "}
    assert [len(pairs.ids) for pairs in call["pairs"]] == [40]
    assert [task.name for task in call["tasks"]] == ["entity", "all"]
    assert capsys.readouterr().out.count("\n") == 1


def test_what_cannot_be_measured_is_one_sentence(tmp_path: Path) -> None:
    store, run = store_of_pairs(tmp_path / "store")
    place = store.work
    empty = {"awareness_pairs": AWARENESS_PAIRS.empty_table()}
    make_artifact(open_store(str(place)), "awareness", "eeee5555", empty)
    few = make_run(store, "few", {"awareness": ("eeee5555", "made", {})})
    newest = make_run(store, "newest", {"train": ("tttt", "made", {})})
    for options, said in (
        ({}, rf"Run {newest} of newest has no document pairs in split test: .*--run"),
        ({"run_ref": run, "splits": "dev"}, r"in split dev: .*`ingest\.dev`"),
        ({"run_ref": run, "splits": "dev,test"}, "in split dev:"),
        ({"run_ref": run, "splits": "dev, train"}, "must be test, dev or dev,test"),
        ({"run_ref": run, "splits": ""}, "must be test, dev or dev,test"),
        ({"tasks": "awareness"}, "has not made awareness pairs: .*teacher: MODEL"),
        ({"tasks": "awareness", "run_ref": few}, "found too few entities .*ingest.dev"),
        ({"run_ref": "nobody"}, "No run, tag or recipe is called 'nobody'"),
        ({"tasks": "retrieval,sts", "run_ref": run}, "--tasks sts needs --suite DIR"),
        ({"tasks": ""}, "needs --suite DIR"),
        (
            {"tasks": "retreival"},
            "no task 'retreival' .* or fact_order or sts_sets or retrieval_sets of a run",
        ),
    ):
        with pytest.raises(BadInput, match=said):
            ask("train@bbbb", store=place, **options)
    with pytest.raises(BadInput, match=r"--tasks retrieval and awareness reads .* is not a store"):
        ask("a/b", store=tmp_path / "none", tasks="awareness,retrieval")
