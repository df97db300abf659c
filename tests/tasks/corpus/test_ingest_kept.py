"""Documents of a version that is kept stay in their splits, whatever comes and goes."""

import re
from itertools import combinations
from pathlib import Path

import pyarrow as pa
import pytest
from stages import emitted, rows_in

from tercet.models import seeding
from tercet.storage.rows import Rows
from tercet.tasks.corpus import ingest
from tercet.tasks.corpus.sources.corpora import IngestConfig

FAMILIES = 80
COPIES = 3


def text(family: int, copy: int) -> str:
    """Twenty words that all of the family share, and its own last one."""
    names = [f"{family} {place}" for place in range(20)]
    drawn = seeding.below(0, "words", seeding.text_ids(names), 900, seeding.text_ids(names))
    return " ".join(f"w{word}" for word in drawn.tolist()) + f" copy{copy}"


def read(folder: Path, lines: list[str], kept: Rows | None = None) -> dict[str, pa.Table]:
    """The tables of a corpus of these lines."""
    folder.mkdir()
    (folder / "lines.txt").write_text("\n".join(lines) + "\n")
    corpora = [{"name": "lines", "source": f"{folder}/lines.txt"}]
    config = IngestConfig.model_validate({"corpora": corpora, "dev": 0.2, "test": 0.3})
    inputs = {} if kept is None else {"kept": kept}
    return emitted(ingest.STAGE, config, inputs, folder / "scratch", seed=0)


def splits(made: dict[str, pa.Table]) -> dict[str, str]:
    """The split of each text."""
    rows = made["sentences"].to_pylist()
    return {row["text"]: row["split"] for row in rows}


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], Rows]:
    """A corpus of families of near-copies: the split of each text, and what is kept of it."""
    folder = tmp_path_factory.mktemp("before")
    lines = [text(family, copy) for copy in range(COPIES) for family in range(FAMILIES)]
    made = read(folder / "corpus", lines)
    return splits(made), rows_in(folder, documents=made["documents"])


def test_a_family_stays_where_it_was_when_its_first_goes_and_new_ones_follow(
    tmp_path: Path, before: tuple[dict[str, str], Rows]
) -> None:
    was, kept = before
    # The first of each family is deleted; another copy is read before all that were there.
    new = [text(family, COPIES) for family in range(FAMILIES)]
    old = [text(family, copy) for copy in range(1, COPIES) for family in range(FAMILIES)]
    drawn = splits(read(tmp_path / "drawn", [*new, *old]))
    assert sum(drawn[line] != was[line] for line in old) > 20
    now = splits(read(tmp_path / "kept", [*new, *old], kept))
    assert [now[line] for line in old] == [was[line] for line in old]
    assert [now[line] for line in new] == [was[text(family, 0)] for family in range(FAMILIES)]


def test_what_belongs_to_two_splits_is_shared_by_none(
    tmp_path: Path, before: tuple[dict[str, str], Rows]
) -> None:
    was, kept = before
    families = [text(family, 0) for family in range(FAMILIES)]
    # Each has half of a family and half of the next.
    bridges = [
        " ".join([*one.split()[:10], *other.split()[10:20]])
        for one, other in combinations(families[:12], 2)
    ]
    made = read(tmp_path / "corpus", [*bridges, *was], kept)
    now = splits(made)
    assert all(now.get(line, split) == split for line, split in was.items())
    held = {
        split: {
            tuple(words[at : at + 8])
            for line, own in now.items()
            if own == split
            for words in [re.findall(r"\w+", line)]
            for at in range(len(words) - 7)
        }
        for split in ("train", "dev", "test")
    }
    assert all(held.values())
    assert not any(held[one] & held[other] for one, other in combinations(held, 2))
    assert "shared_with_test" in made["rejects"]["reason"].to_pylist()


def test_a_corpus_that_is_all_new_is_drawn(
    tmp_path: Path, before: tuple[dict[str, str], Rows]
) -> None:
    lines = [text(family, 0) for family in range(FAMILIES, 2 * FAMILIES)]
    assert splits(read(tmp_path / "kept", lines, before[1])) == splits(
        read(tmp_path / "drawn", lines)
    )


@pytest.mark.parametrize("split", [None, "train", "test"])
def test_outcomes_are_of_where_documents_are_kept(tmp_path: Path, split: str | None) -> None:
    """Each holds the end of the one before it; half of them were there, or none."""
    lines = [" ".join(f"w{word}" for word in range(9 * i, 9 * i + 18)) for i in range(300)]
    kept = None
    if split:
        were = read(tmp_path / "before", lines[:150])["documents"]
        place = were.column_names.index("split")
        were = were.set_column(place, "split", pa.array([split] * len(were)))
        kept = rows_in(tmp_path, documents=were)
    outcomes = {
        (row["unit"], row["outcome"]): row["n"]
        for row in read(tmp_path / "now", lines, kept)["corpus_outcomes"].to_pylist()
    }
    assert outcomes["document", "test" if split == "test" else "large_cluster"] == 300
    # Without ties the first half would stay as well.
    assert split != "train" or outcomes["parted", "train"] > 140
