"""Two runs side by side: their difference, its interval, and what is said of it."""

from pathlib import Path
from typing import Any

import pytest
from report_sections import table
from report_store import measured as measured_rows
from report_store import write_run

from tercet.flows.report.differences import difference, keys, verdict
from tercet.flows.report.subject import Subject, open_runs
from tercet.storage.store import open_store


def test_two_runs_differ_by_their_means(both: tuple[Subject, ...]) -> None:
    rows = table(difference(*both))
    assert rows[0][:4] == ["document pairs test, recall@1", "65.00", "65.00", "+0.00"]
    assert table(keys(*both))[-1] == ["select.negative_max", "0.97", "0.9"]


def ranked(seed: int, found: int, gain: float) -> dict[str, list[dict[str, Any]]]:
    """Tables of a run of one seed that finds the first so many of 200 queries at once."""
    tables = measured_rows({seed: gain})
    for row in tables["evaluations"]:
        if row["suite"] == "retrieval" and row["metric"] == "recall@1":
            row |= {"value": found / 2, "n": 200}
    tables["retrieval_ranks"] = [
        {
            "model_version": f"encoder-{seed}",
            "pair_id": i,
            "task": "document_pairs",
            "split": "test",
            "rank": 1 + (i >= found),
        }
        for i in range(200)
    ]
    return tables


def test_two_runs_of_one_seed_are_compared_over_the_same_queries(tmp_path: Path) -> None:
    a = write_run(tmp_path / "store", ranked(42, 100, 5.0), recipe={"evaluate": {"bootstrap": 500}})
    b = write_run(tmp_path / "store", ranked(43, 120, 5.0), version="fedcba9876543210")
    with open_runs(open_store(str(tmp_path / "store"), create=False), [a, b]) as subjects:
        rows = {row[0]: row for row in table(difference(*subjects))}
        said = verdict(*subjects)
    _, *values, interval, over, same = rows["document pairs test, recall@1"]
    assert values == ["50.00", "60.00", "+10.00"]
    assert (over, same) == ("200 queries", "same")
    # 10 % of the queries differ: 10 points, more or less 1.96 times 100 √(0.1 × 0.9 / 200).
    low, high = (float(word.replace("−", "-")) for word in interval.split(" to "))
    assert low == pytest.approx(10 - 4.16, abs=1.1)
    assert high == pytest.approx(10 + 4.16, abs=1.1)
    assert rows["STS-B dev, Spearman"][4:6] == ["+0.00 to +0.00", "500 pairs"]
    assert said is not None
    assert said.startswith("B is better than A.")


def test_runs_that_were_measured_on_other_queries_have_no_interval(tmp_path: Path) -> None:
    other = ranked(43, 120, 5.0)
    for row in other["retrieval_ranks"]:
        row["pair_id"] += 1000
    a = write_run(tmp_path / "store", ranked(42, 100, 5.0))
    b = write_run(tmp_path / "store", other, version="fedcba9876543210")
    with open_runs(open_store(str(tmp_path / "store"), create=False), [a, b]) as subjects:
        rows = {row[0]: row for row in table(difference(*subjects))}
        said = verdict(*subjects)
    assert rows["document pairs test, recall@1"][4:6] == ["–", None]
    assert said is not None
    assert "not known" in said
