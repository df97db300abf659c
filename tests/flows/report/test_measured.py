"""A ranking that no encoder makes, among the figures before and after."""

from pathlib import Path

from report_store import measured, write_run

from tercet.flows.pages.blocks import Table
from tercet.flows.report.measured import before_and_after
from tercet.flows.report.subject import open_runs
from tercet.storage.store import open_store


def test_a_ranking_that_no_encoder_makes_has_no_gain_and_does_not_count(tmp_path: Path) -> None:
    tables = measured(queries=500)
    for row in [row for row in tables["evaluations"] if row["suite"] == "retrieval"]:
        if not row["metric"].endswith("_gain"):
            own = {"suite": "retrieval_sets", "task": "mine bm25", "value": 60.0}
            tables["evaluations"].append(row | own)
    run = write_run(tmp_path / "store", tables)
    with open_runs(open_store(str(tmp_path / "store"), create=False), [run]) as subjects:
        section = before_and_after(subjects)
    (table,) = [block for block in section.blocks if isinstance(block, Table)]
    assert table.rows[0][:5] == ["mine bm25 test, recall@1", None, None, "60.00", "60.00"]
