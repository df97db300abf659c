"""Reading of SentEval's transfer tasks, each fault by file and line, and the way to a figure."""

import numpy as np
import pytest
from failures import fails
from small_suites import write_transfer

from tercet.tasks.evaluation.suites import transfer
from tercet.tasks.evaluation.suites.layout import text_form
from tercet.tasks.stage import BadInput


@pytest.fixture
def suite(tmp_path):
    return write_transfer(tmp_path / "downstream")


def test_reads_the_seven(suite):
    tasks = {name: transfer.read_task(suite, name) for name in transfer.TRANSFER_TASKS}
    assert list(tasks) == ["MR", "CR", "SUBJ", "MPQA", "SST-2", "TREC", "MRPC"]
    for name in ("MR", "CR", "SUBJ", "MPQA"):
        task = tasks[name]
        assert task.train.labels.tolist() == [1] * 13 + [0] * 13
        assert task.train.first[0] == f"a good one {name} 0 ."
        assert task.train.first[-1] == f"a poor one {name} 12 ."
        assert task.judged is task.train
        assert task.dev is None
    sst = tasks["SST-2"]
    assert [len(part.labels) for part in sst.parts()] == [20, 20, 20]
    assert sst.judged.first[1] == "good film test 1 ."
    assert sst.judged.labels[:2].tolist() == [0, 1]
    trec = tasks["TREC"]
    assert trec.classes == ("DESC", "ENTY", "ABBR", "HUM", "LOC", "NUM")
    assert trec.judged.labels.tolist() == [2, 0, 1, 3, 4, 5]
    assert trec.judged.first[3] == "Which HUM 0 ?"
    mrpc = tasks["MRPC"]
    assert (mrpc.judged.first[1], mrpc.judged.second[1]) == ("He said 1 .", "He said 1 .")
    assert mrpc.train.labels[:4].tolist() == [0, 1, 0, 1]
    assert len(mrpc.texts()) == 2 * 2 * 26


def test_the_order_of_the_folds_is_by_words_then_label():
    part = transfer.Examples(("c c c", "a", "b", "d d"), np.array([0, 1, 0, 1]))
    assert part.order().tolist() == [2, 1, 3, 0]
    pairs = transfer.Examples(
        ("a b", "a", "a", "a"), np.array([0, 1, 1, 0]), ("a", "b b", "b", "b b")
    )
    assert pairs.order().tolist() == [2, 3, 1, 0]


def test_white_space_becomes_blanks_and_a_line_without_words_a_stop(suite):
    path = suite / "CR" / "custrev.pos"
    path.write_text("\n a \t good\u00a0thing \n" + path.read_text())
    task = transfer.read_task(suite, "CR")
    assert task.train.first[:2] == (".", "a good thing")
    assert task.train.order()[0] == 0


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"caf\xe9 good", "caf\u00e9 good"),
        ("caf\u00e9 good".encode(), "caf\u00e9 good"),
        (b"\xef\xbb\xbfcaf good", "caf good"),
    ],
)
def test_latin_1_utf_8_and_a_mark_are_read_as_they_are(suite, data, text):
    path = suite / "MR" / "rt-polarity.pos"
    path.write_bytes(data + b"\n" + path.read_bytes())
    assert transfer.read_task(suite, "MR").train.first[0] == text


def replace(path, old, new):
    content = path.read_bytes()
    assert old.encode() in content
    path.write_bytes(content.replace(old.encode(), new.encode(), 1))


@pytest.mark.parametrize(
    ("task", "file", "old", "new", "line"),
    [
        ("SST-2", "SST/binary/sentiment-train", "3 . \t1", "3 . 1", 4),
        ("SST-2", "SST/binary/sentiment-dev", "\t1", "\t2", 2),
        ("SST-2", "SST/binary/sentiment-dev", "\t1", "\t", 2),
        ("SST-2", "SST/binary/sentiment-test", "poor film test 2 .", "", 3),
        ("TREC", "TREC/train_5500.label", "ABBR:exp ", "ABBR ", 1),
        ("TREC", "TREC/train_5500.label", "HUM:", "MAN:", 4),
        ("TREC", "TREC/TREC_10.label", " Which DES 0 ?", "", 2),
        ("MRPC", "MRPC/msr_paraphrase_test.txt", "Quality", "0", 1),
        ("MRPC", "MRPC/msr_paraphrase_test.txt", "1\t1\t2\t", "1\t1\t", 3),
        ("MRPC", "MRPC/msr_paraphrase_test.txt", "\n1\t1", "\n?\t1", 3),
        ("MRPC", "MRPC/msr_paraphrase_test.txt", "He said 1 .\tHe", "\tHe", 3),
    ],
)
def test_a_fault_is_named_by_file_and_line(suite, task, file, old, new, line):
    replace(suite / file, old, new)
    with pytest.raises(BadInput, match=f"{file.rpartition('/')[2]}, line {line}: "):
        transfer.read_task(suite, task)


@pytest.mark.parametrize(
    ("task", "file", "content", "names"),
    [
        ("MR", "MR/rt-polarity.neg", "\n" * 40, "rt-polarity.neg holds 0"),
        ("MPQA", "MPQA/mpqa.pos", "good\n" * 11, "mpqa.pos holds 11"),
        ("SST-2", "SST/binary/sentiment-test", "", "sentiment-test"),
        ("SST-2", "SST/binary/sentiment-train", "a film\t1\n" * 30, "class '0'"),
        ("TREC", "TREC/train_5500.label", "NUM:x How ?\n" * 30, "class 'DESC'"),
        ("MRPC", "MRPC/msr_paraphrase_train.txt", "Quality\n", "train.txt"),
    ],
)
def test_an_empty_file_and_an_absent_class_are_named(suite, task, file, content, names):
    (suite / file).write_text(content)
    with pytest.raises(BadInput, match=names):
        transfer.read_task(suite, task)


@pytest.mark.parametrize("file", ["SST/binary/sentiment-dev", "MRPC/msr_paraphrase_test.txt"])
def test_what_is_utf_8_alone_must_be(suite, file):
    path = suite / file
    lines = path.read_bytes().split(b"\n")
    lines[2] += b"\xff"
    path.write_bytes(b"\n".join(lines))
    with fails("unreadable", "line 3"):
        transfer.read_task(suite, "SST-2" if "SST" in file else "MRPC")


@pytest.mark.parametrize("task", transfer.TRANSFER_TASKS)
def test_a_missing_file_is_named(suite, task):
    path = list(transfer.KIND.files(suite, task, ["test"]).values())[-1]
    path.unlink()
    assert task in transfer.KIND.find(suite, ["test"])
    with pytest.raises(BadInput, match=path.name):
        transfer.read_task(suite, task)


def test_the_digest_follows_texts_and_labels_alone(suite, tmp_path):
    before = {name: transfer.read_task(suite, name).digest() for name in transfer.TRANSFER_TASKS}
    assert len(set(before.values())) == 7
    copy = write_transfer(tmp_path / "copy")
    replace(copy / "SST/binary/sentiment-test", "\t0", "\t1")
    replace(copy / "MRPC/msr_paraphrase_train.txt", "No word of 0", "No word at 0")
    after = {name: transfer.read_task(copy, name).digest() for name in transfer.TRANSFER_TASKS}
    assert {name for name in after if after[name] != before[name]} == {"SST-2", "MRPC"}


WORDS = ("good", "poor", "ABB", "DES", "ENT", "HUM", "LOC", "NUM", "He", "No")


def vectors(texts):
    """A number for each word that tells the classes of the small suite apart."""
    return np.array([[word in text.split() for word in WORDS] for text in texts], dtype=np.float32)


@pytest.mark.parametrize("task", ["MR", "SST-2", "TREC", "MRPC"])
def test_vectors_that_tell_the_classes_apart_give_100_percent(suite, task):
    read = transfer.read_task(suite, task)
    outcome = read.outcome(vectors)
    assert outcome.right.all()
    assert outcome.labels.tolist() == read.judged.labels.tolist()


def test_vectors_that_are_no_numbers_are_named_with_the_task(suite):
    with fails("unfit_model"):
        transfer.read_task(suite, "MR").outcome(lambda texts: np.full((len(texts), 2), np.nan))


def test_real_files_hold_the_known_numbers_of_examples(shared_data):
    root = shared_data / "downstream"
    read = {name: transfer.read_task(root, name) for name in transfer.TRANSFER_TASKS}
    sizes = {name: [len(part.labels) for part in task.parts()] for name, task in read.items()}
    assert sizes == {
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
    assert text_form(read["MR"].texts()) == "tokenised"
    assert text_form(read["SST-2"].texts()) == "tokenised lower"
