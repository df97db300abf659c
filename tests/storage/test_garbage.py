"""What no run and no tag uses goes, and nothing else."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import pyarrow as pa
import pytest
from commands_store import make_artifact, make_run
from failures import fails

from tercet.storage import garbage, leases, locks, runs
from tercet.storage.artifacts import Artifact, find_parts, open_artifact
from tercet.storage.garbage import collect, kept_runs
from tercet.storage.store import Store

TABLE = {"rows": pa.table({"x": [1, 2, 3]})}
DAYS = 86_400


def aged(store: Store, days: float = 2) -> None:
    """All files of the store look so old."""
    then = time.time() - days * DAYS
    for path in store.work.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


def made(store: Store, name: str, finished: bool = True) -> None:
    step, _, version = name.partition("@")
    make_artifact(store, step, version, TABLE, finished=finished)


def run_of(store: Store, *names: str, recipe: str = "birds", state: str | None = "done") -> str:
    steps = {step: (version, "made", {"rows": 3}) for step, version in map(parted, names)}
    return make_run(store, recipe, steps, state=state)


def referring(store: Store, version: str, other: Artifact, **manifest: object) -> Artifact:
    """A version of the same step whose one part is the other's first."""
    artifact = open_artifact(store, other.step, version)
    artifact.adopt_plan([{}])
    artifact.reference(0, other.records()[0], {})
    artifact.finish(manifest)
    return artifact


def parted(name: str) -> tuple[str, str]:
    step, _, version = name.partition("@")
    return step, version


def there(store: Store) -> set[str]:
    """The artifacts of which anything is there."""
    return {"@".join(path.split("/")[1:3]) for path in store.sizes("artifacts")}


def test_what_runs_and_tags_use_stays_and_the_rest_goes(store: Store) -> None:
    for name in ("ingest@aaaa", "ingest@bbbb", "train@cccc", "train@dddd"):
        made(store, name)
    made(store, "embed@eeee", finished=False)
    run_of(store, "ingest@aaaa", "train@cccc")
    removed = run_of(store, "ingest@bbbb", "train@dddd")
    runs.set_tag(store, "good", "train@dddd")
    runs.remove_run(store, removed)
    aged(store)
    before, found = store.sizes(""), collect(store)
    assert store.sizes("") == before
    assert {path.split("/")[1] for path in found.objects if path.startswith("art")} == {
        "ingest", "embed",
    }  # fmt: skip
    assert collect(store, delete=True) == found
    assert there(store) == {"ingest@aaaa", "train@cccc", "train@dddd"}
    gone = before.keys() - store.sizes("").keys()
    assert gone == found.objects.keys()
    assert sum(before[path] for path in gone) == sum(found.objects.values())
    # Nor is there anything left under their keys, or an empty folder.
    assert {path.stem for path in store.work.glob("keys/ingest/*")} == {"ingest-aaaa"}
    assert not (store.work / "artifacts" / "embed").exists()
    assert collect(store, delete=True).objects == {}


def test_what_is_young_or_being_made_stays(store: Store) -> None:
    made(store, "ingest@aaaa")
    aged(store)
    made(store, "ingest@bbbb")
    made(store, "train@cccc", finished=False)
    found = collect(store, delete=True)
    assert there(store) == {"ingest@bbbb", "train@cccc"}
    young = store.sizes("artifacts/ingest") | store.sizes("artifacts/train")
    assert found.waiting >= sum(young.values())
    aged(store, 0.9)
    assert collect(store).objects == {}
    aged(store)
    with locks.hold(store, "artifact-train-cccc"):
        assert collect(store, delete=True).waiting > 0
    assert there(store) == {"train@cccc"}


def test_a_run_that_is_not_done_keeps_what_it_may_go_on_with(store: Store) -> None:
    made(store, "ingest@aaaa")
    made(store, "train@bbbb", finished=False)
    (open_artifact(store, "train", "bbbb").scratch() / "checkpoint").write_text("")
    (open_artifact(store, "ingest", "aaaa").scratch() / "left").write_text("")
    (open_artifact(store, "embed", "cccc").scratch() / "planning").write_text("")
    failed = run_of(store, "ingest@aaaa", state="failed")
    runs.use(store, failed, ["ingest@aaaa", "train@bbbb", "embed@cccc"])
    aged(store)
    assert set(collect(store, delete=True).near) == {"scratch/ingest/aaaa"}
    assert there(store) == {"ingest@aaaa", "train@bbbb"}
    runs.remove_run(store, failed)
    collect(store, delete=True)
    assert there(store) == set()
    assert list(store.work.glob("scratch/*/*")) == []


def test_files_of_a_part_stay_as_long_as_one_artifact_names_them(store: Store) -> None:
    first = make_artifact(store, "extract", "aaaa", TABLE)
    (record,) = first.records().values()
    second = referring(store, "bbbb", first)
    run_of(store, "extract@bbbb")
    aged(store)
    rows = second.rows().table("rows")
    collect(store, delete=True)
    assert first.manifest() is None
    assert first.records() == {}
    assert second.intact()
    assert second.rows().table("rows") == rows
    # A later run still finds the part by its key, and makes the version anew without making rows.
    assert find_parts(store, "extract", [record["key"]]) == {record["key"]: second.records()[0]}
    again = referring(store, "aaaa", second)
    run_of(store, "extract@aaaa")
    assert collect(store, delete=True).objects == {}
    assert again.intact()


def test_files_that_a_young_artifact_names_stay_until_it_goes(store: Store) -> None:
    first = make_artifact(store, "extract", "aaaa", TABLE)
    aged(store)
    second = referring(store, "bbbb", first)
    assert collect(store, delete=True).waiting > 0
    assert first.manifest() is None
    assert second.intact()
    aged(store)
    collect(store, delete=True)
    assert there(store) == set()


def test_a_version_that_another_stands_in_for_stays_with_that_one(store: Store) -> None:
    kept = make_artifact(store, "graph", "aaaa", TABLE)
    made(store, "graph@cccc")
    referring(store, "bbbb", kept, components={"config": {"keep": "aaaa"}})
    # What was read alone goes, and with it the documents that were deleted since.
    read = {"config": {"min_words": 4, "keep": "1111"}}
    made(store, "ingest@1111")
    make_artifact(store, "ingest", "2222", TABLE, {"components": read, "inputs": ["1111"]})
    run_of(store, "graph@bbbb", "ingest@2222")
    aged(store)
    collect(store, delete=True)
    assert there(store) == {"graph@aaaa", "graph@bbbb", "ingest@2222"}
    assert kept.manifest() is not None


def test_what_a_young_unfinished_version_builds_on_stays(store: Store) -> None:
    for name in ("embed@aaaa", "embed@bbbb"):
        made(store, name)
    aged(store)
    open_artifact(store, "embed", "cccc").adopt_plan([{"known": ["aaaa"]}])
    collect(store, delete=True)
    assert there(store) == {"embed@aaaa", "embed@cccc"}
    assert open_artifact(store, "embed", "aaaa").intact()


@pytest.mark.parametrize("after", range(1, 6))
def test_what_is_half_deleted_is_no_artifact(
    store: Store, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    made(store, "ingest@aaaa")
    aged(store)
    delete, left = Store.delete, [after]

    def killed(store: Store, path: str) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        delete(store, path)

    monkeypatch.setattr(Store, "delete", killed)
    with pytest.raises(KeyboardInterrupt):
        collect(store, delete=True)
    monkeypatch.undo()
    artifact = open_artifact(store, "ingest", "aaaa")
    # Whoever wants it now makes what is missing; nobody believes that it is there.
    if artifact.manifest() is not None:
        assert after == 1
        assert artifact.intact()
    assert find_parts(store, "ingest", ["ingest-aaaa"]) == {}
    make_artifact(store, "ingest", "aaaa", TABLE)
    assert artifact.intact()


def test_leftovers_of_kills_go(store: Store) -> None:
    made(store, "ingest@aaaa")
    kept = run_of(store, "ingest@aaaa")
    before = store.sizes("")
    left = [
        "artifacts/ingest/aaaa/data/rows/00000-dead-000.parquet",
        "artifacts/ingest/aaaa/files/00000-dead/model.safetensors",
        "artifacts/ingest/aaaa/files/00000-dead/model.safetensors#1",
        "artifacts/ingest/aaaa/_parts/00000.json#1",
        "keys/ingest/key.json#1",
        "store.json#2",
        "runs/20200101T000000000000-abcd/end.json",
    ]
    near = ["scratch/engine-20200101T000000000000-abcd", "scratch/train/bbbb"]
    stays = [
        f"scratch/engine-{kept}/vllm.log",
        f"scratch/sql-{os.getpid()}-0a1b2c3d/spill",
        "cache/bm25/aaaa-1234/x.npy",
        f"cache/objects/runs/{kept}/start.json#0a1b2c3d",
        "cache/objects/artifacts/ingest/aaaa/manifest.json#0a1b2c3d",
        "cache/objects/tags/best.json#0a1b2c3d",
        "responses/" + "0" * 32 + ".parquet",
        "artifacts/ingest/aaaa/data/rows/.DS_Store",
        "artifacts/ingest (copy)/aaaa/plan.json",
    ]
    near += ["cache/bm25/bbbb-1234", "cache/objects/artifacts/ingest/bbbb"]
    near.append("cache/objects/runs/20200101T000000000000-abcd")
    for name in (*left, *(f"{folder}/x" for folder in near), *stays):
        (store.work / name).parent.mkdir(parents=True, exist_ok=True)
        (store.work / name).write_text("left")
    assert collect(store, delete=True).objects == {}
    aged(store)
    found = collect(store, delete=True)
    assert set(found.objects) == set(left)
    assert set(found.near) == set(near)
    assert store.sizes("").keys() == before.keys() | set(stays)


def test_the_last_runs_of_each_recipe_that_were_done_are_kept_and_later_ones(store: Store) -> None:
    first, oldest, failed, done, crashed = (
        run_of(store, state=state) for state in (None, "done", "failed", "done", None)
    )
    other = run_of(store, recipe="fish")
    options = {"arguments": {"overrides": ["seed=2"]}}
    arm = runs.start_run(store, "birds", {}, options)
    runs.end_run(store, arm, "done", {})
    tried = runs.start_run(store, "birds", {}, {"tried": "negation"})
    found = runs.list_runs(store)

    def kept(keep: int | None, *tagged: str) -> set[str]:
        return {run["run_id"] for run in kept_runs(found, tagged, keep)}

    assert kept(None) == {first, oldest, failed, done, crashed, other, arm, tried}
    assert kept(1) == {done, crashed, other, arm}
    assert kept(2) == {oldest, failed, done, crashed, other, arm}
    assert kept(1, oldest) == {oldest, done, crashed, other, arm}
    with locks.hold(store, f"run-{first}"):
        found = runs.list_runs(store)
        assert kept(1) == {first, done, crashed, other, arm}


def test_runs_that_lose_something_are_named(store: Store) -> None:
    for name in ("ingest@aaaa", "train@bbbb", "train@cccc"):
        made(store, name)
    old = run_of(store, "ingest@aaaa", "train@bbbb")
    run_of(store, "ingest@aaaa", "train@cccc")
    aged(store)
    assert collect(store).lost == ()
    found = collect(store, 1, delete=True)
    assert [run["run_id"] for run in found.lost] == [old]
    assert there(store) == {"ingest@aaaa", "train@cccc"}
    assert collect(store, 1).lost == ()


def test_nothing_is_deleted_while_a_run_notes_what_it_uses(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(store, "ingest@aaaa")
    aged(store)
    with locks.hold(store, runs.COLLECTION):
        beside = threading.Thread(target=collect, args=(store, None, True))
        beside.start()
        beside.join(0.3)
        assert beside.is_alive()
        run_id = runs.start_run(store, "birds", {}, {})
        runs.use(store, run_id, ["ingest@aaaa"])
    beside.join(60)
    assert open_artifact(store, "ingest", "aaaa").intact()


@pytest.mark.parametrize(
    "change",
    [
        lambda store, run, waiting: collect(store, None, True, waiting),
        lambda store, run, waiting: runs.set_tag(store, "good", run, waiting),
        lambda store, run, waiting: runs.remove_run(store, run, waiting),
    ],
    ids=["gc", "tag", "rm"],
)
def test_who_waits_for_a_collection_is_told(store: Store, change: Callable[..., None]) -> None:
    run_id = run_of(store)
    holders: list[str] = []
    with ExitStack() as collection:
        collection.enter_context(locks.hold(store, runs.COLLECTION, who="tercet gc"))

        def waiting(holder: str) -> None:
            holders.append(holder)
            collection.close()

        change(store, run_id, waiting)
    assert holders == [f"process {os.getpid()}, tercet gc"]


@pytest.mark.parametrize("store", ["moto"], indirect=True)
def test_a_store_elsewhere_is_collected_as_well(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of objects, a server says the second alone.
    monkeypatch.setattr(garbage, "YOUNG_SECONDS", -2.0)
    made(store, "ingest@aaaa")
    made(store, "ingest@bbbb")
    run_of(store, "ingest@aaaa")
    (open_artifact(store, "ingest", "bbbb").scratch() / "left").write_text("")
    with monkeypatch.context() as asleep:
        # A machine that slept: runs on another one may use by now what it has found.
        asleep.setattr(leases, "_SURE", 0.0)
        with fails("busy"):
            collect(store, delete=True)
    assert open_artifact(store, "ingest", "bbbb").intact()
    found = collect(store, delete=True)
    assert there(store) == {"ingest@aaaa"}
    # The copies are of records that the collections read.
    assert set(found.near) == {"scratch/ingest/bbbb", "cache/objects/artifacts/ingest/bbbb"}
    assert list(store.work.glob("scratch/*/*")) == []
    assert not list(store.work.glob("cache/objects/artifacts/*/bbbb"))
