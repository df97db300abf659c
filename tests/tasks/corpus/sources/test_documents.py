"""Documents of other programs, read where the extra is installed; a bad one costs itself alone."""

import subprocess
from pathlib import Path

import pypandoc
import pytest
from failures import fails

from tercet.tasks.corpus.sources import files, pages, streams
from tercet.tasks.corpus.sources.corpora import CorpusConfig, Fault, Reading

PAGE = """\
# Herons

The heron waits in shallow water for its prey.

## Food

It eats *fish* and frogs of the lake.

| place | number |
|-------|--------|
| lake  | seven  |
"""
PDF = b"""%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R/Outlines 5 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R 8 0 R]/Count 2>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]>>endobj
4 0 obj<</Length 142>>stream
BT /F 12 Tf 50 700 Td (Food) Tj 0 -20 Td (The heron waits in the shallow) Tj 0 -20 Td (water.) Tj
0 -20 Td (It eats fish.) Tj ET                   \n\
endstream endobj
5 0 obj<</First 7 0 R/Last 7 0 R/Count 1>>endobj
6 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj
7 0 obj<</Title(Food)/Parent 5 0 R/Dest[8 0 R/Fit]>>endobj
8 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F 6 0 R>>>>>>endobj
trailer<</Root 1 0 R>>
"""  # noqa: E501


def read(folder: Path) -> list[Reading]:
    return list(files.read(CorpusConfig(name="c", source=str(folder)), 10_000))


@pytest.mark.parametrize("form", [form for form in streams.DOCUMENTS if form != ".pdf"])
def test_documents_have_headings_paragraphs_and_rows(form: str, tmp_path: Path) -> None:
    command = [
        pypandoc.get_pandoc_path(),
        "--standalone",
        "--metadata",
        "title=Birds",
        "--from=gfm",
    ]
    command += ["--to", streams.DOCUMENTS[form], "--output", str(tmp_path / f"a{form}")]
    subprocess.run(command, input=PAGE, text=True, check=True, stderr=subprocess.DEVNULL)
    (document,) = read(tmp_path)
    assert "Food" in [heading.text for heading in document.headings]
    for paragraph in (["It eats fish and frogs of the lake."], ["lake", "seven"]):
        assert paragraph in document.paragraphs


def test_bookmarks_of_a_pdf_are_headings_and_its_pages_places(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(PDF)
    (document,) = read(tmp_path)
    assert document.path == "a.pdf#page=2"
    assert [heading.text for heading in document.headings] == ["Food"]
    wanted = [["Food"], ["The heron waits in the shallow water."], ["It eats fish."]]
    assert document.paragraphs == wanted


def test_a_bad_document_costs_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.docx").write_bytes(b"no archive")
    (tmp_path / "b.pdf").write_bytes(b"no pages")
    (tmp_path / "c.rst").write_text("Herons\n======\n\nThey wait in shallow water.\n")
    *faults, document = read(tmp_path)
    assert document.title == "Herons"
    assert [one.reason for one in faults if isinstance(one, Fault)] == ["bad_document"] * 2
    monkeypatch.setattr(pages, "_SECONDS", 0)
    assert [one.detail for one in read(tmp_path / "c.rst") if isinstance(one, Fault)] == [
        "reading it takes longer than 0 seconds"
    ]


def test_the_extra_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_reads_documents", lambda: False)
    (tmp_path / "a.docx").touch()
    with fails("missing_package"):
        read(tmp_path / "a.docx")
