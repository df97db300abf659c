"""Chooses a candidate by its gains on questions, and estimates the gain of that choice.

Candidates are ordered from the most cautious on; the first is the unchanged baseline with gain 0.
The rule is one standard error (Breiman et al. 1984, section 3.4.3) on paired differences. The gain
is cross-fitted: questions that take part in a choice are never counted in its gain.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tercet.models.measures import resampling
from tercet.models.measures.resampling import Counts, Floats, Interval, Measure

Choices = npt.NDArray[np.int64]

# If only one question changed, its mean gain equals the standard error up to rounding.
_ROUNDING = 1e-9


def choose_candidate(gains: npt.ArrayLike) -> int:
    """The column of the most cautious candidate within one standard error of the best.

    gains: (questions, candidates), differences from the baseline, which is column 0. The standard
    error is that of the paired difference from the best candidate, so the baseline is chosen
    unless the best gain exceeds its standard error.
    """
    table = np.asarray(gains, dtype=np.float64)
    return int(_choose(_moments(table, np.zeros(len(table), dtype=np.int64)))[0])


def standard_errors(gains: npt.ArrayLike) -> Floats:
    """Standard error of each candidate's mean gain; NaN for a single question.

    gains: (questions, candidates). Returns (candidates,).
    """
    table = np.asarray(gains, dtype=np.float64)
    if len(table) < 2:
        return np.full(table.shape[1], np.nan)
    return np.asarray(table.std(axis=0, ddof=1) / np.sqrt(len(table)))


@dataclass(frozen=True)
class CrossFitted:
    """The choice of `choose_candidate` for each group of questions, made on folds without the
    group.

    group: (questions,), group numbers from 0. moments: (groups, any), `_moments` of the gains
    that decide the choice. folds: (repeats, groups), the fold of each group.
    """

    group: npt.NDArray[np.int64]
    moments: Floats
    folds: npt.NDArray[np.int64]

    def choices(self) -> Choices:
        """The candidate that all folds but the question's choose for it, (repeats, questions)."""
        chosen = self._chosen(np.ones((1, len(self.moments)), dtype=np.int32))[0]
        return np.take_along_axis(chosen, self.folds, axis=1)[:, self.group]

    def values(self, gains: npt.ArrayLike) -> Floats:
        """Each question's gain under the candidate of `choices`, averaged over repeats.

        Returns (questions,).

        gains: (questions, candidates), in any metric.
        """
        table = np.asarray(gains, dtype=np.float64)
        return np.asarray(table[np.arange(len(table)), self.choices()].mean(axis=0))

    def interval(
        self, gains: npt.ArrayLike, resamples: int, seed: int, rows: npt.ArrayLike | None = None
    ) -> Interval:
        """The mean of `values` over some rows, with a 95 % bootstrap interval over groups.

        Each resample repeats the choice, so that the interval includes the choice's variance.
        gains: (questions, candidates), in any metric. rows: a mask, (questions,); None: all.
        """
        table = np.asarray(gains, dtype=np.float64)
        mask = np.ones(len(table), dtype=bool) if rows is None else np.asarray(rows, dtype=bool)
        measure = self._measure(table, mask)
        return resampling.interval(resampling.sampled(measure, len(self.moments), resamples, seed))

    def _measure(self, gains: Floats, mask: npt.NDArray[np.bool_]) -> Measure:
        sums = _of_groups(gains * mask[:, None], self.group)
        sizes = _of_groups(mask[:, None].astype(np.float64), self.group)[:, 0]

        def measure(counts: Counts) -> Floats:
            chosen, total = self._chosen(counts), np.zeros(len(counts))
            drawn = counts.astype(np.float64)
            for repeat, folds in enumerate(self.folds):
                for fold in range(chosen.shape[2]):
                    held_out = folds == fold
                    by_candidate = drawn[:, held_out] @ sums[held_out]
                    choice = chosen[:, repeat, fold, None]
                    total += np.take_along_axis(by_candidate, choice, axis=1)[:, 0]
            questions = drawn @ sizes
            mean = total / np.maximum(questions, 1) / len(self.folds)
            return np.where(questions > 0, mean, np.nan)

        return measure

    def _chosen(self, counts: Counts) -> Choices:
        """The candidate chosen without each fold, (resamples, repeats, folds)."""
        drawn = counts.astype(np.float64)
        whole = drawn @ self.moments
        chosen = [
            [
                _choose(whole - drawn[:, folds == fold] @ self.moments[folds == fold])
                for fold in range(int(self.folds.max()) + 1)
            ]
            for folds in self.folds
        ]
        return np.moveaxis(np.array(chosen, dtype=np.int64), 2, 0)


def cross_fitted(
    gains: npt.ArrayLike, groups: npt.ArrayLike, seed: int, folds: int = 5, repeats: int = 20
) -> CrossFitted:
    """Cross-fits `choose_candidate`: each question's choice is made on the folds without it.

    groups: (questions,), any labels; each repeat deals them into folds anew. With fewer groups
    than folds, each group is a fold.
    Raises: ValueError if all questions are in one group.
    """
    labels, group = np.unique(np.asarray(groups), return_inverse=True)
    if len(labels) < 2:
        raise ValueError("cross-fitting needs at least two groups of questions")
    generator = np.random.default_rng(seed)
    dealt = np.arange(len(labels)) % folds
    dealt_anew = np.array([generator.permutation(dealt) for _ in range(repeats)])
    return CrossFitted(group, _moments(np.asarray(gains, dtype=np.float64), group), dealt_anew)


def linked_groups(golds: Sequence[Iterable[Hashable]]) -> npt.NDArray[np.int64]:
    """Labels of questions that share gold files, directly or through other questions.

    golds: for each question, the files that answer it.
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


def _moments(gains: Floats, group: npt.NDArray[np.int64]) -> Floats:
    """Per group: number of questions, sums of gains, and sums of their pairwise products."""
    products = np.einsum("qa,qb->qab", gains, gains).reshape(len(gains), -1)
    return _of_groups(np.hstack([np.ones((len(gains), 1)), gains, products]), group)


def _choose(moments: Floats) -> Choices:
    """Applies the rule to sets of questions: from `_moments`, (sets, any), to columns, (sets,)."""
    candidates = int(np.sqrt(moments.shape[1] - 1))  # of 1 + c + c * c numbers
    questions = np.maximum(moments[:, :1], 1.0)
    sums = moments[:, 1 : 1 + candidates]
    products = moments[:, 1 + candidates :].reshape(-1, candidates, candidates)
    sets, best = np.arange(len(moments)), sums.argmax(axis=1)
    short = sums[sets, best][:, None] - sums
    diagonal = np.einsum("scc->sc", products)
    squares = diagonal[sets, best][:, None] + diagonal - 2 * products[sets, best]
    variance = (squares - short**2 / questions) / np.maximum(questions - 1, 1.0)
    error = np.sqrt(np.maximum(variance, 0.0) * questions)
    # A single question has no standard error: choose the baseline.
    error = np.where(questions < 2, np.inf, error)
    within: Choices = (short <= error * (1 + _ROUNDING) + _ROUNDING).argmax(axis=1)
    return within


def _of_groups(columns: Floats, group: npt.NDArray[np.int64]) -> Floats:
    """The sum of each column per group, (groups, columns)."""
    sums = np.zeros((int(group.max()) + 1, columns.shape[1]))
    np.add.at(sums, group, columns)
    return sums
