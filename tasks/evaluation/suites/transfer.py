"""SentEval's seven transfer tasks: texts with a label, for a classifier on frozen vectors.

One file per class (MR, CR, SUBJ, MPQA), `sentence TAB label` (SST-2), `LABEL:fine question` (TREC),
and a table of pairs (MRPC). As in SentEval, white space becomes single blanks, and files that are
not UTF-8 are read as latin-1 where SentEval does so.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tercet.errors import kind_of
from tercet.models.measures import probe
from tercet.tasks.evaluation.suites.layout import (
    check_texts,
    content_digest,
    lines,
    needed,
    table_rows,
)
from tercet.tasks.evaluation.suites.task import Kind, Part, Scores, Task
from tercet.tasks.stage import BadInput

if TYPE_CHECKING:
    from tercet.tasks.evaluation.encoding import Encoded

# Folder, and the file of each class; the class that SentEval calls 1 stands second.
_TWO_FILES: dict[str, tuple[str, str]] = {
    "MR": ("MR/rt-polarity.neg", "MR/rt-polarity.pos"),
    "CR": ("CR/custrev.neg", "CR/custrev.pos"),
    "SUBJ": ("SUBJ/subj.subjective", "SUBJ/subj.objective"),
    "MPQA": ("MPQA/mpqa.neg", "MPQA/mpqa.pos"),
}
_FILES: dict[str, tuple[str, ...]] = {
    **_TWO_FILES,
    "SST-2": (
        "SST/binary/sentiment-train",
        "SST/binary/sentiment-dev",
        "SST/binary/sentiment-test",
    ),
    "TREC": ("TREC/train_5500.label", "TREC/TREC_10.label"),
    "MRPC": ("MRPC/msr_paraphrase_train.txt", "MRPC/msr_paraphrase_test.txt"),
}
_TWO_CLASSES = ("0", "1")
# Classes in the order of SentEval's numbers, by which questions of equal length are sorted.
_TREC_CLASSES = ("DESC", "ENTY", "ABBR", "HUM", "LOC", "NUM")
_LATIN = "latin-1"
# SentEval's replacement for a line without words, which CR and MPQA have.
_EMPTY = "."

TRANSFER_TASKS = tuple(_FILES)
# SentEval also reports the F1 of this task.
_WITH_F1 = "MRPC"

# The fewest examples of a class. Each of ten folds then has one; so has each of ten inner folds,
# into which nine of the folds are divided again.
_LEAST = 12


@dataclass(frozen=True)
class Examples:
    """Labelled texts of one part of a task; for pairs, `second` holds the second texts."""

    first: tuple[str, ...]
    labels: npt.NDArray[np.int64]
    second: tuple[str, ...] = ()

    def texts(self) -> list[str]:
        """All first texts, then all second texts."""
        return [*self.first, *self.second]

    def order(self) -> npt.NDArray[np.int64]:
        """SentEval's order, in which folds are dealt: by number of words, then by label."""
        words = [
            np.array([0 if text == _EMPTY else len(text.split()) for text in side])
            for side in (self.first, self.second)
            if side
        ]
        return np.lexsort((self.labels, *reversed(words))).astype(np.int64)


@dataclass(frozen=True)
class LabelledTask(Task):
    """One of the seven tasks. classes: the names of the labels 0, 1, …

    The parts that a task has decide the protocol: `train` alone is judged by nested folds.
    """

    name: str
    classes: tuple[str, ...]
    train: Examples
    dev: Examples | None = None
    test: Examples | None = None
    suite, split = "transfer", "test"

    @property
    def judged(self) -> Examples:
        """The examples on which accuracy is measured."""
        return self.test or self.train

    def parts(self) -> list[Examples]:
        """Train, dev and test, without those that the task lacks."""
        return [part for part in (self.train, self.dev, self.test) if part is not None]

    def texts(self) -> list[str]:
        return [text for part in self.parts() for text in part.texts()]

    def digest(self) -> str:
        rows: list[tuple[str, ...]] = []
        for part in self.parts():
            rows.append((f"{len(part.labels)}",))
            sides = (part.first, part.second) if part.second else (part.first,)
            rows += [(*t, self.classes[c]) for *t, c in zip(*sides, part.labels, strict=True)]
        return content_digest(rows)

    def outcome(self, vectors: Callable[[Sequence[str]], Any]) -> probe.Outcome:
        """The prediction for each example of `judged`, in order, by SentEval's protocol.

        vectors: gives the vectors of texts, (texts, d), dense or sparse, as the model gives them;
            SentEval does not normalise them.
        Raises: BadInput that names the task, if no classifier can be fitted.
        """
        samples: list[Any] = []
        for part in (self.train, self.dev, self.test):
            if part is None:
                samples.append(None)
                continue
            features = vectors(part.first)
            if part.second:
                features = probe.pair_features(features, vectors(part.second))
            samples.append(probe.Sample(features, part.labels, part.order()))
        try:
            return probe.accuracy_items(*samples)
        except ValueError as error:
            raise BadInput(
                kind_of(error, "unfit_model"), f"{self.name} cannot be evaluated: {error}."
            ) from None

    def scores(self, encoded: "Encoded") -> list[Scores]:
        """Right or wrong on each example, by a classifier on the model's own vectors."""
        outcome = self.outcome(encoded.raw)
        labels = outcome.labels if self.name == _WITH_F1 else None
        parts = (Part("all", outcome.right),)
        return [Scores(self.data(), "accuracy", parts, labels, averaged=True)]


def read_task(root: Path, task: str) -> LabelledTask:
    """One task with its examples.

    Raises: BadInput that names file and line for a missing file, an empty one, a line without its
        text or its label, a label that the task does not have, and a class without examples.
    """
    paths = list(needed(root, _FILES[task]).values())
    if task in _TWO_FILES:
        return LabelledTask(task, _TWO_CLASSES, _read_two_files(paths))
    read, classes, least = _READERS[task]
    train, *dev, test = map(read, paths)
    _check_classes(paths[0], train, classes, least)
    return LabelledTask(task, classes, train, dev[0] if dev else None, test)


def _read_two_files(paths: Sequence[Path]) -> Examples:
    """One file per class; SentEval has class 1 first. A line without words is an example too."""
    texts: list[str] = []
    labels: list[int] = []
    for label in (1, 0):
        class_texts = [_single_spaced(line) or _EMPTY for line in lines(paths[label], _LATIN)]
        whole = sum(text != _EMPTY for text in class_texts)
        if whole < _LEAST:
            raise BadInput(
                "no_rows",
                f"{paths[label]} holds {whole} sentences: a class needs {_LEAST} at least, so that "
                "each fold has one.",
            )
        texts += class_texts
        labels += [label] * len(class_texts)
    return Examples(tuple(texts), np.array(labels, dtype=np.int64))


def _read_sst(path: Path) -> Examples:
    """Reads lines of a sentence and 0 or 1, with a tab between."""
    rows = [(number, label, text) for number, (text, label, *_) in table_rows(path, 2)]
    return _examples(path, rows, _TWO_CLASSES)


def _read_trec(path: Path) -> Examples:
    """Reads lines `LABEL:fine question`; the fine label is left out."""
    rows = []
    for number, line in enumerate(lines(path, _LATIN), start=1):
        label, colon, rest = line.strip().partition(":")
        if not colon:
            raise BadInput("bad_row", f"{path}, line {number}: there is no colon after the label.")
        rows.append((number, label, rest.partition(" ")[2]))
    return _examples(path, rows, _TREC_CLASSES)


def _read_mrpc(path: Path) -> Examples:
    """Columns behind a header: quality (0 or 1), two ids, two sentences."""
    if any(line.split("\t")[0].strip() in _TWO_CLASSES for line in lines(path)[:1]):
        raise BadInput(
            "missing_column", f"{path}, line 1: the header (Quality, #1 ID, …) is missing."
        )
    rows = [(number, cells[0], *cells[3:5]) for number, cells in table_rows(path, 5, first=2)]
    return _examples(path, rows, _TWO_CLASSES)


# Readers, with the classes that the training examples must have, and how many of each.
_READERS: dict[str, tuple[Callable[[Path], Examples], tuple[str, ...], int]] = {
    "SST-2": (_read_sst, _TWO_CLASSES, 1),
    "TREC": (_read_trec, _TREC_CLASSES, _LEAST),
    "MRPC": (_read_mrpc, _TWO_CLASSES, _LEAST),
}


def _examples(path: Path, rows: Sequence[tuple[Any, ...]], classes: Sequence[str]) -> Examples:
    """rows: a label, then one text or two, with the number of the line in front."""
    if not rows:
        raise BadInput("no_rows", f"{path} holds no example: there is nothing to evaluate on.")
    labels, sides = [], []
    for number, label, *texts in rows:
        check_texts(texts, path, number)
        if label.strip() not in classes:
            raise BadInput(
                "bad_row",
                f"{path}, line {number}: the label {label.strip()!r} is none of "
                f"{', '.join(classes)}.",
            )
        labels.append(classes.index(label.strip()))
        sides.append([_single_spaced(text) for text in texts])
    first, *second = map(tuple, zip(*sides, strict=True))
    return Examples(first, np.array(labels, dtype=np.int64), *second)


def _check_classes(path: Path, train: Examples, classes: Sequence[str], least: int) -> None:
    counts = Counter(train.labels.tolist())
    for label, name in enumerate(classes):
        if counts[label] < least:
            raise BadInput(
                "no_rows",
                f"{path} holds {counts[label]} examples of class {name!r} where {least} are "
                "needed: the file is incomplete.",
            )


def _single_spaced(text: str) -> str:
    return " ".join(text.split())


KIND = Kind(
    "transfer",
    TRANSFER_TASKS,
    lambda root, name, split: read_task(root, name),
    paths=lambda name, splits: list(_FILES[name]),
)
