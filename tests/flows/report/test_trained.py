"""Curves of the training, and its gate."""

from pathlib import Path

from report_sections import of
from report_store import trained as trained_rows
from report_store import write_run

from tercet.flows.pages.blocks import Chart, Grid, Note
from tercet.flows.report import (
    trained,
)
from tercet.flows.report.subject import Subject, open_runs
from tercet.storage.store import open_store


def test_the_gate_and_dev_are_drawn(whole: tuple[Subject, ...]) -> None:
    titles = [chart.title for chart in of(trained.curves(whole), Chart)]
    assert titles == ["Loss, triplets", "Dev, triplets"]
    (grid,) = of(trained.curves(whole), Grid)
    assert "step 20" in grid.caption
    opening, gradient, _ = of(trained.gate(whole), Chart)
    assert [row["value"] for row in opening.spec["data"]["values"]][-1] == 1.0
    assert gradient.title == "Gradient, triplets"
    assert [row["value"] for row in gradient.spec["data"]["values"]][-1] == 0.5


def test_the_order_of_facts_is_drawn_where_a_part_reports_it(tmp_path: Path) -> None:
    tables = trained_rows()
    for row in tables["training_log"]:
        row["terms"] = [("strict.in_order", row["step"] / 20), ("topical.loss", 1.0)]
    run_id = write_run(tmp_path / "store", tables)
    with open_runs(open_store(str(tmp_path / "store"), create=False), [run_id]) as subjects:
        drawn = of(trained.curves(subjects), Chart)
        assert of(trained.gate(subjects), Note)
    assert [chart.title for chart in drawn] == [
        "Loss, triplets",
        "Order of facts, triplets",
        "Dev, triplets",
    ]
