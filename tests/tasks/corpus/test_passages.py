"""The stage `passages` behind `ingest`, and how it cuts one document within the budget."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stages import emitted

from tercet.models import seeding
from tercet.models.text.words import count_words
from tercet.tasks.corpus import ingest, passages
from tercet.tasks.corpus.passages import Passage, PassagesConfig, cut, passage_text, sections
from tercet.tasks.corpus.sources.corpora import Document, Heading, IngestConfig
from tercet.tasks.stage import Resources

Tables = dict[str, list[dict[str, Any]]]
Run = Callable[..., Tables]
PAGE = """\
---
title: Birds of the lake
---
# Herons

The heron stands in shallow water. It waits there for a fish.

## Food

It eats fish and frogs.

# Gulls

No.
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Calls both stages on the same corpora."""

    def run(
        *sources: Path,
        part: int = 50,
        tokenizer: Path | None = None,
        corpus: Any = None,
        **more: Any,
    ) -> Tables:
        corpora = [
            {"name": f"c{number}", "source": str(source), **(corpus or {})}
            for number, source in enumerate(sources)
        ]
        read = IngestConfig.model_validate({"corpora": corpora, "min_words": 2, "max_words": 1_000})
        keys = {"corpora": corpora, "max_line_bytes": read.max_line_bytes, **more}
        config, resources = PassagesConfig.model_validate(keys), Resources(part_rows=part)
        models = {} if tokenizer is None else {"tokenizer": tokenizer}
        scratch = tmp_path / "scratch"
        documents = emitted(ingest.STAGE, read, {}, scratch, {}, 0, resources)["documents"]
        inputs = {"documents": documents}
        made = emitted(passages.STAGE, config, inputs, scratch, models, 0, resources)
        return {name: table.to_pylist() for name, table in {**inputs, **made}.items()}

    return run


def test_a_page_is_cut_at_its_headings_which_are_context(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(PAGE)
    tables = run(tmp_path / "a.md")
    document = tables["documents"][0]
    rows = tables["passages"]
    assert [(row["context"], row["text"], row["n_tokens"]) for row in rows] == [
        ("Birds of the lake > Herons", PAGE.splitlines()[5], 18),
        ("Birds of the lake > Herons > Food", "It eats fish and frogs.", 13),
        # Too short for a sentence of `sentences`, but the document says it.
        ("Birds of the lake > Gulls", "No.", 7),
    ]
    for position, row in enumerate(rows):
        read = passage_text(row["context"], row["text"])
        assert row["passage_id"] == seeding.text_id(read)
        assert read == f"{row['context']}\n{row['text']}"
        assert row["position"] == position
        for name in ("doc_id", "corpus", "source", "path", "split"):
            assert row[name] == document[name]
    assert tables["rejects"] == []


def test_rows_of_a_table_have_their_title_and_line(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("title,body\nHerons,The heron stands in the water.\n,Gulls are loud.\nx,\n")
    rows = run(path, corpus={"text": "body"})["passages"]
    assert [(row["path"], row["context"], row["text"]) for row in rows] == [
        ("a.csv:2", "Herons", "The heron stands in the water."),
        ("a.csv:3", "", "Gulls are loud."),
    ]


def test_the_title_of_a_pair_is_context_and_not_text(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("title,body\nGrey herons,The heron stands in the water.\n")
    row = run(path, corpus={"query": "title", "answer": "body"})["passages"][0]
    assert (row["context"], row["text"]) == ("Grey herons", "The heron stands in the water.")


def test_documents_that_ingest_left_out_are_counted(run: Run, tmp_path: Path) -> None:
    text = "The heron stands in the water. It waits."
    lines = [text, "A gull cries loudly. It flies.", text, "Short", "A gull cries loudly. It eats."]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": one}) + "\n" for one in lines))
    tables = run(tmp_path / "a.jsonl")
    assert [row["path"] for row in tables["passages"]] == ["a.jsonl:1", "a.jsonl:2", "a.jsonl:5"]
    kept = {row["doc_id"] for row in tables["documents"]}
    assert {row["doc_id"] for row in tables["passages"]} == kept
    found = [(row["reason"], row["text"]) for row in tables["rejects"]]
    assert found == [("document_left_out", text), ("document_left_out", "Short")]


def test_of_equal_passages_the_first_stays(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "## Notes\nSee the list below.\n## Use\nCall it once.\n## Notes\nSee the list below.\n"
        "## Notes again\nSee the list below.\n"
    )
    tables = run(tmp_path / "a.md")
    places = [(row["context"], row["position"]) for row in tables["passages"]]
    assert places == [("Notes", 0), ("Use", 1), ("Notes again", 3)]
    assert [(row["reason"], row["row_id"]) for row in tables["rejects"]] == [
        ("duplicate", tables["passages"][0]["passage_id"])
    ]


def test_rows_are_the_same_in_any_parts_and_within_the_budget(run: Run, tmp_path: Path) -> None:
    for number in range(30):
        sentences = (f"Bird {number} of the lake said word {n} of {n * n}." for n in range(90))
        text = "".join(s + (" ", "\n\n", " ")[len(s) % 3] for s in sentences)
        (tmp_path / f"{number:02}.txt").write_text(text)
    source, corpus = tmp_path / "*.txt", {"prose": True}
    made = [run(source, corpus=corpus, part=part, tokens=64) for part in (7, 5_000)]
    assert made[0] == made[1]
    assert max(row["n_tokens"] for row in made[0]["passages"]) <= 64


def test_tokens_are_those_of_the_backbone(run: Run, tmp_path: Path, tiny_backbone: Path) -> None:
    line = "The old file is open, and was not new."
    (tmp_path / "a.txt").write_text(f"{line}\n")
    assert run(tmp_path / "a.txt", tokenizer=tiny_backbone)["passages"][0]["n_tokens"] == 11
    assert run(tmp_path / "a.txt")["passages"][0]["n_tokens"] == count_words(line) == 9


# Cutting one document.


def count(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def passages_of(paragraphs: list[list[str]], tokens: int = 16, **more: Any) -> list[Passage]:
    document = Document("a.md", "a.md:1", paragraphs, [], **more)
    return cut([document], tokens, count)[0]


def texts(*given: Any, **named: Any) -> list[str]:
    return [one.text for one in passages_of(*given, **named)]


def words(number: int, sign: str = "w") -> str:
    return " ".join(f"{sign}{place}" for place in range(number))


SENTENCES = st.integers(1, 40).map(words)
PARAGRAPHS = st.lists(st.lists(SENTENCES, min_size=1, max_size=6), max_size=8)


@given(PARAGRAPHS, st.integers(16, 40), st.data())
@settings(max_examples=200)
def test_passages_join_to_the_text(
    paragraphs: list[list[str]], tokens: int, data: st.DataObject
) -> None:
    numbers = range(len(paragraphs))
    titles = sorted(data.draw(st.sets(st.sampled_from(numbers)))) if paragraphs else []
    headings = tuple(Heading(number, 1, f"H{number}") for number in titles)
    found = passages_of(paragraphs, tokens, headings=headings)
    body = [one for number, one in enumerate(paragraphs) if number not in titles]
    whole = " ".join(" ".join(paragraph) for paragraph in body)
    assert " ".join(one.text for one in found).replace("\n", " ") == whole
    for one in found:
        assert one.n_tokens == sum(count([one.context, one.text])) <= tokens


def test_a_paragraph_with_room_in_one_passage_is_not_cut() -> None:
    first, second, third = [words(6, "a")] * 2, [words(5, "b")] * 2, [words(4, "c")]
    assert texts([first, second, third]) == [" ".join(first), " ".join(second) + "\n" + third[0]]


def test_a_longer_paragraph_is_cut_at_sentences_and_its_rest_takes_what_follows() -> None:
    sentences = [words(6, sign) for sign in "abc"]
    assert texts([sentences, ["d0 d1"]]) == [" ".join(sentences[:2]), f"{sentences[2]}\nd0 d1"]


def test_a_paragraph_of_very_many_sentences_takes_seconds_not_minutes() -> None:
    # Looked through once a passage, it would take 10 ** 9 steps.
    found = passages_of([[f"{number}." for number in range(120_000)]], 16)
    assert len(found) == 7_500
    assert found[-1].text.endswith(" 119999.")


def test_a_sentence_without_room_is_passages_of_its_own_cut_at_words() -> None:
    long = words(40)
    found = passages_of([["Before it."], ["So much.", long, "And after."]])
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
    assert [one[:2] for one in passages_of(paragraphs, headings=headings, title="Book")] == [
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
    found = passages_of([[words(5, "a"), words(5, "b"), words(5, "c")]], title=words(30, "t"))
    assert [one.n_tokens for one in found] == [35, 35, 35]
    found = passages_of([[words(5, "a"), words(5, "b"), words(5, "c")]], title=words(3, "t"))
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
