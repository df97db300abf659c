"""Passages of a document: within the budget, whole, and cut where they may be."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.models.text.words import count_words
from tercet.tasks.corpus.passages import Passage, cut, sections
from tercet.tasks.corpus.sources.corpora import Document, Heading


def count(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def passages(paragraphs: list[list[str]], tokens: int = 16, **more: Any) -> list[Passage]:
    document = Document("a.md", "a.md:1", paragraphs, [], **more)
    return cut([document], tokens, count)[0]


def texts(*given: Any, **named: Any) -> list[str]:
    return [one.text for one in passages(*given, **named)]


def words(number: int, sign: str = "w") -> str:
    return " ".join(f"{sign}{place}" for place in range(number))


SENTENCES = st.integers(1, 40).map(words)
PARAGRAPHS = st.lists(st.lists(SENTENCES, min_size=1, max_size=6), max_size=8)


@given(PARAGRAPHS, st.integers(16, 40), st.data())
@settings(max_examples=200, deadline=None)
def test_passages_join_to_the_documents_text(
    paragraphs: list[list[str]], tokens: int, data: st.DataObject
) -> None:
    numbers = range(len(paragraphs))
    titles = sorted(data.draw(st.sets(st.sampled_from(numbers)))) if paragraphs else []
    headings = tuple(Heading(number, 1, f"H{number}") for number in titles)
    found = passages(paragraphs, tokens, headings=headings)
    body = [one for number, one in enumerate(paragraphs) if number not in titles]
    whole = " ".join(" ".join(paragraph) for paragraph in body)
    assert " ".join(one.text for one in found).replace("\n", " ") == whole
    for one in found:
        assert one.n_tokens == sum(count([one.context, one.text])) <= tokens


def test_a_paragraph_with_room_in_one_passage_is_not_cut() -> None:
    first, second, third = [words(6, "a")] * 2, [words(5, "b")] * 2, [words(4, "c")]
    assert texts([first, second, third]) == [
        " ".join(first),
        " ".join(second) + "\n" + third[0],
    ]


def test_a_longer_paragraph_is_cut_at_sentences_and_its_rest_takes_what_follows() -> None:
    sentences = [words(6, sign) for sign in "abc"]
    assert texts([sentences, ["d0 d1"]]) == [
        " ".join(sentences[:2]),
        f"{sentences[2]}\nd0 d1",
    ]


def test_a_paragraph_of_very_many_sentences_takes_seconds_not_minutes() -> None:
    # Looked through once a passage, it would take 10 ** 9 steps.
    found = passages([[f"{number}." for number in range(120_000)]], 16)
    assert len(found) == 7_500
    assert found[-1].text.endswith(" 119999.")


def test_a_sentence_without_room_is_passages_of_its_own_cut_at_words() -> None:
    long = words(40)
    found = passages([["Before it."], ["So much.", long, "And after."]])
    assert [one.text for one in found] == [
        "Before it.\nSo much.",
        " ".join(long.split()[:16]),
        " ".join(long.split()[16:32]),
        " ".join(long.split()[32:]),
        "And after.",
    ]
    assert [one.n_tokens for one in found] == [4, 16, 16, 8, 2]


def test_no_passage_spans_a_heading_and_context_is_the_path_to_it() -> None:
    paragraphs = [["Intro."], ["Birds"], ["One."], ["Herons"], ["Food"], ["Two."], ["Gulls"]]
    paragraphs += [["Three."]]
    headings = tuple(
        Heading(*one)
        for one in ((-1, 1, "Nature"), (1, 2, "Birds"), (3, 3, "Herons"), (4, 4, "Food"))
    )
    headings += (Heading(6, 3, "Gulls"),)
    assert [one[:2] for one in passages(paragraphs, headings=headings, title="Book")] == [
        ("Book > Nature", "Intro."),
        ("Book > Nature > Birds", "One."),
        ("Book > Nature > Birds > Herons > Food", "Two."),
        ("Book > Nature > Birds > Gulls", "Three."),
    ]


def test_a_title_that_is_the_first_heading_is_said_once() -> None:
    document = Document(
        "a", "a:1", [["Birds"], ["One."]], [], title="Birds", headings=(Heading(0, 1, "Birds"),)
    )
    assert list(sections(document)) == [("Birds", [["One."]])]


def test_a_long_context_leaves_half_of_the_budget_to_the_text() -> None:
    found = passages([[words(5, "a"), words(5, "b"), words(5, "c")]], title=words(30, "t"))
    assert [one.n_tokens for one in found] == [35, 35, 35]
    found = passages([[words(5, "a"), words(5, "b"), words(5, "c")]], title=words(3, "t"))
    assert [one.n_tokens for one in found] == [13, 8]


@pytest.mark.parametrize("sign", ["鹭站在浅水里等待", "นกกระสายืนอยู่ในน้ำ"])
def test_a_script_without_spaces_is_cut_between_its_letters(sign: str) -> None:
    text = sign * 20
    found = cut([Document("a", "a:1", [[text]], [])], 16, lambda t: [len(x) for x in t])
    assert "".join(one.text for one in found[0]) == text
    assert {one.n_tokens for one in found[0][:-1]} == {16}
    by_words = cut([Document("a", "a:1", [[text]], [])], 16, lambda t: [*map(count_words, t)])
    assert "".join(one.text for one in by_words[0]) == text
    assert all(one.n_tokens <= 16 for one in by_words[0])


def test_mixed_scripts_and_data_without_spaces_are_cut_and_whole() -> None:
    draw = random.Random(0)
    pieces = ["鹭", "heron", "x" * 250, " ", "นก", "12.5", "，"]
    text = " ".join("".join(draw.choices(pieces, k=400)).split())
    found = cut([Document("a", "a:1", [[text]], [])], 200, lambda t: [len(x) for x in t])
    joined = "".join(one.text for one in found[0])
    assert joined.replace(" ", "") == text.replace(" ", "")
    assert all(one.n_tokens <= 200 for one in found[0])


def test_documents_without_text_or_with_headings_alone_have_no_passage() -> None:
    nothing = Document("a", "a:1", [], [])
    bare = Document("a", "a:1", [["Birds"]], [], headings=(Heading(0, 1, "Birds"),))
    assert cut([nothing, bare], 16, count) == [[], []]
    assert cut([], 16, count) == []
