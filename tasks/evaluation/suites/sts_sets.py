"""The user's own graded pairs: any table of two texts and a number on any scale.

The columns are named in the recipe, or have the usual names of a corpus of kind scored, or are the
only two columns of texts and the only one of numbers. A column `split` may hold `dev` (also `val`,
`valid` or `validation`) or `test`; without it all pairs are of the test split. Unusable rows are
left out and counted.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np

from tercet.tasks.corpus.kinds import SCORED, labelled_rows, layout_of, number
from tercet.tasks.corpus.sources import tables
from tercet.tasks.corpus.sources.tables import missing
from tercet.tasks.evaluation.suites.layout import Split, locate
from tercet.tasks.evaluation.suites.own import SPLIT, SPLITS, StsSet
from tercet.tasks.evaluation.suites.sts import ScoredPairs, ScoredTask
from tercet.tasks.rejects import SHOWN
from tercet.tasks.stage import BadInput

SUITE = "sts_sets"
# The rank correlation of two pairs is 1 or -1 for every encoder.
FEWEST = 3

Pair: TypeAlias = tuple[str, str, float]
Skipped: TypeAlias = tuple[tuple[str, str, str], ...]

_ORDER: Sequence[Split] = ("test", "dev")
# Columns of numbers that are not scores, but row numbers of pandas and data sets.
_NUMBERS = ("", "unnamed: 0", "id", "idx", "index", "pair_id")
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")
# The kind of a column is that of more than this share of its filled cells.
_MOSTLY = 0.5
_MAX_BYTES = 1 << 24


def find_set_files(sets: Mapping[str, StsSet]) -> dict[str, Path]:
    """The files by their names among a stage's externals. Raises BadInput."""
    return {f"{SUITE}/{name}": _located(one.source) for name, one in sets.items()}


def _located(source: str) -> Path:
    return locate(source, f"graded pairs (evaluate.{SUITE})", "two texts and a score")


def read_sets(
    sets: Mapping[str, StsSet], splits: Sequence[Split], required: bool = True
) -> list[ScoredTask]:
    """The pairs of these splits, one task for each set and split, test before dev.

    sets: by the names of their tasks. required: a set without a pair in any of the splits, with
        fewer than three in one, or with a single score is an error.
    Raises: BadInput for these, and for a file whose columns are not found.
    """
    tasks = []
    for name, one in sets.items():
        pairs, skipped = _pairs(name, one)
        chosen = [split for split in _ORDER if split in splits and pairs[split]]
        if required and not chosen:
            where = f" of split {' or '.join(splits)}" if any(pairs.values()) else ""
            raise BadInput(
                "no_rows",
                f"{one.source} has no pair{where} that can be used{_reasons(skipped)}: correct its "
                f"columns of texts, numbers or `{SPLIT}`, or measure another split.",
            )
        for split in chosen:
            first, second, scores = zip(*pairs[split], strict=True)
            if required and (len(scores) < FEWEST or min(scores) == max(scores)):
                fault = f"only {len(scores)} pairs of split {split} can be used"
                if len(scores) >= FEWEST:
                    fault = f"all {len(scores)} pairs of split {split} have the score {scores[0]:g}"
                raise BadInput(
                    "no_rows",
                    f"{one.source}: {fault}{_reasons(skipped)}; a rank correlation needs {FEWEST} "
                    "or more, of different scores.",
                )
            part = ScoredPairs(name, first, second, np.array(scores, dtype=np.float64))
            tasks.append(ScoredTask(name, split, (part,), skipped, SUITE))
            skipped = ()
    return tasks


def describe_skipped(task: ScoredTask) -> str:
    """How many rows of the task's file were left out, and why."""
    return f"{task.name}: {_reasons(task.skipped)[2:-1]}"


def _reasons(skipped: Skipped) -> str:
    if not skipped:
        return ""
    reasons = Counter(reason for reason, *_ in skipped).most_common()
    listed = ", ".join(f"{reason} {n:,}" for reason, n in reasons)
    return f" (left out: {listed}; the first: {skipped[0][1]})"


def _pairs(name: str, one: StsSet) -> tuple[Mapping[Split, Sequence[Pair]], Skipped]:
    """The usable pairs of each split, and the rows left out; rows of other splits are ignored."""
    path = _located(one.source)
    header, names = _header(path)
    columns = _columns(path, name, one, header, names)
    split_column = next((name for name in header if _is_split(name)), None)
    read_columns = [*columns.values(), *([] if split_column is None else [split_column])]
    pairs: dict[Split, list[Pair]] = {"test": [], "dev": []}
    skipped = []
    for row in tables.rows(path, _MAX_BYTES, read_columns, names):
        outcome = labelled_rows(SCORED, columns, row)
        if not isinstance(outcome, list):
            fault, text = outcome
            skipped.append((fault.reason, f"row {row.number}: {fault.detail}", text[:SHOWN]))
            continue
        ((first, second, _, score, _),) = outcome
        assert second is not None
        assert score is not None
        split_name = "test" if split_column is None else row.values.get(split_column, "test")
        split = SPLITS.get(str(split_name).strip().lower())
        if missing(first) or missing(second):
            detail = f"row {row.number}: a text stands for nothing"
            skipped.append(("missing_text", detail, f"{first} {second}"[:SHOWN]))
        elif split is not None:
            pairs[split].append((first, second, score))
    return pairs, tuple(skipped)


def _header(path: Path) -> tuple[list[str], list[str] | None]:
    """The columns' names, and whether they are numbers: the same again for a file without a header.

    A first line that holds a number is a row, not a header.
    """
    named = tables.columns_of(path, _MAX_BYTES)
    if not any(number(name) is not None for name in named) or layout_of(SCORED, named):
        return named, None
    numbers = [str(place) for place in range(1, len(named) + 1)]
    return numbers, numbers


def _columns(
    path: Path, name: str, one: StsSet, header: Sequence[str], names: Sequence[str] | None
) -> dict[str, str]:
    """The set's columns, from our names to the table's."""
    lacking = "two columns of texts and one of numbers, and no more of them"
    if one.columns is None:
        sample = list(islice(tables.rows(path, _MAX_BYTES, None, names), tables.SAMPLE_ROWS))
        columns = layout_of(SCORED, header) or _by_content(header, sample)
        if columns is None and any(_with_comma(name, sample) for name in header):
            raise BadInput(
                "bad_row", f"{path} writes numbers with a comma: write them with a decimal point."
            )
    else:
        columns = one.columns.model_dump()
        absent = [theirs for theirs in columns.values() if theirs not in header]
        if absent:
            columns, lacking = None, f"the column {absent[0]!r}"
    if columns is not None:
        return columns
    listed = ", ".join(map(repr, header)) or "none"
    raise BadInput(
        "missing_column",
        f"{path} does not have {lacking} (its columns are {listed}): call them sentence1, "
        f"sentence2 and score, or name them in the recipe (evaluate.{SUITE}.{name}: {{source: "
        "FILE, columns: {anchor: …, positive: …, label: …}}).",
    )


def _with_comma(name: str, sample: Sequence[tables.Row]) -> bool:
    cells = [row.values.get(name) for row in sample]
    return _mostly(cells, [_DECIMAL_COMMA.fullmatch(str(cell)) is not None for cell in cells])


def _is_split(name: str) -> bool:
    return name.strip().lower() == SPLIT


def _by_content(header: Sequence[str], sample: Sequence[tables.Row]) -> dict[str, str] | None:
    """The two columns of texts and the column of numbers; None if the table has more of either."""
    texts, spaced, numbers = [], [], []
    for name in header:
        if _is_split(name):
            continue
        cells = [row.values.get(name) for row in sample if row.fault is None]
        cells = [cell for cell in cells if not missing(cell)]
        if not cells:
            continue
        if _mostly(cells, [number(c) is not None for c in cells]):
            numbers.append(name)
        elif _mostly(cells, [isinstance(c, str) for c in cells]):
            texts.append(name)
            if _mostly(cells, [" " in str(c).strip() for c in cells]):
                spaced.append(name)
    if len(numbers) > 1:
        numbers = [name for name in numbers if name.strip().lower() not in _NUMBERS]
    # Columns of genres, files and the like have no spaces in their cells.
    pair = texts if len(texts) == 2 else spaced
    if len(pair) != 2 or len(numbers) != 1:
        return None
    return {"anchor": pair[0], "positive": pair[1], "label": numbers[0]}


def _mostly(cells: Sequence[object], hits: Sequence[bool]) -> bool:
    return sum(hits) > _MOSTLY * len(cells)
