"""The verdict on a run's encoder: better, worse, no difference shown, or not known."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import duckdb

from tercet.flows.recipe.model import Recipe
from tercet.flows.results.figures import Figure, read_figures
from tercet.flows.results.first_look import HALVES, trained_tasks
from tercet.flows.results.metric_names import COUNTED, FEW
from tercet.flows.results.queries import connect
from tercet.flows.running.one_step import RunHandle
from tercet.storage import runs
from tercet.tasks.evaluation.suites.beir import BM25, HYBRID
from tercet.tasks.stage import RequirementNotMet

Word = Literal["better", "worse", "no difference shown", "not known"]
# Suites whose figures decide, in order of preference, each with its deciding metric.
_DECIDING = {
    "retrieval_sets": "ndcg@10",
    "sts_sets": "spearman",
    "labels": "accuracy",
    "retrieval": "recall@1",
}
_RANKINGS = tuple(f" {ranking}" for ranking in (BM25, HYBRID))
_MEETS = {"better": ("better",), "not_worse": ("better", "no difference shown", "not known")}
_ADVICE = {
    "better": "",
    "worse": ": keep the untouched encoder",
    "no difference shown": "",
    "not known": f": bring {FEW} questions or more (evaluate.retrieval_sets)",
}


@dataclass(frozen=True)
class Verdict:
    """Whether the encoder is better than the untouched one, and the figure that decides.

    figure: its name. gain: in points. low, high: its 95 % interval. n: the questions or pairs
    behind it. All are None if no figure decides.
    """

    word: Word
    figure: str | None = None
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    unit: str = ""

    def sentence(self) -> str:
        evidence = "" if self.figure is None else f". {self.evidence()}"
        return f"Verdict: {self.word}{evidence}{_ADVICE[self.word]}."

    def evidence(self) -> str:
        """The deciding figure with its interval."""
        ends = "" if self.low is None else f" ({self.low:+.2f} to {self.high:+.2f})"
        return f"{self.figure} {self.gain:+.2f}{ends} on {self.n:,} {self.unit}"


def read_verdict(connection: duckdb.DuckDBPyConnection, recipe: Recipe) -> Verdict | None:
    """The verdict on the connection's run; None if it has measured no trained encoder.

    The user's own questions decide, else pairs that they graded, else their labels, else held-out
    pairs of a kind that was not trained on. Figures of fewer than `FEW` questions never decide.
    Among several figures of one kind, a worse one outweighs a better one.
    """
    figures = read_figures(connection)
    if not any(figure.after for figure in figures):
        return None
    trained = {HALVES, *trained_tasks(connection, recipe)}
    shipped = connection.execute(
        "SELECT DISTINCT mix FROM choices WHERE chosen_by = 'questions'"
    ).fetchall()
    for suite in _DECIDING:
        deciding = [f for f in figures if f.metric.suite == suite and _decides(f, trained)]
        if deciding:
            verdict = _judge_figures(deciding)
            if suite != "retrieval_sets" or shipped != [(0.0,)]:
                return verdict
            # Choosing may gain on average, but this run ends with the encoder that it began with.
            unit = f"{verdict.unit}, which chose the untouched encoder"
            return replace(verdict, word="no difference shown", unit=unit)
    return Verdict("not known")


def verdict_of(end_info: Mapping[str, Any]) -> Verdict | None:
    """The verdict in the record of a run's end; None without one."""
    record = end_info.get("verdict")
    return None if record is None else Verdict(**record)


def judge(handle: RunHandle) -> None:
    """Records the verdict on a run that has made its steps, with the run's end."""
    with connect(handle.store, handle.run_id) as connection:
        verdict = read_verdict(connection, handle.plan.recipe)
    if verdict is not None:
        handle.end_info["verdict"] = asdict(verdict)


def settle(handle: RunHandle) -> None:
    """Moves the tag `run.tag` to a run that has ended, if its verdict meets `run.require`.

    A run that stopped before an encoder was measured has no verdict, and moves no tag.
    Raises: RequirementNotMet.
    """
    settings, run_id = handle.plan.recipe.run, handle.run_id
    required, tag = settings.require, settings.tag
    verdict = verdict_of(handle.end_info)
    if required is not None and verdict is not None and verdict.word not in _MEETS[required]:
        tag_note = f"; the tag {tag!r} stays where it was" if tag is not None else ""
        message = f"{verdict.sentence()} The recipe requires {required} (run.require){tag_note}."
        raise RequirementNotMet(run_id, message)
    if tag is not None and verdict is not None:
        runs.set_tag(handle.store, tag, run_id)


def _decides(figure: Figure, trained: set[str]) -> bool:
    metric = figure.metric
    gain, low, _ = figure.gain()
    # Equal gains of all seeds, such as 0 of the untouched encoder, have no interval.
    has_evidence = low is not None or (
        gain is not None and len(figure.gains) > 1 and not figure.few
    )
    return (
        has_evidence
        and metric.name == _DECIDING[metric.suite]
        and not metric.of_dev
        and not metric.task.endswith(_RANKINGS)
        and (metric.suite != "retrieval" or metric.task not in trained)
    )


def _judge_figures(figures: Sequence[Figure]) -> Verdict:
    judged = [(figure, *figure.gain()) for figure in figures]
    worse = [one for one in judged if one[3] is not None and one[3] < 0]
    better = [one for one in judged if one[2] is not None and one[2] > 0]
    word: Word = "worse" if worse else "better" if better else "no difference shown"
    figure, gain, low, high = (worse or better or judged)[0]
    n = next(iter(figure.gains.values())).n
    unit = COUNTED.get(figure.metric.suite, "examples")
    return Verdict(word, figure.name, gain, low, high, n, unit)
