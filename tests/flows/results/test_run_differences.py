"""The rows that two runs do not share, of runs that are written down."""

from pathlib import Path
from typing import Any

from report_store import write_run

from tercet.flows.results.run_differences import (
    TableDifference,
    compare_recipes,
    compare_rows,
    compare_steps,
)
from tercet.flows.results.subject import open_runs
from tercet.storage.artifacts import open_artifact
from tercet.storage.store import open_store

Rows = list[dict[str, Any]]


def compared(folder: Path, a: dict[str, Rows], b: dict[str, Rows]) -> dict[str, TableDifference]:
    return between(folder, written(folder, a, b))


def written(folder: Path, *runs: dict[str, Rows]) -> list[str]:
    """The ids of runs with these tables."""
    return [
        write_run(folder / "store", tables, version=f"{place:016x}")
        for place, tables in enumerate(runs)
    ]


def between(folder: Path, ids: list[str]) -> dict[str, TableDifference]:
    with open_runs(open_store(str(folder / "store"), create=False), ids) as (a, b):
        steps = compare_steps(a.store, a.run, b.run)
        found = compare_rows(a.store, a.connection, steps, a.run, b.run)
        return {difference.table: difference for difference in found}


def sentence(number: int, text: str, **more: Any) -> dict[str, Any]:
    return {"sentence_id": number, "text": text, **more}


def test_rows_are_matched_by_their_ids(tmp_path: Path) -> None:
    one = [sentence(i, f"Text {i}.", n_words=2, split="train") for i in range(10)]
    other = [row | {"split": "test"} if row["sentence_id"] == 4 else row for row in one[2:]]
    other += [sentence(2**64 - 1, "New.")]
    found = compared(tmp_path, {"sentences": one}, {"sentences": other})["sentences"]
    assert (found.added, found.removed, found.changed) == (1, 2, 1)
    assert found.key == ("sentence_id",)
    assert found.columns == {"split": 1}
    assert [row["text"] for row in found.examples["added"]] == ["New."]
    assert {row["sentence_id"] for row in found.examples["removed"]} == {0, 1}
    assert found.examples["changed"] == [
        {"sentence_id": 4, "changed": {"split": ["train", "test"]}}
    ]


def test_null_is_a_value_and_vectors_are_compared(tmp_path: Path) -> None:
    one = {"embeddings": [{"text_id": i, "vector": [0.5, i]} for i in range(3)]}
    other = {"embeddings": [{"text_id": 0, "vector": [0.5, 0]}, {"text_id": 1, "vector": None}]}
    found = compared(tmp_path, one, other)["embeddings"]
    assert (found.added, found.removed, found.changed) == (0, 1, 1)
    assert found.examples["changed"][0]["changed"] == {"vector": [[0.5, 1.0], None]}


def test_rows_without_an_id_are_counted_whole(tmp_path: Path) -> None:
    """Two equal rejects are two."""
    reject = {"stage": "parse", "row_id": 7, "reason": "empty"}
    one, other = [reject, reject, reject | {"row_id": 8}], [reject, reject | {"reason": "long"}]
    found = compared(tmp_path, {"rejects": one}, {"rejects": other})["rejects"]
    assert (found.added, found.removed, found.changed, found.key) == (1, 2, 0, ())


def test_a_model_by_another_version_measures_the_same_rows(tmp_path: Path) -> None:
    ranks = [{"task": "document_pairs", "split": "test", "pair_id": i, "rank": 1} for i in range(5)]
    one = [row | {"model_version": "before"} for row in ranks]
    other = [row | {"model_version": "after", "rank": 1 + (row["pair_id"] == 3)} for row in ranks]
    found = compared(tmp_path, {"retrieval_ranks": one}, {"retrieval_ranks": other})
    assert found["retrieval_ranks"].changed == 1
    assert found["retrieval_ranks"].columns == {"rank": 1}


def test_a_table_of_one_run_alone_is_not_compared(tmp_path: Path) -> None:
    texts = {"sentences": [sentence(1, "Text.")]}
    found = compared(tmp_path, texts | {"triplets": [{"triplet_id": 1}]}, texts)
    assert found["triplets"] == TableDifference("triplets", only="a")
    assert found["sentences"] == TableDifference("sentences", ("sentence_id",))


def test_files_of_the_same_bytes_are_not_read_and_lost_ones_are_named(tmp_path: Path) -> None:
    texts = {"sentences": [sentence(1, "Text.")]}
    ids = written(tmp_path, texts, texts, {"sentences": [sentence(2, "New.")]})
    store = open_store(str(tmp_path / "store"))
    (record,) = open_artifact(store, "everything", f"{0:016x}").records().values()
    store.delete(record["tables"]["sentences"][0]["path"])
    assert between(tmp_path, ids[:2])["sentences"].fault is None
    assert between(tmp_path, ids[::2])["sentences"].fault is not None


def test_rows_that_were_deleted_do_not_count_as_removed(tmp_path: Path) -> None:
    ids = written(tmp_path, *({"sentences": [sentence(place, "Text.")]} for place in range(2)))
    artifact = open_artifact(open_store(str(tmp_path / "store")), "everything", f"{0:016x}")
    for path in artifact.store.stats(artifact.path):
        artifact.store.delete(path)
    found = between(tmp_path, ids)["sentences"]
    assert (found.fault is not None, found.removed) == (True, 0)


def test_changed_keys_of_two_recipes() -> None:
    one = {"a": {"b": 1, "same": [1, 2]}, "c": [{"tau": 0.05}], "gone": None}
    other = {"a": {"b": 2, "same": [1, 2]}, "c": [{"tau": 0.1}], "new": True}
    assert compare_recipes(one, other) == [
        ("a.b", "1", "2"),
        ("c.0.tau", "0.05", "0.1"),
        ("gone", "null", None),
        ("new", None, "True"),
    ]
