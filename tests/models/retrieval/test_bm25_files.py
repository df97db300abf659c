"""A BM25 index that was read back is the one that was written."""

from pathlib import Path

import pytest

from tercet.models.retrieval import bm25


@pytest.mark.parametrize(
    "documents",
    [
        ["The cats sat on the mats.", "A dog barks."] * 5,
        ["Der Hund bellt.", "Die Katze"],
        ["", "!"],
    ],
)
def test_an_index_survives_the_way_over_the_disk(tmp_path: Path, documents: list[str]) -> None:
    built = bm25.build(documents)
    bm25.save(built, tmp_path / "index")
    read = bm25.load(tmp_path / "index")
    assert (read.english, read.documents) == (built.english, built.documents)
    for query in ("cat", "Hund", "the", "?"):
        wanted, found = bm25.search(built, [query], 4), bm25.search(read, [query], 4)
        assert [array.tolist() for array in found] == [array.tolist() for array in wanted]


def test_a_directory_without_an_index_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        bm25.load(tmp_path)
