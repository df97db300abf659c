"""The stage `extract_parse`: tables of answers become mentions and rejects."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from failures import fails
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stages import emitted

from tercet.models import seeding
from tercet.models.generation import GENERATIONS
from tercet.tasks.knowledge import extract, extract_parse
from tercet.tasks.knowledge.extract_parse import STAGE, ExtractParseConfig

TEXTS = [
    "The two dogs of Anna Meyer ate 5 kg of rice in 1997.",
    "A cat sat.",
    "Nothing here.",
    "A bird, 😀 and birds.",
]
CONFIG = ExtractParseConfig(
    categories=("home", "other"), types=("animal", "person", "food", "other")
)


def entity(text: str, kind: str = "animal") -> dict[str, str]:
    return {"text": text, "type": kind}


def answer(
    entities: Sequence[Any] = (), quantities: Sequence[Any] = (), category: Any = "home"
) -> str:
    content = {"category": category, "entities": list(entities), "quantities": list(quantities)}
    return json.dumps(content)


def extracted(
    folder: Path,
    raws: Sequence[str | None],
    texts: Sequence[str] = TEXTS,
    finish: Sequence[str] | None = None,
    config: ExtractParseConfig = CONFIG,
) -> dict[str, pa.Table]:
    """The tables made of one answer a text."""
    ids = seeding.text_ids(texts)
    rows = [
        dict.fromkeys(GENERATIONS.names)
        | {"generation_id": number, "sentence_id": int(ids[number]), "raw": raw, "model": "m"}
        | {"finish_reason": finish[number] if finish else "stop"}
        for number, raw in enumerate(raws)
    ]
    generations = pa.Table.from_pylist(rows, GENERATIONS)
    # Sentences that nobody was asked about lie in between.
    all_texts = ["Before.", *reversed(texts), "Behind."]
    table = {"sentence_id": seeding.text_ids(all_texts), "text": pa.array(all_texts, pa.string())}
    inputs = {"generations": generations, "sentences": pa.table(table)}
    return emitted(STAGE, config, inputs, folder)


def test_the_columns_are_those_of_extract(tmp_path: Path) -> None:
    raws = [
        answer(
            [entity("dogs"), entity("Anna Meyer", "person"), entity("rice", "food")],
            [
                {"text": "two", "value": 2, "counts": "dogs"},
                {"text": "5", "value": 5, "unit": "kg", "counts": "rice"},
                {"text": "1997", "value": 1997},
            ],
        ),
        answer([entity("cat")]),
        answer(category="other"),
        answer([entity("bird"), entity("birds")]),
    ]
    tables = extracted(tmp_path, raws)
    assert not tables["rejects"].num_rows
    ids = seeding.text_ids(TEXTS)
    inputs = {"sentences": pa.table({"sentence_id": ids, "text": TEXTS})}
    # What rules find in these sentences is the same, but for the names of types.
    rules = emitted(extract.STAGE, extract.ExtractConfig(), inputs, tmp_path)
    by_rules = rules["mentions"].to_pylist()
    by_model = tables["mentions"].to_pylist()
    for row in (*by_rules, *by_model):
        if row["kind"] == "entity":
            row["type"] = ""
    assert by_model == by_rules
    assert len(by_model) == 9
    assert tables["sentence_categories"].to_pydict() == {
        "sentence_id": ids.tolist(),
        "category": ["home", "home", "other", "home"],
    }


def test_every_reason(tmp_path: Path) -> None:
    raws = [
        answer([entity("two dogs"), entity("dogs")], category="away"),
        answer([entity("cat", "beast"), entity("horse")], [{"text": "A", "value": 3}]),
        "Nothing to see.",
        answer([entity("bird")])[:-1],
    ]
    rejects = extracted(tmp_path, raws)["rejects"].to_pylist()
    assert all(row["stage"] == "extract_parse" and row["detail"] for row in rejects)
    assert [(row["row_id"], row["reason"], row["text"]) for row in rejects] == [
        (0, "unknown_category", "away"),
        (0, "overlapping", "dogs"),
        (1, "unknown_type", "cat"),
        (1, "not_in_text", "horse"),
        (1, "number_not_there", "A"),
        (2, "not_json", raws[2]),
        (3, "not_json", raws[3]),
    ]


def test_answers_that_were_cut_off(tmp_path: Path) -> None:
    good = answer([entity("cat")])
    raws = ["<think>Dogs, then", good, f"<think>Nothing?</think>\n{answer()}", '{"category": "ho']
    finish = ["stop", "stop", "stop", "length"]
    tables = extracted(tmp_path, raws, finish=finish)
    assert tables["mentions"]["text"].to_pylist() == ["cat"]
    assert tables["sentence_categories"].num_rows == 2
    rejects = [(r["row_id"], r["reason"], r["text"]) for r in tables["rejects"].to_pylist()]
    assert rejects == [(0, "cut_off", raws[0]), (3, "cut_off", raws[3])]


def test_what_no_column_can_hold_is_told_all_the_same(tmp_path: Path) -> None:
    raw = '{"category": "\\ud83d", "entities": [{"text": "\\udc00" , "type": "\\udc00"}]}'
    rejects = extracted(tmp_path, [raw, answer([entity("x" * 9000)])])["rejects"].to_pylist()
    assert [(row["row_id"], row["text"]) for row in rejects[:2]] == [(0, "?"), (0, "?")]
    assert len(rejects[2]["text"]) == 200


def test_one_long_answer_of_many_faults(tmp_path: Path) -> None:
    """What is told of it does not grow with what it said."""
    raws = [answer([entity("x", "beast")] * 20_000), "no " * 200_000, answer([entity("bird")])]
    tables = extracted(tmp_path, raws)
    rejects = tables["rejects"].to_pylist()
    assert [row["row_id"] for row in rejects] == [*[0] * 201, 1, 2]
    assert [row["reason"] for row in rejects[-3:]] == ["not_in_text", "not_json", "not_in_text"]
    assert rejects[0]["reason"] == "too_many"
    assert rejects[-2]["text"] == raws[1][:200]
    assert tables["rejects"].nbytes < 100_000


def test_batch_sizes_change_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raws = [answer([entity("dogs"), entity("Anna Meyer", "person")]), "no", answer(), "<think>"]
    whole = extracted(tmp_path, raws)
    monkeypatch.setattr(extract_parse, "BATCH_ROWS", 1)
    single = extracted(tmp_path, raws)
    assert [table.num_rows for table in whole.values()] == [2, 2, 2]
    for name, table in whole.items():
        key = [(table.schema.names[1], "ascending")]
        assert single[name].sort_by(key).equals(table.sort_by(key))


def test_a_lexicon_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.tsv"
    path.write_text("noun\ttypes\nwidget\tthing\n")
    config = CONFIG.model_copy(update={"lexicon": str(path)})
    assert extract_parse.externals(config) == {"lexicon": path}
    assert extract_parse.externals(CONFIG) == {}
    raws, texts = [answer([entity("widgets"), entity("dogs")])], ["Widgets and dogs."]
    nodes = extracted(tmp_path, raws, texts, config=config)["mentions"]["node_id"].to_pylist()
    assert nodes == seeding.text_ids(["entity"] * 2, ["widget", "dogs"]).tolist()
    gone = CONFIG.model_copy(update={"lexicon": str(tmp_path / "gone.tsv")})
    with fails("unreadable", "extract_parse.lexicon", "gone.tsv"):
        extracted(tmp_path, raws, texts, config=gone)


_WORDS = st.sampled_from(["dogs", "two", "5", "1997", "Anna Meyer", "a", "", "The", "rice", "�"])
_LEAVES = st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8) | _WORDS
_KEYS = st.sampled_from(["category", "entities", "quantities", "text", "type", "value", "counts"])
_JSON = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(_KEYS | st.text(), inner, max_size=5)
    ),
    max_leaves=12,
)
_ITEM = st.fixed_dictionaries(
    {"text": _WORDS | _JSON},
    optional={"type": st.just("animal") | _JSON, "value": _JSON, "counts": _JSON},
)
_ITEMS = st.lists(_ITEM, max_size=5) | _JSON
_ANSWER = st.fixed_dictionaries(
    {}, optional={"category": st.just("home") | _JSON, "entities": _ITEMS, "quantities": _ITEMS}
).map(json.dumps)
_CUT = st.tuples(_ANSWER, st.integers(0, 300)).map(lambda cut: cut[0][: cut[1]])
_RAW = st.text(max_size=50) | _JSON.map(json.dumps) | _ANSWER | _CUT


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_RAW, min_size=1, max_size=4))
def test_every_mention_stands_in_its_text(tmp_path: Path, raws: list[str]) -> None:
    raws = [raw.encode("utf-8", "replace").decode() for raw in raws]
    tables = extracted(tmp_path, raws)
    texts = dict(zip(seeding.text_ids(TEXTS).tolist(), TEXTS, strict=True))
    rows = tables["mentions"].to_pylist()
    known = {row["mention_id"]: row for row in rows}
    assert len(known) == len(rows)
    for row in rows:
        assert texts[row["sentence_id"]][row["start"] : row["end"]] == row["text"] != ""
        assert row["kind"] == "quantity" or row["type"] in CONFIG.types
        assert (row["kind"] == "quantity") == (row["value"] is not None)
        of = row["of_mention_id"]
        assert of is None or known[of]["sentence_id"] == row["sentence_id"]
    ends = sorted((row["sentence_id"], row["start"], row["end"]) for row in rows)
    overlaps = [a[0] == b[0] and a[2] > b[1] for a, b in itertools.pairwise(ends)]
    assert not any(overlaps)
    assert set(tables["sentence_categories"]["category"].to_pylist()) <= {"home", "other"}
    # No answer goes without a word.
    heard = {*tables["rejects"]["row_id"].to_pylist()}
    categorised = np.isin(seeding.text_ids(TEXTS), tables["sentence_categories"]["sentence_id"])
    assert all(number in heard or categorised[number] for number in range(len(raws)))
