"""Two runs beside each other."""

from pathlib import Path
from typing import Any

import pytest
from report_sections import table
from report_store import measured as measured_rows
from report_store import write_run

from tercet.flows.report.report import compare_keys, compare_verdicts, difference
from tercet.flows.results.subject import Subject, open_runs
from tercet.storage.store import open_store


def test_a_handful_of_queries_tells_no_runs_apart(tmp_path: Path) -> None:
    ids = []
    for place, gain in enumerate((5.0, 9.0)):
        tables = measured_rows({42: gain}, queries=29)
        rows = [row for row in tables["evaluations"] if row["suite"] == "retrieval"]
        for row in rows:
            row["model_version"] += f" of {place}"
        tables["evaluations"] = rows
        rank = {"task": "document_pairs", "split": "test", "rank": 1}
        tables["retrieval_ranks"] = [
            {"model_version": f"encoder-42 of {place}", "pair_id": i} | rank for i in range(29)
        ]
        ids.append(write_run(tmp_path / "store", tables, version=f"{place:016x}"))
    with open_runs(open_store(str(tmp_path / "store"), create=False), ids) as subjects:
        rows, verdict = table(difference(*subjects)), compare_verdicts(*subjects)
    assert rows[0][3:5] == ["+4.00 (too few)", "29 queries"]
    assert verdict is not None
    assert "not known" in verdict


def test_two_runs_differ_by_their_means(both: tuple[Subject, ...]) -> None:
    rows = table(difference(*both))
    assert rows[0][:4] == ["document pairs test, recall@1", "65.00", "65.00", "+0.00"]
    assert table(compare_keys(*both))[-1] == ["select.negative_max", "0.97", "0.9"]


def ranked(seed: int, first: int, gain: float) -> dict[str, list[dict[str, Any]]]:
    """Tables of a run of one seed that finds the first so many of 200 queries at once."""
    tables = measured_rows({seed: gain})
    for row in tables["evaluations"]:
        if row["suite"] == "retrieval" and row["metric"] == "recall@1":
            row |= {"value": first / 2, "n": 200}
    tables["retrieval_ranks"] = [
        {
            "model_version": f"encoder-{seed}",
            "pair_id": i,
            "task": "document_pairs",
            "split": "test",
            "rank": 1 + (i >= first),
        }
        for i in range(200)
    ]
    return tables


def test_two_runs_of_one_seed_are_compared_over_the_same_queries(tmp_path: Path) -> None:
    a = write_run(tmp_path / "store", ranked(42, 100, 5.0), recipe={"evaluate": {"bootstrap": 500}})
    b = write_run(tmp_path / "store", ranked(43, 120, 5.0), version="fedcba9876543210")
    with open_runs(open_store(str(tmp_path / "store"), create=False), [a, b]) as subjects:
        rows = {row[0]: row for row in table(difference(*subjects))}
        verdict = compare_verdicts(*subjects)
    name, *values, gap, over, same = rows["document pairs test, recall@1"]
    assert values == ["50.00", "60.00"]
    shown, _, interval = gap.removesuffix(")").partition(" (")
    assert shown == "+10.00"
    assert (over, same) == ("200 queries", "same")
    # 10 % of the queries differ: 10 points, more or less 1.96 times 100 √(0.1 × 0.9 / 200).
    low, high = (float(word.replace("−", "-")) for word in interval.split(" to "))
    assert low == pytest.approx(10 - 4.16, abs=1.1)
    assert high == pytest.approx(10 + 4.16, abs=1.1)
    assert rows["STS-B dev, Spearman"][3:5] == ["+0.00 (+0.00 to +0.00)", "500 pairs"]
    assert verdict is not None
    assert verdict.startswith(f"B is better than A. {name}: A 50.00, B 60.00, B − A +10.00 points")


def test_runs_that_were_measured_on_other_queries_have_no_interval(tmp_path: Path) -> None:
    other = ranked(43, 120, 5.0)
    for row in other["retrieval_ranks"]:
        row["pair_id"] += 1000
    a = write_run(tmp_path / "store", ranked(42, 100, 5.0))
    b = write_run(tmp_path / "store", other, version="fedcba9876543210")
    with open_runs(open_store(str(tmp_path / "store"), create=False), [a, b]) as subjects:
        rows = {row[0]: row for row in table(difference(*subjects))}
        verdict = compare_verdicts(*subjects)
    assert rows["document pairs test, recall@1"][3:5] == ["+10.00", None]
    assert verdict is not None
    assert "not known" in verdict
