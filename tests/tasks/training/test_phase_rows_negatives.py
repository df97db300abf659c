"""Mined negatives beside the rows of a part, a column each."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failures import fails

from tercet.models.training.phase import PartRows
from tercet.storage.rows import Rows, rows_of
from tercet.tasks.corpus.ingest import DOCUMENT_PAIRS
from tercet.tasks.corpus.labelled import LABELLED
from tercet.tasks.retrieval.negatives import NEGATIVES
from tercet.tasks.stage import Resources, Work
from tercet.tasks.training.phase_rows import part_rows
from tercet.tasks.training.phases import PartConfig

PAIRS = [
    {"pair_id": row, "doc_id": row, "query": f"q{row}", "answer": f"a{row}", "split": "train"}
    for row in range(1, 5)
]
# Row 1 has three, row 2 one, row 3 none; row 4 one whose text stands in an evaluation set.
MINED = [(1, 1, "x"), (1, 2, "y"), (1, 3, "z"), (2, 1, "x"), (4, 1, "measured")]


def written(folder: Path, name: str, table: pa.Table) -> Rows:
    pq.write_table(table, folder / f"{name}.parquet")
    return rows_of({name: [folder / f"{name}.parquet"]})


def of_part(folder: Path, source: str, negatives: int, loss: str = "info_nce") -> PartRows:
    labelled = [
        {**dict.fromkeys(LABELLED.names), "row_id": row, "corpus": "nli", "anchor": f"q{row}"}
        | {"positive": f"a{row}", "negative": "own" if row < 3 else None}
        for row in range(1, 5)
    ]
    mined = [dict(zip(("triplet_id", "rank", "text"), row, strict=True)) for row in MINED]
    removed = pa.table({"text": ["measured", "kept"], "removed": [True, False]})
    (folder / "guard").mkdir(exist_ok=True)
    guarded = written(folder / "guard", "contamination", removed)
    inputs = {
        "document_pairs": written(
            folder, "document_pairs", pa.Table.from_pylist(PAIRS, DOCUMENT_PAIRS)
        ),
        "labelled": written(folder, "labelled", pa.Table.from_pylist(labelled, LABELLED)),
        "negatives": written(folder, "negatives", pa.Table.from_pylist(mined, NEGATIVES)),
        "guarded_negatives": guarded,
    }
    rows = {"from": source, "negatives": negatives}
    part = PartConfig.model_validate({"name": "p", "rows": rows, "loss": loss})
    return part_rows(Work(None, 3, inputs, {}, {}, Resources(), folder, lambda *_: None), "m", part)


def columns(made: PartRows) -> dict[str, list[Any]]:
    return {name: made.rows[name].to_pylist() for name in made.rows.column_names[3:]}


def test_as_many_columns_as_are_asked_for(tmp_path: Path) -> None:
    made = of_part(tmp_path, "document_pairs", 2)
    assert made.rows["row_id"].to_pylist() == [1, 2, 3, 4]
    assert columns(made) == {
        "negative": ["x", "x", None, None],
        "negative_2": ["y", None, None, None],
    }
    assert made.sides == {"anchor": "query", "positive": "document", "negative": "document"}
    # Rows that have no third one make no column of it.
    assert len(columns(of_part(tmp_path, "document_pairs", 9))) == 3


def test_a_rows_own_negative_comes_after_them(tmp_path: Path) -> None:
    made = of_part(tmp_path, "nli", 2)
    assert columns(made) == {
        "negative_3": ["own", "own", None, None],
        "negative": ["x", "x", None, None],
        "negative_2": ["y", None, None, None],
    }
    # They are the rows of a search.
    assert made.sides["anchor"] == "query"


def test_a_loss_that_needs_one_leaves_out_rows_without(tmp_path: Path) -> None:
    made = of_part(tmp_path, "document_pairs", 1, "pairwise_logistic")
    assert made.rows["row_id"].to_pylist() == [1, 2]
    assert columns(made) == {"negative": ["x", "x"]}


def test_where_no_row_has_any_the_margin_is_to_blame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "MINED", MINED[4:])
    with fails("no_rows", "negatives.margin"):
        of_part(tmp_path, "document_pairs", 1)
