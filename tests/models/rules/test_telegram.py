"""Texts cut as for a telegram: words go that the sentence can do without."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rules_given import alone, generated, raws

from tercet.models.rules import telegram

WORDS = st.lists(st.sampled_from(["red", "dog", "ran", "far", "up", "x"]), min_size=1, max_size=30)


def test_a_telegram_keeps_every_fact() -> None:
    text = (
        "It was not the Only one , and yet the 12 old dogs never had the red hats by the owls n't"
    )
    facts = {"not", "Only", "12", "dogs", "never", "red", "hats", "by", "owls", "n't", "had"}
    rest = set()
    for seed in range(60):
        for row in _wired(text, seed):
            words = row["raw"].split()
            assert facts <= set(words)
            rest |= set(Counter(text.split()) - Counter(words))
    assert rest == {"the"}
    # A sentence that needs all its words has no row.
    assert _wired("dogs owls 12 not never none", 1) == []


@pytest.mark.parametrize(
    ("text", "shortest"),
    [
        ("The old bridge was closed in 1987.", "old bridge closed 1987"),
        ("He lived there for nine years.", "He lived there nine years"),
        ("She sold her small house to the mayor.", "She sold her small house to mayor"),
        ("The towns that were burned by them had refused to pay.", None),
        ("However, it is also stored in an array.", "it is stored in array"),
        ("The port of Vigo is open, and it is still busy.", "port of Vigo open, and it is busy"),
        # What tells one thing from another stays, and "was" where something would be its object.
        ("The old cow is not a young cow.", "old cow is not young cow"),
        ("If v is longer than a, the arrays a and b are swapped.", None),
        # What stands between commas takes both of them along, and no space.
        ("The town, however, was saved by us.", "town was saved by us"),
        ("The letter, which was dated in May, is old.", "letter, dated May, is old"),
        ("Boats that were built in May are large.", "Boats built May are large"),
        # "Who" that asks, "that" for a thing, "for" of what is asked, a year that counts.
        ("She said that was boring to the men.", "She said that was boring to men"),
        ("He asked for two weeks of the snow.", "He asked for two weeks of snow"),
        ("He slept in 1500 towns of the land.", "He slept in 1500 towns of land"),
        # What "not" stands beside, and "have" of what might have been.
        ("It isn't very cold in the town.", "It isn't very cold in town"),
        ("He would certainly have closed the door.", "He would have closed door"),
        ("We would rather sleep in the house.", "We would rather sleep in house"),
        ("He was refused the cup twice a day.", "He was refused cup twice a day"),
        ("He ate quite a few of the apples.", "He ate quite a few of apples"),
    ],
)
def test_a_telegram_does_without(
    text: str, shortest: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telegram, "DELETED", 0.9)
    rows = [row["raw"] for seed in range(80) for row in _wired(text, seed)]
    assert rows
    if shortest is not None:
        assert min(rows, key=lambda raw: (len(raw.split()), raw)) == shortest
    for raw in rows:
        assert "  " not in raw
        assert not raw.endswith(".")
        assert all(word in raw.split() for word in ("towns", "a,") if word in text.split())


def test_a_telegram_corrects_the_article() -> None:
    texts = raws("telegram", "They live in a particular office now.", per_sentence=4)
    assert any("in an office" in text for text in texts)


@settings(max_examples=60, deadline=None)
@given(WORDS, st.integers(0, 5))
def test_a_telegram_keeps_its_bounds(words: list[str], seed: int) -> None:
    words = [word for each in words for word in ("the", each)]
    cut = _wired(" ".join(words), seed)
    assert len(cut) == (len(words) > 3)
    for row in cut:
        gone = len(words) - len(row["raw"].split())
        assert 1 <= gone <= min(6, max(1, len(words) // 3))
        old = iter(words)
        assert all(word in old for word in row["raw"].split())


def test_a_telegram_reaches_every_number_of_words() -> None:
    text = "the dog, the cow, the owl, the bee"
    gone = {8 - len(row["raw"].split()) for s in range(40) for row in _wired(text, s)}
    assert gone == {1, 2}


def _wired(text: str, seed: int) -> list[dict[str, str]]:
    return generated("telegram", alone([text]), seed=seed)
