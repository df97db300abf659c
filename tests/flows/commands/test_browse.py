import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from commands_store import SENTENCES, lines_of, make_artifact, make_run, small_store
from failures import fails

from tercet.flows.commands.browse import list_store, show_ref, tag_ref, untag
from tercet.flows.results.verdict import Verdict
from tercet.storage.runs import end_run, get_tag, start_run
from tercet.storage.store import Store, open_store

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def made(tmp_path: Path) -> tuple[Store, str]:
    return small_store(tmp_path / "store")


def test_runs_are_listed_newest_first_with_their_verdict(
    made: tuple[Store, str], capsys: Capture
) -> None:
    store, first = made
    second = make_run(store, "fish", {"ingest": ("aaaa1111", "reused", {"sentences": 3})})
    verdict = Verdict("worse", "mine, nDCG@10", -4.1, -8.2, -0.2, 55, "queries")
    end_run(store, second, "done", {"verdict": verdict.__dict__})
    list_store(store.location, None)
    lines = lines_of(capsys.readouterr().out)
    assert [line.split()[0] for line in lines[2:4]] == [second, first]
    assert "-4.10 (-8.20 to -0.20)" in lines[2]
    assert "1 made, 1 reused" in lines[3]


def test_runs_of_one_recipe_are_told_apart_by_what_was_changed(
    made: tuple[Store, str], capsys: Capture
) -> None:
    store, _ = made
    arguments = {"overrides": ["train.max_steps=5", "seed=7"], "until": None, "limit": 200}
    start_run(store, "birds", {}, {"arguments": arguments})
    start_run(store, "birds", {}, {"arguments": arguments, "tried": "negation"})
    start_run(store, "birds", {}, {"arguments": arguments, "arm": "cold"})
    start_run(store, "birds", {}, {"arguments": {"seed": 0, "corpus": "a.csv", "overrides": None}})
    list_store(store.location, None)
    other, cold, arm, run, tried = lines_of(capsys.readouterr().out)[2:]
    assert "--corpus a.csv, --seed 0" in other
    assert "arm cold, train.max_steps=5, seed=7, --limit 200" in cold
    assert "train.max_steps=5, seed=7, --limit 200" in arm
    assert "arm cold" not in arm + run
    assert "try negation" in tried


def test_a_run_shows_its_artifacts(made: tuple[Store, str], capsys: Capture) -> None:
    store, run_id = made
    tag_ref("train@bbbb", "best", store.location)
    capsys.readouterr()
    list_store(store.location, "birds")
    lines = lines_of(capsys.readouterr().out)
    assert run_id in lines[0]
    assert lines[3].split()[:3] == ["ingest", "aaaa1111", "reused"]
    assert lines[4].split()[-1] == "best"
    assert "last" in lines[-1]


def test_a_store_without_runs_says_what_to_do(tmp_path: Path, capsys: Capture) -> None:
    open_store(str(tmp_path))
    list_store(str(tmp_path), None)
    assert "tercet run" in capsys.readouterr().out
    with fails("missing_file"):
        list_store(str(tmp_path / "none"), None)


def test_show_tells_what_it_was_made_from_and_three_rows(
    made: tuple[Store, str], capsys: Capture
) -> None:
    store, _ = made
    vectors = pa.table({"vector": pa.array([[0.5] * 384] * 9, pa.list_(pa.float32()))})
    make_artifact(
        store,
        "embed",
        "ffff6666",
        {"embeddings": vectors, "rejects": SENTENCES.slice(0, 0)},
        {"modules": {"tercet.tasks.scoring.embed": "0123"}, "run": "r1"},
    )
    show_ref("embeddings", store.location, None)
    out = capsys.readouterr().out
    lines = lines_of(out)
    assert lines[0] == "embed@ffff6666"
    assert {"size: 3", "code: c0de"} <= set(lines)
    assert out.count("384 in all]") == 3
    assert "rejects: 0 rows" in out


def test_show_goes_by_run_and_knows_what_is_unfinished(
    made: tuple[Store, str], capsys: Capture
) -> None:
    store, _ = made
    make_artifact(store, "ingest", "cccc3333", {"sentences": SENTENCES.slice(0, 1)})
    make_run(store, "fish", {"ingest": ("cccc3333", "made", {"sentences": 1})})
    make_artifact(store, "select", "dddd4444", {"triplets": SENTENCES}, finished=False)
    for ref, run_ref, wanted in (
        ("sentences", None, "ingest@cccc3333"),
        ("sentences", "birds", "ingest@aaaa1111"),
        ("ingest@aaaa", None, "ingest@aaaa1111"),
    ):
        show_ref(ref, store.location, run_ref)
        assert lines_of(capsys.readouterr().out)[0] == wanted
    show_ref("select", store.location, None)
    assert "1 of 2 parts" in capsys.readouterr().out
    with fails("not_reached", "'train'"):
        show_ref("train", store.location, "fish")


def test_tags_name_runs_and_versions_and_move(made: tuple[Store, str], capsys: Capture) -> None:
    store, run_id = made
    for ref, tag, target in (
        (run_id[:12], "good", run_id),
        ("train@bb", "best", "train@bbbb2222"),
        ("ingest", "best", "ingest@aaaa1111"),
        ("best", "same", "ingest@aaaa1111"),
        # As recipes write them.
        ("tag:best", "third", "ingest@aaaa1111"),
        ("tag:good", "fourth", run_id),
    ):
        tag_ref(ref, tag, store.location)
        assert get_tag(store, tag) == target
    assert "train@bbbb2222" in capsys.readouterr().out
    for run_ref in (None, "tag:good"):
        show_ref("tag:best", store.location, run_ref)
        assert lines_of(capsys.readouterr().out)[0] == "ingest@aaaa1111"
        with fails("unknown_name", "'none'"):
            show_ref("tag:none", store.location, run_ref)
    untag(["third", "tag:fourth"], store.location)
    assert get_tag(store, "third") is get_tag(store, "fourth") is None
    with fails("unknown_name", "'third'"):
        untag(["third"], store.location)
    with fails("conflict"):
        tag_ref(run_id, "sentences", store.location)
    with fails("unknown_name", "'no_such'"):
        tag_ref("no_such", "x", store.location)
    with fails("bad_value"):
        tag_ref(run_id, "a b", store.location)


def test_what_was_removed_is_not_called_unknown(made: tuple[Store, str]) -> None:
    store, run_id = made
    tag_ref("train@bb", "best", store.location)
    shutil.rmtree(store.local("artifacts/train/bbbb2222"))
    with fails("gone", "train@bbbb2222", run_id):
        show_ref("train", store.location, run_id)
    for ref in ("best", "tag:best"):
        with fails("gone", "'best'", "train@bbbb2222"):
            tag_ref(ref, "other", store.location)
    make_run(store, "fish", {})
    with fails("bad_value", "2", "'20'"):
        tag_ref("20", "other", store.location)
