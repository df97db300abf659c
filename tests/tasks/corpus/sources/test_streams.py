"""Lines and encodings of files of text."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tercet.tasks.corpus.sources import discover, files, streams
from tercet.tasks.corpus.sources.corpora import CorpusConfig
from tercet.tasks.corpus.sources.discover import guesses

TEXTS = {
    "cp1252": "L’été dernier, le héron s’est posé près de l’étang, où il a plu.",
    "cp1250": "Zażółć gęślą jaźń. Czapla czeka w zimnej wodzie, a żółw śpi pod łóżkiem.",
    "cp1251": "Цапля ждёт в холодной воде. Старый плотник починил лодку у пристани.",
    "cp1253": "Ο ερωδιός περιμένει στο κρύο νερό και ο παλιός ξυλουργός κοιτάζει.",
    "gb18030": "老木匠在港口修好了旧渔船的木板。苍鹭在冷水里等待。",
    "big5": "老木匠在港口修好了舊漁船的木板。蒼鷺在冷水裡等待。",
    "cp932": "老いた大工が港で古い漁船の板を直した。サギは冷たい水の中で待っている。",
    "euc_jp": "老いた大工が港で古い漁船の板を直した。サギは冷たい水の中で待っている。",
    "cp949": "늙은 목수가 항구에서 낡은 어선의 널빤지를 고쳤다. 왜가리는 찬물에서 기다린다.",
    "utf_16": "Der Reiher wartet.",
    "utf_16_le": "The heron waits for its prey.",
    "utf_32": "The heron waits.",
}


@pytest.mark.parametrize("encoding", TEXTS)
@pytest.mark.parametrize("name", ["a.txt", "a.csv.gz", "a.json"])
def test_another_encoding_is_read_and_told(encoding: str, name: str, tmp_path: Path) -> None:
    text = TEXTS[encoding]
    content = {"a.txt": f"{text}\n" * 30, "a.csv.gz": "n,text\n" + f'1,"{text}"\n' * 30}.get(
        name, json.dumps([{"text": text}] * 30, ensure_ascii=False)
    )
    data = content.encode(encoding)
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    corpus = CorpusConfig(name="c", source=str(path), prose=False)
    read = list(files.read(corpus, 10_000))
    assert [getattr(one, "paragraphs", one) for one in read] == [[[text]]] * 30
    words = f"read as {encoding.replace('_', '-')}, not UTF-8"
    assert discover.describe(str(path)).read_as == [words]
    assert words in guesses(corpus, 10_000)


def test_what_an_encoding_lacks_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    monkeypatch.setattr(streams, "_BEGINNING", 500)
    path.write_bytes(f"{TEXTS['cp1252']}\n".encode("cp1252") * 9 + b"The\x81 last.\n")
    assert [line.fault for line in streams.lines(path, 1000)] == [*[""] * 9, "not_utf8"]
    # One damaged line among others that are UTF-8 makes no other encoding.
    path.write_bytes("Göd.\n".encode() * 2 + bytes(range(128, 160)) + b"\nTwo.\n")
    assert [line.fault for line in streams.lines(path, 1000)] == ["", "", "not_utf8", ""]


def test_a_line_of_exactly_the_limit_is_not_too_long(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"Nine now.\nTen by now.\n")
    assert [line.fault for line in streams.lines(path, 9)] == ["", "line_too_long"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "iso8859-5", "cp1254", "big5"])
def test_a_page_or_a_table_is_read_in_its_encoding(encoding: str, tmp_path: Path) -> None:
    text = {
        "cp1254": "Bugün yağmur yağdı, balıkçıl ise göl kıyısında sessizce bekliyor ve uçuyor.\n",
        "big5": "今天下雨了，蒼鷺在湖邊安靜地等著，然後飛走了。\n",
    }.get(encoding, TEXTS["cp1251"] + "\n")
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode(encoding) * 12)
    assert [line.text for line in streams.lines(path, 1000)] == [text.strip()] * 12
    page = f"<html><head><meta charset={encoding}></head>\n<p>{text}</p></html>"
    (tmp_path / "a.html").write_bytes(page.encode(encoding))
    assert text.strip() in "".join(line.text for line in streams.lines(tmp_path / "a.html", 9000))


@pytest.mark.parametrize("ends", ["\r", "\r\n", "\n", "\r\r\n", "\n|\r|\r\n"])
def test_ends_of_lines(ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    several = ends.split("|")
    text = "".join(f"Line {n}.{several[n % len(several)]}" for n in range(100)) + "The last."
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode())
    for chunk in (1, 3, 7, 1 << 18):
        monkeypatch.setattr(streams, "CHUNK", chunk)
        found = [line.text for line in streams.lines(path, 1000)]
        assert found == [*(f"Line {n}." for n in range(100)), "The last."]
    assert discover.describe(str(path)).rows == 101


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_a_line_of_100_mb_is_read_in_bounded_memory(tmp_path: Path, name: str) -> None:
    """Compressed, it is half a megabyte that would fill the memory."""
    path = tmp_path / name
    with gzip.open(path, "wb", 1) if name.endswith(".gz") else path.open("wb") as file:
        file.write(b"First line here.\n")
        for _ in range(200):
            file.write(b"word " * 100_000)
        file.write(b"\nLast line here.\n")
    program = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from tercet.tasks.corpus.sources.streams import lines\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak()\n"
        "found = [(line.text[:20], line.fault) for line in lines(Path(sys.argv[1]), 1_000_000)]\n"
        "print(found, (peak() - before) // 1024)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    found, grown = done.stdout.rsplit(" ", 1)
    assert found == str(
        [
            ("First line here.", ""),
            ("word word word word ", "line_too_long"),
            ("Last line here.", ""),
        ]
    )
    assert int(grown) < 10  # MB, of a line of 100
