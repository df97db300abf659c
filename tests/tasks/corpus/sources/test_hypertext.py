"""What counts as HTML, and what is left of it."""

import gzip
import time
import tracemalloc
from pathlib import Path

import pytest

from tercet.tasks.corpus.sources import files
from tercet.tasks.corpus.sources.corpora import CorpusConfig, Fault, Heading, Reading
from tercet.tasks.corpus.sources.discover import describe
from tercet.tasks.corpus.sources.hypertext import blocks, page_text, text_of

PAGE = """\
<!DOCTYPE html>
<html><head><title>Herons &amp; storks</title><style>p { color: red }</style>
<script>var text = "<p>No text.</p>";</script></head>
<body><nav><a href="/">Home</a> <a href="/all">All birds</a></nav>
<h1>The grey heron</h1>
<p>It waits in <b>shal</b>low
water.<br>It is patient.</p>
<ul><li>It eats fish.</li><li>It sleeps standing.</li></ul>
<pre>import heron</pre>
<table><tr><td>One cell here.</td><td>Another cell here.</td></tr></table>
<p>An escaped tag, &amp;lt;b&amp;gt;, and a List<String> where a < b.
</body></html>
"""
PARAGRAPHS = [
    ["The grey heron"],
    ["It waits in shallow water.", "It is patient."],
    ["It eats fish."],
    ["It sleeps standing."],
    ["import heron"],
    ["One cell here.", "Another cell here."],
    ["An escaped tag, &lt;b&gt;, and a List<String> where a < b."],
]


def read(source: Path, max_bytes: int = 10_000, **more: object) -> list[Reading]:
    config = CorpusConfig.model_validate({"name": "c", "source": str(source), **more})
    return list(files.read(config, max_bytes))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("It ends here.<br>The next line.", "It ends here.\nThe next line."),
        ("One.<br/><br/>Two.", "One.\n\nTwo."),
        ("One.<p>Two.<p>Three.", "One.\n\nTwo.\n\nThree."),
        ("<p>One text.", "One text."),
        ('<div class="quoted">See the ticket.', "See the ticket."),
        ("Sent from my phone</div>", "Sent from my phone"),
        ("A <b>bold</b> word and a < b.", "A bold word and a < b."),
        ("Tea&nbsp;and R&amp;D &#39;here&#39;", "Tea\xa0and R&D 'here'"),
        ("&amp;lt; and &lt;br&gt;", "&lt; and <br>"),
        ("Yes<script>if (a < b) { x('</p>') }\n\nrun()</script><p>No</p>", "Yes\n\nNo"),
        ('<h2>Food<a href="#food"> #</a></h2>', "Food"),
        ('<h2><span><a class="l" href="#a">¶</a></span>Food</h2><a href="#">1</a>', "Food\n\n1"),
        ("<p>The type is List<String>.</p>", "The type is List<String>."),
    ],
)
def test_html_is_taken_out(text: str, plain: str) -> None:
    assert text_of(text) == plain


# Long comments make no prose of a source file.
JAVA = """\
001 * The heron waits here, for a time that is not known (2.1).
002 * @param fish what {@code this} one eats, or {@code null}
003 * @return whether it flew home; see {@link #home()}
004public static boolean wait(final Fish fish) {"""
SIDE = f"<div class=sidebar>{'Herons wait. ' * 20}</div>"


@pytest.mark.parametrize(
    ("page", "read"),
    [
        ("<div role=navigation>Next</div><p>One.</p><div role=contentinfo>Owner</div>", ["One."]),
        ("<div class='a sphinxsidebar'>Contents <a>One</a></div><p>One.</p>", ["One."]),
        ("<p class=breadcrumbs>Home &gt; One</p><p>One.</p><footer>Owner</footer>", ["One."]),
        (f"<p>One.</p><div class=footer>© {'The owner. ' * 20}<a href=x>x</a></div>", ["One."]),
        ("<div role=tablist><button>All</button><button>Own</button></div><p>One.</p>", ["One."]),
        # What is called so and holds prose, or the page itself, is none.
        (SIDE, [("Herons wait. " * 20).strip()]),
        ("<div class='no sidebar'><h1>One</h1></div>", ["One"]),
        ("<h3><button>Why?</button></h3><details><summary>How?</summary>So. <button>Copy</button>",
         ["Why?", "How?", "So."]),
        # A row is one block, unless its cells hold several.
        ("<table><tr><td>a<td><p>One.</table>", ["a|One."]),
        ("<table><tr><td>a<td><h2>B</h2><p>Two.</table>", ["a", "B", "Two."]),
        ("<dl><dt><a href=x>a</a><dd>One.</dl><ul><li><a href=y>b</a></ul>", ["a", "One."]),
        ("<h2>2.3. Food</h2><h2>A.1 Birds #</h2><h2>16 Colours</h2>",
         ["Food", "Birds", "16 Colours"]),
        ("<h1>Uses of<br>the heron</h1>", ["Uses of the heron"]),
        # What stands in PRE is code, or prose where there is little else.
        (f"<pre>{JAVA}</pre>", JAVA.splitlines()),
        ("<p>One.</p><pre>for (i;\n\n  x[i] = y;</pre>", ["One.", "for (i;", "  x[i] = y;"]),
        ("<p>One.</p><pre>The heron waits\nhere for a long time.\n\nIt eats fish there.</pre>",
         ["One.", "The heron waits\nhere for a long time.", "It eats fish there."]),
    ],
)  # fmt: skip
def test_blocks_are_what_a_reader_sees(page: str, read: list[str]) -> None:
    assert ["|".join(block.texts) for block in blocks(page) if not block.menu] == read


def test_a_place_is_the_id_before_it() -> None:
    read = blocks("<p>One.</p><h2><a id=x></a>Two</h2><p>Three.</p><p id=y>Four.</p>")
    assert [block.place for block in read] == ["", "x", "x", "y"]


@pytest.mark.parametrize(
    "text",
    [
        "It holds if a < b and c > d.",
        "A List<String> or a map<a, b> of std::pair<i, b>.",
        'File "<stdin>", line 1, in <module>',
        "The <p> tag begins a paragraph, a <div> does not.",
        "Write `<br>` or '</p>' to end a line.",
        "if x <b and y> 3 then <b",
        "<title> is what a browser shows.",
        "AT&T sells Q&A; see R&Dx; too.",
        "\ud800 <br>",
    ],
)
def test_what_only_looks_like_html_stays(text: str) -> None:
    assert text_of(text) == text


@pytest.mark.parametrize("name", ["page.html", "page.HTM", "page.html.gz"])
def test_a_page_is_read(tmp_path: Path, name: str) -> None:
    data = PAGE.encode()
    if name.endswith(".gz"):
        data = gzip.compress(data)
    (tmp_path / name).write_bytes(data)
    (document,) = read(tmp_path / name)
    assert (document.paragraphs, document.html) == (PARAGRAPHS, "")
    assert (document.title, document.code) == ("Herons & storks", {4})
    assert document.headings == (Heading(0, 1, "The grey heron"),)


@pytest.mark.parametrize("start", ["<?xml version='1.0' encoding='UTF-8'?>\n", "<!DOCTYPE html>"])
@pytest.mark.parametrize("damage", ["", "<br>"])
def test_elements_of_xhtml_close_themselves(tmp_path: Path, start: str, damage: str) -> None:
    head = '<html xmlns="http://www.w3.org/1999/xhtml"><head><script src="a"/></head>'
    body = f"<body><p>Herons&nbsp;wait{damage} &amp; eat.</p></body></html>"
    (tmp_path / "a.xhtml").write_text(start + (head if not damage else "<html>") + body)
    (document,) = read(tmp_path / "a.xhtml")
    assert " ".join(document.paragraphs[0]) == "Herons wait & eat."


@pytest.mark.parametrize(
    ("title", "heading", "kept"),
    [
        ("The heron | Birds of the lake", "The heron", "The heron"),
        ("The heron - Birds of the lake", "The heron", "The heron"),
        ("The heron — Birds &mdash; Lake", "The heron", "The heron"),
        ("Birds of the lake | The heron", "The heron", "Birds of the lake | The heron"),
        ("The heron-like birds", "The heron", "The heron-like birds"),
        ("The heron's nest", "The heron", "The heron's nest"),
        ("The heron", "Welcome", "The heron"),
        ("The heron | Lake", "", "The heron | Lake"),
    ],
)
def test_a_title_lacks_its_site(tmp_path: Path, title: str, heading: str, kept: str) -> None:
    page = f"<title>{title}</title><body><h1>{heading}</h1><p>It waits in shallow water.</p>"
    (tmp_path / "page.html").write_text(page)
    (document,) = read(tmp_path / "page.html")
    assert document.title == kept


def test_a_folder_of_markdown_and_pages_is_one_kind(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(PAGE)
    (tmp_path / "c.htm").write_text(PAGE)
    (tmp_path / "b.md").write_text("# Storks\n\nThey stand on chimneys.\n")
    (tmp_path / "requirements.txt").write_text("numpy\n")
    assert [one.source for one in read(tmp_path)] == ["a.html", "b.md", "c.htm"]
    found = describe(str(tmp_path))
    assert (found.format, found.files, found.left_out) == (".html and .md", 3, {".txt": 1})
    assert (found.rows, found.unit) == (3, "documents")


def test_html_in_fields_and_lines_is_taken_out_and_remembered(tmp_path: Path) -> None:
    row = "<p>It ends here.<br>The next line.</p>"
    (tmp_path / "a.csv").write_text(f"id,body\n1,{row}\n2,A plain text of a < b.\n3,<p></p>\n")
    (tmp_path / "a.txt").write_text(f"{row}\nA plain text of a < b.\n<br>\n")
    for name, more in (("a.csv", {}), ("a.txt", {"prose": "lines"})):
        first, second, *faults = read(tmp_path / name, **more)
        assert first.paragraphs == [["It ends here.", "The next line."]]
        assert (first.html, second.html) == (row, "")
        assert second.paragraphs == [["A plain text of a < b."]]
        assert [one.reason for one in faults if isinstance(one, Fault)] == (
            ["missing_text"] if name == "a.csv" else []
        )


def test_html_in_prose_parts_paragraphs(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One of <b>two</b>\nlines.<p>Another.\n\nA third.\n")
    (document,) = read(tmp_path / "a.txt", prose=True)
    assert document.paragraphs == [["One of two lines."], ["Another."], ["A third."]]
    assert document.html == "One of <b>two</b> lines.<p>Another."


def test_a_page_of_fifty_megabytes_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    with (tmp_path / "a.html").open("wb") as file:
        for _ in range(50):
            file.write(b"<p>word</p>" * 95_000)
    tracemalloc.start()
    (fault,) = read(tmp_path / "a.html", 1_000_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert fault.reason == "page_too_long"
    assert fault.detail == "the page is longer than 1000000 bytes: raise ingest.max_line_bytes"
    assert peak < 10_000_000


def test_a_damaged_page_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_bytes("<p>Brücke</p>\n".encode() + b"<p>Br\xfccke</p>")
    (fault,) = read(tmp_path / "a.html")
    assert fault.reason == "not_utf8"


@pytest.mark.parametrize("tags", ["<div>", "<div>x</div>", "<b>x", "<", "<a href=", "<p a a"])
def test_a_megabyte_of_tags_is_read(tags: str) -> None:
    # In time that grows with the text, not with its square: 200,000 open elements took minutes.
    begun = time.process_time()
    page_text(tags * (1_000_000 // len(tags)))
    page_text("<div>" * 90_000 + "</div>" * 90_000)
    assert time.process_time() - begun < 20
