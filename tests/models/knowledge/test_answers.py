"""What is read from a model's answers: mentions that stand in the text, and faults."""

import itertools
import json
import time
from typing import Any

import jsonschema
import pytest

from tercet.models.knowledge.answer_schema import CATEGORIES, TYPES, schema
from tercet.models.knowledge.answers import Allowed, read

ALLOWED = Allowed(
    ["nature", "other"], ["animal", "place", "person"], frozenset(("dog", "city", "glasses"))
)


def answer(
    *entities: str | tuple[str, str],
    quantities: list[Any] | tuple[Any, ...] = (),
    category: Any = "nature",
) -> str:
    listed = [one if isinstance(one, tuple) else (one, "animal") for one in entities]
    return json.dumps(
        {
            "category": category,
            "entities": [{"text": text, "type": kind} for text, kind in listed],
            "quantities": [
                one if isinstance(one, dict) else dict(zip(("text", "value"), one, strict=True))
                for one in quantities
            ],
        },
        ensure_ascii=False,
    )


def places_and_faults(
    text: str, raw: str
) -> tuple[list[tuple[str, int]], list[tuple[str, str | None]]]:
    """The texts with their starts, and the faults, of one answer."""
    found, faults = read([raw], [text], ALLOWED)
    for start, end, words in zip(found.start, found.end, found.text, strict=True):
        assert text[start:end] == words
    ends = sorted(zip(found.start.tolist(), found.end.tolist(), strict=True))
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ends))
    return list(zip(found.text, found.start.tolist(), strict=True)), [
        (fault.reason, fault.text) for fault in faults
    ]


def test_the_schema_takes_what_is_wanted_and_nothing_else() -> None:
    made = schema(CATEGORIES, TYPES)
    jsonschema.Draft202012Validator.check_schema(made)
    check = jsonschema.Draft202012Validator(made)
    good = {
        "category": "nature",
        "entities": [{"text": "dog", "type": "animal"}],
        "quantities": [{"text": "two", "value": 2, "unit": "kg", "counts": "dog"}],
    }
    assert check.is_valid(good)
    assert check.is_valid({"category": "other", "entities": [], "quantities": []})
    bad: list[dict[str, Any]] = [
        good | {"category": "poetry"},
        good | {"more": 1},
        good | {"entities": [{"text": "dog", "type": "beast"}]},
        good | {"entities": ["dog"]},
        good | {"quantities": [{"text": "two", "value": "two"}]},
    ]
    assert not any(map(check.is_valid, bad))


@pytest.mark.parametrize(
    ("text", "entities", "places", "faults"),
    [
        ("The dog saw a cat.", ["dog", "cat"], [("dog", 4), ("cat", 14)], []),
        # The text's own spelling; whole words before parts, exact ones before others.
        ("A DOG and the Dog.", ["Dog"], [("Dog", 14)], []),
        ("A DOG and the Dog.", ["dog"], [("DOG", 2)], []),
        ("Dogmatic dog.", ["dog"], [("dog", 9)], []),
        # Said twice it stands twice, a third time nowhere.
        ("A dog, a dog.", ["dog", "dog", "dog"], [("dog", 2), ("dog", 9)], ["overlapping"]),
        # The longest first, whatever the order.
        ("New York State.", ["York", "New York State"], [("New York State", 0)], ["overlapping"]),
        ("New York of York.", ["York", "New York"], [("New York", 0), ("York", 12)], []),
        # A singular is found in its plural, a part of another word is not found.
        ("Two dogs.", ["dog"], [("dogs", 4)], []),
        ("A party.", ["art"], [], ["not_in_text"]),
        ("A cat.", ["dog", "", " ", "."], [], ["not_in_text"] * 4),
        # Articles are no part of an entity, but of a name.
        ("The dog slept.", ["The dog"], [("dog", 4)], []),
        ("In The Hague.", [("The Hague", "place")], [("The Hague", 3)], []),
        # Offsets are characters, also behind emoji and letters that grow in lower case.
        ("😀 İİ a dog.", ["Dog"], [("dog", 7)], []),
        ("猫坐在垫子上。", ["猫", "垫子"], [("猫", 0), ("垫子", 3)], []),
        ("The dog.", [("dog", "beast"), ("dog", "Animal ")], [("dog", 4)], ["unknown_type"]),
    ],
)
def test_entities(
    text: str, entities: list[Any], places: list[tuple[str, int]], faults: list[str]
) -> None:
    found, wrong = places_and_faults(text, answer(*entities))
    assert found == places
    assert [reason for reason, _ in wrong] == faults


@pytest.mark.parametrize(
    ("text", "raw", "expected"),
    [
        ("It weighs 5 kg.", ("5", 5), ("5", 5.0, "measure", "kg")),
        ("It weighs 5 kg.", ("5 kg", 5.0), ("5", 5.0, "measure", "kg")),
        ("It has twenty-five rooms.", ("Twenty-five", 25), ("twenty-five", 25.0, "number", None)),
        ("It cost $1,200.", ("$1,200", 1200), ("1,200", 1200.0, "money", "$")),
        ("It was 2.5 million.", ("2.5 million", 2.5e6), ("2.5 million", 2.5e6, "number", None)),
        ("From 5 to 10 of them.", ("5 to 10", 7.5), ("5 to 10", 7.5, "range", None)),
        ("From 5 to 10 of them.", ("10", 10), ("5 to 10", 7.5, "range", None)),
        ("It rose 50 %.", ("50 %", 50), ("50", 50.0, "percentage", "%")),
        ("Of 12, 1 and 2 are new.", ("2", 2), ("2", 2.0, "number", None)),
        ("It rose 50 %.", ("50 %", 0.5), "number_not_there"),
        ("It weighs 5 kg.", ("5", 6), "number_not_there"),
        ("It weighs 5 kg.", ("5", None), "number_not_there"),
        ("It weighs 5 kg.", ("5", True), "number_not_there"),
        ("It is the 2nd of 2024-05-06.", ("2024", 2024), "number_not_there"),
        ("The last one left.", ("one", 1), "number_not_there"),
        ("It weighs 5 kg.", ("6", 6), "not_in_text"),
    ],
)
def test_quantities(text: str, raw: tuple[str, Any], expected: Any) -> None:
    found, faults = read([answer(quantities=[raw])], [text], ALLOWED)
    if isinstance(expected, str):
        assert ([fault.reason for fault in faults], found.text) == ([expected], [])
        return
    assert not faults
    (words,), (value,) = found.text, found.value.tolist()
    assert (words, value, found.type[0], found.unit[0]) == expected
    assert found.node == [expected[0].casefold()]


def test_what_a_quantity_counts() -> None:
    text = "Two dogs and one cat saw 5 lux of a dog."
    quantities = [
        {"text": "Two", "value": 2, "counts": "dogs"},
        {"text": "one", "value": 1, "counts": "the cat"},
        {"text": "5", "value": 5, "unit": "lux", "counts": "horse"},
    ]
    found, faults = read([answer("cat", "dogs", "dog", quantities=quantities)], [text], ALLOWED)
    assert not faults
    assert found.text == ["Two", "dogs", "one", "cat", "5", "dog"]
    assert found.counted.tolist() == [1, -1, 3, -1, -1, -1]
    assert found.unit == [None, None, None, None, "lux", None]
    assert found.entity.tolist() == [False, True, False, True, False, True]
    # "dog" is a noun that is known, "cat" is none and stays as it is said.
    assert found.node == ["two", "dog", "one", "cat", "5", "dog"]


def test_of_two_like_numbers_each_counts_its_own() -> None:
    text = "Two dogs and two cats slept."
    for order in (("cats", "dogs"), ("dogs", "cats")):
        quantities = [{"text": "two", "value": 2, "counts": counted} for counted in order]
        found, faults = read([answer("dogs", "cats", quantities=quantities)], [text], ALLOWED)
        assert (found.text, faults) == (["Two", "dogs", "two", "cats"], [])
        assert found.counted.tolist() == [1, -1, 3, -1]


def test_a_number_that_needs_a_noun_counts_one() -> None:
    counted = {"text": "one", "value": 1, "counts": "dog"}
    found, faults = read([answer("dog", quantities=[counted])], ["It had one dog."], ALLOWED)
    assert (found.text, found.counted.tolist(), faults) == (["one", "dog"], [1, -1], [])
    found, faults = read([answer("dog", quantities=[("one", 1)])], ["It had one dog."], ALLOWED)
    assert (found.text, found.counted.tolist()) == (["dog"], [-1])
    assert [(fault.reason, fault.text) for fault in faults] == [("number_not_there", "one")]


@pytest.mark.parametrize(
    "raw",
    [
        "{}",
        'Here is the JSON:\n```json\n{"entities": [{"text": "dog", "type": "animal"}]}\n```\nDone.',
        'It is {"entities": [{"text": "dog", "type": "animal"}]}, I think.',
        'Of {a} dog: {\n"entities": [{"text": "dog", "type": "animal"}]} {"entities": []}',
    ],
)
def test_json_among_other_words(raw: str) -> None:
    found, faults = read([raw], ["A dog."], ALLOWED)
    assert found.text == (["dog"] if "dog" in raw else [])
    assert [fault.reason for fault in faults] == ["unknown_category"]


@pytest.mark.parametrize(
    "raw",
    [
        *("", "nothing", "[]", "null", "5", '"text"', "{", '{"entities": [', "NaN"),
        *("[" * 100_000, '{"a":' * 100_000, "{" + "\x00" + "}"),
    ],
)
def test_what_is_no_json_object(raw: str) -> None:
    found, faults = read([raw], ["A dog."], ALLOWED)
    assert [(fault.reason, fault.text) for fault in faults] == [("not_json", None)]
    assert found.text == []
    assert found.categories[1] == []


def test_long_answers_are_read_in_no_time() -> None:
    for raw in ("```" + " " * 200_000, "{ " * 100_000, '{"' * 100_000, "```json " * 50_000):
        start = time.thread_time()
        assert read([raw], ["A dog."], ALLOWED)[0].text == []
        assert time.thread_time() - start < 1


@pytest.mark.parametrize(
    ("text", "entity", "quantity", "found", "faults"),
    [
        ("Two dogs ran.", "Two dogs", ("Two", 2), ["Two", "dogs"], []),
        ("In 2 million dogs.", "2 million dogs", ("2 million", 2e6), ["2 million", "dogs"], []),
        # A name, a unit and a number within stay with the entity.
        ("It ate 5 kg of it.", "5 kg", ("5", 5), ["5 kg"], ["overlapping"]),
        ("It is Python 3 here.", "Python 3", ("3", 3), ["Python 3"], ["overlapping"]),
    ],
)
def test_a_quantity_before_an_entity_is_no_part_of_it(
    text: str,
    entity: str,
    quantity: tuple[str, Any],
    found: list[str],
    faults: list[str],
) -> None:
    counted = {"text": quantity[0], "value": quantity[1], "counts": entity}
    mentions, wrong = read([answer(entity, quantities=[counted])], [text], ALLOWED)
    assert mentions.text == found
    assert [fault.reason for fault in wrong] == faults
    if len(mentions.text) == 2:
        assert mentions.counted.tolist() == [1, -1]


def test_one_bad_item_does_not_lose_the_others() -> None:
    raw = """{"category": ["nature"], "entities": [5, null, {"text": 7}, {"type": "animal"}, [],
        {"text": "dog", "type": {"of": "animal"}}, {"text": "cat", "type": "animal", "age": NaN}],
        "quantities": [{"text": "two", "value": NaN}, {"text": "two", "value": 1e999},
        {"text": "two", "value": -Infinity}, {"text": "two", "value": %s}, "two",
        {"text": "two", "value": 2, "counts": {"text": "cat"}, "unit": 5}]}"""
    text = "A dog and two of a cat."
    found, faults = read([raw % ("9" * 6000)], [text], ALLOWED)
    assert found.text == ["two", "cat"]
    assert [fault.reason for fault in faults] == [
        *("unknown_category", "not_json", "not_json", "not_json", "not_json", "not_json"),
        *("unknown_type", "number_not_there", "number_not_there", "number_not_there"),
        *("number_not_there", "not_json"),
    ]
    _, faults = read(
        ['{"category": "nature", "entities": {}, "quantities": "two"}'], [text], ALLOWED
    )
    assert [fault.reason for fault in faults] == ["not_json", "not_json"]
