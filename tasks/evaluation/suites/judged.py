"""Tasks of the user's own questions to the run's passages, from the table `judgements`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from tercet.models.text.passages import passage_text
from tercet.storage.rows import Rows
from tercet.tasks.evaluation.suites.beir import RetrievalTask
from tercet.tasks.evaluation.suites.layout import Split
from tercet.tasks.retrieval.passage_vectors import read_blocks
from tercet.tasks.stage import BadInput

_COLUMNS = ("passage_id", "doc_id", "corpus", "source", "context", "text")
# Units that are ranked, with the columns of `passages` that identify them.
_UNITS = {"passage": ("passage_id",), "document": ("doc_id",), "file": ("corpus", "source")}


def read_judged(
    inputs: Mapping[str, Rows], splits: Sequence[Split], name: str | None = None
) -> list[RetrievalTask]:
    """The tasks of the table `judgements` in the slot of this name, if there is one.

    Each ranks all of `passages`, by the vectors in the slot `passage_vectors`, if there is one.
    name: reads only this task.
    Raises: BadInput if some passages have no vectors.
    """
    if "judgements" not in inputs:
        return []
    judgements = inputs["judgements"].table("judgements")
    passages = inputs["passages"].table("passages", _COLUMNS)
    tasks = judged_tasks(judgements, passages, splits, name)
    vectors = inputs.get("passage_vectors")
    if vectors is None:
        return tasks
    lost = passages.num_rows - vectors.count("passage_vectors")
    if lost:
        raise BadInput(
            "damaged",
            f"The encoder gives NaN or infinity for {lost:,} of {passages.num_rows:,} passages: "
            "its weights are damaged or its training diverged.",
        )
    return [replace(task, vectors=partial(read_blocks, vectors)) for task in tasks]


def judged_tasks(
    judgements: pa.Table, passages: pa.Table, splits: Sequence[Split], name: str | None = None
) -> list[RetrievalTask]:
    """The tasks of these tables: a set in a split with questions each, test before dev."""
    columns: dict[str, list[Any]] = {key: passages[key].to_pylist() for key in _COLUMNS}
    texts = tuple(map(passage_text, columns["context"], columns["text"]))
    places = {passage: place for place, passage in enumerate(columns["passage_id"])}
    rows = judgements.to_pylist()
    tasks = []
    order: Sequence[Split] = ("test", "dev")
    for task in dict.fromkeys(row["task"] for row in rows if name in (None, row["task"])):
        for split in order:
            of_task = [row for row in rows if (row["task"], row["split"]) == (task, split)]
            if split not in splits or not of_task:
                continue
            units = _places(columns, of_task[0]["unit"])
            judged: dict[str, dict[int, int]] = {}
            for row in of_task:
                grades, unit = judged.setdefault(row["query"], {}), units[places[row["passage_id"]]]
                # Earlier versions did not write grades down.
                grades[unit] = max(row.get("grade") or 1, grades.get(unit, 1))
            pieces = None if of_task[0]["unit"] == "passage" else units
            retrieval = RetrievalTask(
                task,
                split,
                tuple(judged),
                texts,
                tuple(judged.values()),
                units=pieces,
                passage_ids=tuple(columns["passage_id"]),
            )
            tasks.append(retrieval)
    return tasks


def _places(columns: Mapping[str, Sequence[Any]], unit: str) -> tuple[int, ...]:
    """For each passage the place of the unit that it is a piece of, in order of appearance."""
    places: dict[tuple[Any, ...], int] = {}
    keys = zip(*(columns[column] for column in _UNITS[unit]), strict=True)
    return tuple(places.setdefault(key, len(places)) for key in keys)
