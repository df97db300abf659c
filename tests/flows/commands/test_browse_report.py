"""`tercet report` as a person types it: what it writes, what it leaves alone, how it refuses."""

import hashlib
import re
from pathlib import Path

import pytest
from failures import fails
from report_store import Written
from tiny_run import Finished, ended_well, tercet

from tercet.flows.commands.browse import make_report
from tercet.flows.pages.blocks import Chart
from tercet.flows.report import background, projection
from tercet.flows.report.subject import open_runs
from tercet.storage.runs import UnknownRef
from tercet.storage.store import StoreError, open_store


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
    first = ["Warnings", "Before and after", "From corpus to triplets", "Examples"]
    assert headings(html)[:4] == first
    assert "Generators" not in headings(html)
    assert "entity_swap" in html
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
    assert "train from select" in drawing.alt


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nosuch"], "No run, tag or recipe is called 'nosuch'"),
        (["written", "nosuch"], "No run, tag or recipe is called 'nosuch'"),
        (["-o", "/nowhere/at/all.html"], "There is no directory /nowhere/at"),
        (["-o", "/proc/page.html"], "/proc/page.html cannot be written"),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], said: str, written: Written) -> None:
    done = tercet("report", *words, "--store", str(written.store))
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_no_store_and_no_run(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        make_report([None], str(tmp_path / "page.html"), str(tmp_path / "none"))
    with pytest.raises(UnknownRef):
        make_report(["x", "y"], str(tmp_path / "page.html"), str(_empty(tmp_path)))
    assert not (tmp_path / "page.html").exists()


def _empty(tmp_path: Path) -> Path:
    return open_store(str(tmp_path / "empty")).work


def test_a_page_that_cannot_be_finished_leaves_the_old_one(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(vectors: object) -> None:
        raise RuntimeError("no plane today")

    target = tmp_path / "page.html"
    target.write_text("the old page")
    monkeypatch.setattr(projection, "_places", fails)
    with pytest.raises(RuntimeError):
        make_report([written.whole], str(target), str(written.store))
    assert target.read_text() == "the old page"
    assert list(tmp_path.iterdir()) == [target]


def test_a_failed_run_says_how_far_it_came(written: Written, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    make_report(["broken"], str(target), str(written.store))
    html = target.read_text()
    assert "This run failed: this page shows its results so far." in html
    assert "The disk said &lt;b&gt;no&lt;/b&gt;." in html
    assert "Not reached: select." in html
    # What could be drawn at all is the time of the steps, and the funnel of nothing.
    assert html.count('class="chart"') <= 2


def test_two_runs_stand_side_by_side(written: Written, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    make_report([written.whole, written.seeds], str(target), str(written.store))
    html = target.read_text()
    assert headings(html)[:2] == ["A and B", "Differences between the recipes"]
    assert "select.negative_max" in html
    assert "<h1>A: written and B: sown</h1>" in html


def test_a_place_that_is_a_directory(written: Written, tmp_path: Path) -> None:
    with fails("exists"):
        make_report([None], str(tmp_path), str(written.store))
