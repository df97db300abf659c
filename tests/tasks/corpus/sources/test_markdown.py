from pathlib import Path

import pytest

from tercet.tasks.corpus.sources import files
from tercet.tasks.corpus.sources.corpora import CorpusConfig, Document, split_sentences
from tercet.tasks.corpus.sources.hypertext import blocks
from tercet.tasks.corpus.sources.pages import markdown_html

PAGE = """\
---
title: Herons
---
# Herons of the lake

The *grey* heron [waits](https://example.org) in `shallow`
water. It is **patient**.

```python
import heron
```

- It eats fish.
- It sleeps standing.

| a | b |
|---|---|
| 1 | 2 |

Snake_case_words and 2 * 3 * 4 stay.
"""


def test_a_folder_of_markdown_becomes_prose(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".hidden").mkdir()
    for name in ("a.md", "sub/b.md", ".hidden/c.md"):
        (tmp_path / name).write_text(PAGE)
    (tmp_path / "requirements.txt").write_text("numpy\n")
    found = list(files.read(CorpusConfig(name="n", source=str(tmp_path)), 10_000))
    assert [document.path.split(":")[0] for document in found] == ["a.md", "sub/b.md"]
    assert found[0].paragraphs == [
        ["Herons of the lake"],
        ["The grey heron waits in shallow water.", "It is patient."],
        ["import heron"],
        ["It eats fish."],
        ["It sleeps standing."],
        ["a", "b"],
        ["1", "2"],
        ["Snake_case_words and 2 * 3 * 4 stay."],
    ]
    assert found[0].code == {2}


def prose_of(text: str) -> list[str]:
    read = [block for block in blocks(markdown_html(text)) if not block.code and block.level != 0]
    return [
        line
        for block in read
        if not block.menu
        for text in block.texts
        for line in text.split("\n")
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("```x``` prints x.\nMore.", ["x prints x. More."]),
        ("---\na: b\n---\nText.", ["Text."]),
        ("---\nText.\nMore.", ["Text. More."]),
        ("````\n```\ncode\n```\n````\nAfter.", ["After."]),
        ("~~~\n```\n~~~\nAfter.", ["After."]),
        ("+++\na = 1\n+++\nText.", ["Text."]),
        # A fence that nothing closes fences nothing.
        ("````\ncode\n```\nAfter.", ["code", "After."]),
        ("- One.\n  ```a\n  code\n\n~~~ Title ~~~\nAfter.", ["One. a code", "Title After."]),
        (f"A ![p](data:image/png;base64,{'A' * 5000}) b [c](http://d_(e)).", ["A b c."]),
    ],
)
def test_what_stands_in_a_fence_and_what_behind_it(text: str, lines: list[str]) -> None:
    assert prose_of(text) == lines


def told(path: Path, text: str) -> list[tuple[str | None, list[tuple[int, int, str]]]]:
    path.write_text(text)
    found = list(files.read(CorpusConfig(name="n", source=str(path)), 10_000))
    documents = [one for one in found if isinstance(one, Document)]
    return [(one.title, [tuple(heading) for heading in one.headings]) for one in documents]


@pytest.mark.parametrize(
    ("text", "title", "headings"),
    [
        ("# *Birds*\nText.\n## Herons\nText.", "Birds", [(0, 1, "Birds"), (2, 2, "Herons")]),
        ("---\ntitle: 'All birds'\n---\n# Herons\nText.", "All birds", [(0, 1, "Herons")]),
        ('+++\ntitle = "All birds"\n+++\nText.', "All birds", []),
        ("Birds\n=====\nText.\n\nHerons\n---\nMore.", "Birds", [(0, 1, "Birds"), (2, 2, "Herons")]),
        # Of a level that others are above of, or none at all.
        ("## Herons\nText.\n# Gulls\nText.", None, [(0, 2, "Herons"), (2, 1, "Gulls")]),
        ("Two lines\nof text\n\n---\nText.\n#hashtag", None, []),
        ("---\ntitle: >-\n  Folded\n---\n```\n# comment\n```\nText.", None, []),
    ],
)
def test_title_and_headings_are_told(
    tmp_path: Path, text: str, title: str | None, headings: list[tuple[int, int, str]]
) -> None:
    assert told(tmp_path / "a.md", text) == [(title, headings)]


def test_a_document_tells_its_line_and_components_of_mdx_are_no_text(tmp_path: Path) -> None:
    text = "import {A} from './a'\n\n# Birds\n\n<A of='x'>\n\n" + "- An <B>item</B>.\n" * 30
    (tmp_path / "a.mdx").write_text(text)
    # Pieces of so many bytes are read, however long the page is.
    for most in (10_000, 200):
        found = list(files.read(CorpusConfig(name="n", source=str(tmp_path)), most))
        assert [one.path for one in found] == ["a.mdx:3", "a.mdx:26"]
        assert found[0].paragraphs[:2] == [["Birds"], ["An item."]]


def test_a_later_document_of_a_file_knows_the_headings_that_it_stands_under(tmp_path: Path) -> None:
    text = "# Birds\n## Gulls\nOne.\n## Herons\n" + "A paragraph.\n\n" * 30 + "### Food\nFish."
    assert told(tmp_path / "a.md", text)[1] == (
        "Birds", [(-1, 1, "Birds"), (-1, 2, "Herons"), (14, 3, "Food")],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("[![CI](https://a/b.svg)](https://a) ![x][y]\n\nText.\n\n[y]: z", ["Text."]),
        ("- [Install](#install)\n- [Use](#use) | [More](#more)\n\nText.", ["Text."]),
        # Links are text in a paragraph or a heading.
        ("See\n[the guide](x)\nfor more.", ["See the guide for more."]),
        ("[The guide](x)\nhas more.", ["The guide has more."]),
        ("# [Herons](x)\nText.", ["Herons", "Text."]),
        ("- [Guide](x): how to begin.", ["Guide: how to begin."]),
        ("[a]: https://example.org\n[b c]: <x> \"A title\"\nText.", ["Text."]),
        ("[Note]: this is a text.", ["[Note]: this is a text."]),
        ("[^1]: Foot", ["Foot"]),
        ("{% include 'x' %}\n{{< tip >}}\nUse {{ name }}now.", ["Use now."]),
        ("Write `{{ name }}` for it.", ["Write {{ name }} for it."]),
        ('<p align="center">\n  <img src="x"> Badge\n</p>\n\nText.', ["Badge", "Text."]),
        ("<details>\n<summary>More</summary>\n\nText.\n\n</details>", ["More", "Text."]),
        ("```{note}\n:class: wide\nA *text*.\n```", ["A text."]),
        (":::{tip} Well\nA text.\n\n```{note}\nMore.\n```\n:::", ["Well", "A text.", "More."]),
        (":::warning\nA text.\n:::", ["A text."]),
        ("```{r}\nx <- 1\n```\n```{code-block} py\nx = 1\n```\nText.", ["Text."]),
        ("!!! note\n\n    A text.", ["Note", "A text."]),
        ("> [!NOTE]\n> A text.", ["A text."]),
        ("(a-target)=\n## Use {#use}\nSee {ref}`the guide <x>`.", ["Use", "See the guide."]),
        ("Birds\n: They fly.", ["Birds", "They fly."]),
        ("A lake.[^1]\n\n[^1]: It is deep.", ["A lake.", "It is deep."]),
        ("<style>\na {}\n\nb {}\n</style>\nText.", ["Text."]),
        ("<!-- a\n\nb -->\nText.", ["Text."]),
        ("<!-- a --> Text.", ["Text."]),
        # Nothing closes it.
        ("<!-- a\n\nText.", ["a", "Text."]),
        ("<p id='a'>A b</p>\nText.\n<br>\nMore.\n</div>\nMost.", ["A b", "Text.", "More. Most."]),
        ("A List<String> of <b>bold</b><br>words &amp;lt; at <https://a.b>.",
         ["A List<String> of bold", "words &lt; at https://a.b."]),
    ],
)  # fmt: skip
def test_what_is_no_text(text: str, lines: list[str]) -> None:
    assert prose_of(text) == lines


@pytest.mark.parametrize(
    "mark",
    ["x [a](b) ", "{{", "{%", "<!-- ", "<a@", "[](", "a`", "*x ", "[", "<!--", "![[", "**a "],
)
def test_a_long_line_of_marks_is_read(mark: str) -> None:
    # In time that grows with the line, not with its square: 40,000 backticks took hours.
    assert prose_of("x " + mark * 10_000)


def test_many_comments_that_nothing_closes_are_read() -> None:
    (text,) = prose_of("<!-- a\n" * 50_000)
    assert text.count("a") == 50_000


@pytest.mark.parametrize(
    "wanted",
    [
        ["他说：“第一条船修好了！”", "然后他走了。"],
        ["『もう帰ろう。』", "と彼は言った。"],
        ["（昨天下了雨。）", "今天天晴了。"],
        ["He said “no.”", "Then he left."],
        ["It rains.", "”What” is no word."],
    ],
)
def test_a_closing_mark_belongs_to_the_sentence_that_it_closes(wanted: list[str]) -> None:
    between = "" if wanted[0][-1] not in ".”" or "他" in wanted[0] else " "
    assert split_sentences(between.join(wanted)) == wanted
