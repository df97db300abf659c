"""`tercet report` as a person types it: what it writes, what it leaves alone, how it refuses."""

import hashlib
import re
from pathlib import Path

import pytest
from failures import fails
from report_store import Written
from tiny_run import Finished, ended_well, tercet

from tercet.errors import ErrorKind
from tercet.flows.commands.browse import make_report
from tercet.flows.pages.blocks import Chart
from tercet.flows.report import background
from tercet.flows.results.subject import open_runs
from tercet.storage.store import open_store


def tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def headings(html: str) -> list[str]:
    return re.findall(r"<h2[^>]*>([^<]+)</h2>", html)


def test_a_finished_run_becomes_one_file_and_the_store_stays(
    finished: Finished, tmp_path: Path
) -> None:
    before = tree(finished.store)
    target = tmp_path / "page.html"
    done = ended_well(tercet("report", "-o", str(target), "--store", str(finished.store)))
    assert f"{target}: " in done.stdout
    html = target.read_text()
    # The tiny backbone knows few words, which is a warning.
    assert headings(html)[:2] == ["Warnings", "Before and after"]
    assert "Generators" not in headings(html)
    assert target.stat().st_size < 3_000_000
    assert list(tmp_path.iterdir()) == [target]
    assert tree(finished.store) == before


def test_without_a_name_the_newest_run_that_is_done_is_shown(written: Written) -> None:
    with open_runs(open_store(str(written.store), create=False), [None]) as (subject,):
        assert subject.run_id == written.seeds  # the one that failed is newer


def test_each_step_is_drawn_below_what_it_is_made_from(finished: Finished) -> None:
    with open_runs(open_store(str(finished.store), create=False), [None]) as subjects:
        drawing, _ = background.lineage(subjects).blocks
    assert isinstance(drawing, Chart)
    edges, nodes = drawing.spec["layer"][0]["data"]["values"], drawing.spec["data"]["values"]
    assert {node["name"] for node in nodes} >= {"ingest", "sample", "synthesise × 5", "train"}
    assert len({(node["x"], node["depth"]) for node in nodes}) == len(nodes)
    assert all(edge["depth2"] > edge["depth"] for edge in edges)
    drawn = {edge["name"] for edge in edges}
    assert {"ingest → extract", "score.evaluator → select", "select → train"} <= drawn
    # This follows from others.
    assert "ingest → train" not in drawn


@pytest.mark.parametrize(
    ("refs", "target", "kind", "name"),
    [
        (["nosuch"], "page.html", "unknown_name", "'nosuch'"),
        (["written", "nosuch"], "page.html", "unknown_name", "'nosuch'"),
        ([None], "nowhere/all.html", "missing_file", "nowhere"),
        ([None], "/proc/page.html", "refused", "/proc/page.html"),
        ([None], "", "exists", ""),
    ],
)
def test_what_cannot_be_reported_writes_nothing(
    refs: list[str | None],
    target: str,
    kind: ErrorKind,
    name: str,
    written: Written,
    tmp_path: Path,
) -> None:
    with fails(kind, name):
        make_report(refs, str(tmp_path / target), str(written.store))
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_says_how_far_it_came(written: Written, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    make_report(["broken"], str(target), str(written.store))
    html = target.read_text()
    assert "The disk said &lt;b&gt;no&lt;/b&gt;." in html
    assert "Not reached: select." in html


def test_two_runs_stand_side_by_side(written: Written, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    make_report([written.whole, written.seeds], str(target), str(written.store))
    html = target.read_text()
    assert headings(html)[:2] == ["A and B", "Differences between the recipes"]
    assert "select.negative_max" in html
    assert "<h1>A: written and B: sown</h1>" in html
