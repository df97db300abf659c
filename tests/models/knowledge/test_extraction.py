"""Mentions of hand-written sentences, counted by hand, and what holds of any text."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.models.english.words import STOP_WORDS
from tercet.models.knowledge.extraction import Mentions, extract, longest_first
from tercet.models.knowledge.lexicon import Lexicon, load_lexicon, phrase_trie


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return load_lexicon()


def _counts(text: str, lexicon: Lexicon) -> list[tuple[str, float, str | None, str | None]]:
    found = extract([text], lexicon)
    return [
        (
            found.text[at],
            float(found.value[at]),
            found.unit[at],
            found.text[found.counted[at]] if found.counted[at] >= 0 else None,
        )
        for at in range(len(found.text))
        if not found.entity[at]
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The two dogs saw a horse.", "dogs=dog:animal; horse:animal"),
        # A phrase before its words; the plural of its last word.
        (
            "All decision trees fit a training set.",
            "decision trees=decision tree:learning; training set:data",
        ),
        # "Kernel" is of system and of learning: the other entities decide.
        (
            "A kernel of the operating system starts a process.",
            "kernel:system; operating system:system; process:system",
        ),
        (
            "A kernel helps the classifier and the regressor.",
            "kernel:learning; classifier:learning; regressor:learning",
        ),
        ("Then a kernel.", "kernel:system"),
        (
            "Pass n_jobs to RandomForestClassifier, call fit() or --verbose.",
            "n_jobs:identifier; RandomForestClassifier:identifier; fit():identifier; "
            "--verbose:identifier",
        ),
        (
            "Later John Smith met J. R. Jones at the University of Leeds.",
            "John Smith:name; J. R. Jones:name; University of Leeds:name",
        ),
        ("See Numpy Guide there.", "Numpy Guide:name"),
        ("Say Chrome Driver runs as True, False, None, NaN or NULL.", "Say Chrome Driver:name"),
        ("Everybody went to New York.", "New York:place"),
        # In, a, as and it are nouns to a big dictionary; after a modal there is a verb.
        ("It can model it, as a no one in it.", ""),
        ("Visit https://example.org/array or e.g. www.tree.org now.", ""),
        ("The data-driven, time-tested way.", ""),
        ("In October the list, e.g. sorted.", "October:time; list:data"),
    ],
)
def test_entities(text: str, expected: str, lexicon: Lexicon) -> None:
    found = extract([text], lexicon)
    entities = zip(found.text, found.node, found.type, found.entity, strict=True)
    # The node where it is another than the text.
    noted = [
        f"{text}:{kind}" if node == text.casefold() else f"{text}={node}:{kind}"
        for text, node, kind, entity in entities
        if entity
    ]
    assert "; ".join(noted) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The two red dogs left.", [("two", 2, None, "dogs")]),
        ("She ate 5 kg of rice.", [("5", 5, "kg", "rice")]),
        ("It took three hours.", [("three", 3, "hour", "hours")]),
        ("Half of the people left.", [("Half", 0.5, None, "people")]),
        ("Between 5 and 7 arrays.", [("5 and 7", 6, None, "arrays")]),
        ("One dog and no one else, one says.", [("One", 1, None, "dog")]),
        ("In 1200 people came.", [("1200", 1200, None, None)]),
        ("A 2-dimensional array.", [("2", 2, None, None)]),
        ("A dose of 5-apdb.", []),
        ("A 3-row table.", [("3", 3, None, "row")]),
        ("It cost $5 million.", [("5 million", 5e6, "$", None)]),
        ("Two stone garden walls.", [("Two", 2, None, "walls")]),
        ("Twelve. Dogs bark.", [("Twelve", 12, None, None)]),
    ],
)
def test_quantities_point_to_what_they_count(
    text: str, expected: list[tuple[str, float, str | None, str | None]], lexicon: Lexicon
) -> None:
    assert _counts(text, lexicon) == expected


def _rows(found: Mentions, number: int) -> list[tuple[object, ...]]:
    return [
        (
            found.start[at],
            found.end[at],
            found.text[at],
            found.node[at],
            found.type[at],
            str(found.value[at]),
            found.unit[at],
            found.text[found.counted[at]] if found.counted[at] >= 0 else None,
        )
        for at in np.flatnonzero(found.row == number)
    ]


_LISTED = """the of two three half 5 1997 20% 10-20 $3 dogs decision trees New York NASA John kernel
n_jobs fit() --flag a.b ½ café naïve e.g. one million and a kg training set Sets - . , ( )
' " 😀 👩\u200d👩\u200d👧 e\u0301 \ufb01 ß İ Ⅻ ٣ 漢字 \u200b dog's don't O'Neill"""
_PIECES = st.sampled_from(_LISTED.split())
_TEXTS = st.lists(
    st.one_of(
        st.lists(_PIECES, max_size=12).map(" ".join),
        st.lists(_PIECES, max_size=12).map("".join),
        st.lists(_PIECES, max_size=12).map("\u00a0".join),
        st.lists(_PIECES, max_size=12).map("\n".join),
        st.text(max_size=40),
    ),
    max_size=6,
)


@given(texts=_TEXTS, cut=st.integers(0, 6))
@settings(max_examples=250, deadline=None)
def test_offsets_are_valid_and_a_text_stands_alone(texts: list[str], cut: int) -> None:
    lexicon = load_lexicon()
    found = extract(texts, lexicon)
    place = (0, 0)
    for at in range(len(found.text)):
        row, start, end = int(found.row[at]), int(found.start[at]), int(found.end[at])
        assert 0 <= start < end <= len(texts[row])
        assert texts[row][start:end] == found.text[at]
        assert (row, start) >= place  # in order, and never overlapping
        place = (row, end)
        assert found.entity[at] or np.isfinite(found.value[at])
        assert not found.entity[at] or found.node[at] not in STOP_WORDS - {"us"}
        counted = int(found.counted[at])
        assert counted < 0 or (found.entity[counted] and found.row[counted] == row)
    parts = [extract(texts[:cut], lexicon), extract(texts[cut:], lexicon)]
    for number in range(len(texts)):
        part, shift = (parts[0], 0) if number < cut else (parts[1], min(cut, len(texts)))
        assert _rows(found, number) == _rows(part, number - shift)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8), st.integers(0, 3)), max_size=14))
def test_longest_then_leftmost(rows: list[tuple[int, int, int]]) -> None:
    rows = list(dict.fromkeys(rows))
    spans = [(start, start + length, rank) for start, length, rank in rows]
    literal: list[tuple[int, int, int]] = []
    for span in sorted(spans, key=lambda s: (s[0] - s[1], s[0], s[2])):
        if all(span[1] <= kept[0] or kept[1] <= span[0] for kept in literal):
            literal.append(span)
    columns = np.array(spans, dtype=np.int64).reshape(-1, 3)
    kept = longest_first(columns[:, 0], columns[:, 1], columns[:, 2])
    assert [spans[at] for at in kept] == sorted(literal)


def test_phrases_are_looked_up_by_words() -> None:
    phrases = phrase_trie([["a"], ["a", "b"], ["b", "b", "a", "c"], ["a", "b"]])
    number = phrases.words
    node = np.array([number["a"], number["b"]])
    assert phrases.entry(node).tolist() == [0, -1]
    node = phrases.step(node, np.array([number["b"], number["b"]]))
    assert phrases.entry(node).tolist() == [1, -1]
    node = phrases.step(node, np.array([-1, number["a"]]))
    assert phrases.entry(phrases.step(node, np.full(2, number["c"]))).tolist() == [-1, 2]
    with pytest.raises(ValueError, match="4 words"):
        phrase_trie([re.findall(".", "abcde")])
