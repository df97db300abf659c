"""Rows that found fewer negatives than they were to have are told of."""

from pathlib import Path

import pytest
from mined_negatives import written

from tercet.tasks.corpus.labelled import LABELLED
from tercet.tasks.corpus.passages import PASSAGES
from tercet.tasks.retrieval.negatives import NEGATIVES, NegativesConfig
from tercet.tasks.stage import Resources, Work
from tercet.tasks.training import train_warnings


def found(folder: Path, counts: list[int]) -> list[tuple[object, ...]]:
    """Kind, count and total of each warning of rows with so many negatives, of three."""
    rows = [
        {"row_id": row, "corpus": "clicks", "anchor": "a", "positive": "b"}
        for row in range(len(counts))
    ]
    inputs = {
        "labelled": written(folder, "labelled", rows, LABELLED),
        "passages": written(folder, "passages", [], PASSAGES),
    }
    made = [
        {"triplet_id": row, "rank": rank + 1, "passage_id": rank, "text": "t", "score": 0.5}
        for row, count in enumerate(counts)
        for rank in range(count)
    ]
    negatives = written(folder, "negatives", made, NEGATIVES)
    config = NegativesConfig(source="labelled", k=3)
    work = Work(config, 0, inputs, {}, {}, Resources(), folder, lambda *_: None)
    told = list(train_warnings.find_few_negatives(work, negatives, []))
    assert all("negatives.margin" in one.remedy for one in told)
    return [(one.kind, one.count, one.total) for one in told]


@pytest.mark.parametrize("counts", [[3] * 20, [3] * 100 + [0, 2, 1, 2], []])
def test_a_few_such_rows_are_nothing_to_tell(tmp_path: Path, counts: list[int]) -> None:
    assert found(tmp_path, counts) == []


def test_many_are(tmp_path: Path) -> None:
    assert found(tmp_path, [3] * 20 + [0, 2, 1, 2]) == [("few_negatives", 4, 24)]
