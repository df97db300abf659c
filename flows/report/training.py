"""The course of training: loss, dev values, the gate and the cosines that it compares."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tercet.flows.pages import charts
from tercet.flows.pages.blocks import Block, Chart, Grid, Note, Section
from tercet.flows.results import figures
from tercet.flows.results.subject import Row, Subject

MOST_POINTS = 300

_NOT_TRAINED = "Nothing was trained: this run has not reached the stage `train`."


def curves(subjects: Sequence[Subject]) -> Section:
    """The loss and, if checkpoints are chosen on dev, their values."""
    title = "Training"
    logs = {subject.name: log(subject) for subject in subjects}
    rows = [row for log_rows in logs.values() for row in log_rows]
    if not rows:
        return Section(title, [Note(_NOT_TRAINED, "missing")])
    several = len(subjects) > 1
    shown: list[Block] = []
    for phase in dict.fromkeys(row["phase"] for row in rows):
        phase_rows = [row for row in rows if row["phase"] == phase]
        metric = next((row["dev_metric"] for row in phase_rows if row["dev_value"] is not None), "")
        shown += _charts(
            phase_rows,
            several,
            _Curve("Loss", "loss", "loss"),
            _Curve("Order of facts", "in_order", "rows whose changed text is farther", (0, 1)),
            _Curve("Dev", "dev_value", f"{metric} on dev"),
        )
    caption = "Each point is the mean over the steps since the previous one."
    on_dev = {row["phase"] for row in rows if row["dev_value"] is not None}
    checkpoints = [
        f"step {row['step']} of {row['phase']}"
        + ("" if row["seed"] is None else f" (seed {row['seed']})")
        for row in rows
        if row["chosen"] and row["phase"] in on_dev
    ]
    if checkpoints:
        caption += f" Checkpoint kept for its value on dev: {', '.join(checkpoints)}."
    blocks: list[Block] = [Grid(shown, caption, least=22)]
    for subject in subjects:
        of_run = f"Run {subject.name}. " if several else ""
        blocks += (
            Note(f"{of_run}{sentence}")
            for sentence in figures.describe_draws(subject.connection, subject.recipe)
        )
    if not on_dev:
        text = "No dev values were recorded: with `train.choose`, the best checkpoint is kept."
        blocks.append(Note(text, "missing"))
    return Section(title, blocks, "Loss by optimiser step, phase by phase.")


def gate(subjects: Sequence[Subject]) -> Section:
    """The opening of the Gaussian decay's gate, the gradient that it leaves, and the cosines."""
    title = "The gate"
    rows = [row for s in subjects for row in log(s) if row["gate_opening"] is not None]
    if not rows:
        text = (
            "No gate was in use: phases whose loss is gaussian_decay record its opening in the "
            "training log."
        )
        return Section(title, [Note(text, "missing")])
    several = len(subjects) > 1
    shown: list[Block] = []
    for phase in dict.fromkeys(row["phase"] for row in rows):
        phase_rows = [row for row in rows if row["phase"] == phase]
        shown += _charts(
            phase_rows,
            several,
            _Curve("Opening", "gate_opening", "opening", (0, 1)),
            _Curve("Gradient", "gradient_share", "share of gradient"),
        )
        cosines = [
            {**row, "who": who + (f" {row['run']}" if several else ""), "cosine": row[column]}
            for row in phase_rows
            for who, column in (("student", "student_negative"), ("teacher", "teacher_negative"))
            if row[column] is not None
        ]
        if cosines:
            spec = charts.lines(
                cosines,
                x="step",
                y="cosine",
                by="who",
                titles=("step", "cosine"),
                detail="seed",
                points=len(cosines) <= 80 * max(1, len({row["seed"] for row in phase_rows})),
            )
            alt = f"Cosine of anchor and hard negative in {phase}: student and teacher by step."
            shown.append(Chart(spec, "", alt, f"Hard negatives, {phase}"))
    caption = (
        "The opening is the factor on the logit of a row's own hard negative. It is near 0 while "
        "the encoder in training (the student) gives a negative the same cosine as the evaluator "
        "(the teacher), and rises as the two diverge. The gradient is the share that those "
        "negatives keep of the gradient that they would have without decay: far less than the "
        "opening, since the logit stands in an exponential."
    )
    lead = (
        "The Gaussian decay suppresses a hard negative as long as the encoder agrees with the "
        "evaluator on it."
    )
    return Section(title, [Grid(shown, caption, least=22)], lead)


def log(subject: Subject) -> list[Row]:
    """The training log, thinned to a maximum number of rows per phase and seed."""
    rows = subject.rows(
        f"""
        WITH placed AS (
            SELECT *, row_number() OVER (PARTITION BY phase, seed ORDER BY step) AS place,
                count(*) OVER (PARTITION BY phase, seed) AS total,
                min(epoch) OVER (PARTITION BY phase) AS first
            FROM training_log
        )
        SELECT phase, step, seed, loss, gate_opening, gradient_share, student_negative,
            teacher_negative, in_order, dev_metric, dev_value, coalesce(chosen, false) AS chosen
        FROM placed
        WHERE place % greatest(1, total // {MOST_POINTS}) = 0 OR place IN (1, total)
            OR dev_value IS NOT NULL
        ORDER BY phase <> 'fit_evaluator', phase, seed, step
        """
    )
    return [{**row, "run": subject.name} for row in rows]


class _Curve(NamedTuple):
    """A chart of a column of the log. title: of its axis; domain: the axis's ends."""

    name: str
    column: str
    title: str
    domain: tuple[float, float] | None = None


def _charts(rows: Sequence[Row], several: bool, *curves: _Curve) -> Iterator[Chart]:
    """The charts of one phase; a curve without values in the log is left out."""
    seeds = {row["seed"] for row in rows}
    for name, column, title, domain in curves:
        values = [
            {
                "step": row["step"],
                "value": row[column],
                "who": f"run {row['run']}" if several else _seed(row),
                "seed": row["seed"],
            }
            for row in rows
            if row[column] is not None
        ]
        if not values:
            continue
        spec = charts.lines(
            values,
            x="step",
            y="value",
            by="who",
            titles=("step", title),
            domain=domain,
            detail="seed" if len(seeds) > 1 else None,
            points=len(values) <= 40 * max(1, len(seeds)),
        )
        phase = rows[0]["phase"]
        ends = f"from {values[0]['value']:.3g} to {values[-1]['value']:.3g}"
        yield Chart(spec, "", f"{title} by step in phase {phase}, {ends}.", f"{name}, {phase}")


def _seed(row: Row) -> str:
    return "training" if row["seed"] is None else f"seed {row['seed']}"
