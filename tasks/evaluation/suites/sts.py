"""Reads the sets of sentence pairs with human scores from a directory in SentEval's layout.

`STS/STS12-en-test/STS.input.NAME.txt` with `STS.gs.NAME.txt` for 2012 to 2016,
`STS/STSBenchmark/sts-SPLIT.csv`, and `SICK/SICK_….txt`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.tasks.evaluation.suites.layout import (
    Split,
    check_texts,
    columns,
    content_digest,
    lines,
    table_rows,
)
from tercet.tasks.evaluation.suites.task import (
    Kind,
    LeftOut,
    Part,
    Scores,
    Task,
    distinct_cosines,
)
from tercet.tasks.stage import BadInput

if TYPE_CHECKING:
    from tercet.tasks.evaluation.encoding import Encoded

# The files of each year that SentEval scores: without STS13's SMT, which came without sentences,
# and STS12's gs.ALL, which repeats its other files.
_YEARS: dict[str, tuple[str, ...]] = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "OnWN", "images", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
_STSB_FILES = {"dev": "sts-dev.csv", "test": "sts-test.csv"}
_SICK_FILES = {"dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}

STS_TASKS = (*_YEARS, "STS-B", "SICK-R")


@dataclass(frozen=True)
class ScoredPairs:
    """The scored pairs of one file: two columns of texts and one of human scores."""

    name: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    scores: npt.NDArray[np.float64]


@dataclass(frozen=True)
class ScoredTask(Task):
    """One of the seven STS tasks, or the user's own set, in one split; a year has several parts.

    Also pairs of `awareness`, whose scores are a teacher's cosines, and of `pairs`, whose scores
    are labels.

    skipped: reason, detail and text of each unusable row; the seven tasks have none.
    """

    name: str
    split: Split
    parts: tuple[ScoredPairs, ...]
    skipped: tuple[tuple[str, str, str], ...] = ()
    suite: str = "sts"
    metric: Literal["spearman", "ap"] = "spearman"

    def texts(self) -> list[str]:
        return [text for part in self.parts for text in (*part.first, *part.second)]

    def digest(self) -> str:
        rows: list[tuple[str, ...]] = []
        for part in self.parts:
            if self.metric == "spearman":
                rows.append((part.name,))
            pairs = zip(part.first, part.second, part.scores, strict=True)
            rows += [(first, second, f"{score:.6g}") for first, second, score in pairs]
        return content_digest(rows)

    def scores(self, encoded: "Encoded") -> list[Scores]:
        """Cosines with the scores, file by file."""
        parts = []
        for part in self.parts:
            what = f"{self.metric} on {self.name} ({part.name})"
            cosines = distinct_cosines(encoded, part.first, part.second, what)
            subset = part.name if len(self.parts) > 1 else "all"
            parts.append(Part(subset, cosines, part.scores))
        averaged = self.suite == "sts" and self.split == "test"
        return [Scores(self.data(), self.metric, tuple(parts), averaged=averaged)]

    def left_out(self) -> list[LeftOut]:
        return [(reason, f"{self.name}: {detail}", text) for reason, detail, text in self.skipped]


def _paths(task: str, splits: Sequence[Split]) -> list[str]:
    if task == "STS-B":
        return [f"STS/STSBenchmark/{_STSB_FILES[split]}" for split in splits]
    if task == "SICK-R":
        return [f"SICK/{_SICK_FILES[split]}" for split in splits]
    stems = _YEARS[task] if "test" in splits else ()
    return [
        f"STS/{task}-en-test/STS.{kind}.{stem}.txt" for stem in stems for kind in ("input", "gs")
    ]


def read_task(root: Path, task: str, split: Split) -> ScoredTask | None:
    """A task with its scored pairs; None for the dev split of a year, which has none.

    Raises: BadInput that names file and line for a line without a second sentence or without its
        score, a score off the scale, and a file without scored pairs.
    """
    paths = [root / path for path in _paths(task, (split,))]
    if task == "STS-B":
        parts = [_read_stsb(*paths)]
    elif task == "SICK-R":
        parts = [_read_sick(*paths)]
    else:
        # Paths alternate between the pairs of a file and their scores.
        named = zip(_YEARS[task], paths[::2], paths[1::2], strict=False)
        parts = [_read_year_part(stem, source, gold) for stem, source, gold in named]
    return ScoredTask(task, split, tuple(parts)) if parts else None


def _score(text: str, low: float, high: float, path: Path, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise BadInput(
            "bad_row",
            f"{path}, line {line}: the score {text.strip()!r} is not from {low:g} to {high:g}.",
        )
    return value


def _scored(path: Path, rows: Sequence[tuple[str, str, float]], name: str) -> ScoredPairs:
    if not rows:
        raise BadInput("no_rows", f"{path} holds no scored pair: there is nothing to evaluate on.")
    first, second, scores = zip(*rows, strict=True)
    return ScoredPairs(name, first, second, np.array(scores, dtype=np.float64))


def _read_year_part(stem: str, source: Path, gold: Path) -> ScoredPairs:
    """One file of a year: pairs whose line in the gold file is empty were not scored."""
    pairs, scores = lines(source), lines(gold)
    if len(pairs) != len(scores):
        short, long = (gold, source) if len(scores) < len(pairs) else (source, gold)
        least, most = sorted((len(pairs), len(scores)))
        raise BadInput(
            "bad_row",
            f"{short}, line {least + 1}: missing; the file has {least} lines and {long.name} has "
            f"{most}, and they belong together line by line.",
        )
    rows = []
    for number, (pair, score) in enumerate(zip(pairs, scores, strict=True), start=1):
        cells = columns(pair, 2, source, number)
        if score.strip():
            check_texts(cells[:2], source, number)
            rows.append((cells[0], cells[1], _score(score, 0, 5, gold, number)))
    return _scored(gold, rows, stem)


def _read_stsb(path: Path) -> ScoredPairs:
    """Columns without header or quoting: genre, file, year, id, score, sentence 1, sentence 2."""
    rows = [
        (cells[5], cells[6], _score(cells[4], 0, 5, path, number))
        for number, cells in table_rows(path, 7, (5, 6))
    ]
    return _scored(path, rows, path.stem)


def _read_sick(path: Path) -> ScoredPairs:
    """Columns named by a header: sentence_A, sentence_B and relatedness_score, from 1 to 5."""
    header = (lines(path) or [""])[0].split("\t")
    needed = ("sentence_A", "sentence_B", "relatedness_score")
    missing = [name for name in needed if name not in header]
    if missing:
        raise BadInput(
            "missing_column", f"{path}, line 1: the header lacks the column {missing[0]}."
        )
    a, b, score = (header.index(name) for name in needed)
    rows = [
        (cells[a], cells[b], _score(cells[score], 1, 5, path, number))
        for number, cells in table_rows(path, len(header), (a, b), first=2)
    ]
    return _scored(path, rows, path.stem)


# Pairs of the stage `awareness` as tasks, with the teacher's cosines as scores. They are read here,
# so that the version of an evaluation does not cover the rules that made the pairs.

AWARENESS_KINDS = ("entity", "quantity")
_AWARENESS_TASKS = (*AWARENESS_KINDS, "all")
_AWARENESS_COLUMNS = ["pair_id", "kind", "anchor", "text", "teacher_similarity"]


def read_awareness(table: pa.Table) -> list[ScoredTask]:
    """A task for each kind that `awareness_pairs` has, and `all`, each in the order of pair_id.

    `all` has each pair of texts once, even if it is of both kinds.
    """
    rows = table.select(_AWARENESS_COLUMNS).sort_by("pair_id").to_pylist()
    by_kind = {kind: [row for row in rows if row["kind"] == kind] for kind in AWARENESS_KINDS}
    distinct = {(row["anchor"], row["text"]): row for row in reversed(rows)}
    everything = [row for row in rows if distinct[row["anchor"], row["text"]] is row]
    tasks = {**by_kind, "all": everything}
    return [_awareness_task(name, tasks[name]) for name in _AWARENESS_TASKS if tasks[name]]


def _awareness_task(name: str, rows: list[dict[str, Any]]) -> ScoredTask:
    scores = np.array([row["teacher_similarity"] for row in rows], dtype=np.float64)
    first = tuple(row["anchor"] for row in rows)
    second = tuple(row["text"] for row in rows)
    return ScoredTask(name, "dev", (ScoredPairs(name, first, second, scores),), suite="awareness")


KIND = Kind("sts", STS_TASKS, read_task, ("test", "dev"), _paths)
