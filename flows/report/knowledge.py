"""The knowledge graph in little: the most connected entities, and what stands beside them."""

from tercet.flows.pages.blocks import Block
from tercet.flows.report.subject import SHIPPED, Subject, of_each_run

_ENTITIES = 12
_NEIGHBOURS = 8

_WHOLE = """
nodes AS (SELECT node_id, text, count FROM kg_nodes WHERE kind = 'entity'),
soft AS (
    SELECT e.source, e.target, e.count FROM kg_edges e SEMI JOIN nodes n ON n.node_id = e.target
    WHERE e.kind = 'soft'
)"""
# The same of the sentences that do not come with Tercet.
_OWN = f"""
{SHIPPED}, said AS (
    SELECT sentence_id, node_id, count(*) AS times FROM mentions
    WHERE kind = 'entity' AND sentence_id NOT IN (FROM shipped) GROUP BY ALL
), nodes AS (
    SELECT node_id, any_value(n.text) AS text, sum(times)::BIGINT AS count
    FROM said JOIN kg_nodes n USING (node_id) GROUP BY node_id
), soft AS (
    SELECT a.node_id AS source, b.node_id AS target, count(*) AS count
    FROM said a JOIN said b ON a.sentence_id = b.sentence_id AND a.node_id <> b.node_id
    GROUP BY ALL
)"""
# Of the entities with the most neighbours those with which each shares the most sentences, but for
# what everything shares some with: sentences in common, over the root of the neighbour's mentions.
_QUERY = f"""
WITH {{graph}}, hubs AS (
    SELECT source, count(*) AS neighbours FROM soft
    GROUP BY source ORDER BY neighbours DESC, source LIMIT {_ENTITIES}
), ranked AS (
    SELECT h.source, h.neighbours, n.text, s.count, row_number() OVER (
        PARTITION BY h.source ORDER BY s.count / sqrt(n.count) DESC, n.text
    ) AS place
    FROM hubs h JOIN soft s ON s.source = h.source JOIN nodes n ON n.node_id = s.target
), types AS (
    SELECT h.source, arg_max(t.text, e.count) AS type
    FROM hubs h JOIN kg_edges e ON e.source = h.source AND e.kind = 'hard'
    JOIN kg_nodes t ON t.node_id = e.target AND t.kind = 'type' GROUP BY h.source
)
SELECT n.text AS entity, any_value(y.type) AS type, n.count AS mentions, r.neighbours,
    string_agg(r.text || ' (' || r.count || ')', ', ' ORDER BY r.place)
        AS "beside it (sentences in common)"
FROM ranked r JOIN nodes n ON n.node_id = r.source LEFT JOIN types y ON y.source = r.source
WHERE r.place <= {_NEIGHBOURS}
GROUP BY n.text, n.count, r.neighbours, r.source ORDER BY r.neighbours DESC, n.text
"""


@of_each_run(
    "Knowledge graph",
    "This run has made no knowledge graph.",
    "What the corpus is about: entity swaps come from here. `tercet export graph FILE.graphml` "
    "writes all of it for Gephi.",
)
def neighbourhoods(subject: Subject) -> list[Block]:
    """The most connected entities of the knowledge graph and their neighbours."""
    caption = "The entities that share a sentence with the most others"
    if subject.shipped:
        values = {"shipped": subject.shipped}
        told = f"{caption} in your own texts."
        own = subject.table(_QUERY.format(graph=_OWN), told, "llrrl", values)
        if own:
            return own
    return subject.table(_QUERY.format(graph=_WHOLE), f"{caption}.", "llrrl")
