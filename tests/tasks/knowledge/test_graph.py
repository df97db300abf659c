"""The stage `graph` against eqs. 1-4, row by row."""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stages import emitted

from tercet.models import seeding
from tercet.models.knowledge.lexicon import load_lexicon
from tercet.tasks.knowledge import extract, graph
from tercet.tasks.knowledge.extract import MENTIONS


def _run(tmp_path: Path, mentions: pa.Table) -> tuple[pa.Table, pa.Table]:
    tables = emitted(graph.STAGE, graph.GraphConfig(), {"mentions": mentions}, tmp_path)
    assert not list(tmp_path.glob("graph.duckdb*"))
    return tables["kg_nodes"], tables["kg_edges"]


def _mentions(texts: list[str]) -> pa.Table:
    found = extract.extract(texts, load_lexicon())
    return extract.mentions(found, seeding.text_ids(texts))


def test_the_graph_of_two_sentences(tmp_path: Path) -> None:
    nodes, edges = _run(
        tmp_path, _mentions(["Two dogs and a dog met Anna Meyer.", "The dogs ate rice."])
    )
    dog, anna = seeding.text_id("entity", "dog"), seeding.text_id("entity", "anna meyer")
    rice, two = seeding.text_id("entity", "rice"), seeding.text_id("quantity", "two")
    animal, name, plant = (seeding.text_id("type", one) for one in ("animal", "name", "plant"))
    assert {tuple(row.values()) for row in nodes.to_pylist()} == {
        (dog, "entity", "dog", 3),
        (anna, "entity", "Anna Meyer", 1),
        (rice, "entity", "rice", 1),
        (two, "quantity", "Two", 1),
        (animal, "type", "animal", 3),
        (name, "type", "name", 1),
        (plant, "type", "plant", 1),
    }
    assert {tuple(row.values()) for row in edges.to_pylist()} == {
        (dog, animal, "hard", 3),
        (dog, two, "hard", 1),
        (anna, name, "hard", 1),
        (rice, plant, "hard", 1),
        (dog, anna, "soft", 1),
        (anna, dog, "soft", 1),
        (dog, name, "soft", 1),
        (anna, animal, "soft", 1),
        (dog, rice, "soft", 1),
        (rice, dog, "soft", 1),
        (dog, plant, "soft", 1),
        (rice, animal, "soft", 1),
    }


def test_no_mentions_give_no_graph(tmp_path: Path) -> None:
    nodes, edges = _run(tmp_path, MENTIONS.empty_table())
    assert (nodes.num_rows, edges.num_rows) == (0, 0)


# A mention: sentence, entity (None for a quantity), type, and the mention it counts.
_ROWS = st.lists(
    st.tuples(
        st.integers(0, 4), st.one_of(st.none(), st.integers(0, 6)), st.integers(0, 2),
        st.integers(0, 9),
    ),
    max_size=25,
)  # fmt: skip


@given(rows=_ROWS, at_once=st.sampled_from([1, 4, 1000]))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nodes_and_edges_equal_the_equations(
    tmp_path: Path, rows: list[tuple[int, int | None, int, int]], at_once: int
) -> None:
    table = []
    for number, (sentence, entity, name, counts) in enumerate(rows):
        kind = "quantity" if entity is None else "entity"
        text = f"q{name}" if entity is None else f"e{entity}"
        row = {"mention_id": number, "sentence_id": sentence, "kind": kind, "text": text}
        row |= {"node_id": seeding.text_id(kind, text), "unit": None, "start": 0, "end": 1}
        if entity is None:
            counted = counts if counts < number else None
            table.append({**row, "type": "number", "value": 1.0, "of_mention_id": counted})
        else:
            table.append({**row, "type": f"type {name}", "value": None, "of_mention_id": None})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph, "ROWS_AT_ONCE", at_once)
        patch.setattr(graph, "BATCH_ROWS", 3)
        nodes, edges = _run(tmp_path, pa.Table.from_pylist(table, MENTIONS))

    count: Counter[tuple[int, str]] = Counter()
    expected: Counter[tuple[int, int, str]] = Counter()
    soft = set()
    type_id = {row["type"]: seeding.text_id("type", row["type"]) for row in table}
    for row in table:
        count[row["node_id"], row["kind"]] += 1
        if row["kind"] == "entity":
            count[type_id[row["type"]], "type"] += 1
            expected[row["node_id"], type_id[row["type"]], "hard"] += 1
            for other in table:
                if (
                    other["kind"] == "entity"
                    and other["sentence_id"] == row["sentence_id"]
                    and other["node_id"] != row["node_id"]
                ):
                    soft.add((row["sentence_id"], row["node_id"], other["node_id"]))
                    soft.add((row["sentence_id"], row["node_id"], type_id[other["type"]]))
        elif row["of_mention_id"] is not None:
            target = table[row["of_mention_id"]]
            if target["kind"] == "entity":
                expected[target["node_id"], row["node_id"], "hard"] += 1
    expected.update((source, target, "soft") for _, source, target in soft)
    listed = nodes.to_pylist()
    assert {(row["node_id"], row["kind"]): row["count"] for row in listed} == dict(count)
    assert {
        (row["source"], row["target"], row["kind"]): row["count"] for row in edges.to_pylist()
    } == dict(expected)
    ids = nodes["node_id"].to_numpy()
    assert (ids[1:] > ids[:-1]).all()
    softs = edges.filter(pa.compute.equal(edges["kind"], "soft"))
    order = np.lexsort((softs["target"].to_numpy(), softs["source"].to_numpy()))
    assert (order == np.arange(len(order))).all()
