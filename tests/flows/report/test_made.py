"""The report's table of the knowledge graph."""

from pathlib import Path

from commands_store import graph_store
from report_store import write_run

from tercet.flows.pages.blocks import Table
from tercet.flows.report.made import neighbourhoods
from tercet.flows.report.subject import open_runs
from tercet.storage.store import open_store


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


PLAIN = {"name": "plain", "source": "package:tercet.recipes/plain_english.txt"}
# Every sentence of a corpus mentions all its entities; "day" occurs in both.
ENTITIES = {"plain": ("day", "person", "year"), "docs": ("bolt", "day")}


def of_corpora(tmp_path: Path, *corpora: str) -> Table:
    """The table of a run with a sentence of each of these corpora."""
    names = sorted({name for named in ENTITIES.values() for name in named})
    mentions = [
        {"sentence_id": place, "node_id": names.index(name), "kind": "entity"}
        for place, corpus in enumerate(corpora)
        for name in ENTITIES[corpus]
    ]
    pairs = {(a["node_id"], b["node_id"], a["sentence_id"]) for a in mentions for b in mentions
             if a["sentence_id"] == b["sentence_id"] and a is not b}  # fmt: skip
    tables = {
        "sentences": [
            {"sentence_id": place, "text": f"S{place}.", "corpus": corpus}
            for place, corpus in enumerate(corpora)
        ],
        "mentions": mentions,
        "kg_nodes": [
            {"node_id": place, "kind": "entity", "text": name, "count": len(corpora)}
            for place, name in enumerate(names)
        ],
        "kg_edges": [
            {"source": a, "target": b, "kind": "soft", "count": 1}
            for a, b in sorted({pair[:2] for pair in pairs})
        ],
    }
    recipe = {"corpora": [{"name": "docs", "source": "docs"}, PLAIN]}
    run = write_run(tmp_path / "store", tables, recipe=recipe)
    with open_runs(open_store(str(tmp_path / "store"), create=False), [run]) as subjects:
        (table,) = neighbourhoods(subjects).blocks
    assert isinstance(table, Table)
    return table


def test_entities_and_counts_are_those_of_the_users_own_sentences(tmp_path: Path) -> None:
    table = of_corpora(tmp_path, "plain", "plain", "plain", "docs", "docs")
    assert [list(row) for row in table.rows] == [
        ["bolt", None, 2, 1, "day (2)"],
        ["day", None, 2, 1, "bolt (2)"],
    ]
