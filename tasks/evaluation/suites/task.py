"""Tasks to measure an encoder on, and its scores.

A kind of tasks is a module with a class and functions that read it. `suite.py` lists the kinds of a
suite's directory.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from tercet.models.encoders.settings import Sided
from tercet.models.measures.metrics import TIE
from tercet.models.seeding import Ids
from tercet.tasks.evaluation.suites.layout import (
    Split,
    content_digest,
    named_file,
    named_files,
    needed,
    text_form,
)
from tercet.tasks.stage import BadInput

if TYPE_CHECKING:
    from tercet.tasks.evaluation.encoding import Encoded

Floats: TypeAlias = npt.NDArray[np.float64]
# Reason and detail of a reject, and the text if there is one.
LeftOut: TypeAlias = tuple[str, str, str | None]


@dataclass(frozen=True)
class Data:
    """The data behind a figure; recorded with it."""

    suite: str
    task: str
    text_form: str
    data_digest: str


@dataclass(frozen=True)
class Part:
    """The values of one file: cosines, rights and wrongs (1 and 0), or average precisions.

    gold: the human judgement, if the figure compares with it.
    anchors: ids of texts that several items may share; these items are resampled together.
    queries: ids of the queries' texts, if each item is a query.
    """

    subset: str
    values: Floats
    gold: Floats | None = None
    anchors: Ids | None = None
    queries: Ids | None = None


@dataclass(frozen=True)
class Scores:
    """A model's results on one task.

    metric: `spearman` and `ap` compare values with gold; any other is the mean of the values.
    labels: the true classes (0 and 1) of a two-class task that also has an F1.
    averaged: whether it is part of its group's average.
    fixed: whether it is the same for every encoder, so that it has no gain.
    ranking: places of the documents, best first, of shape (queries, depth), if they are ranked.
    """

    data: Data
    metric: str
    parts: tuple[Part, ...]
    labels: npt.NDArray[np.int64] | None = None
    averaged: bool = False
    fixed: bool = False
    ranking: npt.NDArray[np.int64] | None = None


class Task(ABC):
    """Texts with judgements. suite: its kind, as in the table `evaluations`."""

    suite: str
    name: str
    split: Split

    @property
    def title(self) -> str:
        """The task's name among the figures, with ` dev` for dev; all of `awareness` are of dev."""
        plain = self.split == "test" or self.suite == "awareness"
        return self.name if plain else f"{self.name} {self.split}"

    @abstractmethod
    def texts(self) -> list[str]:
        """All texts, repetitions included."""

    def sided_texts(self) -> list[Sided]:
        """All texts, each with the side of a search (query or document) that it is encoded on."""
        return [(text, None) for text in self.texts()]

    def digest(self) -> str:
        """Digest over texts, and judgements if there are any, 16 hex digits: the same anywhere."""
        return content_digest([self.texts()])

    @abstractmethod
    def scores(self, encoded: "Encoded") -> list[Scores]:
        """One value per pair, query or example.

        Raises: BadInput that names the task, if the encoder cannot be scored on it.
        """

    def left_out(self) -> list[LeftOut]:
        """Rows of the task's files that were left out, for `rejects`."""
        return []

    def data(self) -> Data:
        """Form and digest of the texts."""
        return Data(self.suite, self.title, text_form(self.texts()), self.digest())


def cosines(encoded: "Encoded", first: Sequence[str], second: Sequence[str]) -> Floats:
    """The cosine of each pair of texts, of shape (pairs,)."""
    products = np.einsum("nd,nd->n", encoded.of(first), encoded.of(second))
    return np.asarray(products, dtype=np.float64)


def distinct_cosines(
    encoded: "Encoded", first: Sequence[str], second: Sequence[str], what: str
) -> Floats:
    """`cosines`, for the figure `what`. Raises BadInput if all cosines are the same."""
    values = cosines(encoded, first, second)
    if len(values) > 1:
        check_spread(float(np.ptp(values)), what, f"{len(values)} pairs")
    return values


def check_spread(spread: float, what: str, of: str) -> None:
    """Raises BadInput if similarities do not differ."""
    if spread <= TIE:
        raise BadInput(
            "damaged",
            f"{what} is undefined: the encoder gives all {of} one similarity, so its vectors do "
            "not tell texts apart (collapsed training?).",
        )


@dataclass(frozen=True)
class Kind:
    """A kind of tasks in a suite's directory.

    tasks: the tasks of the literature, in its order; if all are measured, their average is a
    figure.
    read: reads a task by its name, from the suite's root, in one of `splits`; None if the task
        lacks this split.
    paths: the files of a task in some splits, inside the suite. Without it, each file in the folder
        with the kind's name is a task, if its name ends in one of `suffixes`; such tasks, unless
        they are in `tasks`, are called `KIND:NAME`.
    """

    name: str
    tasks: Sequence[str]
    read: Callable[[Path, str, Split], Task | None]
    splits: Sequence[Split] = ("test",)
    paths: Callable[[str, Sequence[Split]], list[str]] | None = None
    suffixes: Sequence[str] = ()

    def files(self, root: Path, name: str, splits: Sequence[Split]) -> dict[str, Path]:
        """The files of a task by their path inside the suite. Raises BadInput for a missing one."""
        if self.paths is not None:
            return needed(root, self.paths(name, splits))
        path = named_file(root, self.name, self.suffixes, name)
        return {str(path.relative_to(root)): path}

    def find(self, root: Path, splits: Sequence[Split]) -> list[str]:
        """The names of the tasks of which the suite has a file."""
        if self.paths is not None:
            return [name for name in self.tasks if self._is_there(root, name, splits)]
        named = list(named_files(root, self.name, self.suffixes))
        ordered = [name for name in self.tasks if name in named]
        return [*ordered, *(f"{self.name}:{name}" for name in named if name not in ordered)]

    def _is_there(self, root: Path, name: str, splits: Sequence[Split]) -> bool:
        """Whether a file of the task exists, or the folder of a year of STS, even if incomplete."""
        assert self.paths is not None
        files = [root / path for path in self.paths(name, splits)]
        of_year = any(f.parent.name.startswith(f"{name}-") and f.parent.is_dir() for f in files)
        return of_year or any(file.is_file() for file in files)
