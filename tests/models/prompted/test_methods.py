"""What all prompted methods have in common: their prompts, and rows that no partition changes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from prompted_given import METHODS, asked, graph, marked

from tercet.models.generation import MethodInput
from tercet.models.prompted.templates import load, prompt_path, render

KINDS = dict.fromkeys(("dog", "cat", "owl"), "animal")
KINDS |= dict.fromkeys(("house", "barn", "shop"), "place")
NAMES = graph(*({name: kind} for name, kind in KINDS.items()))
TEXTS = [
    *(
        f"[{number}#:{name}s] [{name}s={name}:{kind}] saw the [{other}={other}:{KINDS[other]}]."
        for number, (name, kind) in enumerate(KINDS.items(), start=3)
        for other in KINDS
        if other != name
    ),
    'Ein Bär sagte „öh“ – {{ nichts }} 🐻 \\ "so".',
]
MENTIONLESS = ("rewrite", "precede", "antisense")
EDITED = ("antisense", "entity_revision", "quantity_revision")


def corpus() -> MethodInput:
    given = marked(TEXTS)
    return MethodInput(given.sentences, given.anchors, given.mentions, NAMES)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("per_unit", [1, 3])
def test_rows_are_the_same_under_any_partition_and_order(name: str, per_unit: int) -> None:
    given = corpus()
    whole = asked(name, given, per_unit=per_unit)
    count = len(given.sentences)
    assert len({row["sentence_id"] for row in whole}) == count - (name not in MENTIONLESS)
    parts = []
    for start, stop in ((0, 1), (1, 9), (9, count)):
        sentences = given.sentences.slice(start, stop - start)
        anchors = np.arange(stop - start)
        parts += asked(
            name, MethodInput(sentences, anchors, given.mentions, NAMES), per_unit=per_unit
        )
    assert parts == whole
    assert given.mentions is not None
    order = np.random.default_rng(1).permutation(len(given.mentions))
    turned = MethodInput(
        given.sentences.take(np.arange(count)[::-1].copy()),
        given.anchors,
        given.mentions.take(order),
        NAMES,
    )
    by_sentence: dict[int, list[Any]] = {}
    for row in asked(name, turned, per_unit=per_unit):
        by_sentence.setdefault(row["sentence_id"], []).append(row)
    assert [row for rows in reversed(by_sentence.values()) for row in rows] == whole


def test_a_passage_is_asked_about_once_by_its_first_anchor() -> None:
    texts = ["A one.", "A two.", "A three.", "B one.", "C one.", "C two."]
    given = marked(texts)
    sentences = given.sentences.set_column(2, "doc_id", pa.array([1, 1, 1, 1, 2, 2], pa.uint64()))
    sentences = sentences.set_column(3, "paragraph", pa.array([0, 0, 0, 1, 1, 1], pa.int32()))
    method = METHODS["rewrite"]
    params = method.params(unit="passage", per_unit=2)
    for anchors, asked_about in (
        ([1, 2, 4], [(1, "A one. A two. A three."), (4, "C one. C two.")]),
        ([3], [(3, "B one.")]),
        ([], []),
    ):
        some = MethodInput(sentences, np.array(anchors, dtype=np.int64))
        rows = method.generate(some, params, 1).to_pylist()
        ids = sentences["sentence_id"].to_pylist()
        assert [(row["sentence_id"], json.loads(row["values"])) for row in rows] == [
            (ids[row], {"passage": text}) for row, text in asked_about for _ in range(2)
        ]


@pytest.mark.parametrize(
    ("name", "params"),
    [
        *((name, {}) for name in METHODS),
        *((name, {"edit": "rewrite"}) for name in EDITED),
    ],
)
def test_our_own_prompts_say_all_of_a_row(name: str, params: dict[str, str]) -> None:
    method = METHODS[name]
    assert method.prompt is not None
    template = load(prompt_path(method.prompt), method.variables)
    rows = asked(name, corpus(), **params)
    prompts = [render(template, row["values"]) for row in rows]
    for row, prompt in zip(rows, prompts, strict=True):
        assert prompt == prompt.strip()
        assert prompt.endswith(f"\nSentence: {row['source']}")
        assert "sentence alone" in prompt
        assert "\n\n\n" not in prompt
        assert "None" not in prompt
        rest = prompt.removesuffix(f"Sentence: {row['source']}").split("\n\n", 1)[1]
        for key in ("old", "new", "type", "counted", "unit", "category"):
            if key in row["values"] and name != "from_changed_knowledge":
                assert row["values"][key] in rest
        for item in (*row["values"].get("entities", []), *row["values"].get("quantities", [])):
            assert item["text"] in rest
    # The instruction comes first and is one for all rows, so that a server reads it once.
    instructions = {prompt.split("\n\n", 1)[0] for prompt in prompts}
    assert len(instructions) == 1
    assert len(instructions.pop()) > 200


@pytest.mark.parametrize("name", [*EDITED, "precede"])
def test_what_is_asked_follows_the_parameters(name: str) -> None:
    method = METHODS[name]
    assert method.prompt is not None
    template = load(prompt_path(method.prompt), method.variables)
    changed = {"max_words": 7} if name == "precede" else {"edit": "rewrite"}
    default, other = (
        render(template, asked(name, corpus(), **params)[0]["values"]) for params in ({}, changed)
    )
    assert default != other


def test_a_changed_record_is_asked_with_what_is_new_and_without_what_was() -> None:
    method = METHODS["from_changed_knowledge"]
    template = load(prompt_path("from_knowledge"), method.variables)
    for row in asked("from_changed_knowledge", corpus(), per_unit=4):
        record = render(template, row["values"]).rpartition("\nSentence: ")[0].split("\n\n", 1)[1]
        assert row["detail"]["new"] in record
        assert f"- {row['detail']['old']} (" not in record


@pytest.mark.parametrize("name", METHODS)
def test_a_users_prompt_may_name_all_variables(name: str, tmp_path: Path) -> None:
    path = tmp_path / "own.jinja"
    names = METHODS[name].variables
    path.write_text("".join(f"{key}=<{{{{ {key} }}}}>\n" for key in names))
    template = load(path, names)
    row = asked(name, corpus())[0]
    assert render(template, row["values"]) == "\n".join(
        f"{key}=<{row['values'][key]}>" for key in names
    )
