from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rules_given import alone, generated, raws, sentences

from tercet.models import seeding
from tercet.models.english.numbers import in_words, numbers_in
from tercet.models.generation import Pool
from tercet.models.rules.number_form import rewritten

DOCUMENTS = [
    [["A one.", "A two is here.", "A three."], ["B one.", "B two."]],
    [["C only."]],
    [["D one.", "D two."]],
]


def by_source(method: str, **params: object) -> dict[str, str]:
    rows = generated(method, sentences(DOCUMENTS), params)
    assert len({row["source"] for row in rows}) == len(rows)
    return {row["source"]: row["raw"] for row in rows}


def test_next_sentences_stay_in_the_paragraph() -> None:
    assert by_source("next_sentences") == {
        "A one.": "A two is here. A three.",
        "A two is here.": "A three.",
        "B one.": "B two.",
        "D one.": "D two.",
    }
    assert by_source("next_sentences", max_words=5)["A one."] == "A two is here."
    assert "A one." not in by_source("next_sentences", max_words=3)


def test_rest_of_paragraph_leaves_the_anchor_out() -> None:
    assert by_source("rest_of_paragraph") == {
        "A one.": "A two is here. A three.",
        "A two is here.": "A one. A three.",
        "A three.": "A one. A two is here.",
        "B one.": "B two.",
        "B two.": "B one.",
        "D one.": "D two.",
        "D two.": "D one.",
    }
    # The nearest first: behind, before, and so on.
    assert by_source("rest_of_paragraph", max_words=2)["A two is here."] == "A three."
    assert by_source("rest_of_paragraph", max_words=4)["A three."] == "A two is here."


def test_neighbour_paragraph_is_the_next_of_the_document() -> None:
    assert by_source("neighbour_paragraph") == dict.fromkeys(
        ["A one.", "A two is here.", "A three."], "B one. B two."
    )
    assert set(by_source("neighbour_paragraph", max_words=2).values()) == {"B one."}


@pytest.mark.parametrize(
    ("anchor", "behind", "kept"),
    [
        ("It returns a list.", "Otherwise it returns a set.", False),
        ("It returns a list.", "Unlike fit, it takes no array.", False),
        ("It returns a list.", "fit, on the other hand, returns a set.", False),
        ("It returns a list.", "This differs from fit.", False),
        ("For a list it is fast.", "For a set it is slow.", False),
        ("If a list is given, it is read.", "If not, it is made.", False),
        ("It returns a list.", "For a set it is slow.", True),
        ("When it ends, it returns a list.", "If it fails, it says so.", True),
        ("For a list it is fast.", "For example, it takes a second.", True),
        ("It returns a list.", "The list is sorted.", True),
    ],
)
def test_what_states_the_opposite_case_is_no_positive(anchor: str, behind: str, kept: bool) -> None:
    for method in ("next_sentences", "rest_of_paragraph"):
        rows = generated(method, sentences([[[anchor, behind]]]))
        assert ([row["raw"] for row in rows if row["source"] == anchor] == [behind]) is kept
    # Nor does the anchor follow what it opposes.
    rows = generated("rest_of_paragraph", sentences([[[anchor, behind]]]))
    assert any(row["source"] == behind for row in rows) is kept
    rows = generated("neighbour_paragraph", sentences([[[anchor], [behind]]]))
    assert bool(rows) is kept


def test_cutoff_keeps_every_fact() -> None:
    text = "It was not so there , and yet he never has Seen 12 red dogs or few owls n't 3rd ."
    # "Seen" may be a name: it begins with a capital where no sentence begins.
    facts = {"not", "never", "Seen", "12", "dogs", "few", "owls", "n't", "3rd"}
    rest = set()
    for seed in range(60):
        for row in _cut(text, seed):
            words = row["raw"].split()
            assert facts <= set(words)
            rest |= set(text.split()) - set(words)
    assert len(rest) > 6
    # A sentence of nothing else has no row.
    assert _cut("dogs owls 12 not never none", 1) == []


@pytest.mark.parametrize(
    "text",
    [
        *("A lock manager with empty locks.", "Raises ImportError."),
        *("See the documentation for usage notes.", "Disputes between miners flared into brawls."),
        *("Her works first appeared in journals.", "They elected the first Parliament."),
        *("It rises depending on the algorithm.", "Assigns values outside boundary."),
        *("He used to sing there.", "It needs to be seen.", "The changes occurred to them."),
        *("It is narrow, so that ships turn.", "The number depends on the caller."),
        "It closely resembles the dog.",
    ],
)
def test_synonym_leaves_what_has_several_senses(text: str) -> None:
    assert all(generated("synonym", alone([text]), seed=seed) == [] for seed in range(6))


@pytest.mark.parametrize(
    "text",
    [
        *("It is on page 8 of the book.", "Formula 51 has dulled your senses."),
        *("The elevation is between 2000 and 3000 meters.", "It takes 5 mm of it."),
        *("It was 11 of 14 dogs.", "The cat of one of them slept.", "The 3 are equal."),
        *("It calls `3` dogs.", "He ran 2 1/2 miles.", "He drank a half of the milk."),
        *("He was born in 1987.", "It happened on 20 February 1988."),
        *("It needs version 3.11 of the tool.", "One of the dogs sat.", "It gives 10-20 dogs."),
        *("It makes a 2-D array.", "It is exp(x) - 1 in dogs."),
    ],
)
def test_number_form_leaves_what_counts_nothing(text: str) -> None:
    assert raws("number_form", text) == []


WORDS = st.lists(st.sampled_from(["red", "dog", "ran", "far", "up", "x"]), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(WORDS, st.integers(0, 5))
def test_noise_keeps_its_bounds(words: list[str], seed: int) -> None:
    text, count = " ".join(words), Counter(words)
    rows = alone([text])
    for row in generated("word_repetition", rows, seed=seed):
        extra = Counter(row["raw"].split()) - count
        most = max(1, int(0.3 * (len(words) - 1)))
        assert 1 <= sum(extra.values()) <= most
        new = iter(row["raw"].split())
        assert all(word in new for word in words)  # the words are still there, in order
    cut = generated("cutoff", rows, seed=seed)
    assert len(cut) == (len(words) > 3)
    for row in cut:
        gone = len(words) - len(row["raw"].split())
        assert 1 <= gone <= min(6, len(words) // 3)
        old = iter(words)
        assert all(word in old for word in row["raw"].split())
    shuffled = generated("word_shuffle", rows, seed=seed)
    assert len(shuffled) == (len(set(words)) > 1)
    for row in shuffled:
        assert Counter(row["raw"].split()) == count
        assert row["raw"] != text


def test_cutoff_reaches_every_number_of_words() -> None:
    text = "a b c d e f g h i"
    gone = {9 - len(row["raw"].split()) for s in range(40) for row in _cut(text, s)}
    assert gone == {1, 2, 3}


def _cut(text: str, seed: int) -> list[dict[str, str]]:
    return generated("cutoff", alone([text]), seed=seed)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("They began to sit.", {"They started to sit.", "They commenced to sit."}),
        ("He purchased a car.", {"He bought a car.", "He bought an automobile."}),
        ("The Open University", set()),
        ("Numerous dogs sat.", {"Many dogs sat."}),
        ("They were defeated there.", {"They were beaten there."}),
        ("It is due to close.", set()),
        ("Rarely, it rains.", {"Seldom, it rains."}),
        ("It is my_car, car.start, a/car and car()", set()),
    ],
)
def test_synonym(text: str, wanted: set[str]) -> None:
    assert set(raws("synonym", text)) <= wanted
    assert bool(raws("synonym", text)) == bool(wanted)


def test_several_synonyms_of_a_sentence_differ() -> None:
    several = raws("synonym", "They purchased a large building.", words=1, per_sentence=3)
    assert len(set(several)) == len(several) >= 2


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The box holds 3 apples.", "The box holds three apples."),
        ("12 dogs sat.", "Twelve dogs sat."),
        ("It costs 1,234 dollars.", "It costs 1234 dollars."),
        ("It has 81234 users.", "It has 81,234 users."),
        ("It has 2.5 million users.", "It has 2,500,000 users."),
        ("Some 30% of dogs sleep.", "Some 30 percent of dogs sleep."),
        ("About 50 % of dogs sleep.", "About half of dogs sleep."),
        ("50% of dogs sleep.", "Half of dogs sleep."),
        ("Half of the dogs sleep.", "50% of the dogs sleep."),
        ("It uses 1/2 cup of milk.", "It uses one half cup of milk."),
        ("He has an 8 dog team.", "He has an eight dog team."),
        ("He has a 7 dog team and 3 cats.", "He has a seven dog team and three cats."),
        ("He leads a 3-dog team.", "He leads a three-dog team."),
    ],
)
def test_number_form(text: str, wanted: str) -> None:
    assert raws("number_form", text) == [wanted]


@given(st.integers(0, 10**9), st.sampled_from(["{}", "{:,}"]), st.booleans())
def test_number_form_keeps_the_value(value: int, form: str, words: bool) -> None:
    number = in_words(value) if words else form.format(value)
    text = f"They saw {number} dogs."
    found = numbers_in(text)
    assert len(found) == 1
    change = rewritten(text, found[0].start, found[0].end, found[0])
    if change is not None:
        assert change[1] != number
        assert [n.value for n in numbers_in(f"saw {change[1]} dogs")] == [value]


def pool_of(rows: pa.Table) -> Pool:
    ids = rows["sentence_id"].to_numpy()
    texts = dict(zip(ids.tolist(), rows["text"].to_pylist(), strict=True))
    order = np.argsort(seeding.mix(ids))
    return Pool(
        seeding.mix(ids)[order],
        ids[order],
        rows["doc_id"].to_numpy()[order],
        lambda wanted: [texts[i] for i in wanted.tolist()],
    )


def test_random_where_one_document_is_nearly_all() -> None:
    rows = sentences([[[f"big {s}" for s in range(50)]], [["other"]]])
    found = {row["source"]: row["raw"] for row in generated("random", rows, pool=pool_of(rows))}
    assert {found[f"big {s}"] for s in range(50)} == {"other"}
    assert found["other"].startswith("big")
    lonely = sentences([[["a", "b"]]])
    assert generated("random", lonely, pool=pool_of(lonely)) == []


def test_random_moves_little_when_the_pool_grows() -> None:
    rows = sentences([[[f"d{d}"]] for d in range(300)])
    before = {row["source"]: row["raw"] for row in generated("random", rows, pool=pool_of(rows))}
    more = sentences([[[f"d{d}"]] for d in range(303)])
    after = {row["source"]: row["raw"] for row in generated("random", rows, pool=pool_of(more))}
    moved = [source for source in before if before[source] != after[source]]
    assert all(after[source] in ("d300", "d301", "d302") for source in moved)
    assert len(moved) < 20
