"""Wordnets in the form WN-LMF: a file written by hand, read through `wn`."""

import errno
import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from failures import fails
from stages import emitted

from tercet.tasks.corpus import labelled
from tercet.tasks.corpus.sources import lmf
from tercet.tasks.corpus.sources.corpora import CorpusConfig, Document

HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE LexicalResource SYSTEM "https://globalwordnet.github.io/schemas/WN-LMF-1.1.dtd">
"""
WORDNET = f"""{HEAD}<LexicalResource xmlns:dc="https://globalwordnet.github.io/schemas/dc/">
  <Lexicon id="toy" label="Toy" language="en" email="a@example.org" license="none" version="1">
    <LexicalEntry id="toy-boat-n"><Lemma writtenForm="boat" partOfSpeech="n"/>
      <Sense id="toy-boat-1" synset="toy-1-n"/></LexicalEntry>
    <LexicalEntry id="toy-ship-n"><Lemma writtenForm="small ship" partOfSpeech="n"/>
      <Form writtenForm="small ships"/><Sense id="toy-ship-1" synset="toy-1-n"/></LexicalEntry>
    <LexicalEntry id="toy-row-v"><Lemma writtenForm="row" partOfSpeech="v"/>
      <Sense id="toy-row-1" synset="toy-2-v"/><Sense id="toy-row-2" synset="toy-3-v"/>
    </LexicalEntry>
    <Synset id="toy-1-n" ili="" partOfSpeech="n"><Definition>a vessel that   floats &amp;
      carries people</Definition><Definition>what sailors sail</Definition></Synset>
    <Synset id="toy-2-v" ili="" partOfSpeech="v"><Definition>move by oars</Definition></Synset>
    <Synset id="toy-3-v" ili="" partOfSpeech="v"/>
    <Synset id="toy-4-n" ili="" partOfSpeech="n"><Definition>of no word</Definition></Synset>
  </Lexicon>
</LexicalResource>
"""


@pytest.fixture
def wordnet(tmp_path: Path) -> Path:
    path = tmp_path / "toy.xml"
    path.write_text(WORDNET)
    return path


def corpus(path: Path, **more: Any) -> CorpusConfig:
    given = {"role": "labelled", "kind": "definitions"} | more
    return CorpusConfig.model_validate({"name": "toy", "source": f"lmf:{path}"} | given)


def test_a_synset_gives_its_words_and_each_of_its_definitions(wordnet: Path) -> None:
    (table,) = lmf.tables(corpus(wordnet), 1000)
    assert [tuple(row.values.values()) for row in table.rows(lmf.COLUMNS)] == [
        ("boat|small ship", "a vessel that floats & carries people", "n"),
        ("boat|small ship", "what sailors sail", "n"),
        ("row", "move by oars", "v"),
        ("row", None, "v"),
        ("", "of no word", "n"),
    ]


def test_each_lexicon_has_ids_of_its_own(wordnet: Path) -> None:
    lexicon = WORDNET[WORDNET.index("  <Lexicon ") : WORDNET.index("</LexicalResource>")]
    other = lexicon.replace('id="toy"', 'id="jouet"').replace('"boat"', '"bateau"')
    wordnet.write_text(WORDNET.replace("</LexicalResource>", f"{other}</LexicalResource>"))
    (table,) = lmf.tables(corpus(wordnet), 1000)
    entries = [row.values["entry"] for row in table.rows(["entry"])]
    assert entries[0] == "boat|small ship"
    assert entries[5] == "bateau|small ship"


@pytest.mark.parametrize(
    ("one", "twice", "what"),
    [("toy-row-v", "toy-boat-n", "entries"), ("toy-3-v", "toy-2-v", "synsets")],
)
def test_an_id_that_two_have_is_told(wordnet: Path, one: str, twice: str, what: str) -> None:
    wordnet.write_text(WORDNET.replace(f'id="{one}"', f'id="{twice}"'))
    with fails("bad_row", "2", what, twice, "' in the lexicon '"):
        next(lmf.tables(corpus(wordnet), 1000))


def test_definitions_are_labelled_rows_or_rejects(wordnet: Path, tmp_path: Path) -> None:
    config = labelled.LabelledConfig(corpora=(corpus(wordnet),))
    made = emitted(labelled.STAGE, config, {}, tmp_path)
    texts = made["entries"]["text"].to_pylist()
    rows = made["labelled"].to_pylist()
    held = {row["anchor"]: {texts[i] for i in row["entries"]} for row in rows}
    assert held == {
        "a vessel that floats & carries people": {"boat", "small ship"},
        "what sailors sail": {"boat", "small ship"},
        "move by oars": {"row"},
    }
    assert made["rejects"]["reason"].to_pylist() == ["missing_text", "missing_text"]


def test_a_packed_wordnet_reads_alike_and_a_changed_one_anew(wordnet: Path) -> None:
    # With a byte order mark and a suffix in capitals.
    packed = wordnet.with_name("TOY.XML.GZ")
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + wordnet.read_bytes()))
    read = lambda path: list(next(lmf.tables(corpus(path), 1000)).rows(lmf.COLUMNS))  # noqa: E731
    assert read(packed) == read(wordnet)
    wordnet.write_text(WORDNET.replace("move by oars", "pull an oar in water"))
    assert read(wordnet)[2].values["definition"] == "pull an oar in water"


def test_a_wordnet_can_be_a_corpus_of_texts_however_few_definitions_it_has(wordnet: Path) -> None:
    def texts() -> list[list[str]]:
        one = corpus(wordnet, role="general", kind=None)
        lmf.READER.check(one, 1000)
        documents = lmf.READER.read(one, 1000)
        return [text for r in documents if isinstance(r, Document) for text in r.paragraphs]

    assert len(texts()) == 4
    wordnet.write_text(
        re.sub(r"<Definition>(?!of no word).*?</Definition>", "", WORDNET, flags=re.S)
    )
    assert texts() == [["of no word"]]


def test_an_extension_adds_words_and_definitions(
    tmp_path: Path,
) -> None:
    extension = """
  <LexiconExtension id="more" label="More" language="en" email="a@example.org" license="none"
    version="1"><Extends id="toy" version="1"/>
    <ExternalLexicalEntry id="toy-boat-n">
      <Sense id="more-boat-1" synset="toy-2-v"/></ExternalLexicalEntry>
    <ExternalSynset id="toy-1-n"/>
    <ExternalSynset id="toy-3-v"><Definition>stand in a line</Definition></ExternalSynset>
  </LexiconExtension>
</LexicalResource>"""
    path = tmp_path / "more.xml"
    path.write_text(WORDNET.replace("</LexicalResource>", extension))
    (table,) = lmf.tables(corpus(path), 1000)
    rows = [tuple(row.values.values()) for row in table.rows(lmf.COLUMNS)]
    assert rows[2] == ("row|boat", "move by oars", "v")
    assert rows[5:] == [("row", "stand in a line", "v")]


def test_a_wordnet_without_synsets_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "toy.xml"
    path.write_text(re.sub(r"<(LexicalEntry|Synset) .*(?=</Lexicon>)", "", WORDNET, flags=re.S))
    with fails("no_rows"):
        lmf.READER.check(corpus(path), 1000)


def test_a_long_definition_is_a_fault_of_its_row(wordnet: Path) -> None:
    (table,) = lmf.tables(corpus(wordnet), 30)
    faults = [row.fault[0] for row in table.rows(["definition"]) if row.fault]
    assert faults == ["line_too_long"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"word,definition\n",
        b"<?xml version='1.0' encoding='UTF-8'?>\n<html></html>\n",
        WORDNET[: len(WORDNET) // 2].encode(),
        f"{HEAD}<LexicalResource><Odd/></LexicalResource>\n".encode(),
        f"{HEAD}<LexicalResource><Lexicon/></LexicalResource>\n".encode(),
        gzip.compress(WORDNET.encode())[:200],
        None,
    ],
)
def test_another_file_a_damaged_one_or_none(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / ("odd.xml.gz" if content and content[:2] == b"\x1f\x8b" else "odd.xml")
    if content is not None:
        path.write_bytes(content)
    with fails("unreadable", path.name):
        lmf.READER.check(corpus(path), 1000)
    with fails("unreadable"):
        lmf.READER.check(corpus(tmp_path), 1000)


def test_a_full_disk_is_no_fault_of_it(wordnet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(lmf.shutil, "copyfileobj", full)
    with pytest.raises(OSError, match="No space left"):
        lmf.READER.check(corpus(wordnet), 1000)
