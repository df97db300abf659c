"""What a part reads is what its key covers."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tercet.flows.running import parts
from tercet.flows.running.parts import PartFile

TABLES = ("labelled", "entries", "rejects")


def files(folder, digest="one"):
    """A file of each table; that of `entries` has this digest."""
    for table in TABLES:
        pq.write_table(pa.table({"text": [table]}), folder / f"{table}.parquet")
    own = {"labelled": "same", "entries": digest, "rejects": "same"}
    return [PartFile(name, str(folder / f"{name}.parquet"), own[name], ()) for name in TABLES]


def read(slot, folder):
    """The tables that a stage can read from the slot of this name."""
    found = files(folder)
    empty = {slot: {file.table: file.path for file in found}}
    return parts.rows({slot: found}, empty, list)[slot]


@pytest.mark.parametrize(
    ("slot", "tables"),
    [
        ("labelled", {"labelled"}),
        ("entries", {"entries"}),
        ("of_another_name", {"labelled", "entries"}),
    ],
)
def test_a_slot_named_after_a_table_holds_no_other(tmp_path, slot, tables):
    rows = read(slot, tmp_path)
    assert set(rows.tables) == tables
    for table in tables:
        assert rows.table(table)["text"].to_pylist() == [table]
    for table in {*TABLES} - tables:
        with pytest.raises(KeyError, match=table):
            rows.table(table)


@pytest.mark.parametrize("slot", ["labelled", "entries", "of_another_name"])
def test_a_change_of_what_can_be_read_changes_the_key(tmp_path, slot):
    before = parts.slot(slot, files(tmp_path)).content
    after = parts.slot(slot, files(tmp_path, "another")).content
    assert (before != after) == ("entries" in read(slot, tmp_path).tables)


def test_a_slot_without_files_has_the_tables_that_it_would_hold(tmp_path):
    empty = {file.table: file.path for file in files(tmp_path)}
    found = parts.rows({"labelled": [], "other": []}, {"labelled": empty, "other": empty}, list)
    assert set(found["labelled"].tables) == {"labelled"}
    assert set(found["other"].tables) == {"labelled", "entries"}
