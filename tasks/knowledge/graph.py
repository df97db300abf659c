"""Stage `graph`: entities, types and quantities as nodes, with hard and soft edges (GCSE §3.1).

Eq. 2: nodes are entity texts t, types c and quantities q. Eq. 3: hard edges (t, c) and (t, q) of
one mention. Eq. 4: soft edges (t, other t) and (t, another t's c) of one sentence. Two
mentions of one entity make no edge. Soft edges between entities run in both directions.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pydantic import Field

from tercet.models import seeding
from tercet.models.english.inflection import singulars
from tercet.tasks.config import Steers
from tercet.tasks.stage import Config, Stage, Work, connection

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Distinct (sentence, entity, type) rows whose soft edges are made at once. This bounds memory: each
# has about ten soft edges.
ROWS_AT_ONCE = 100_000
BATCH_ROWS = 100_000

KG_NODES = pa.schema(
    [
        ("node_id", pa.uint64()),
        ("kind", pa.string()),
        ("text", pa.string()),
        ("count", pa.int64()),
    ]
)
"""Table `kg_nodes`.

Key: `node_id`.

Columns:
    node_id: id of the kind and the text
    kind: `entity`, `type` or `quantity`
    text: the dictionary form if it ever occurs, else the commonest form; a type's name
    count: mentions; for a type those of its entities
"""
KG_EDGES = pa.schema(
    [
        ("source", pa.uint64()),
        ("target", pa.uint64()),
        ("kind", pa.string()),
        ("count", pa.int64()),
    ]
)
"""Table `kg_edges`.

Key: `source`, `target`, `kind`.

Columns:
    source: → `kg_nodes.node_id`, always an entity
    target: → `kg_nodes.node_id`: a type, a quantity or another entity
    kind: `hard`: entity to its own type, or to a quantity that counts it. `soft`: entity to
        another entity of the same sentence (in both directions), or to that one's type
    count: mentions for a hard edge, sentences for a soft one
"""

# A node shows its dictionary form, whose digest is its id, or else its commonest form.
_NODES = """
WITH forms AS (
    SELECT kind, node_id, text, count(*) AS times,
        md5_number_lower(kind || chr(31) || lower(text)) = node_id AS is_form
    FROM {mentions} GROUP BY ALL
), ranked AS (
    SELECT node_id, kind, text, is_form, sum(times) OVER (PARTITION BY node_id) AS total,
        row_number() OVER (
            PARTITION BY node_id ORDER BY is_form DESC, times DESC, text
        ) AS place
    FROM forms
)
SELECT node_id, kind, text, total::BIGINT AS count, is_form FROM ranked WHERE place = 1
UNION ALL
SELECT type_id, 'type', type, count(*), true
FROM {mentions} JOIN types USING (type) WHERE kind = 'entity' GROUP BY ALL
ORDER BY node_id
"""

_HARD = """
SELECT node_id AS source, type_id AS target, 'hard' AS kind, count(*) AS count
FROM {mentions} JOIN types USING (type) WHERE kind = 'entity' GROUP BY ALL
UNION ALL
SELECT e.node_id, q.node_id, 'hard', count(*)
FROM counting q JOIN {mentions} e ON q.of_mention_id = e.mention_id
WHERE e.kind = 'entity' GROUP BY ALL
ORDER BY source, target
"""

# One bucket of sources at a time; `count` is the number of sentences that make the edge.
_SOFT = """
WITH here AS (SELECT DISTINCT sentence_id, node_id FROM occurrences WHERE bucket = ?),
pairs AS (
    SELECT here.sentence_id, here.node_id AS source, there.node_id AS other, there.type_id
    FROM here JOIN occurrences there
        ON here.sentence_id = there.sentence_id AND here.node_id <> there.node_id
), ends AS (
    SELECT DISTINCT sentence_id, source, other AS target FROM pairs
    UNION ALL
    SELECT DISTINCT sentence_id, source, type_id FROM pairs
)
SELECT source, target, 'soft' AS kind, count(*) AS count FROM ends
GROUP BY source, target ORDER BY source, target
"""


class GraphConfig(Config):
    """The graph follows from the mentions, unless a version is kept."""

    keep: Steers[str | None] = Field(
        default=None,
        pattern=r"^(tag:|graph@).+$",
        description="An earlier graph that methods go on with: `tag:NAME`, of that version or of a "
        "run, or `graph@VERSION`; null: a new one whenever the mentions change",
    )


def run(work: Work) -> None:
    """Emits kg_nodes, by id, and kg_edges: hard edges, then soft edges, by source and target.

    The count of an entity or quantity is its mentions, of a type its entities' mentions, of a hard
    edge mentions, and of a soft edge sentences.
    """
    rows = work.inputs["mentions"]
    mentions = rows.sql("mentions")
    with connection(work, threads=2, on_disk=True) as db:
        typed = f"SELECT DISTINCT type FROM {mentions} WHERE kind = 'entity' ORDER BY type"
        types = [row[0] for row in db.execute(typed).fetchall()]
        db.register(
            "given",
            pa.table(
                {
                    "type": pa.array(types, pa.string()),
                    "type_id": seeding.text_ids(["type"] * len(types), types),
                }
            ),
        )
        db.execute("CREATE TABLE types AS FROM given").fetchall()
        for table in _tables(db, _NODES.format(mentions=mentions)):
            work.emit("kg_nodes", _with_singulars(table).cast(KG_NODES))
        # A small table of its own, which the join then holds instead of all mentions.
        db.execute(
            f"""CREATE TABLE counting AS SELECT node_id, of_mention_id FROM {mentions}
            WHERE kind = 'quantity' AND of_mention_id IS NOT NULL"""
        ).fetchall()
        for table in _tables(db, _HARD.format(mentions=mentions)):
            work.emit("kg_edges", table.cast(KG_EDGES))
        bits = max(0, (rows.count("mentions") // ROWS_AT_ONCE).bit_length())
        # Rows that are repeated here, which `_SOFT` counts once, are few: no set of all is held.
        db.execute(
            f"""CREATE TABLE occurrences AS SELECT sentence_id, node_id, type_id,
                (node_id::UHUGEINT >> {64 - bits})::USMALLINT AS bucket
            FROM {mentions} JOIN types USING (type) WHERE kind = 'entity'"""
        ).fetchall()
        for bucket in range(1 << bits):
            for table in _tables(db, _SOFT, [bucket]):
                work.emit("kg_edges", table.cast(KG_EDGES))
            work.resources.progress(bucket + 1, 1 << bits, "buckets of entities")


def _tables(
    db: "DuckDBPyConnection", query: str, parameters: list[int] | None = None
) -> Iterator[pa.Table]:
    for batch in db.sql(query, params=parameters or []).to_arrow_reader(BATCH_ROWS):
        if batch.num_rows:
            yield pa.Table.from_batches([batch])


def _with_singulars(nodes: pa.Table) -> pa.Table:
    """Gives nodes that only occur in the plural their dictionary form."""
    text = nodes.column("text").to_pylist()
    ids = nodes.column("node_id").to_pylist()
    plural = np.flatnonzero(~nodes.column("is_form").to_numpy(zero_copy_only=False))
    for at in plural.tolist():
        head, space, last = text[at].rpartition(" ")
        for form in singulars(last.casefold()):
            if seeding.text_id("entity", (head + space + form).casefold()) == ids[at]:
                text[at] = head + space + form
                break
    return nodes.set_column(2, "text", pa.array(text, pa.string())).drop_columns("is_form")


STAGE = Stage(
    name="graph",
    config=GraphConfig,
    tables={"kg_nodes": KG_NODES, "kg_edges": KG_EDGES},
    run=run,
    seeded=False,
    libraries=("duckdb", "lemminflect"),
)
