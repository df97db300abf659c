"""Two runs that are of too few questions to be told apart."""

from pathlib import Path

from report_store import measured, write_run

from tercet.flows.pages.blocks import Table
from tercet.flows.report.differences import difference, verdict
from tercet.flows.report.subject import open_runs
from tercet.storage.store import open_store


def test_a_handful_of_queries_tells_no_runs_apart(tmp_path: Path) -> None:
    ids = []
    for place, gain in enumerate((5.0, 9.0)):
        tables = measured({42: gain}, queries=29)
        found = [row for row in tables["evaluations"] if row["suite"] == "retrieval"]
        for row in found:
            row["model_version"] += f" of {place}"
        tables["evaluations"] = found
        tables["retrieval_ranks"] = [
            {"model_version": f"encoder-42 of {place}", "pair_id": i, "split": "test", "rank": 1}
            for i in range(29)
        ]
        ids.append(write_run(tmp_path / "store", tables, version=f"{place:016x}"))
    with open_runs(open_store(str(tmp_path / "store"), create=False), ids) as subjects:
        table, said = difference(*subjects).blocks[0], verdict(*subjects)
    assert isinstance(table, Table)
    assert table.rows[0][3:6] == ["+4.00", "too few", "29 queries"]
    assert said is not None
    assert said.startswith("Whether B is better than A is not known: fewer than 30 queries were")
