"""What a study found: the arms' figures out of the store, and each arm against the first.

With several seeds an arm has one value a seed, and arms are compared over the seeds that both have.
With one seed the interval is over the queries or pairs that the encoder was measured on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tercet.flows.results import paired_items
from tercet.flows.results.metric_names import DEFAULTS, RETRIEVAL, Metric, metric_of
from tercet.flows.results.paired_items import Measured
from tercet.flows.studies.arms import Arm, Outcome, PlannedArm
from tercet.models.measures.comparisons import over_seeds, paired_over_seeds
from tercet.storage.catalog import views as catalog
from tercet.storage.store import Store
from tercet.tasks.stage import BadInput

_GEOMETRY = ("alignment", "uniformity", "isotropy")


@dataclass(frozen=True)
class Figure:
    """One encoder's value. low, high: its interval over what it was measured on (digest)."""

    value: float
    low: float | None
    high: float | None
    n: int
    model: str
    digest: str | None = None


@dataclass
class Found:
    """What one arm's run left: metric to seed to figure, and the untouched backbone's values."""

    arm: Arm
    run_id: str | None
    failed: str | None
    seed: int
    resamples: int
    figures: dict[Metric, dict[int, Figure]] = field(default_factory=dict)
    untouched: dict[Metric, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Summary:
    """A mean with its spread over seeds (n of them) and its interval, where they are known."""

    mean: float
    sd: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Difference:
    """An arm minus the first. visible: the smallest difference that could have been told."""

    mean: float
    low: float | None
    high: float | None
    visible: float | None


@dataclass(frozen=True)
class Row:
    """An arm in the study's table. why: in place of figures that are not there."""

    arm: Arm
    dev: Summary | None
    test: Summary | None
    asked: Summary | None
    difference: Difference | None
    values: Mapping[int, float]
    untouched: float | None
    run_id: str | None
    why: str | None


@dataclass(frozen=True)
class Results:
    """The table. best: the place of the row that is best on dev; None where dev is not measured."""

    metric: Metric
    rows: tuple[Row, ...]
    best: int | None
    over: str


def check_metric(metric: Metric, planned: Sequence[PlannedArm]) -> None:
    """What can be known beforehand: that some arm will have the metric. Raises BadInput."""
    evaluations = [arm.plan.recipe.evaluate for arm in planned]
    if metric.suite == "retrieval":
        measured = any(e.retrieval and metric.subset in e.splits for e in evaluations)
        if not measured or metric.name.removesuffix("_gain") not in (*RETRIEVAL, *_GEOMETRY):
            raise BadInput(
                f"No arm has the metric {str(metric)!r}: of retrieval there are "
                f"{', '.join(RETRIEVAL)} on the splits of evaluate.splits."
            )
    elif metric.suite == "sts" and all(e.suite is None for e in evaluations):
        raise BadInput(
            f"No arm has the metric {str(metric)!r}: evaluate.suite names no directory "
            "(--set evaluate.suite=DIRECTORY)."
        )


def found_of(outcome: Outcome, store: Store) -> Found:
    """An arm's figures, as far as it came."""
    recipe = outcome.planned.plan.recipe
    failed = None if outcome.error is None else str(outcome.error)
    found = Found(
        outcome.planned.arm,
        outcome.run_id,
        failed,
        recipe.seed,
        recipe.evaluate.bootstrap,
    )
    if outcome.run_id is None or not any(r.tables.get("evaluations") for r in outcome.steps):
        return found
    with catalog.connect(store, outcome.run_id) as connection:
        rows = connection.execute(
            """SELECT suite, task, subset, metric, phase, seed, value, ci_low, ci_high, n,
                      model_version, data_digest FROM evaluations"""
        ).fetchall()
    for suite, task, subset, name, phase, seed, value, low, high, n, model, digest in rows:
        if value is None or not np.isfinite(value):
            continue  # undefined there, such as a rank correlation of equal cosines
        metric = Metric(suite, task, subset, name)
        if phase == "base":
            found.untouched[metric] = value
        else:
            figure = Figure(value, low, high, n, model, digest)
            found.figures.setdefault(metric, {})[seed] = figure
    return found


def results(found: Sequence[Found], asked: str | None, store: Store) -> Results:
    """The table of all arms. Raises BadInput for a metric that no arm has."""
    metric = _asked(found, asked)
    dev, test = metric.on_dev(), metric.on_test()
    first = found[0]
    rows = []
    for one in found:
        figures = one.figures.get(metric, {})
        why = one.failed or (None if figures else f"has no {metric}")
        rows.append(
            Row(
                arm=one.arm,
                dev=None if dev is None else _summary(one.figures.get(dev, {})),
                test=_summary(one.figures.get(test, {})),
                asked=_summary(figures),
                difference=None if one is first else _difference(one, first, metric, store),
                values={seed: figure.value for seed, figure in figures.items()},
                untouched=one.untouched.get(metric),
                run_id=one.run_id,
                why=why,
            )
        )
    measured = [place for place, row in enumerate(rows) if row.dev is not None]
    best = max(measured, key=lambda place: _mean(rows[place].dev), default=None)
    several = any(len(row.values) > 1 for row in rows)
    return Results(metric, tuple(rows), best, "seeds" if several else "queries")


def _mean(summary: Summary | None) -> float:
    return float("-inf") if summary is None else summary.mean


def _asked(found: Sequence[Found], asked: str | None) -> Metric:
    there = {metric for one in found for metric in one.figures}
    wanted = [asked] if asked is not None else list(DEFAULTS)
    for text in wanted:
        if metric_of(text) in there:
            return metric_of(text)
    if not there:
        raise BadInput("No arm was measured: mend what failed, and type the same command again.")
    told = "; ".join(sorted(map(str, there))[:8])
    said = f"No arm has the metric {asked!r}" if asked else "No arm has a metric of the usual ones"
    raise BadInput(f"{said}: choose one with --metric, such as {told}.")


def _summary(figures: Mapping[int, Figure]) -> Summary | None:
    if not figures:
        return None
    told = over_seeds([figure.value for figure in figures.values()])
    if len(figures) > 1:
        return Summary(told.mean, told.sd, told.low, told.high, told.n)
    (figure,) = figures.values()
    return Summary(figure.value, None, figure.low, figure.high, 1)


def _difference(one: Found, first: Found, metric: Metric, store: Store) -> Difference | None:
    """The arm minus the first: over the seeds that both have or, of one each, over the queries."""
    ours, theirs = one.figures.get(metric, {}), first.figures.get(metric, {})
    if len({figure.digest for figure in (*ours.values(), *theirs.values())}) > 1:
        return None  # on other data
    common = ours.keys() & theirs.keys()
    if len(common) > 1:
        told = paired_over_seeds(
            {seed: figure.value for seed, figure in ours.items()},
            {seed: figure.value for seed, figure in theirs.items()},
        )
        return Difference(told.mean, told.low, told.high, told.smallest_visible)
    if len(ours) != 1 or len(theirs) != 1:
        # Means over other seeds are no matter of the seeds in common, be it one.
        return None
    (seed,) = ours
    (other,) = theirs
    return _over_queries(one, first, metric, store, (ours[seed], theirs[other]))


def _over_queries(
    one: Found, first: Found, metric: Metric, store: Store, figures: tuple[Figure, Figure]
) -> Difference:
    """Both encoders on the same queries or pairs, drawn together; no interval where they differ."""
    with (
        catalog.connect(store, one.run_id or "") as ours,
        catalog.connect(store, first.run_id or "") as theirs,
    ):
        told = paired_items.difference(
            Measured(ours, figures[0].model, one.resamples),
            Measured(theirs, figures[1].model, first.resamples),
            metric,
            one.seed,
        )
    if told is None:
        return Difference(figures[0].value - figures[1].value, None, None, None)
    if told.low is None or told.high is None:
        return Difference(told.value, None, None, None)
    return Difference(told.value, told.low, told.high, (told.high - told.low) / 2)
