"""Small hand-written suites for the tests of their readers."""

import json
from pathlib import Path

TREC_LABELS = ("ABBR:exp", "DESC:manner", "ENTY:animal", "HUM:ind", "LOC:city", "NUM:dist")
TWO_FILES = {
    "MR": ("rt-polarity.pos", "rt-polarity.neg"),
    "CR": ("custrev.pos", "custrev.neg"),
    "SUBJ": ("subj.objective", "subj.subjective"),
    "MPQA": ("mpqa.pos", "mpqa.neg"),
}


# The files of each year that SentEval scores.
YEARS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "OnWN", "images", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
SICK_HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"


def write_sts(root: Path) -> Path:
    """The seven STS tasks with three pairs in each file."""
    for task, stems in YEARS.items():
        folder = root / "STS" / f"{task}-en-test"
        folder.mkdir(parents=True)
        for stem in stems:
            pairs = [f"a {stem} {task} {i} .\tb {stem} {i} .\n" for i in range(3)]
            (folder / f"STS.input.{stem}.txt").write_text("".join(pairs))
            (folder / f"STS.gs.{stem}.txt").write_text("1.5\n\n5\n")
    # Both lie in the real distribution and belong to no set.
    (root / "STS/STS13-en-test/STS.gs.SMT.txt").write_text("1\n2\n")
    (root / "STS/STS12-en-test/STS.gs.ALL.txt").write_text("1\n2\n")
    bench = root / "STS" / "STSBenchmark"
    bench.mkdir()
    for split in ("dev", "test"):
        rows = [f"g\tf\t2012\t{i}\t{i}.5\tOne {split} {i}.\tTwo {i}." for i in range(3)]
        rows[1] += "\tsource\tsource"
        (bench / f"sts-{split}.csv").write_text("\n".join(rows) + "\n")
    (root / "SICK").mkdir()
    for name in ("SICK_trial.txt", "SICK_test_annotated.txt"):
        rows = [f"{i}\tA man {i}\tA dog {name} {i}\t{i + 1}\tNEUTRAL\r\n" for i in range(3)]
        (root / "SICK" / name).write_bytes((SICK_HEADER + "".join(rows)).encode())
    return root


def write_transfer(root: Path, each: int = 13) -> Path:
    """The seven transfer tasks with so many examples a class; each text names its class."""
    for folder, (one, zero) in TWO_FILES.items():
        (root / folder).mkdir(parents=True)
        for name, word in ((one, "good"), (zero, "poor")):
            rows = [f"a {word} one {folder} {i} .\n" for i in range(each)]
            (root / folder / name).write_text("".join(rows))
    binary = root / "SST" / "binary"
    binary.mkdir(parents=True)
    for part in ("train", "dev", "test"):
        rows = [f"{'good' if i % 2 else 'poor'} film {part} {i} . \t{i % 2}\n" for i in range(20)]
        (binary / f"sentiment-{part}").write_text("".join(rows))
    (root / "TREC").mkdir()
    for name, times in (("train_5500.label", each), ("TREC_10.label", 1)):
        rows = [f"{label} Which {label[:3]} {i} ?\n" for i in range(times) for label in TREC_LABELS]
        (root / "TREC" / name).write_text("".join(rows))
    (root / "MRPC").mkdir()
    header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n"
    for name in ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt"):
        rows = [
            f"{i % 2}\t{i}\t{i + 1}\tHe said {i} .\t{('No word of', 'He said')[i % 2]} {i} .\r\n"
            for i in range(2 * each)
        ]
        (root / "MRPC" / name).write_bytes((header + "".join(rows)).encode())
    return root


def query(text: object = "how?", positive: object = ("so",), negative: object = ("no",)) -> str:
    """A line of a reranking file."""
    return json.dumps({"query": text, "positive": positive, "negative": negative}) + "\n"
