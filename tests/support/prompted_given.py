"""Hand-made sentences, mentions and graphs for the tests of prompted methods."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.models import seeding
from tercet.models.generation import ASKED, Method, MethodInput
from tercet.models.prompted import methods
from tercet.models.rules.entity_swap import Entities, open_graph

METHODS: dict[str, Method] = {
    name: method
    for name, method in methods.METHODS.items()
    if name not in ("paraphrase", "entailment", "contradiction") and method.each == "sentences"
}

# A sentence's mentions in brackets: [dogs=dog:animal] is an entity, [3#:dogs] a quantity that
# counts "dogs", [5# km] one with a unit.
_MARK = re.compile(r"\[([^\]=#]+)(?:=([^\]:]+):([^\]]+)|#( [^\]:]+)?(?::([^\]]+))?)\]")
WORDS = {"two": 2.0, "half": 0.5}


def node(text: str, kind: str = "entity") -> int:
    return seeding.text_id(kind, text.casefold())


def mention(sentence: str, start: int) -> int:
    return seeding.text_id(sentence, str(start))


def marked(texts: Sequence[str], values: Mapping[str, float] | None = None) -> MethodInput:
    """The input of marked sentences, each a document of its own, without a graph."""
    plain, rows = [], []
    for text in texts:
        said, found, at = "", [], 0
        for match in _MARK.finditer(text):
            said += text[at : match.start()]
            found.append((len(said), match))
            said += match[1]
            at = match.end()
        said += text[at:]
        plain.append(said)
        starts = {match[1]: start for start, match in reversed(found)}
        for start, match in found:
            form, lemma, kind, unit, counts = match.groups()
            entity = lemma is not None
            value = None if entity else {**WORDS, **(values or {})}.get(form)
            if not entity and value is None:
                value = float(form.replace(",", ""))
            rows.append(
                {
                    "mention_id": mention(said, start),
                    "node_id": node(lemma if entity else form, "entity" if entity else "quantity"),
                    "sentence_id": seeding.text_id(said),
                    "kind": "entity" if entity else "quantity",
                    "text": form,
                    "type": kind if entity else "number",
                    "value": value,
                    "unit": unit.strip() if unit else None,
                    "of_mention_id": mention(said, starts[counts]) if counts else None,
                    "start": start,
                    "end": start + len(form),
                }
            )
    schema = pa.schema(
        [
            *((name, pa.uint64()) for name in ("mention_id", "node_id", "sentence_id")),
            *((name, pa.string()) for name in ("kind", "text", "type")),
            ("value", pa.float64()),
            ("unit", pa.string()),
            ("of_mention_id", pa.uint64()),
            *((name, pa.int32()) for name in ("start", "end")),
        ]
    )
    count = len(plain)
    sentences = pa.table(
        {
            "sentence_id": pa.array(seeding.text_ids(plain), pa.uint64()),
            "text": plain,
            "doc_id": pa.array(range(count), pa.uint64()),
            "paragraph": pa.array([0] * count, pa.int32()),
            "n_words": pa.array([len(text.split()) for text in plain], pa.int32()),
        }
    )
    return MethodInput(sentences, np.arange(count), pa.Table.from_pylist(rows, schema=schema))


def graph(*said: Mapping[str, str]) -> Entities:
    """The graph of sentences, each a mapping of entities to their types."""
    nodes: dict[int, tuple[str, str]] = {}
    edges: set[tuple[int, int, str]] = set()
    for sentence in said:
        for text, kind in sentence.items():
            nodes[node(text)], nodes[node(kind, "type")] = ("entity", text), ("type", kind)
            edges.add((node(text), node(kind, "type"), "hard"))
            edges |= {(node(text), node(other), "soft") for other in sentence if other != text}
    listed = sorted(edges)
    return open_graph(
        pa.table(
            {
                "node_id": pa.array(list(nodes), pa.uint64()),
                "kind": [kind for kind, _ in nodes.values()],
                "text": [text for _, text in nodes.values()],
                "count": pa.array([1] * len(nodes), pa.int64()),
            }
        ),
        pa.table(
            {
                "source": pa.array([edge[0] for edge in listed], pa.uint64()),
                "target": pa.array([edge[1] for edge in listed], pa.uint64()),
                "kind": [edge[2] for edge in listed],
                "count": pa.array([2] * len(listed), pa.int64()),
            }
        ).to_batches(),
    )


def asked(name: str, given: MethodInput, seed: int = 7, **params: Any) -> list[dict[str, Any]]:
    """A method's rows, with their values read and the sentence beside them."""
    method = METHODS[name]
    table = method.generate(given, method.params(**params), seed)
    assert table.schema.equals(ASKED)
    texts = dict(
        zip(
            given.sentences["sentence_id"].to_pylist(),
            given.sentences["text"].to_pylist(),
            strict=True,
        )
    )
    rows = table.to_pylist()
    for row in rows:
        row["values"] = json.loads(row["values"])
        row["source"] = texts[row["sentence_id"]]
        assert set(row["values"]) == set(method.variables)
        assert row["values"]["sentence"] == row["source"]
    return rows
