"""The knowledge graph as GraphML, for Gephi and other programs that draw graphs."""

from pathlib import Path

import duckdb
import networkx as nx

from tercet.flows.exports.writing import whole_file
from tercet.flows.results.queries import check_finished
from tercet.storage.artifacts import Artifact
from tercet.tasks.stage import BadInput

# These limits bound memory: networkx takes about 2 KB per edge, so about 600 MB at most.
NODES = 10_000
EDGES = 200_000

# The most mentioned entities, all types, and the quantities that count one of these entities.
_KEPT = """
WITH entities AS (
    SELECT node_id FROM {nodes} WHERE kind = 'entity' ORDER BY count DESC, node_id LIMIT {most}
), quantities AS (
    SELECT e.target AS node_id FROM {edges} e
    JOIN entities s ON s.node_id = e.source
    JOIN {nodes} n ON n.node_id = e.target AND n.kind = 'quantity'
    WHERE e.kind = 'hard' GROUP BY ALL ORDER BY sum(e.count) DESC, e.target LIMIT {most}
)
SELECT n.node_id, n.kind, n.text, n.count FROM {nodes} n
WHERE n.kind = 'type' OR n.node_id IN (FROM entities) OR n.node_id IN (FROM quantities)
ORDER BY n.node_id
"""
# Soft edges are stored in both directions: one is enough. Soft edges to types are left out, since
# they follow from the edges between entities.
_JOINED = """
SELECT e.source, e.target, e.kind, e.count, t.kind AS target_kind
FROM {edges} e JOIN kept s ON s.node_id = e.source JOIN kept t ON t.node_id = e.target
WHERE e.kind = 'hard' OR (t.kind = 'entity' AND e.source < e.target)
ORDER BY e.kind, e.count DESC, e.source, e.target LIMIT {most}
"""


def write_graphml(artifact: Artifact, target: Path) -> tuple[int, int, bool]:
    """Writes the artifact's graph; returns how many nodes and edges, and whether it is complete.

    Beyond `NODES` entities the most mentioned are written, beyond `EDGES` edges the hard ones and
    then the most frequent. Nodes have label, kind, type (the entity's most frequent) and count;
    edges, undirected, have kind (hard: has the type, is counted by; soft: in one sentence) and
    weight, their count.

    Raises: BadInput if the artifact has no graph or is not finished.
    """
    check_finished(artifact)
    rows = artifact.rows()
    if "kg_nodes" not in rows.tables or "kg_edges" not in rows.tables:
        raise BadInput(
            "unfit_model",
            f"{artifact.name} is not a knowledge graph: `tercet export graph FILE.graphml`.",
        )
    names = {"nodes": rows.sql("kg_nodes"), "edges": rows.sql("kg_edges")}
    with duckdb.connect(config={"memory_limit": "1GB", "threads": 1}) as db:
        query = _KEPT.format(**names, most=NODES)
        db.execute(f"CREATE TABLE kept AS {query}").fetchall()
        nodes = db.sql("FROM kept ORDER BY node_id").to_arrow_table().to_pylist()
        joined = _JOINED.format(**names, most=EDGES)
        edges = db.sql(joined).to_arrow_table().to_pylist()
        count = f"SELECT count(*) FROM {names['nodes']} WHERE kind = 'entity'"
        (entities,) = db.execute(count).fetchall()[0]
    graph: nx.Graph[str] = nx.Graph()
    for node in nodes:
        # XML cannot hold control characters.
        label = "".join(c for c in node["text"] if c >= " ")
        kinds = {"label": label, "kind": node["kind"], "type": ""}
        graph.add_node(str(node["node_id"]), **kinds, count=node["count"])
    for edge in edges:
        source, other = str(edge["source"]), str(edge["target"])
        if edge["target_kind"] == "type" and not graph.nodes[source]["type"]:
            graph.nodes[source]["type"] = graph.nodes[other]["label"]
        graph.add_edge(source, other, kind=edge["kind"], weight=edge["count"])
    with whole_file(target) as sink:
        nx.write_graphml(graph, sink)
    whole = entities <= NODES and len(edges) < EDGES
    return graph.number_of_nodes(), graph.number_of_edges(), whole
