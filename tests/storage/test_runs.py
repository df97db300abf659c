"""Runs, tags, rounds, and what a name stands for."""

import shutil
from datetime import UTC, datetime, timedelta

import pytest
from failures import fails
from processes import staged
from s3_server import EVERYWHERE

from tercet.storage import locks, records, runs
from tercet.storage.artifacts import Artifact, open_artifact
from tercet.storage.runs import UnknownRef
from tercet.storage.store import Store, StoreError


def _made(store: Store, step: str, version: str) -> Artifact:
    artifact = open_artifact(store, step, version)
    artifact.commit(0, staged(artifact, 0), f"key-{version}", {})
    artifact.finish({"stage": step})
    return artifact


def _entry(version: str, state: str = "made") -> dict[str, object]:
    return {"stage": "extract", "version": version, "state": state, "seconds": 1.5, "tables": {}}


@EVERYWHERE
def test_a_run_from_start_to_end(store: Store) -> None:
    run_id = runs.start_run(store, "quickstart", {"seed": 1}, {"pid": 1})
    with locks.hold(store, f"run-{run_id}"):
        runs.record_step(store, run_id, "zeta", _entry("aaaa"))
        runs.record_step(store, run_id, "alpha", _entry("bbbb") | {"recorded": "9999"})
        runs.record_step(store, run_id, "zeta", _entry("aaaa", "reused"))
        (run,) = runs.list_runs(store)
        assert (run["state"], run["ended"]) == ("running", None)
        assert [(step["step"], step["state"]) for step in run["steps"]] == [
            ("zeta", "made"),
            ("alpha", "made"),
        ]
        runs.record_step(store, run_id, "zeta", _entry("cccc"))
    assert runs.list_runs(store)[0]["state"] == "crashed"
    runs.end_run(store, run_id, "done", {"seconds": 3})
    (run,) = runs.list_runs(store)
    assert (run["state"], run["end_info"], run["recipe"]) == ("done", {"seconds": 3}, {"seed": 1})
    assert [step["version"] for step in run["steps"] if step["step"] == "zeta"] == ["cccc"]


@pytest.mark.parametrize("kind", ["try", "refused"])
def test_neither_a_try_nor_what_could_not_begin_is_the_newest_run(store: Store, kind: str) -> None:
    def start() -> str:
        if kind == "try":
            return runs.start_run(store, "quickstart", {}, {"tried": "rewrite"})
        return runs.refuse_run(store, "quickstart", {"arguments": {}}, "no such file")

    first = start()
    assert runs.resolve_run(store, None)["run_id"] == first
    second = runs.start_run(store, "quickstart", {}, {"tried": None})
    third = start()
    for ref in (None, "quickstart"):
        assert runs.resolve_run(store, ref)["run_id"] == second
    listed = {run["run_id"]: run for run in runs.list_runs(store)}
    assert listed.keys() == {first, second, third}
    assert runs.resolve_run(store, third)["run_id"] == third
    if kind == "refused":
        assert listed[third]["state"] == "failed"
        assert listed[third]["end_info"] == {"error": "no such file"}


def test_a_run_of_a_clock_set_ahead_is_the_oldest(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    start = {"recipe_name": "quickstart", "recipe": {}, "info": {}}
    ahead = f"{datetime.now(UTC) + timedelta(days=400):%Y%m%dT%H%M%S}000000-abcd"
    record = {"run_id": ahead, "started": "2038-01-01T00:00:00+00:00", **start}
    store.create_json(f"runs/{ahead}/start.json", record)
    assert runs.resolve_run(store, None)["run_id"] == ahead
    now = runs.start_run(store, "quickstart", {}, {})
    for ref in (None, "quickstart"):
        assert runs.resolve_run(store, ref)["run_id"] == now
    assert [run["run_id"] for run in runs.list_runs(store)] == [now, ahead]
    assert ahead in caplog.text


def test_which_run_is_meant(store: Store) -> None:
    for ref in (None, "quickstart", "20260101T000000000000-aaaa"):
        with pytest.raises(UnknownRef):
            runs.resolve_run(store, ref)
        # A folder that no run was ever written to is no run.
        store.local("runs/20260101T000000000000-aaaa").mkdir(parents=True, exist_ok=True)
    first = runs.start_run(store, "quickstart", {}, {})
    second = runs.start_run(store, "quickstart", {}, {})
    third = runs.start_run(store, "simcse", {}, {})
    assert [run["run_id"] for run in runs.list_runs(store)] == [third, second, first]
    runs.set_tag(store, "good", first)
    for ref, wanted in [
        (None, third),
        (first, first),
        ("good", first),
        ("quickstart", second),
        (second[:-1], second),
    ]:
        assert runs.resolve_run(store, ref)["run_id"] == wanted
    _made(store, "extract", "abcd")
    runs.set_tag(store, "version", "extract@abcd")
    shutil.rmtree(store.local(f"runs/{first}"))
    for kind, ref, name in [
        ("bad_value", "20", "2"),
        ("unknown_name", "nothing", "nothing"),
        ("bad_value", "version", "extract@abcd"),
        ("bad_value", "tag:version", "extract@abcd"),
        ("gone", "good", first),
    ]:
        with fails(kind, name):
            runs.resolve_run(store, ref)


def test_which_artifact_is_meant(store: Store) -> None:
    old, new = _made(store, "extract", "abcd"), _made(store, "extract", "abff")
    _made(store, "extract.deep", "0123")
    run_id = runs.start_run(store, "quickstart", {}, {})
    runs.record_step(store, run_id, "extract", _entry("abcd", "reused"))
    for ref, wanted in [
        ("extract@abf", new),
        ("left@abf", new),
        ("extract@abcd", old),
        # The newest run reached the older version again.
        ("left", old),
        ("extract", old),
    ]:
        assert runs.resolve_ref(store, ref) == wanted
    assert runs.resolve_ref(store, "extract.deep").version == "0123"
    runs.set_tag(store, "best", "extract@abf")
    assert runs.list_tags(store) == {"best": "extract@abff"}
    assert runs.resolve_ref(store, "best") == new
    assert runs.resolve_ref(store, "tag:best") == new
    # A step is no tag.
    with pytest.raises(UnknownRef):
        runs.resolve_ref(store, "tag:extract")
    shutil.rmtree(store.local(new.path))
    with pytest.raises(UnknownRef):
        runs.resolve_ref(store, "best")
    _made(store, "extract", "abff")
    runs.set_tag(store, "best", run_id)
    with pytest.raises(UnknownRef):
        runs.resolve_ref(store, "best")
    with pytest.raises(UnknownRef):
        runs.resolve_ref(store, "extract@ab")
    for bad in ("nothing", "extract@ffff", "../extract", "", "a/b"):
        with pytest.raises(UnknownRef):
            runs.resolve_ref(store, bad)


def test_tags_that_cannot_be(store: Store) -> None:
    for name in ("", "../x", "a b", "-x"):
        with pytest.raises(StoreError):
            runs.set_tag(store, name, "x")
    for target in ("y", "../../../y", ".", ""):
        with pytest.raises(UnknownRef):
            runs.set_tag(store, "x", target)
    assert runs.get_tag(store, "x") is None


def test_a_run_uses_what_it_noted_until_it_is_done_and_then_what_it_reached(store: Store) -> None:
    run_id = runs.start_run(store, "birds", {}, {"tags": {"good": "train@tttt"}})
    runs.use(store, run_id, ["ingest@aaaa", "train@bbbb"])
    runs.use(store, run_id, ["embed@cccc"])
    runs.record_step(store, run_id, "ingest", {"version": "aaaa", "state": "made"})

    def used() -> set[str]:
        return runs.used(store, runs.resolve_run(store, run_id))

    noted = {"ingest@aaaa", "train@bbbb", "embed@cccc", "train@tttt"}
    assert used() == noted
    runs.end_run(store, run_id, "failed", {})
    assert used() == noted
    runs.end_run(store, run_id, "done", {})
    assert used() == {"ingest@aaaa", "train@tttt"}


def test_a_run_is_removed_unless_it_goes_on_or_has_a_tag(store: Store) -> None:
    first, second = (runs.start_run(store, "birds", {}, {}) for _ in range(2))
    runs.use(store, first, ["ingest@aaaa"])
    runs.record_step(store, first, "ingest", {"version": "aaaa", "state": "made"})
    runs.set_tag(store, "good", first)
    with pytest.raises(StoreError):
        runs.remove_run(store, first)
    store.replace("tags/copy.json", store.get("tags/good.json") or b"")
    runs.set_tag(store, "good", second)
    with (
        locks.hold(store, f"run-{first}"),
        pytest.raises(StoreError),
    ):
        runs.remove_run(store, first)
    runs.remove_run(store, first)
    assert [run["run_id"] for run in runs.list_runs(store)] == [second]
    assert store.sizes(f"runs/{first}") == {}


def test_a_round_belongs_to_one_step_and_one_key(store: Store) -> None:
    assert records.current_round(store, "synthesise.rewrite", "k") == 0
    for number in range(1, 12):
        records.next_round(store, "synthesise.rewrite", "k")
        assert records.current_round(store, "synthesise.rewrite", "k") == number
    assert records.current_round(store, "synthesise.rewrite", "other") == 0
    assert records.current_round(store, "synthesise.antisense", "k") == 0
