"""The command that a message gives for a file that is not UTF-8."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from tercet.tasks.corpus.sources import discover, streams
from tercet.tasks.stage import BadInput

LATIN = "Der Reiher wartet im kühlen Wasser.\n".encode("latin-1") * 3


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("a.txt", "iconv -f latin1 -t utf-8 {path} > NEW"),
        ("of mine.csv", "iconv -f latin1 -t utf-8 '{path}' > NEW"),
        ("a.txt.gz", "gzip -dc {path} | iconv -f latin1 -t utf-8 > NEW"),
        ("a.jsonl.zst", "zstd -dc {path} | iconv -f latin1 -t utf-8 > NEW"),
        ("a.parquet", "write its texts anew as UTF-8"),
    ],
)
def test_the_command_is_whole(tmp_path: Path, name: str, command: str) -> None:
    path = tmp_path / name
    path.touch()
    assert streams.conversion(str(path)) == command.format(path=path)


def test_of_several_files_none_is_named(tmp_path: Path) -> None:
    assert streams.conversion(str(tmp_path)) == "iconv -f latin1 -t utf-8 FILE > NEW"


def test_a_file_all_of_latin_1_is_told_how_to_convert_it(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt.gz"
    path.write_bytes(gzip.compress(LATIN))
    with pytest.raises(BadInput, match="none of its first rows holds text; if it is Latin-1: gzip"):
        discover.describe(str(path))


@pytest.mark.parametrize("ends", ["\r", "\r\n", "\n", "\r\r\n", "\n|\r|\r\n"])
def test_a_line_may_end_in_a_carriage_return(
    ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
