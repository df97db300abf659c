"""Names of tasks of all kinds, what a directory holds of them, and reading them together."""

import shutil
import sys
from types import SimpleNamespace

import pytest
from failures import fails
from small_suites import query, write_transfer
from sts_suite import write_suite

from tercet.tasks.evaluation.suites.sts import STS_TASKS
from tercet.tasks.evaluation.suites.suite import (
    read_suite,
    resolve,
    revisions,
    suite_files,
    task_names,
)
from tercet.tasks.evaluation.suites.transfer import TRANSFER_TASKS
from tercet.tasks.guarding import GuardConfig, read_sentences

PAIRS = "sentence1\tsentence2\tlabel\na\tb\t1\nc\td\t0\n"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A suite with tasks of all kinds."""
    root = write_suite(tmp_path_factory.mktemp("whole") / "downstream")
    write_transfer(root)
    (root / "reranking").mkdir()
    for name in ("Mind", "Other"):
        (root / "reranking" / f"{name}.jsonl").write_text(query())
    (root / "pairs").mkdir()
    (root / "pairs" / "quora.tsv").write_text(PAIRS)
    return root


@pytest.fixture
def suite(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "downstream")


def test_names_are_put_in_order_and_groups_that_depend_on_no_file_become_their_tasks():
    assert task_names([]) == STS_TASKS
    assert task_names(["sts", "STS12"]) == STS_TASKS
    assert task_names(["transfer"]) == TRANSFER_TASKS
    asked = [
        "pairs:b",
        "Mind",
        "MRPC",
        "all",
        "pairs:a",
        "mteb:X",
        "SICK-R",
        "MR",
        "reranking:Mind",
    ]
    assert task_names(asked) == (
        *("SICK-R", "MR", "MRPC", "Mind", "mteb:X", "pairs:a", "pairs:b", "all"),
    )
    assert task_names(task_names(asked)) == task_names(asked)


@pytest.mark.parametrize("name", ["STS17", "pairs:", "pairs:../x", "mteb:.x", "reranking:a/b", ""])
def test_another_name_is_refused(name):
    with fails("unknown_name"):
        task_names([name])


def test_all_is_what_the_directory_holds(suite):
    assert resolve(suite, ["all"], ("test",)) == (
        *STS_TASKS,
        *TRANSFER_TASKS,
        *("Mind", "pairs:quora", "reranking:Other"),
    )
    for folder in ("STS", "MR", "pairs"):
        shutil.rmtree(suite / folder)
    assert resolve(suite, ["all"], ("test",)) == (
        *("SICK-R", *TRANSFER_TASKS[1:], "Mind", "reranking:Other"),
    )
    assert resolve(suite, ["reranking", "SST-2"], ("test",)) == (
        *("SST-2", "Mind", "reranking:Other"),
    )
    with fails("missing_file", "pairs"):
        resolve(suite, ["pairs"], ("test",))


def test_a_part_of_a_task_is_a_fault_and_no_reason_to_leave_it_out(suite):
    (suite / "TREC" / "TREC_10.label").unlink()
    with fails("missing_file", "TREC_10.label"):
        suite_files(suite, ["all"])


def test_reads_all_kinds(suite):
    found = read_suite(suite.parent, ["all"])
    named = {(task.suite, task.name) for task in found}
    assert named == {
        *(("sts", name) for name in STS_TASKS),
        *(("transfer", name) for name in TRANSFER_TASKS),
        *(("reranking", "Mind"), ("reranking", "Other"), ("pairs", "quora")),
    }
    assert [task.suite for task in found] == sorted(
        (task.suite for task in found), key=["sts", "transfer", "reranking", "pairs"].index
    )
    assert len({task.digest() for task in found}) == len(found) - 1  # the rankings


def test_files_are_those_that_are_read(suite):
    found = suite_files(suite, ["STS-B", "TREC", "Mind", "pairs"])
    assert list(found) == [
        "STS/STSBenchmark/sts-test.csv",
        "TREC/train_5500.label",
        "TREC/TREC_10.label",
        "reranking/Mind.jsonl",
        "pairs/quora.tsv",
    ]
    assert all(path.is_file() for path in found.values())
    assert len(suite_files(suite, ["all"])) == 48 + 2 + 8 + 3 + 2 + 2 + 2 + 1
    dev = suite_files(suite, ["all"], ("dev",))
    assert list(dev) == ["STS/STSBenchmark/sts-dev.csv", "SICK/SICK_trial.txt"]


def test_dev_is_a_split_of_two_tasks_alone(suite):
    found = read_suite(suite, ["all"], ("dev",))
    assert [task.name for task in found] == ["STS-B", "SICK-R"]
    with fails("no_rows", "12"):
        read_suite(suite, ["STS12", "MR"], ("dev",))


def test_a_suite_may_hold_one_kind_alone(suite, tmp_path):
    (tmp_path / "mine").mkdir()
    shutil.move(suite / "pairs", tmp_path / "mine" / "pairs")
    assert [task.name for task in read_suite(tmp_path / "mine", ["all"])] == ["quora"]


@pytest.mark.parametrize("name", ["MRPC", "SciDocs", "pairs:none", "STS-B"])
def test_a_task_asked_for_by_name_must_be_there(whole, tmp_path, name):
    (tmp_path / "MR").mkdir()
    with fails("missing_file"):
        read_suite(tmp_path, [name])


def test_a_stand_in_for_mteb_needs_no_directory_and_is_known_by_its_revision(monkeypatch, tmp_path):
    metadata = SimpleNamespace(
        name="Tiny", type="Reranking", eval_splits=["test"], dataset={"path": "p", "revision": "r"}
    )
    rows = [{"query": "a", "positive": ["b"], "negative": ["c"]}]
    task = SimpleNamespace(metadata=metadata, dataset={"test": rows}, load_data=lambda: None)
    monkeypatch.setitem(sys.modules, "mteb", SimpleNamespace(get_task=lambda name: task))
    nowhere = tmp_path / "nowhere"
    assert suite_files(nowhere, ["mteb:Tiny"]) == {}
    assert revisions(["mteb:Tiny", "STS12"]) == {"mteb:Tiny": "p@r"}
    assert [task.name for task in read_suite(nowhere, ["mteb:Tiny"])] == ["mteb:Tiny"]
    guarded = read_sentences(GuardConfig(suite=nowhere, tasks=("mteb:Tiny",)))
    assert guarded.texts.to_pylist() == ["a", "b", "c"]
