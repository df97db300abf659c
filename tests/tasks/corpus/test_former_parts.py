"""Documents stay in the files that they were in; which rows there are does not depend on it."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stages import work_of

from tercet.storage.part_writer import PartWriter, StagedFile
from tercet.storage.rows import Rows, rows_of
from tercet.tasks.corpus import former_parts
from tercet.tasks.stage import Config, Resources

SCHEMA = pa.schema([("doc_id", pa.uint64()), ("number", pa.int32())])
PART_ROWS = 10


def write(
    folder: Path, documents: Sequence[int], known: Rows | None = None, length: int | None = None
) -> list[StagedFile]:
    """The files of these documents, of which N has 1 + N % 5 rows, read in this order."""
    tables = {"sentences": SCHEMA}
    folder.mkdir()
    with PartWriter(folder, tables, PART_ROWS) as writer:
        inputs = {} if known is None else {"known": known}
        resources = Resources(part_rows=PART_ROWS)
        work = work_of(Config(), inputs, folder, resources=resources, emit=writer.emit)
        with former_parts.former_parts(work, tables) as ordered:
            for one in documents:
                count = length or 1 + one % 5
                columns = {"doc_id": [one] * count, "number": range(count)}
                ordered.emit("sentences", pa.table(columns, schema=SCHEMA))
        return list(writer.close().files["sentences"])


def rows(files: Sequence[StagedFile]) -> Rows:
    return rows_of({"sentences": [file.path for file in files]})


def digests(files: Sequence[StagedFile]) -> list[str]:
    return [file.digest for file in files]


def listed(files: Sequence[StagedFile]) -> list[tuple[int, int]]:
    table = rows(files).table("sentences")
    return sorted(zip(table["doc_id"].to_pylist(), table["number"].to_pylist(), strict=True))


@pytest.fixture
def before(tmp_path: Path) -> list[StagedFile]:
    # The last file is not full.
    made = write(tmp_path / "before", range(100, 216, 2))
    assert len(made) > 10
    assert made[-1].rows < PART_ROWS
    return made


def test_the_same_documents_lie_as_they_lay_in_whatever_order_they_are_read(
    tmp_path: Path, before: list[StagedFile]
) -> None:
    backwards = write(tmp_path / "after", range(214, 98, -2), rows(before))
    assert digests(backwards) == digests(before)


def test_new_documents_fill_the_last_file(tmp_path: Path, before: list[StagedFile]) -> None:
    read = sorted([*range(100, 216, 2), 103, 151, 153, 155, 157, 159, 161, 163, 165, 199])
    after = write(tmp_path / "after", read, rows(before))
    assert digests(after)[: len(before) - 1] == digests(before)[:-1]
    assert len(after) > len(before)
    assert listed(after) == listed(write(tmp_path / "fresh", read))
    documents = [set(pq.read_table(file.path)["doc_id"].to_pylist()) for file in after]
    assert sum(map(len, documents)) == len(read)
    # A second time what was new is where it is.
    again = write(tmp_path / "again", [101, *read], rows(after))
    assert digests(again)[: len(after) - 1] == digests(after)[:-1]


def test_a_document_gone_changes_its_file_alone(tmp_path: Path, before: list[StagedFile]) -> None:
    lost = pq.read_table(before[3].path)["doc_id"].to_pylist()[0]
    after = write(tmp_path / "after", [n for n in range(100, 216, 2) if n != lost], rows(before))
    kept = set(digests(after)) & set(digests(before))
    # A file that is too small then is filled by the next.
    assert len(kept) >= len(before) - 2
    assert lost not in rows(after).table("sentences")["doc_id"].to_pylist()


def test_a_document_that_is_longer_than_a_file_comes_once(tmp_path: Path) -> None:
    """One emit of so many rows is parted, and the document lies in several files."""
    known = None
    for name in ("before", "after", "again"):
        files = write(tmp_path / name, [7], known, length=5 * PART_ROWS)
        assert len(files) > 1
        assert listed(files) == [(7, number) for number in range(5 * PART_ROWS)]
        known = rows(files)


def test_other_documents_are_laid_out_anew(tmp_path: Path, before: list[StagedFile]) -> None:
    read = range(301, 401, 2)
    after = write(tmp_path / "after", read, rows(before))
    assert listed(after) == listed(write(tmp_path / "fresh", read))
    assert max(file.rows for file in after) < 3 * PART_ROWS
