"""Reading of the STS suites: what counts, what is left out, and each fault by file and line."""

from pathlib import Path

import numpy as np
import pytest
from failures import fails
from sts_suite import SICK_HEADER, write_suite

from tercet.tasks.evaluation.suites import layout, sts
from tercet.tasks.evaluation.suites import suite as suites
from tercet.tasks.stage import BadInput


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return write_suite(tmp_path / "downstream")


def replace(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new, 1))


def count(task: sts.ScoredTask) -> int:
    """Scored pairs of all its parts."""
    return sum(len(part.scores) for part in task.parts)


def test_reads_the_seven_and_leaves_out_unscored_pairs(suite):
    tasks = suites.read_suite(suite)
    assert [task.name for task in tasks] == list(sts.STS_TASKS)
    year = tasks[1]
    assert [part.name for part in year.parts] == ["FNWN", "headlines", "OnWN"]
    assert count(year) == 6
    part = year.parts[0]
    assert part.first == ("a FNWN STS13 0 .", "a FNWN STS13 2 .")
    assert part.scores.tolist() == [1.5, 5.0]
    stsb, sick = tasks[-2:]
    assert stsb.parts[0].second == ("Two 0.", "Two 1.", "Two 2.")
    assert stsb.parts[0].scores.tolist() == [0.5, 1.5, 2.5]
    assert sick.parts[0].scores.tolist() == [1, 2, 3]
    assert sick.parts[0].first == ("A man 0", "A man 1", "A man 2")


def test_dev_is_that_of_stsb_and_the_trial_set_of_sick(suite):
    found = suites.read_suite(suite, splits=("dev",))
    assert [(t.name, t.split, t.parts[0].name) for t in found] == [
        ("STS-B", "dev", "sts-dev"),
        ("SICK-R", "dev", "SICK_trial"),
    ]


def test_the_directory_may_be_downstream_or_hold_it(suite):
    assert layout.suite_root(suite) == suite
    assert layout.suite_root(suite.parent) == suite


@pytest.mark.parametrize("make", [True, False])
def test_another_directory_is_refused(tmp_path, make):
    directory = tmp_path / "elsewhere"
    if make:
        directory.mkdir()
    with fails("missing_file", "elsewhere"):
        layout.suite_root(directory)


def test_suite_files_are_those_of_the_tasks_alone(suite):
    assert list(suites.suite_files(suite, ("STS-B",), ("test",))) == [
        "STS/STSBenchmark/sts-test.csv"
    ]
    everything = suites.suite_files(suite, splits=("test", "dev"))
    assert len(everything) == 2 * 24 + 2 + 2
    assert not any("SMT.txt" in name or "ALL" in name for name in everything)


@pytest.mark.parametrize(
    ("file", "old", "new", "place"),
    [
        ("STS/STS13-en-test/STS.gs.OnWN.txt", "1.5\n", "", "line 3"),
        ("STS/STS13-en-test/STS.input.OnWN.txt", "a OnWN STS13 0 .\tb OnWN 0 .\n", "", "line 3"),
        ("STS/STS14-en-test/STS.gs.images.txt", "\n5\n", "\nnan\n", "line 3"),
        ("STS/STS14-en-test/STS.gs.images.txt", "\n5\n", "\n51\n", "line 3"),
        ("STS/STS12-en-test/STS.input.MSRvid.txt", "1 .\t", "1 . ", "line 2"),
        ("STS/STS12-en-test/STS.gs.MSRvid.txt", "1.5\n\n5", "\n\n", "MSRvid.txt"),
        ("STS/STSBenchmark/sts-test.csv", "Two 1.", " ", "line 2"),
        ("STS/STSBenchmark/sts-test.csv", "2.5\t", "", "line 3"),
        ("STS/STSBenchmark/sts-test.csv", "2.5\t", "inf\t", "line 3"),
        ("SICK/SICK_test_annotated.txt", "relatedness", "other", "line 1"),
        ("SICK/SICK_test_annotated.txt", "\tNEUTRAL", "", "line 2"),
        ("SICK/SICK_test_annotated.txt", "0\t1\t", "0\t0.5\t", "line 2"),
    ],
)
def test_a_fault_is_named_by_file_and_line(suite, file, old, new, place):
    replace(suite / file, old, new)
    with pytest.raises(BadInput, match=place) as raised:
        suites.read_suite(suite)
    assert file.rpartition("/")[2] in str(raised.value)


@pytest.mark.parametrize(
    "file",
    [
        "STS/STS16-en-test/STS.gs.plagiarism.txt",
        "SICK/SICK_test_annotated.txt",
    ],
)
def test_a_missing_file_is_named_and_other_tasks_still_read(suite, file):
    (suite / file).unlink()
    with pytest.raises(BadInput, match=file.rsplit("/", 1)[1]):
        suites.read_suite(suite)
    assert count(suites.read_suite(suite, ("STS12",))[0]) == 10


@pytest.mark.parametrize("content", ["", SICK_HEADER])
def test_an_empty_file_is_refused(suite, content):
    (suite / "SICK/SICK_test_annotated.txt").write_text(content)
    with pytest.raises(BadInput, match="SICK_test_annotated"):
        suites.read_suite(suite, ("SICK-R",))


def test_not_utf8_is_named_by_line(suite):
    path = suite / "STS/STSBenchmark/sts-test.csv"
    path.write_bytes(path.read_bytes().replace(b"Two 1.", b"Two \xff"))
    with fails("unreadable", "sts-test.csv", "line 2"):
        suites.read_suite(suite, ("STS-B",))


def test_an_odd_line_separator_inside_a_text_cuts_no_line(suite):
    replace(suite / "STS/STS12-en-test/STS.input.MSRpar.txt", "b MSRpar 0", "b\u2028\x0bMSRpar 0")
    part = suites.read_suite(suite, ("STS12",))[0].parts[0]
    assert part.second[0] == "b\u2028\x0bMSRpar 0 ."


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
    assert layout.text_form(texts) == form


def test_the_digest_follows_the_content_alone(suite, tmp_path):
    before = suites.read_suite(suite, ("STS-B",))[0].digest()
    copy = write_suite(tmp_path / "copy")
    assert suites.read_suite(copy, ("STS-B",))[0].digest() == before
    replace(copy / "STS/STSBenchmark/sts-test.csv", "1.5", "1.75")
    assert suites.read_suite(copy, ("STS-B",))[0].digest() != before


def test_real_files_hold_the_known_numbers_of_pairs(shared_data):
    found = suites.read_suite(shared_data / "downstream", splits=("test", "dev"))
    pairs = {(task.name, task.split): count(task) for task in found}
    assert pairs == {
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
    forms = {task.name: layout.text_form(task.texts()) for task in found}
    assert forms["STS12"] == "tokenised lower"
    assert forms["STS-B"] == "raw"
    assert all(np.isfinite(part.scores).all() for task in found for part in task.parts)
