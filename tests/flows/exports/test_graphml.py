"""The knowledge graph as a file that other programs read."""

from pathlib import Path

import networkx as nx
import pytest
from commands_store import graph_store, small_store
from failures import fails

from tercet.flows.commands.export import export
from tercet.flows.exports import graphml

BIG = 2**64 - 5


@pytest.fixture
def store(tmp_path: Path) -> str:
    return graph_store(tmp_path / "store")[0].location


def test_nodes_and_edges_have_what_gephi_shows(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for ref in ("graph", "graph@aaaa1111"):
        target = tmp_path / f"{ref}.graphml"
        export(ref, str(target), store, None)
        assert f"6 nodes and 6 edges of the knowledge graph are in {target}." in (
            capsys.readouterr().out
        )
    graph = nx.read_graphml(target)
    assert not graph.is_directed()
    heron = graph.nodes[str(BIG)]
    assert heron == {"label": "heron & <egret>", "kind": "entity", "type": "animal", "count": 5}
    assert graph.nodes["2"]["type"] == "place"
    assert graph.edges["2", str(BIG)] == {"kind": "soft", "weight": 2}
    assert graph.edges[str(BIG), "20"] == {"kind": "hard", "weight": 2}
    assert not graph.has_edge("2", "10")
    with fails("exists"):
        export("graph", str(target), store, None)


def test_the_largest_part_of_a_large_graph(
    store: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graphml, "NODES", 2)
    export("graph", str(tmp_path / "few.graphml"), store, None)
    assert "the 2 most mentioned entities" in capsys.readouterr().out
    assert "3" not in nx.read_graphml(tmp_path / "few.graphml")


def test_what_is_no_graph(store: str, tmp_path: Path) -> None:
    birds = small_store(tmp_path / "other")[0].location
    with fails("unfit_model", "ingest@aaaa1111"):
        export("ingest", str(tmp_path / "x.graphml"), birds, None)
    with fails("no_effect", "--onnx"):
        export("graph", str(tmp_path / "x.graphml"), store, None, onnx=True)
    assert not (tmp_path / "x.graphml").exists()
