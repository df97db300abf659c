"""Whether a model's answer changes the entity or the number that it was to change."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tercet.models.prompted.checks import faults, stands

SOURCE = "The dog of the woman sat on the mat and slept."


def fault(text: str, checks: str = "", **columns: Any) -> str | None:
    """The reason why an answer is refused."""
    names = ("old", "new", "pool", "prompt")
    row = {"text": text, "source": SOURCE, **dict.fromkeys(names), **columns}
    table = pa.table({name: pa.array([value], pa.string()) for name, value in row.items()})
    for name, listed in (("checks", checks.split()), ("shots", [])):
        table = table.append_column(name, pa.array([listed], pa.list_(pa.string())))
    (found,) = faults(table, pa.chunked_array([[False]]), np.array([False]))
    assert found is None or all(found)
    return found and found[0]


REVISED = {"checks": "new_entity", "old": "dog", "new": "city cat"}


@pytest.mark.parametrize(
    ("text", "columns", "reason"),
    [
        ("The city cat of the woman slept.", {}, None),
        ("The City Cats of the woman slept.", {}, None),
        ("The city cat's mat was torn.", {}, None),
        ("The dog of the woman slept.", {}, "unchanged_entity"),
        ("The animal of the woman slept.", {}, "missing_entity"),
        ("The city cattle of the woman slept.", {}, "missing_entity"),
        ("The city cat chased the dog.", {}, "unchanged_entity"),
        ("The city cat chased the dogs.", {}, "unchanged_entity"),
        ("The city cat is dogmatic.", {}, None),
        ("The guide dog slept.", {"new": "guide dog"}, None),
        ("The dog slept.", {"new": "guide dog"}, "unchanged_entity"),
        ("Two women slept.", {"new": "woman", "old": "men"}, None),
        ("A woman slept.", {"new": "women", "old": "men"}, None),
        ("Call np.array() first.", {"new": "np.array()", "old": "f()"}, None),
        ("猫坐在垫子上。", {"source": "狗坐在垫子上。", "old": "狗", "new": "猫"}, None),
        ("An animal slept.", {"checks": ""}, None),
        ("An animal slept.", {"new": None}, None),
        ("The animal slept.", {"checks": "new_record", "pool": "T_p"}, "missing_entity"),
        ("A city cat and a dog.", {"checks": "new_record", "pool": "T_r"}, None),
        # In other words, it is judged by what was to change.
        ("Asleep on the mat, that's where the woman's city cat was.", {}, None),
        ("Asleep on the mat, that's where the woman's dog was.", {}, "unchanged_entity"),
    ],
)
def test_a_revised_entity(text: str, columns: dict[str, str], reason: str | None) -> None:
    assert fault(text, **{**REVISED, **columns}) == reason


@pytest.mark.parametrize(
    ("text", "new", "reason"),
    [
        ("Seven dogs ate 12 mats.", "7", None),
        ("7 dogs ate 12 mats.", "seven", None),
        ("Five dogs ate all 12 mats.", "7", "missing_number"),
        ("Five dogs ate 17 mats.", "7", "missing_number"),
        ("A dog ate 1200 mats.", "1,200", None),
        ("It cost 2.5 million.", "2.5 million", None),
        ("It cost 2.5.", "2.5 million", "missing_number"),
        ("Two thirds of them ate.", "two thirds", None),
        # Twelve was there before.
        ("Five dogs ate all 12 mats.", "12", "missing_number"),
        ("Twelve dogs ate 12 mats.", "12", None),
        ("Three and a half dogs ate 12 mats.", "3.5", None),
        ("3 and a half dogs ate 12 mats.", "3", "missing_number"),
        ("A dozen dogs ate all.", "12", "missing_number"),
        ("A dozen dogs ate 12 mats.", "12", None),
        ("A dog ate 12 mats.", "1", None),
        ("Dogs ate 12 mats.", "1", "missing_number"),
        ("No dog ate 12 mats.", "0", None),
        ("A couple of dogs ate 12 mats.", "two", None),
        ("A thousand dogs ate 12 mats.", "1000", None),
        ("Dogs ate ½ of it.", "½", None),
        ("Dogs ate half of it.", "½", "missing_number"),
    ],
)
@pytest.mark.parametrize("checks", ["new_number", "new_record"])
def test_a_revised_number(text: str, new: str, reason: str | None, checks: str) -> None:
    source = "Five dogs ate 12 mats."
    found = fault(text, checks, source=source, old="5", new=new)
    assert found == reason


@pytest.mark.parametrize(
    ("source", "old", "new", "text", "reason"),
    [
        ("It has 16 GB.", "16", "32", "It has 32 GB.", None),
        ("It has 16 GB.", "16", "32", "It has 16 GB or 32 GB.", "unchanged_number"),
        ("It has 16 GB.", "16", "32", "It has thirty-two, not sixteen GB.", "unchanged_number"),
        ("It took 3 days.", "3", "3.5", "It took three and a half days.", None),
        ("Part 2 has 2 halves.", "2", "3", "Part 2 has 3 halves.", None),
        ("One dog ran.", "One", "2", "Two dogs ran across a mat.", None),
        # In other words, it is judged by what was to change.
        ("Her dogs have 12 mats.", "12", "7", "Seven mats served as bed for her pets.", None),
        ("Her dogs have 12 mats.", "12", "7", "Of the 12 mats, 7 served.", "unchanged_number"),
        # The whole part of a mixed number is changed by itself.
        ("It took 2 and a half days.", "2", "8", "It took 8 and a half days.", None),
        ("It took 1 1/2 cups.", "1", "3", "It took 3 1/2 cups.", None),
        ("It has 5 GB.", "5", "5.0", "It has 5 GB, or 5.0 GB.", None),
        # What is no numeral.
        ("It has a dozen eggs.", "a dozen", "forty", "It has forty eggs.", None),
        ("It has a dozen eggs.", "a dozen", "40", "It has 40, a dozen more.", "unchanged_number"),
    ],
)
def test_a_number_that_is_left(
    source: str, old: str, new: str, text: str, reason: str | None
) -> None:
    columns = {"source": source, "old": old, "new": new}
    assert fault(text, "new_number", **columns) == reason
    # A sentence written from a record may say what it likes besides.
    assert fault(text, "new_record", **columns) is None


def test_names_are_found_as_whole_words_in_either_number() -> None:
    assert stands("Both cities grew.", "city")
    assert stands("The city grew.", "cities")
    assert not stands("The category grew.", "cat")
    assert not stands("", "cat")
