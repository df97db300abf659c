"""A run makes good what is damaged or lost in its store, or goes while it needs it."""

import subprocess
import threading
from pathlib import Path

import pytest
from marked_files import marked
from tiny_run import (
    DOCUMENTS,
    Finished,
    copy_of,
    digest_of,
    documents,
    ended_well,
    query,
    record_of,
    states,
    tercet,
    write_corpus,
)

from tercet.storage import garbage
from tercet.storage.artifacts import Artifact
from tercet.storage.garbage import collect
from tercet.storage.runs import list_runs, remove_run, resolve_run
from tercet.storage.store import open_store

REMEDY = "`tercet verify --mend`"


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 16
    path.write_bytes(data)


def said(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr


def artifact_of(store: Path, step: str) -> Artifact:
    opened = open_store(str(store), create=False)
    run = resolve_run(opened, None)
    (version,) = [entry["version"] for entry in run["steps"] if entry["step"] == step]
    return Artifact(opened, step, version)


def test_a_step_never_reads_other_rows_than_were_made(finished: Finished, tmp_path: Path) -> None:
    store = copy_of(finished.store, tmp_path / "store")
    words = finished.tiny.words(store, "--until", "triplets", "--set", "select.negative_max=0.9")
    undisturbed = copy_of(finished.store, tmp_path / "undisturbed")
    there = finished.tiny.words(undisturbed, *words[words.index("--until") :])
    ended_well(tercet(*there))
    before = record_of(store, "score.evaluator")
    path = before[1]["tables"]["scores"][0]["path"]
    for at in (300, 900, 1500):
        flip(store / path, at)
    done = ended_well(tercet(*words))
    assert path in said(done)
    assert digest_of(store, "triplets", "triplet_id") == digest_of(
        undisturbed, "triplets", "triplet_id"
    )
    after = record_of(store, "score.evaluator")
    digests = [one[1]["tables"]["scores"][0]["digest"] for one in (before, after)]
    assert digests[0] == digests[1]


def test_weights_that_changed_are_neither_exported_nor_reused(
    finished: Finished, tmp_path: Path
) -> None:
    store = copy_of(finished.store, tmp_path / "store")
    (before,) = record_of(store, "train").values()
    (path,) = [one["path"] for one in before["files"] if one["path"].endswith(".safetensors")]
    flip(store / path, -100)
    done = tercet("export", "train", str(tmp_path / "encoder"), "--store", str(store))
    assert done.returncode == 2
    assert "train@" in done.stderr
    assert REMEDY in done.stderr
    assert not (tmp_path / "encoder").exists()
    ended_well(tercet(*finished.tiny.words(store)))
    assert states(store)["train"] == "made"
    (after,) = record_of(store, "train").values()
    assert [one["digest"] for one in after["files"]] == [one["digest"] for one in before["files"]]


@pytest.mark.parametrize(
    ("name", "content"), [("manifest.json", b""), ("start.json", b'{"step": "ing')]
)
def test_one_damaged_record_blocks_no_command(
    finished: Finished, tmp_path: Path, name: str, content: bytes
) -> None:
    store = copy_of(finished.store, tmp_path / "store")
    ended_well(tercet(*finished.tiny.words(store, "--until", "ingest")))
    newest, older = [run["run_id"] for run in list_runs(open_store(str(store)))]
    artifact = artifact_of(store, "ingest")
    damaged = f"{artifact.path}/{name}" if name == "manifest.json" else f"runs/{older}/{name}"
    (store / damaged).write_bytes(content)
    report = ["report", "-o", str(tmp_path / "report.html")]
    for words in (["ls"], ["sql", "SELECT count(*) FROM runs"], ["du"], report):
        done = tercet(*words, "--store", str(store))
        if name == "manifest.json" and words == report:
            assert (done.returncode, REMEDY in done.stderr) == (2, True)
        else:
            ended_well(done)
        if name == "start.json":
            assert damaged in done.stderr, words
            assert REMEDY in done.stderr
            assert older not in done.stdout
    done = ended_well(tercet(*finished.tiny.words(store, "--until", "ingest")))
    if name == "manifest.json":
        assert damaged in said(done)
        assert states(store)["ingest"] == "resumed"
    ended_well(tercet("verify", "--mend", "--store", str(store)))
    ended_well(tercet("verify", "--store", str(store)))
    done = ended_well(tercet("ls", "--store", str(store)))
    assert newest in done.stdout
    assert "damaged" not in done.stderr


def test_runs_beside_a_collection_find_or_make_all_that_they_use(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # `benchmarks/gc_beside_runs.py` is the long form.
    monkeypatch.setattr(garbage, "YOUNG_SECONDS", 0.0)
    store = open_store(str(copy_of(finished.store, tmp_path / "store")))
    words = finished.tiny.words(Path(store.location), "--until", "triplets")
    freed = []
    stop = threading.Event()

    def collecting() -> None:
        while not stop.wait(0.02):
            freed.append(sum(collect(store, 1, delete=True).objects.values()))

    beside = threading.Thread(target=collecting)
    # Without figures: vectors that were found differ in the last digit from those made anew.
    asked = "SELECT triplet_id, anchor, positive, negative FROM triplets ORDER BY ALL"
    expected = query(finished.store, asked)
    try:
        # A run of more documents, which finds most of its parts in the first one.
        write_corpus(finished.tiny.corpus, documents(DOCUMENTS + 20))
        ended_well(tercet(*words))
        remove_run(store, list_runs(store)[-1]["run_id"])
        write_corpus(finished.tiny.corpus, documents(DOCUMENTS))
        # Now the first one's artifacts go, while they are wanted again.
        beside.start()
        ended_well(tercet(*words))
    finally:
        stop.set()
        beside.join()
        write_corpus(finished.tiny.corpus, documents(DOCUMENTS))
    collect(store, 1, delete=True)
    assert sum(map(bool, freed)) >= 1
    assert query(Path(store.location), asked) == expected
    assert store.sizes("artifacts") == marked(store)
    assert collect(store, 1).objects == {}
