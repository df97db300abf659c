"""Queries to passages: what is asked about each, of which kind, and our own examples."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from failures import fails

from tercet.models import seeding
from tercet.models.generation import MethodInput
from tercet.models.prompted import templates
from tercet.models.prompted.methods import METHODS, check_shots
from tercet.models.prompted.prompt_requests import Question
from tercet.models.prompted.templates import Example, load_shots, shots_path

QUESTION = METHODS["question"]
KINDS = ("keyword", "question", "claim")
TEMPLATE = templates.load(templates.prompt_path("question"), QUESTION.variables)


def given(count: int) -> MethodInput:
    texts = [f"Heron {number} stands in the lake." for number in range(count)]
    table = pa.table(
        {
            "sentence_id": pa.array(seeding.text_ids(texts), pa.uint64()),
            "text": texts,
            "context": ["Birds > Herons" if number % 2 else "" for number in range(count)],
            "doc_id": pa.array([1] * count, pa.uint64()),
        }
    )
    return MethodInput(table, np.arange(count))


def asked(count: int, seed: int = 3, **params: Any) -> list[dict[str, Any]]:
    rows = QUESTION.generate(given(count), Question(**params), seed).to_pylist()
    return [row | {"values": json.loads(row["values"])} for row in rows]


def test_each_passage_is_asked_about_with_its_context() -> None:
    first, second = asked(2)
    assert first["values"] == {
        "passage": "Heron 0 stands in the lake.",
        "context": "",
        "kind": "question",
    }
    assert "Title" not in templates.render(TEMPLATE, first["values"])
    assert templates.render(TEMPLATE, second["values"]).endswith(
        "\n\nTitle: Birds > Herons\nText: Heron 1 stands in the lake."
    )
    assert second["detail"]["operation"] == "question"


def test_kinds_are_drawn_for_each_passage_and_take_turns_in_it() -> None:
    firsts = Counter(row["values"]["kind"] for row in asked(300, kinds=KINDS))
    assert all(70 < firsts[kind] < 130 for kind in KINDS)
    rows = asked(50, kinds=KINDS, per_unit=3)
    for start in range(0, len(rows), 3):
        assert {row["values"]["kind"] for row in rows[start : start + 3]} == set(KINDS)
    assert {row["values"]["kind"] for row in asked(9, kinds="claim")} == {"claim"}


def test_the_kinds_are_the_same_under_any_partition() -> None:
    whole, cut = given(20), given(20)
    params = Question(kinds=KINDS, per_unit=2)
    pieces = [
        QUESTION.generate(MethodInput(cut.sentences, np.arange(a, b)), params, 3)
        for a, b in ((0, 7), (7, 20))
    ]
    assert pa.concat_tables(pieces).equals(QUESTION.generate(whole, params, 3))


def examples(path: Path, kind: str) -> list[Example]:
    return load_shots(path, TEMPLATE, {"kinds": list(KINDS), "kind": kind}, QUESTION.optional)


@pytest.mark.parametrize("kind", KINDS)
def test_our_own_examples_are_three_of_each_kind(kind: str) -> None:
    found = examples(shots_path("question"), kind)
    assert len(found) == 3
    assert {example.values["kind"] for example in found} == {kind}
    check_shots(found, QUESTION.checks)


def test_a_users_own_queries_serve_for_every_kind_unless_they_name_one(tmp_path: Path) -> None:
    lines = [
        {"passage": "The export writes a file.", "query": "export to file"},
        {"kind": "question", "passage": "Herons eat frogs.", "answer": "What do herons eat?"},
    ]
    own = tmp_path / "own.jsonl"
    own.write_text("\n".join(map(json.dumps, lines)))
    assert [one.shot.answer for one in examples(own, "keyword")] == ["export to file"]
    assert [one.shot.answer for one in examples(own, "question")] == [
        "export to file",
        "What do herons eat?",
    ]
    # A search of words is no question.
    with fails("bad_row", "1", "no_question"):
        check_shots(examples(own, "question"), QUESTION.checks)
    own.write_text(json.dumps(lines[1]))
    with fails("unknown_name", "keyword"):
        examples(own, "keyword")
