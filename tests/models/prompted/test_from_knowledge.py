"""Records of what a sentence speaks of, as they are and with one thing changed."""

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from prompted_given import asked, graph, marked, mention, node
from rules_given import alone, mentions_of

from tercet.models.generation import MethodInput
from tercet.models.knowledge import quantities
from tercet.models.knowledge.answer_schema import TYPES
from tercet.models.rules.entity_swap import Entities

SENTENCE = "[Dogs=dog:animal] and a [cat=cat:animal] ate [3#:apples] [apples=apple:food]."
PLAIN = "Dogs and a cat ate 3 apples."
THINGS = graph(
    *({name: "animal"} for name in ("dog", "cat", "owl")),
    *({name: "food"} for name in ("apple", "pear")),
)


# dog and fox share a neighbour (house); owl and ape share none with dog.
ANIMALS = graph(
    {"dog": "animal", "house": "building"},
    {"fox": "animal", "house": "building"},
    {"owl": "animal", "tree": "plant"},
    {"ape": "animal", "tree": "plant"},
)


def with_graph(
    texts: list[str], entities: Entities = THINGS, values: dict[str, float] | None = None
) -> MethodInput:
    return replace(marked(texts, values), replacements=entities)


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
    assert row["detail"]["operation"] == "write_from_knowledge"


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


def test_kinds_of_change_alternate_and_none_comes_twice() -> None:
    for seed in range(20):
        rows = asked("from_changed_knowledge", with_graph([SENTENCE]), seed, per_unit=6)
        kinds = [row["values"]["old"] == "3" for row in rows]
        assert kinds in ([True, False] * 3, [False, True] * 3)
        assert len({(row["values"]["old"], row["values"]["new"]) for row in rows}) == 6


def test_a_range_changes_as_its_text_does() -> None:
    given = with_graph(["It takes [10-20# s]."], values={"10-20": 15.0})
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


def test_the_preferred_pool_serves_and_the_row_says_so() -> None:
    given = with_graph(["The [dog=dog:animal] sleeps."], ANIMALS)
    for seed in range(20):
        (row,) = asked("entity_revision", given, seed)
        assert row["values"] == {
            "sentence": "The dog sleeps.",
            "old": "dog",
            "new": "fox",
            "type": "animal",
            "edit": "minimal",
        }
        assert row["detail"] == {
            "operation": "revise_entity",
            "old": "dog",
            "new": "fox",
            "mention_id": mention("The dog sleeps.", 4),
            "node_id": node("fox"),
            "pool": "T_p",
        }


@pytest.mark.parametrize("method", ["entity_revision", "from_changed_knowledge"])
@pytest.mark.parametrize("choice", ["nearest", "uniform"])
@pytest.mark.parametrize("kind", [*TYPES, "identifier", "name", "a type of one's own"])
def test_a_type_of_two_members_has_a_revision(method: str, choice: str, kind: str) -> None:
    for old, new in (("dog", "fox"), ("dog", "Fox Ltd"), ("np.sum()", "fit_all"), ("dog", "milk")):
        pair = graph({old: kind, "house": "one more"}, {new: kind, "tree": "yet another"})
        given = with_graph([f"See the [{old}={old}:{kind}] there."], pair)
        (row,) = asked(method, given, choice=choice)
        assert (row["values"]["old"], row["values"]["new"]) == (old, new)
        assert row["detail"]["pool"] == "T_r"


def test_the_last_of_many_entities_has_a_revision_if_no_other_has() -> None:
    kinds = {f"w{n}": f"kind {n}" for n in range(9)}
    given = with_graph(
        [" ".join(f"[{word}={word}:{kind}]" for word, kind in kinds.items())],
        graph(kinds, {"other": "kind 8"}),
    )
    for seed in range(12):
        (row,) = asked("entity_revision", given, seed)
        assert (row["values"]["old"], row["values"]["new"]) == ("w8", "other")


@pytest.mark.parametrize("method", ["entity_revision", "from_changed_knowledge"])
def test_an_even_choice_takes_each_of_t_p_alike_and_never_what_the_sentence_says(
    method: str,
) -> None:
    names = [*(f"a{n}" for n in range(8)), "dog", "fox"]
    many = graph(*({name: "animal", "house": "place"} for name in names), {"owl": "animal"})
    given = with_graph(["The [dog=dog:animal] met the fox."], many)
    counts = Counter(
        asked(method, given, seed, choice="uniform")[0]["values"]["new"] for seed in range(800)
    )
    assert counts.keys() == set(names) - {"dog", "fox"}
    # 100 each, give or take three and a half standard deviations.
    assert min(counts.values()) > 65
    assert max(counts.values()) < 135


def test_what_t_p_lacks_comes_from_t_r() -> None:
    near = graph({"dog": "animal", "fox": "animal", "house": "place"}, {"owl": "animal"})
    given = with_graph(["The [dog=dog:animal] met the [fox=fox:animal]."], near)
    for seed in range(20):
        (row,) = asked("entity_revision", given, seed, choice="uniform")
        assert (row["values"]["new"], row["detail"]["pool"]) == ("owl", "T_r")


def test_sentences_without_a_replacement_have_no_row() -> None:
    given = with_graph(
        [
            "Nothing is here.",
            "The [rock=rock:stone] lies.",  # not in the graph
            "A [tree=tree:plant] falls.",  # the only one of its type
            "The [dog=dog:animal] saw the fox, the owl and the ape.",  # none is left
            "The [dog=dog:animal] sleeps.",
        ],
        ANIMALS,
    )
    assert [row["source"] for row in asked("entity_revision", given)] == ["The dog sleeps."]


def test_the_new_entity_is_written_in_the_number_and_place_of_the_old_one() -> None:
    given = with_graph(["[Dogs=dog:animal] bark."], ANIMALS)
    (row,) = asked("entity_revision", given)
    assert (row["values"]["old"], row["values"]["new"]) == ("Dogs", "Foxes")


def test_further_rows_take_other_entities_first_and_then_other_replacements() -> None:
    lonely = graph(*({name: "animal"} for name in ("dog", "fox", "owl", "ape", "cat")))
    given = with_graph(["A [dog=dog:animal] met a [fox=fox:animal].", "No one."], lonely)
    for seed in range(10):
        two = asked("entity_revision", given, seed, per_unit=2)
        assert sorted(row["values"]["old"] for row in two) == ["dog", "fox"]
        many = asked("entity_revision", given, seed, per_unit=16)
        pairs = [(row["values"]["old"], row["values"]["new"]) for row in many]
        assert len(set(pairs)) == len(pairs) == 6
        assert {new for _, new in pairs} == {"owl", "ape", "cat"}


@pytest.mark.parametrize(
    ("text", "old", "news", "counted", "unit"),
    [
        ("He has [3#:dogs] [dogs=dog:animal].", "3", "245678 9", "dogs", ""),
        ("It is [5# km] away.", "5", "2346789", "", "km"),
        ("She saw [two#:cats] [cats=cat:animal].", "two", None, "cats", ""),
    ],
)
def test_a_number_becomes_another_of_its_form(
    text: str, old: str, news: str | None, counted: str, unit: str
) -> None:
    given = marked([text])
    seen = set()
    for seed in range(60):
        (row,) = asked("quantity_revision", given, seed)
        values, detail = row["values"], row["detail"]
        assert (values["old"], values["counted"], values["unit"]) == (old, counted, unit)
        assert detail["operation"] == "revise_quantity"
        assert (detail["old"], detail["new"]) == (old, values["new"])
        assert detail["mention_id"] == mention(row["source"], row["source"].index(old))
        assert detail["node_id"] == node(old, "quantity")
        assert detail["pool"] is None
        seen.add(values["new"])
    words = {"three", "four", "five", "six", "seven", "eight", "nine", "ten"}
    assert seen == (words if news is None else set(news.replace(" ", "")))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The array needs at least 1 of them.", 1),
        ("One of the dogs sleeps.", 1),
        ("Two dogs, one black and one white, sleep.", 1),
        ("It took a dozen eggs and ½ a cup.", 2),
        ("About a hundred eggs from 1-2 hens, 1e-5 off.", 3),
        ("It says 3/1 dogs of 100% in 2025-2026.", 3),
    ],
)
def test_a_random_value_stands_for_any_quantity_of_the_sentence(text: str, count: int) -> None:
    sentences = alone([text])
    given = MethodInput(sentences, np.arange(1), mentions_of(sentences))
    quantities_there = set(given.located("quantity")["mention_id"].to_pylist())
    assert len(quantities_there) == count
    for seed in range(30):
        rows = asked("quantity_revision", given, seed, per_unit=8, value="random")
        assert {row["detail"]["mention_id"] for row in rows} == quantities_there
        for row in rows:
            old, new = row["values"]["old"], row["values"]["new"]
            assert old in row["source"]
            assert old != new


def test_a_record_says_the_random_value_in_the_place_of_what_it_had() -> None:
    sentences = alone(["It took a dozen eggs."])
    given = MethodInput(sentences, np.arange(1), mentions_of(sentences), ANIMALS)
    (row,) = asked("from_changed_knowledge", given, 3, value="random")
    (quantity,) = row["values"]["quantities"]
    assert row["values"]["old"] == "a dozen"
    assert quantity["text"] == row["values"]["new"]
    assert quantity["value"] not in (12, None)


def test_a_number_is_never_replaced_by_its_own_value() -> None:
    given = marked(["It has [1,000#:beds] [beds=bed:tool] and [half# kg]of it."])
    for seed in range(30):
        for row in asked("quantity_revision", given, seed, per_unit=8):
            old, new = row["values"]["old"], row["values"]["new"]
            assert quantities.find(f"{old} of")[0].value != quantities.find(f"{new} of")[0].value


def test_further_rows_take_other_numbers_and_then_other_new_ones() -> None:
    given = marked(["[Two=two:x] of [3#] cats and [40#] dogs.", "One thing."])
    for seed in range(10):
        two = asked("quantity_revision", given, seed, per_unit=2)
        assert sorted(row["values"]["old"] for row in two) == ["3", "40"]
        six = asked("quantity_revision", given, seed, per_unit=6)
        pairs = {(row["values"]["old"], row["values"]["new"]) for row in six}
        assert len(pairs) == len(six) == 6
        assert [row["values"]["old"] for row in six].count("3") >= 2


def test_what_is_no_statement_stays() -> None:
    given = marked(["It needs at least [1#] of them.", "It is x - [1#] of it.", "No number."])
    assert asked("quantity_revision", given) == []
