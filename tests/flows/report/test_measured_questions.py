"""The section with one's own questions, one by one."""

from pathlib import Path

from question_rows import question_rows
from report_sections import table
from report_store import measured, write_run

from tercet.flows.report import measured as module
from tercet.flows.report.subject import open_runs
from tercet.storage.store import open_store


def test_each_question_has_its_ranks_and_what_came_first_instead(tmp_path: Path) -> None:
    figures = measured()
    rows = question_rows("base-version", "encoder-42")
    rows["evaluation_items"] += figures["evaluation_items"]
    run_id = write_run(tmp_path / "store", {**figures, **rows})
    with open_runs(open_store(str(tmp_path / "store"), create=False), [run_id]) as subjects:
        shown = table(module.questions(subjects))
    assert shown[0] == ["gains most", "+100.0", None, 1, 7, 1, None, "mine"]
    assert shown[-1][:7] == ["loses most", "−90.0", 1, 9, 1, 9, "wrong.md: wrong words"]
    assert len(shown) == 5
