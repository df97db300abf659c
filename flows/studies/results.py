"""The results of a study: the arms' figures from the store, and each arm against the first.

With several seeds an arm has one value per seed, and arms are compared over their common seeds.
With one seed the interval is over the queries or pairs that the encoder was evaluated on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tercet.flows.results import figure_differences
from tercet.flows.results.figure_differences import Gap, Measured, compare_values
from tercet.flows.results.figures import Value, read_figures
from tercet.flows.results.metric_names import (
    DEFAULTS,
    GAIN,
    GEOMETRY,
    RETRIEVAL,
    Metric,
    is_few,
    parse_metric,
)
from tercet.flows.results.queries import connect
from tercet.flows.studies.arms import Arm, Outcome, PlannedArm
from tercet.models.measures.resampling import Interval, SeedSummary, summarise_seeds
from tercet.storage.store import Store
from tercet.tasks.evaluation.suites.beir import BM25, HYBRID
from tercet.tasks.stage import BadInput


@dataclass
class ArmFigures:
    """One arm's values by metric and seed, and the untouched backbone's values.

    transductive: metrics of sets whose texts were in the arm's training.
    """

    arm: Arm
    run_id: str | None
    failed: str | None
    seed: int
    resamples: int
    figures: dict[Metric, Mapping[int | None, Value]] = field(default_factory=dict)
    untouched: dict[Metric, float] = field(default_factory=dict)
    transductive: set[Metric] = field(default_factory=set)
    splits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """An arm in the study's table. summary: its figure by the study's metric.

    why: the reason for missing figures. few: whether the figure has too few questions to tell arms
    apart. transductive: whether its texts were in the training.
    """

    arm: Arm
    dev: SeedSummary | None
    test: SeedSummary | None
    summary: SeedSummary | None
    difference: Gap | None
    values: Mapping[int | None, float]
    untouched: float | None
    run_id: str | None
    why: str | None
    few: bool
    transductive: bool


@dataclass(frozen=True)
class Results:
    """The table. best: the index of the row that is best on dev; None without figures on dev.

    over: what intervals are over, `seeds` or `queries`. on_dev: whether every arm was to be
    measured on dev. few_on_dev: whether dev has too few questions to choose by.
    """

    metric: Metric
    rows: tuple[Row, ...]
    best: int | None
    over: str
    on_dev: bool
    few_on_dev: bool


def check_metric(metric: Metric, planned: Sequence[PlannedArm]) -> None:
    """Checks in advance that some arm will have the metric. Raises BadInput."""
    evaluations = [arm.plan.recipe.evaluate for arm in planned]
    if metric.suite == "retrieval":
        measured = any(
            (e.halves if metric.task == "halves" else e.retrieval) and metric.subset in e.splits
            for e in evaluations
        )
        if not measured or metric.name.removesuffix(GAIN) not in (*RETRIEVAL, *GEOMETRY):
            raise BadInput(
                "unknown_name",
                f"No arm has the metric {str(metric)!r}: retrieval has "
                f"{', '.join(RETRIEVAL)} on the splits of evaluate.splits.",
            )
    elif metric.suite == "sts" and all(e.suite is None for e in evaluations):
        raise BadInput(
            "missing_key",
            f"No arm has the metric {str(metric)!r}: evaluate.suite is not set "
            "(--set evaluate.suite=DIRECTORY).",
        )
    elif metric.suite in ("fact_order", "sts_sets", "retrieval_sets"):
        named = sorted({name for e in evaluations for name in getattr(e, metric.suite)})
        task = metric.task.removesuffix(" dev")
        if metric.suite == "retrieval_sets":
            task = task.removesuffix(f" {HYBRID}").removesuffix(f" {BM25}")
        if task not in named:
            raise BadInput(
                "unknown_name",
                f"No arm has the metric {str(metric)!r}: evaluate.{metric.suite} names "
                f"{', '.join(named) or 'no file'}.",
            )


def read_arm(outcome: Outcome, store: Store) -> ArmFigures:
    """The figures of an arm, as far as its run got."""
    recipe = outcome.planned.plan.recipe
    failed = None if outcome.error is None else str(outcome.error)
    arm_figures = ArmFigures(
        outcome.planned.arm,
        outcome.run_id,
        failed,
        recipe.seed,
        recipe.evaluate.bootstrap,
        splits=recipe.evaluate.splits,
    )
    if outcome.run_id is None or not any(r.tables.get("evaluations") for r in outcome.steps):
        return arm_figures
    with connect(store, outcome.run_id) as connection:
        for figure in read_figures(connection):
            if figure.before is not None:
                arm_figures.untouched[figure.metric] = figure.before.value
            arm_figures.figures[figure.metric] = figure.after
            arm_figures.transductive |= {figure.metric} if figure.transductive else set()
            # --metric may name a gain, which is a separate metric in the table.
            arm_figures.figures[replace(figure.metric, name=figure.metric.name + GAIN)] = (
                figure.gains
            )
    return arm_figures


def results(arms: Sequence[ArmFigures], metric_name: str | None, store: Store) -> Results:
    """The table of all arms. Raises BadInput for a metric that no arm has."""
    metric = _choose_metric(arms, metric_name)
    dev, test = metric.on_dev(), metric.on_test()
    first = arms[0]
    rows = []
    for one in arms:
        values = one.figures.get(metric, {})
        why = one.failed or (None if values else f"has no {metric}")
        rows.append(
            Row(
                arm=one.arm,
                dev=None if dev is None else _summary(one.figures.get(dev, {})),
                test=_summary(one.figures.get(test, {})),
                summary=_summary(values),
                difference=None if one is first else _difference(one, first, metric, store),
                values={seed: figure.value for seed, figure in values.items()},
                untouched=one.untouched.get(metric),
                run_id=one.run_id,
                why=why,
                few=_few(values),
                transductive=replace(metric, name=metric.name.removesuffix(GAIN))
                in one.transductive,
            )
        )
    means = {place: row.dev.mean for place, row in enumerate(rows) if row.dev is not None}
    best = max(means, key=means.__getitem__, default=None)
    several = any(len(row.values) > 1 for row in rows)
    return Results(
        metric,
        tuple(rows),
        best,
        "seeds" if several else "queries",
        on_dev=all("dev" in one.splits for one in arms),
        few_on_dev=dev is not None and any(_few(one.figures.get(dev, {})) for one in arms),
    )


def _few(values: Mapping[int | None, Value]) -> bool:
    return any(is_few(value.n) for value in values.values())


def _choose_metric(arms: Sequence[ArmFigures], metric_name: str | None) -> Metric:
    metrics = {metric for one in arms for metric, values in one.figures.items() if values}
    candidates = [metric_name] if metric_name is not None else [*_own_questions(arms), *DEFAULTS]
    for text in candidates:
        if parse_metric(text) in metrics:
            return parse_metric(text)
    if not metrics:
        raise BadInput("no_rows", "No arm was evaluated: fix what failed and repeat the command.")
    if metric_name is None:
        # Without any of the usual metrics: tasks before geometry, and test before dev.
        return min(metrics, key=lambda m: (m.name.endswith(GAIN), m.of_geometry, m.of_dev, str(m)))
    names = "; ".join(sorted(map(str, metrics))[:8])
    raise BadInput(
        "unknown_name",
        f"No arm has the metric {metric_name!r}: choose one with --metric, such as {names}.",
    )


def _own_questions(arms: Sequence[ArmFigures]) -> list[str]:
    """Metrics of the encoder's rankings for the user's own questions, if there are enough."""
    return sorted(
        {
            str(metric)
            for one in arms
            for metric, values in one.figures.items()
            if metric.suite == "retrieval_sets" and metric.name == "ndcg@10" and not metric.of_dev
            if not metric.task.endswith((f" {BM25}", f" {HYBRID}")) and not _few(values)
        }
    )


def _summary(values: Mapping[int | None, Value]) -> SeedSummary | None:
    if not values:
        return None
    if len(values) > 1:
        over = summarise_seeds([figure.value for figure in values.values()])
        return replace(over, low=None, high=None) if _few(values) else over
    (figure,) = values.values()
    return SeedSummary(figure.value, None, figure.low, figure.high, 1)


def _difference(one: ArmFigures, first: ArmFigures, metric: Metric, store: Store) -> Gap | None:
    """The arm minus the first: over their common seeds, or over the queries for one seed each."""
    ours, theirs = one.figures.get(metric, {}), first.figures.get(metric, {})
    if len({value.digest for value in (*ours.values(), *theirs.values())}) > 1:
        return None  # on other data

    def drawn() -> Interval:
        """Both encoders on the same queries or pairs; without an interval if these differ."""
        (our,), (their,) = ours.values(), theirs.values()
        with connect(store, one.run_id) as ours_db, connect(store, first.run_id) as theirs_db:
            interval = figure_differences.difference(
                Measured(ours_db, our.model, one.resamples),
                Measured(theirs_db, their.model, first.resamples),
                metric,
                one.seed,
            )
        return interval or Interval(our.value - their.value, None, None)

    return compare_values(metric, ours, theirs, drawn)
