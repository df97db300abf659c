"""The report's table of the knowledge graph."""

from pathlib import Path

from commands_store import graph_store, small_store

from tercet.flows.pages.blocks import Note, Table
from tercet.flows.report.knowledge import neighbourhoods
from tercet.flows.report.subject import open_runs


def test_the_most_connected_entities_stand_with_their_neighbours(tmp_path: Path) -> None:
    store, run = graph_store(tmp_path / "store")
    with open_runs(store, [run]) as subjects:
        (table,) = neighbourhoods(subjects).blocks
    assert isinstance(table, Table)
    assert [list(row) for row in table.rows] == [
        ["pond", "place", 3, 2, "reed (1), heron\x0b & <egret> (2)"],
        ["heron\x0b & <egret>", "animal", 5, 1, "pond (2)"],
        ["reed", None, 1, 1, "pond (1)"],
    ]


def test_a_run_without_a_graph_says_so(tmp_path: Path) -> None:
    store, run = small_store(tmp_path / "store")
    with open_runs(store, [run]) as subjects:
        (note,) = neighbourhoods(subjects).blocks
    assert isinstance(note, Note)
    assert note.tone == "missing"
