"""A suite of STS sets in little."""

from pathlib import Path

from tercet.tasks.evaluation.suites import sts as suites

SICK_HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"


def write_suite(root: Path) -> Path:
    """A whole suite of small hand-written files, three pairs in each."""
    for task, stems in suites._YEARS.items():
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
