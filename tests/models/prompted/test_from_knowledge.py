"""Records of what a sentence speaks of, as they are and with one thing changed."""

import math
from dataclasses import replace
from typing import Any

import pyarrow as pa
from prompted_given import asked, graph, marked, mention, node

from tercet.models.generation import MethodInput

SENTENCE = "[Dogs=dog:animal] and a [cat=cat:animal] ate [3#:apples] [apples=apple:food]."
PLAIN = "Dogs and a cat ate 3 apples."
THINGS = graph(
    *({name: "animal"} for name in ("dog", "cat", "owl")),
    *({name: "food"} for name in ("apple", "pear")),
)


def with_graph(texts: list[str]) -> MethodInput:
    given = marked(texts)
    return MethodInput(given.sentences, given.anchors, given.mentions, THINGS)


def about(given: MethodInput, category: str) -> MethodInput:
    """With what the first sentence is about."""
    ids = given.sentences["sentence_id"].slice(0, 1)
    categories = pa.table({"sentence_id": ids, "category": [category]})
    return replace(given, categories=categories)


def test_the_record_of_a_sentence() -> None:
    given = about(marked([SENTENCE, "Nothing happened."]), "animal")
    (row,) = asked("from_knowledge", given)
    assert row["values"] == {
        "sentence": PLAIN,
        "category": "animal",
        "entities": [
            {"text": "Dogs", "type": "animal"},
            {"text": "cat", "type": "animal"},
            {"text": "apples", "type": "food"},
        ],
        "quantities": [{"text": "3", "value": 3, "unit": None, "counts": "apples"}],
    }
    assert row["detail"] == {
        "operation": "write_from_knowledge",
        **dict.fromkeys(("old", "new", "mention_id", "node_id", "pool")),
    }


def test_a_record_names_an_entity_once_and_the_category_that_was_extracted() -> None:
    text = (
        "The [pear=pear:food] and the [owl=owl:animal] and [pears=pear:food], an [owl=owl:animal]."
    )
    (row,) = asked("from_knowledge", about(marked([text]), "cooking"))
    assert row["values"]["entities"] == [
        {"text": "pear", "type": "food"},
        {"text": "owl", "type": "animal"},
    ]
    assert row["values"]["category"] == "cooking"


def test_a_record_of_numbers_alone_has_no_category() -> None:
    given = marked(["It is [2.5# km] and [7#]."], {"7": math.nan})
    (row,) = asked("from_knowledge", given)
    assert row["values"]["category"] == ""
    assert row["values"]["entities"] == []
    assert row["values"]["quantities"] == [
        {"text": "2.5", "value": 2.5, "unit": "km", "counts": None},
        {"text": "7", "value": None, "unit": None, "counts": None},
    ]


def differences(row: dict[str, Any], record: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Old and new of all that two records say differently."""
    found = []
    for kind in ("entities", "quantities"):
        for old, new in zip(record[kind], row["values"][kind], strict=True):
            found += [(old[key], new[key]) for key in old if old[key] != new[key]]
    return found


def test_one_thing_of_the_record_is_changed() -> None:
    record = asked("from_knowledge", marked([SENTENCE]))[0]["values"]
    seen = set()
    for seed in range(60):
        (row,) = asked("from_changed_knowledge", with_graph([SENTENCE]), seed)
        values, detail = row["values"], row["detail"]
        assert detail["operation"] == "write_from_changed_knowledge"
        assert (values["old"], values["new"]) == (detail["old"], detail["new"])
        seen.add(detail["old"])
        changed = differences(row, record)
        if detail["old"] == "3":
            assert changed == [("3", detail["new"]), (3, int(detail["new"]))]
            assert (detail["pool"], detail["node_id"]) == (None, node("3", "quantity"))
        elif detail["old"] == "apples":
            # What the apples are counted as changes with them.
            assert changed == [("apples", "pears"), ("apples", "pears")]
            assert (detail["pool"], detail["node_id"]) == ("T_r", node("pear"))
        else:
            assert changed == [(detail["old"], detail["new"])]
            assert (detail["old"], detail["new"]) in [("Dogs", "Owls"), ("cat", "owl")]
        assert detail["mention_id"] == mention(PLAIN, PLAIN.index(detail["old"]))
    assert seen == {"3", "apples", "Dogs", "cat"}


def test_an_entity_is_changed_in_all_its_mentions() -> None:
    given = with_graph(["A [pear=pear:food] of [9#:pears] [pears=pear:food]."])
    rows = asked("from_changed_knowledge", given, per_unit=16)
    (row,) = [row for row in rows if row["values"]["old"] == "pear"]
    assert row["values"]["entities"] == [{"text": "apple", "type": "food"}]
    assert row["values"]["quantities"][0]["counts"] == "apples"


def test_kinds_of_change_alternate_and_none_comes_twice() -> None:
    for seed in range(20):
        rows = asked("from_changed_knowledge", with_graph([SENTENCE]), seed, per_unit=6)
        kinds = [row["values"]["old"] == "3" for row in rows]
        assert kinds in ([True, False] * 3, [False, True] * 3)
        assert len({(row["values"]["old"], row["values"]["new"]) for row in rows}) == 6


def test_a_range_changes_as_its_text_does() -> None:
    given = marked(["It takes [10-20# s]."], {"10-20": 15.0})
    given = MethodInput(given.sentences, given.anchors, given.mentions, THINGS)
    for seed in range(20):
        (row,) = asked("from_changed_knowledge", given, seed)
        low, high = 10, 20
        new = int(row["detail"]["new"])
        if row["detail"]["old"] == "10":
            low = new
        else:
            assert row["detail"]["old"] == "20"
            high = new
        assert low < high
        (quantity,) = row["values"]["quantities"]
        assert quantity["text"] == f"{low}-{high}"
        assert quantity["value"] == (low + high) / 2


def test_without_anything_to_change_there_is_no_row() -> None:
    given = with_graph(["The [rock=rock:stone] lies.", "Nothing."])
    assert asked("from_changed_knowledge", given) == []
