"""A directory of STS, transfer, reranking and labelled pairs: what is read, and its faults."""

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from failures import fails
from small_suites import SICK_HEADER, query, write_sts, write_transfer

from tercet.tasks.evaluation.suites import layout, transfer
from tercet.tasks.evaluation.suites.layout import text_form
from tercet.tasks.evaluation.suites.sts import STS_TASKS, ScoredTask
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
    root = write_sts(tmp_path_factory.mktemp("whole") / "downstream")
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


def replace(path: Path, old: str, new: str) -> None:
    content = path.read_bytes()
    assert old.encode() in content
    path.write_bytes(content.replace(old.encode(), new.encode(), 1))


def count(task: ScoredTask) -> int:
    """Scored pairs of all its parts."""
    return sum(len(part.scores) for part in task.parts)


def test_names_are_put_in_order_and_groups_that_depend_on_no_file_become_their_tasks():
    assert task_names([]) == task_names(["sts", "STS12"]) == STS_TASKS
    assert task_names(["transfer"]) == TRANSFER_TASKS
    asked = ["pairs:b", "Mind", "MRPC", "all", "pairs:a", "mteb:X", "SICK-R", "MR"]
    ordered = ("SICK-R", "MR", "MRPC", "Mind", "mteb:X", "pairs:a", "pairs:b", "all")
    assert task_names([*asked, "reranking:Mind"]) == task_names(ordered) == ordered


@pytest.mark.parametrize("name", ["STS17", "pairs:", "pairs:../x", "mteb:.x", "reranking:a/b", ""])
def test_another_name_is_refused(name):
    with fails("unknown_name"):
        task_names([name])


def test_all_is_what_the_directory_holds(suite):
    rest = ("Mind", "pairs:quora", "reranking:Other")
    assert resolve(suite, ["all"], ("test",)) == (*STS_TASKS, *TRANSFER_TASKS, *rest)
    for folder in ("STS", "MR", "pairs"):
        shutil.rmtree(suite / folder)
    left = ("SICK-R", *TRANSFER_TASKS[1:], "Mind", "reranking:Other")
    assert resolve(suite, ["all"], ("test",)) == left
    asked = ["reranking", "SST-2"]
    assert resolve(suite, asked, ("test",)) == ("SST-2", "Mind", "reranking:Other")
    with fails("missing_file", "pairs"):
        resolve(suite, ["pairs"], ("test",))


def test_a_part_of_a_task_is_a_fault_and_no_reason_to_leave_it_out(suite):
    (suite / "TREC" / "TREC_10.label").unlink()
    with fails("missing_file", "TREC_10.label"):
        suite_files(suite, ["all"])


@pytest.mark.parametrize("name", ["STS16", "SICK-R", *TRANSFER_TASKS])
def test_a_missing_file_is_named_and_other_tasks_still_read(suite, name):
    path = suite / list(suite_files(suite, [name]))[-1]
    path.unlink()
    with fails("missing_file", path.name):
        read_suite(suite, [name])
    assert count(read_suite(suite, ["STS12"])[0]) == 10


@pytest.mark.parametrize("name", ["MRPC", "SciDocs", "pairs:none", "STS-B"])
def test_a_task_asked_for_by_name_must_be_there(tmp_path, name):
    (tmp_path / "MR").mkdir()
    with fails("missing_file"):
        read_suite(tmp_path, [name])


@pytest.mark.parametrize("make", [True, False])
def test_the_directory_may_hold_downstream_and_another_is_refused(whole, tmp_path, make):
    assert layout.suite_root(whole) == layout.suite_root(whole.parent) == whole
    directory = tmp_path / "elsewhere"
    if make:
        directory.mkdir()
    with fails("missing_file", "elsewhere"):
        layout.suite_root(directory)


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
    everything = suite_files(suite, ["all"])
    assert len(everything) == 48 + 2 + 8 + 3 + 2 + 2 + 2 + 1
    assert not any("SMT.txt" in name or "ALL" in name for name in everything)
    dev = suite_files(suite, ["all"], ("dev",))
    assert list(dev) == ["STS/STSBenchmark/sts-dev.csv", "SICK/SICK_trial.txt"]


def test_dev_is_a_split_of_two_tasks_alone(whole):
    found = read_suite(whole, ["all"], ("dev",))
    named = [(t.name, t.split, t.parts[0].name) for t in found]
    assert named == [("STS-B", "dev", "sts-dev"), ("SICK-R", "dev", "SICK_trial")]
    with fails("no_rows", "12"):
        read_suite(whole, ["STS12", "MR"], ("dev",))


def test_reads_all_kinds_and_leaves_out_unscored_pairs(whole):
    found = read_suite(whole.parent, ["all"])
    assert [(task.suite, task.name) for task in found] == [
        *(("sts", name) for name in STS_TASKS),
        *(("transfer", name) for name in TRANSFER_TASKS),
        *(("reranking", "Mind"), ("reranking", "Other"), ("pairs", "quora")),
    ]
    assert len({task.digest() for task in found}) == len(found) - 1  # the rankings
    tasks = {task.name: task for task in found}
    assert [part.name for part in tasks["STS13"].parts] == ["FNWN", "headlines", "OnWN"]
    assert count(tasks["STS13"]) == 6
    part = tasks["STS13"].parts[0]
    assert (part.first, part.scores.tolist()) == (
        ("a FNWN STS13 0 .", "a FNWN STS13 2 ."),
        [1.5, 5.0],
    )
    (stsb,), (sick,) = tasks["STS-B"].parts, tasks["SICK-R"].parts
    assert (stsb.second, stsb.scores.tolist()) == (("Two 0.", "Two 1.", "Two 2."), [0.5, 1.5, 2.5])
    assert (sick.first, sick.scores.tolist()) == (("A man 0", "A man 1", "A man 2"), [1, 2, 3])
    for name in ("MR", "CR", "SUBJ", "MPQA"):
        task = tasks[name]
        assert task.train.labels.tolist() == [1] * 13 + [0] * 13
        ends = (task.train.first[0], task.train.first[-1])
        assert ends == (f"a good one {name} 0 .", f"a poor one {name} 12 .")
        assert (task.judged, task.dev) == (task.train, None)
    sst, trec, mrpc = tasks["SST-2"], tasks["TREC"], tasks["MRPC"]
    assert [len(part.labels) for part in sst.parts()] == [20, 20, 20]
    assert (sst.judged.first[1], sst.judged.labels[1]) == ("good film test 1 .", 1)
    assert trec.classes == ("DESC", "ENTY", "ABBR", "HUM", "LOC", "NUM")
    assert trec.judged.labels.tolist() == [2, 0, 1, 3, 4, 5]
    assert trec.judged.first[3] == "Which HUM 0 ?"
    assert (mrpc.judged.first[1], mrpc.judged.second[1]) == ("He said 1 .", "He said 1 .")
    assert mrpc.train.labels[:4].tolist() == [0, 1, 0, 1]
    assert len(mrpc.texts()) == 2 * 2 * 26


YEARS, SICK, SST = "STS/STS{}-en-test/STS.{}.txt", "SICK/SICK_test_annotated.txt", "SST/binary"
STSB, MRPC = "STS/STSBenchmark/sts-test.csv", "MRPC/msr_paraphrase_test.txt"


@pytest.mark.parametrize(
    ("task", "file", "old", "new", "kind", "place"),
    [
        ("STS13", YEARS.format(13, "gs.OnWN"), "1.5\n", "", "bad_row", "line 3"),
        ("STS13", YEARS.format(13, "input.OnWN"), "a OnWN STS13 0 .\tb OnWN 0 .\n", "", "bad_row",
         "line 3"),
        ("STS14", YEARS.format(14, "gs.images"), "\n5\n", "\nnan\n", "bad_row", "line 3"),
        ("STS14", YEARS.format(14, "gs.images"), "\n5\n", "\n51\n", "bad_row", "line 3"),
        ("STS12", YEARS.format(12, "input.MSRvid"), "1 .\t", "1 . ", "bad_row", "line 2"),
        ("STS12", YEARS.format(12, "gs.MSRvid"), "1.5\n\n5", "\n\n", "no_rows", ""),
        ("STS-B", STSB, "Two 1.", " ", "bad_row", "line 2"),
        ("STS-B", STSB, "2.5\t", "", "bad_row", "line 3"),
        ("STS-B", STSB, "2.5\t", "inf\t", "bad_row", "line 3"),
        ("SICK-R", SICK, "relatedness", "other", "missing_column", "line 1"),
        ("SICK-R", SICK, "\tNEUTRAL", "", "bad_row", "line 2"),
        ("SICK-R", SICK, "0\t1\t", "0\t0.5\t", "bad_row", "line 2"),
        ("SICK-R", SICK, None, "", "missing_column", "line 1"),
        ("SICK-R", SICK, None, SICK_HEADER, "no_rows", ""),
        ("SST-2", f"{SST}/sentiment-train", "3 . \t1", "3 . 1", "bad_row", "line 4"),
        ("SST-2", f"{SST}/sentiment-dev", "\t1", "\t2", "bad_row", "line 2"),
        ("SST-2", f"{SST}/sentiment-dev", "\t1", "\t", "bad_row", "line 2"),
        ("SST-2", f"{SST}/sentiment-test", "poor film test 2 .", "", "bad_row", "line 3"),
        ("TREC", "TREC/train_5500.label", "ABBR:exp ", "ABBR ", "bad_row", "line 1"),
        ("TREC", "TREC/train_5500.label", "HUM:", "MAN:", "bad_row", "line 4"),
        ("TREC", "TREC/TREC_10.label", " Which DES 0 ?", "", "bad_row", "line 2"),
        ("MRPC", MRPC, "Quality", "0", "missing_column", "line 1"),
        ("MRPC", MRPC, "1\t1\t2\t", "1\t1\t", "bad_row", "line 3"),
        ("MRPC", MRPC, "\n1\t1", "\n?\t1", "bad_row", "line 3"),
        ("MRPC", MRPC, "He said 1 .\tHe", "\tHe", "bad_row", "line 3"),
        ("MR", "MR/rt-polarity.neg", None, "\n" * 40, "no_rows", "0"),
        ("MPQA", "MPQA/mpqa.pos", None, "good\n" * 11, "no_rows", "11"),
        ("SST-2", f"{SST}/sentiment-test", None, "", "no_rows", ""),
        ("SST-2", f"{SST}/sentiment-train", None, "a film\t1\n" * 30, "no_rows", "'0'"),
        ("TREC", "TREC/train_5500.label", None, "NUM:x How ?\n" * 30, "no_rows", "'DESC'"),
        ("MRPC", MRPC, None, "Quality\n", "no_rows", ""),
    ],
)  # fmt: skip
def test_bad_files(suite, task, file, old, new, kind, place):
    if old is None:
        (suite / file).write_text(new)
    else:
        replace(suite / file, old, new)
    with fails(kind, file.rpartition("/")[2], place):
        read_suite(suite, [task])


@pytest.mark.parametrize(
    ("task", "file"), [("STS-B", STSB), ("SST-2", f"{SST}/sentiment-dev"), ("MRPC", MRPC)]
)
def test_what_is_utf_8_alone_must_be(suite, task, file):
    lines = (suite / file).read_bytes().split(b"\n")
    lines[2] += b"\xff"
    (suite / file).write_bytes(b"\n".join(lines))
    with fails("unreadable", file.rpartition("/")[2], "line 3"):
        read_suite(suite, [task])


def test_an_odd_line_separator_inside_a_text_cuts_no_line(suite):
    replace(suite / YEARS.format(12, "input.MSRpar"), "b MSRpar 0", "b\u2028\x0bMSRpar 0")
    assert read_suite(suite, ["STS12"])[0].parts[0].second[0] == "b\u2028\x0bMSRpar 0 ."


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"caf\xe9 good", "caf\u00e9 good"),
        ("caf\u00e9 good".encode(), "caf\u00e9 good"),
        (b"\xef\xbb\xbfcaf good", "caf good"),
        (" a \t good\u00a0thing ".encode(), "a good thing"),
        (b"", "."),
    ],
)
def test_latin_1_utf_8_a_mark_and_white_space_of_transfer_texts(suite, data, text):
    path = suite / "MR" / "rt-polarity.pos"
    path.write_bytes(data + b"\n" + path.read_bytes())
    assert read_suite(suite, ["MR"])[0].train.first[0] == text


def test_the_digest_follows_texts_and_labels_alone(suite, whole):
    before = {task.name: task.digest() for task in read_suite(whole, ["all"])}
    replace(suite / STSB, "1.5", "1.75")
    replace(suite / SST / "sentiment-test", "\t0", "\t1")
    replace(suite / "MRPC/msr_paraphrase_train.txt", "No word of 0", "No word at 0")
    after = {task.name: task.digest() for task in read_suite(suite, ["all"])}
    assert {name for name in after if after[name] != before[name]} == {"STS-B", "SST-2", "MRPC"}


def test_the_order_of_the_folds_is_by_words_then_label():
    part = transfer.Examples(("c c c", "a", "b", "d d"), np.array([0, 1, 0, 1]))
    assert part.order().tolist() == [2, 1, 3, 0]
    pairs = transfer.Examples(
        ("a b", "a", "a", "a"), np.array([0, 1, 1, 0]), ("a", "b b", "b", "b b")
    )
    assert pairs.order().tolist() == [2, 3, 1, 0]


WORDS = ("good", "poor", "ABB", "DES", "ENT", "HUM", "LOC", "NUM", "He", "No")


def vectors(texts: Any) -> np.ndarray:
    """A number for each word that tells the classes of the small suite apart."""
    return np.array([[word in text.split() for word in WORDS] for text in texts], dtype=np.float32)


@pytest.mark.parametrize("task", ["MR", "SST-2", "TREC", "MRPC"])
def test_vectors_that_tell_the_classes_apart_give_100_percent(whole, task):
    (read,) = read_suite(whole, [task])
    outcome = read.outcome(vectors)
    assert outcome.right.all()
    assert outcome.labels.tolist() == read.judged.labels.tolist()
    with fails("unfit_model"):
        read.outcome(lambda texts: np.full((len(texts), 2), np.nan))


@pytest.mark.parametrize(
    ("texts", "form"),
    [
        (["a man walks .", "is it so ?"], "tokenised lower"),
        (["A man walks .", "Is it so ?"], "tokenised"),
        (["a man walks.", "is it so?"], "lower"),
        (["A man walks.", "is it so?"], "raw"),
    ],
)
def test_text_form(texts, form):
    assert text_form(texts) == form


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


def test_real_files_hold_the_known_numbers_of_examples(shared_data):
    root = shared_data / "downstream"
    scored = read_suite(root, splits=("test", "dev"))
    assert {(task.name, task.split): count(task) for task in scored} == {
        ("STS12", "test"): 3108,
        ("STS13", "test"): 1500,
        ("STS14", "test"): 3750,
        ("STS15", "test"): 3000,
        ("STS16", "test"): 1186,
        ("STS-B", "test"): 1379,
        ("STS-B", "dev"): 1500,
        ("SICK-R", "test"): 4927,
        ("SICK-R", "dev"): 500,
    }
    assert all(np.isfinite(part.scores).all() for task in scored for part in task.parts)
    read = {task.name: task for task in read_suite(root, TRANSFER_TASKS)}
    assert {name: [len(part.labels) for part in task.parts()] for name, task in read.items()} == {
        "MR": [10662],
        "CR": [3775],
        "SUBJ": [10000],
        "MPQA": [10606],
        "SST-2": [67349, 872, 1821],
        "TREC": [5452, 500],
        "MRPC": [4076, 1725],
    }
    ones = {name: int(read[name].train.labels.sum()) for name in ("MR", "CR", "SUBJ", "MPQA")}
    assert ones == {"MR": 5331, "CR": 2407, "SUBJ": 5000, "MPQA": 3312}
    forms = {task.name: text_form(task.texts()) for task in [*scored, *read.values()]}
    assert (forms["STS12"], forms["STS-B"]) == ("tokenised lower", "raw")
    assert (forms["MR"], forms["SST-2"]) == ("tokenised", "tokenised lower")
