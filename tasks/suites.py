"""Reads the sets of sentence pairs with human scores from a directory in SentEval's layout.

`STS/STS12-en-test/STS.input.NAME.txt` with `STS.gs.NAME.txt` for 2012 to 2016,
`STS/STSBenchmark/sts-SPLIT.csv`, and `SICK/SICK_….txt`.
"""

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from tercet.tasks.stage import BadInput

Split = Literal["dev", "test"]

# The files of each year that SentEval scores. STS13's SMT came without its sentences, and STS12's
# gs.ALL repeats the others: neither is a set of its own.
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

_SPACED_END = re.compile(r"\s[.?!]$")
_JOINED_END = re.compile(r"[^\s.?!][.?!]$")


@dataclass(frozen=True)
class ScoredPairs:
    """The scored pairs of one file: two columns of texts and one of human scores."""

    name: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    scores: npt.NDArray[np.float64]


@dataclass(frozen=True)
class ScoredTask:
    """One of the seven tasks, in one split; a year of STS has several parts, the others one."""

    name: str
    split: Split
    parts: tuple[ScoredPairs, ...]

    @property
    def pairs(self) -> int:
        """Number of scored pairs."""
        return sum(len(part.scores) for part in self.parts)

    def texts(self) -> list[str]:
        """All first and second texts, part by part."""
        return [text for part in self.parts for text in (*part.first, *part.second)]

    def digest(self) -> str:
        """Digest over texts and scores, 16 hex digits: the same for the same pairs anywhere."""
        digest = hashlib.sha256()
        for part in self.parts:
            digest.update(f"{part.name}\n".encode())
            for first, second, score in zip(part.first, part.second, part.scores, strict=True):
                digest.update(f"{first}\t{second}\t{score:.6g}\n".encode())
        return digest.hexdigest()[:16]


def task_names(asked: Sequence[str]) -> tuple[str, ...]:
    """The tasks asked for in the order of the literature; `sts` and `all` stand for all seven.

    Raises: BadInput for a name that is none of them.
    """
    for name in asked:
        if name not in (*STS_TASKS, "sts", "all"):
            raise BadInput(
                f"There is no task {name!r} to evaluate on: choose sts (all seven) or some of "
                f"{', '.join(STS_TASKS)}."
            )
    everything = not asked or "sts" in asked or "all" in asked
    return tuple(name for name in STS_TASKS if everything or name in asked)


def suite_root(directory: Path) -> Path:
    """The directory that holds `STS` and `SICK`: the given one, or `downstream` inside it.

    Raises: BadInput when there is neither.
    """
    places = [directory, directory / "downstream", directory / "data" / "downstream"]
    for place in places:
        if (place / "STS").is_dir() or (place / "SICK").is_dir():
            return place
    what = "holds neither STS nor SICK" if directory.is_dir() else "does not exist"
    raise BadInput(
        f"The suite's directory {str(directory)!r} {what}: give one in SentEval's layout "
        "(downstream/STS/STS12-en-test/…, downstream/SICK/…)."
    )


def suite_files(
    directory: Path, tasks: Sequence[str] = STS_TASKS, splits: Sequence[Split] = ("test",)
) -> dict[str, Path]:
    """The files that these tasks read, by their path inside the suite. Raises BadInput."""
    root = suite_root(directory)
    names: list[str] = []
    for task in tasks:
        if task in _YEARS:
            stems = _YEARS[task] if "test" in splits else ()
            names += [
                f"STS/{task}-en-test/STS.{kind}.{stem}.txt"
                for stem in stems
                for kind in ("input", "gs")
            ]
        elif task == "STS-B":
            names += [f"STS/STSBenchmark/{_STSB_FILES[split]}" for split in splits]
        else:
            names += [f"SICK/{_SICK_FILES[split]}" for split in splits]
    for name in names:
        if not (root / name).is_file():
            raise BadInput(
                f"The file {str(root / name)!r} is missing from the suite: add it, or leave its "
                "task out of `tasks`."
            )
    return {name: root / name for name in names}


def read_suite(
    directory: Path, tasks: Sequence[str] = STS_TASKS, splits: Sequence[Split] = ("test",)
) -> list[ScoredTask]:
    """The tasks with their scored pairs. STS12 to STS16 have no dev split and are `test` alone.

    Raises: BadInput that names file and line for a missing file, a line without a second sentence
        or without its score, a score off the scale, and a file without scored pairs.
    """
    suite_files(directory, tasks, splits)
    root = suite_root(directory)
    found: list[ScoredTask] = []
    for split in splits:
        for task in tasks:
            if task in _YEARS:
                if split == "test":
                    folder = root / "STS" / f"{task}-en-test"
                    parts = tuple(_read_year_part(folder, stem) for stem in _YEARS[task])
                    found.append(ScoredTask(task, split, parts))
            elif task == "STS-B":
                part = _read_stsb(root / "STS" / "STSBenchmark" / _STSB_FILES[split])
                found.append(ScoredTask(task, split, (part,)))
            else:
                part = _read_sick(root / "SICK" / _SICK_FILES[split])
                found.append(ScoredTask(task, split, (part,)))
    return found


def text_form(texts: Sequence[str]) -> str:
    """What was done to the texts before: `raw`, `lower`, `tokenised` or `tokenised lower`.

    Lower-cased when no letter is a capital; tokenised when most final stops stand alone.
    """
    spaced = sum(1 for text in texts if _SPACED_END.search(text))
    joined = sum(1 for text in texts if _JOINED_END.search(text))
    lower = all(text == text.lower() for text in texts)
    words = [*(["tokenised"] if spaced > joined else []), *(["lower"] if lower else [])]
    return " ".join(words) or "raw"


def _lines(path: Path) -> list[str]:
    """The lines of a file, cut at line feeds alone (a text may hold other separators)."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise BadInput(f"{path}, line {line}: not UTF-8; convert the file.") from None
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines and lines[-1] == "" else lines


def _score(text: str, low: float, high: float, path: Path, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise BadInput(
            f"{path}, line {line}: the score {text.strip()!r} is not from {low:g} to {high:g}."
        )
    return value


def _scored(path: Path, rows: Sequence[tuple[str, str, float]], name: str) -> ScoredPairs:
    if not rows:
        raise BadInput(f"{path} holds no scored pair: there is nothing to evaluate on.")
    first, second, scores = zip(*rows, strict=True)
    return ScoredPairs(name, first, second, np.array(scores, dtype=np.float64))


def _read_year_part(folder: Path, stem: str) -> ScoredPairs:
    """One file of a year: pairs whose line in the gold file is empty were not scored."""
    source, gold = folder / f"STS.input.{stem}.txt", folder / f"STS.gs.{stem}.txt"
    pairs, scores = _lines(source), _lines(gold)
    if len(pairs) != len(scores):
        short, long = (gold, source) if len(scores) < len(pairs) else (source, gold)
        least, most = sorted((len(pairs), len(scores)))
        raise BadInput(
            f"{short}, line {least + 1}: missing; the file has {least} lines and {long.name} has "
            f"{most}, and they belong together line by line."
        )
    rows = []
    for number, (pair, score) in enumerate(zip(pairs, scores, strict=True), start=1):
        columns = _columns(pair, 2, source, number)
        if score.strip():
            _check_texts(columns[0], columns[1], source, number)
            rows.append((columns[0], columns[1], _score(score, 0, 5, gold, number)))
    return _scored(gold, rows, stem)


def _read_stsb(path: Path) -> ScoredPairs:
    """Columns without header or quoting: genre, file, year, id, score, sentence 1, sentence 2."""
    rows = []
    for number, line in enumerate(_lines(path), start=1):
        columns = _columns(line, 7, path, number)
        _check_texts(columns[5], columns[6], path, number)
        rows.append((columns[5], columns[6], _score(columns[4], 0, 5, path, number)))
    return _scored(path, rows, path.stem)


def _read_sick(path: Path) -> ScoredPairs:
    """Columns named by a header: sentence_A, sentence_B and relatedness_score, from 1 to 5."""
    lines = _lines(path)
    header = lines[0].split("\t") if lines else []
    wanted = ("sentence_A", "sentence_B", "relatedness_score")
    missing = [name for name in wanted if name not in header]
    if missing:
        raise BadInput(f"{path}, line 1: the header lacks the column {missing[0]}.")
    a, b, score = (header.index(name) for name in wanted)
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        columns = _columns(line, len(header), path, number)
        _check_texts(columns[a], columns[b], path, number)
        rows.append((columns[a], columns[b], _score(columns[score], 1, 5, path, number)))
    return _scored(path, rows, path.stem)


def _check_texts(first: str, second: str, path: Path, number: int) -> None:
    if not first.strip() or not second.strip():
        raise BadInput(f"{path}, line {number}: a sentence is empty.")


def _columns(line: str, least: int, path: Path, number: int) -> list[str]:
    columns = line.split("\t")
    if len(columns) < least:
        raise BadInput(
            f"{path}, line {number}: {len(columns)} columns separated by tabs where {least} are "
            "needed."
        )
    return columns
