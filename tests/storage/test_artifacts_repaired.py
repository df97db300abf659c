"""Artifacts that were damaged, and conflicts that are none."""

import os
from collections.abc import Callable
from typing import Any

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError
from processes import ROWS, staged

from tercet.storage.artifacts import open_artifact
from tercet.storage.store import Store, StoreError


def test_repair_forgets_the_parts_that_are_not_whole_and_no_others(store: Store) -> None:
    artifact = open_artifact(store, "extract", "aaaa")
    artifact.adopt_plan([{}, {}, {}])
    made = [artifact.commit(i, staged(artifact, i), f"k{i}", {}) for i in range(3)]
    artifact.finish({})
    store.delete(made[0]["tables"]["left"][0]["path"])
    store.local(made[2]["tables"]["right"][1]["path"]).write_bytes(b"PAR1")
    assert not artifact.intact()
    assert artifact.whole_parts() == [1]
    artifact.repair()
    assert artifact.manifest() is None
    assert artifact.records() == {1: made[1]}
    for index in (0, 2):
        artifact.commit(index, staged(artifact, index), f"k{index}", {})
    artifact.finish({})
    assert artifact.intact()


@pytest.mark.parametrize("deletions", [0, 1, 2])
def test_what_is_half_repaired_is_repaired_again(
    store: Store, monkeypatch: pytest.MonkeyPatch, deletions: int
) -> None:
    artifact = open_artifact(store, "extract", "aaaa")
    artifact.adopt_plan([{}, {}])
    lost, kept = [artifact.commit(i, staged(artifact, i), f"k{i}", {}) for i in range(2)]
    artifact.finish({})
    store.delete(lost["tables"]["left"][0]["path"])
    left = [deletions]
    delete = Store.delete

    def killed(store: Store, path: str) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        delete(store, path)

    monkeypatch.setattr(Store, "delete", killed)
    with pytest.raises(KeyboardInterrupt):
        artifact.repair()
    monkeypatch.undo()
    assert not artifact.intact()
    artifact.repair()
    assert artifact.manifest() is None
    assert artifact.records() == {1: kept}


def test_without_its_plan_no_part_is_kept(store: Store) -> None:
    artifact = open_artifact(store, "extract", "aaaa")
    artifact.adopt_plan([{}, {}])
    made = [artifact.commit(i, staged(artifact, i), f"k{i}", {}) for i in range(2)]
    artifact.finish({})
    store.delete(f"{artifact.path}/plan.json")
    store.delete(made[0]["tables"]["left"][0]["path"])
    artifact.repair()
    assert artifact.records() == {}


def _lies(put: Callable[..., Any], name: str, done: bool) -> Callable[..., Any]:
    """`obstore.put` that reports the first create of that object as a conflict.

    done: whether the object was put, as when the answer of a bucket is lost and asked for again.
    """
    lied = []

    def lying(objects: Any, path: str, *data: Any, **how: Any) -> None:
        if path.endswith(name) and how.get("mode") == "create" and not lied:
            lied.append(path)
            if done:
                put(objects, path, *data, **how)
            raise AlreadyExistsError(path)
        put(objects, path, *data, **how)

    return lying


@pytest.mark.parametrize("done", [True, False], ids=["it was put", "nothing is there"])
@pytest.mark.parametrize("name", ["plan.json", "00000.json", "manifest.json"])
def test_a_conflict_that_is_none_loses_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, name: str, done: bool
) -> None:
    monkeypatch.setattr(obstore, "put", _lies(obstore.put, name, done))
    artifact = open_artifact(store, "extract", "aaaa")
    assert artifact.adopt_plan([{}]) == artifact.plan() == [{}]
    record = artifact.commit(0, staged(artifact, 0), "k", {})
    assert artifact.records() == {0: record}
    assert artifact.finish({}) == artifact.manifest()
    assert artifact.rows().count("left") == ROWS
    assert artifact.intact()


def test_a_conflict_that_never_ends_is_one_sentence(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise AlreadyExistsError("x")

    monkeypatch.setattr(obstore, "put", refused)
    with pytest.raises(StoreError):
        store.create("x", b"")


def test_a_plan_on_versions_that_are_gone_is_made_anew(store: Store) -> None:
    artifact = open_artifact(store, "embed", "bbbb")
    artifact.adopt_plan([{"spec": {}, "known": ["aaaa"]}])
    lost = artifact.commit(0, staged(artifact, 0), "k", {})
    artifact.finish({})
    store.delete(lost["tables"]["left"][0]["path"])
    artifact.repair()
    assert artifact.plan() is None
    assert artifact.records() == {}


def test_a_folder_that_cannot_be_read_is_no_lost_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = open_artifact(store, "extract", "aaaa")
    artifact.adopt_plan([{}])
    artifact.commit(0, staged(artifact, 0), "k", {})
    artifact.finish({})
    scandir = os.scandir

    def refuse(path: Any = ".") -> Any:
        if str(path).endswith("data/left"):
            raise OSError(24, "Too many open files")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(StoreError):
        artifact.intact()
