"""A choice among candidates by the gains of questions, and the gain that such a choice brings.

Candidates are ordered from the most cautious on; the first is the untouched one, whose gains are 0.
The rule is that of one standard error (Breiman et al. 1984, section 3.4.3), on paired differences.
Its gain is cross-fitted: the questions that choose are never those that are counted.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tercet.models.measures import resampling
from tercet.models.measures.resampling import Floats, Interval

# A single question that changed has a mean gain equal to its standard error but for rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class CrossFitted:
    """What the rule chooses for each question by other questions.

    choices: (repeats, questions), columns of the gains. groups: (questions,), labels; questions of
    one group were never apart.
    """

    choices: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64]

    def values(self, gains: npt.ArrayLike) -> Floats:
        """Each question's gain under what others chose, its mean over the repeats: (questions,).

        gains: (questions, candidates), in any metric.
        """
        table = np.asarray(gains, dtype=np.float64)
        return np.asarray(table[np.arange(len(table)), self.choices].mean(axis=0))

    def interval(
        self, gains: npt.ArrayLike, resamples: int, seed: int, rows: npt.ArrayLike | None = None
    ) -> Interval:
        """The mean of `values`, with the 95 % interval of a bootstrap over whole groups.

        rows: those that are meant, as an index or a mask; None: all.
        """
        some = slice(None) if rows is None else np.asarray(rows)
        measure, groups = resampling.mean_within(self.values(gains)[some], self.groups[some])
        return resampling.interval(resampling.sampled(measure, groups, resamples, seed))


def standard_errors(gains: npt.ArrayLike) -> Floats:
    """The standard error of each column's mean, for gains of shape (questions, candidates).

    Infinite for a single question, which says nothing about others.
    """
    table = np.asarray(gains, dtype=np.float64)
    questions = len(table)
    if questions < 2:
        return np.full(table.shape[1], np.inf)
    return np.asarray(table.std(axis=0, ddof=1) / np.sqrt(questions))


def choose_candidate(gains: npt.ArrayLike) -> int:
    """The column of the most cautious candidate within one standard error of the best.

    gains: (questions, candidates) over the untouched, which is column 0. The standard error is that
    of the paired difference from the best; so where the best gain is not above its own standard
    error, the untouched is chosen.
    """
    table = np.asarray(gains, dtype=np.float64)
    best = int(table.mean(axis=0).argmax())
    short = table[:, [best]] - table
    return int((short.mean(axis=0) <= standard_errors(short) * (1 + _ROUNDING)).argmax())


def cross_fitted(
    gains: npt.ArrayLike, groups: npt.ArrayLike, seed: int, folds: int = 5, repeats: int = 20
) -> CrossFitted:
    """For each question the choice of `choose_candidate` on the folds that it is not in.

    groups: (questions,), any labels, dealt into the folds anew in each repeat; with fewer groups
    than folds each is a fold.
    Raises: ValueError where all questions are in one group.
    """
    table = np.asarray(gains, dtype=np.float64)
    labels, group = np.unique(np.asarray(groups), return_inverse=True)
    folds = min(folds, len(labels))
    if folds < 2:
        raise ValueError("cross-fitting needs at least two groups of questions")
    generator = np.random.default_rng(seed)
    choices = np.empty((repeats, len(table)), dtype=np.int64)
    for repeat in range(repeats):
        fold = (generator.permutation(len(labels)) % folds)[group]
        for held_out in range(folds):
            choices[repeat, fold == held_out] = choose_candidate(table[fold != held_out])
    return CrossFitted(choices, group)


def linked_groups(golds: Sequence[Iterable[Hashable]]) -> npt.NDArray[np.int64]:
    """A label for each question: two that share a gold file, or are linked by others, have one.

    golds: of each question the files that answer it.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    places: dict[Hashable, int] = {}
    links = [
        (question, places.setdefault(gold, len(places)))
        for question, of_question in enumerate(golds)
        for gold in of_question
    ]
    if not links:
        return np.arange(len(golds))
    questions, files = np.array(links).T
    size = len(golds) + len(places)
    graph = coo_array((np.ones(len(links)), (questions, files + len(golds))), shape=(size, size))
    _, labels = connected_components(graph, directed=False)
    return np.asarray(labels[: len(golds)], dtype=np.int64)
