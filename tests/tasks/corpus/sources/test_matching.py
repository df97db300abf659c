"""Which files a glob means: as Python's own, but each once, and no circle of links is endless."""

import glob
import os
from pathlib import Path

import pytest

from tercet.tasks.corpus.sources import files
from tercet.tasks.corpus.sources.corpora import CorpusConfig, Document


def names(source: str) -> list[str]:
    return [name for name, _ in files.files_of(source)]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A folder `texts` of three files in two folders, and one that is hidden."""
    for name in ("a.txt", "b/c.txt", "b/d/e.txt", ".hidden/f.txt", "b/.g.txt"):
        (tmp_path / "texts" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "texts" / name).write_text(f"This is {name} of the corpus.\n")
    return tmp_path / "texts"


@pytest.mark.parametrize(
    "pattern",
    ["**/*.txt", "*.txt", "b/**", "**/d/*", "*/**/*.txt", "**/**/e.txt", "**/b/**/*", "[ab]*/*.txt",
     "b**/*.txt", "**/.g.txt", "no/**/*.txt"],
)  # fmt: skip
def test_globs_are_as_in_python(texts: Path, pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = set(glob.glob(f"{texts}/{pattern}", recursive=True))  # noqa: PTH207
    found = {str(path) for path in files.matches(f"{texts}/{pattern}")}
    assert set(filter(os.path.isfile, found)) == set(filter(os.path.isfile, wanted))
    monkeypatch.chdir(texts)
    relative = {str(path) for path in files.matches(pattern)}
    assert {f"{texts}/{path}" for path in relative} == found


LINKS = {
    "to itself": {"again": "."},
    # Two in each folder: python's glob would list 2 ** 40 names.
    "back": {"up": ".", "b/up": "..", "b/d/up": "../.."}
    | {"round": "..", "b/round": "..", "b/d/round": ".."},
    "in a circle": {"one.txt": "two.txt", "two.txt": "one.txt", "circle": "circle"},
    "to nothing": {"0.txt": "gone.txt", "0": "gone"},
    # First in the order of names, but not the file's own.
    "of other names": {"0.txt": "a.txt", "0": "b"},
}


@pytest.mark.parametrize("links", LINKS.values(), ids=LINKS)
@pytest.mark.parametrize("end", ["", "/**/*.txt", "/**"])
def test_links_add_no_file_twice(texts: Path, links: dict[str, str], end: str) -> None:
    before = files.digest(CorpusConfig(name="c", source=f"{texts}{end}"))
    for name, target in links.items():
        (texts / name).symlink_to(target)
    assert names(f"{texts}{end}") == ["a.txt", "b/c.txt", "b/d/e.txt"]
    assert files.digest(CorpusConfig(name="c", source=f"{texts}{end}")) == before


def test_links_to_files_and_folders_elsewhere_are_followed(texts: Path, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "first").symlink_to(texts / "b")
    (tmp_path / "corpus" / "second").symlink_to(texts / "b")
    (tmp_path / "corpus" / "third.txt").symlink_to(texts / "a.txt")
    found = names(f"{tmp_path}/corpus/**/*.txt")
    assert found == ["first/c.txt", "first/d/e.txt", "third.txt"]
    assert names(f"{tmp_path}/corpus") == ["third.txt"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [(b"caf\xe9.txt", "caf\\xe9.txt"), (b"\xff\xfe/a.txt", "\\xff\\xfe/a.txt"),
     (b"\xe4\xf6\xfc.csv", "\\xe4\\xf6\\xfc.csv"), ("ünï.txt".encode(), "ünï.txt")],
)  # fmt: skip
@pytest.mark.parametrize("end", ["", "/**", "/**/*.*"])
def test_a_name_is_shown_by_its_bytes(tmp_path: Path, name: bytes, shown: str, end: str) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    path.parent.mkdir(exist_ok=True)
    path.write_text("text\nA first text of the file.\nA second text of the file.\n")
    assert names(f"{tmp_path}{end}") == [shown]
    corpus = CorpusConfig(name="c", source=f"{tmp_path}{end}", text=None)
    documents = [r for r in files.read(corpus, 2000) if isinstance(r, Document)]
    assert {document.path.rpartition(":")[0] for document in documents} == {shown}
    assert len(documents) == 3 - shown.endswith(".csv")
    assert len(files.digest(corpus)) == 64
