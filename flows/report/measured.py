"""The results: before and after, the seeds, the geometry of the space."""

from collections.abc import Sequence

from tercet.flows.formatting import format_number, format_range
from tercet.flows.pages import charts, spaces
from tercet.flows.pages.blocks import Block, Cell, Chart, Fold, Grid, Note, Section, Table
from tercet.flows.report.subject import Row, Subject, of_each_run
from tercet.flows.results.chosen import read_choice
from tercet.flows.results.few import TOO_FEW, WHY
from tercet.flows.results.figures import (
    Figure,
    of_geometry,
    of_tasks,
    read_figures,
    seeds,
)

NOTHING = (
    "Nothing was evaluated: the run has not reached the stage `evaluate`, or it has neither "
    "document pairs (`evaluate.retrieval`), nor halves (`evaluate.halves`), nor labels, nor a "
    "suite (`evaluate.suite`), nor files of one's own (`evaluate.retrieval_sets`, "
    "`evaluate.sts_sets`, `evaluate.fact_order`)."
)


def before_and_after(subjects: Sequence[Subject]) -> Section:
    """Figures of the untouched and the trained model, with intervals of the gains."""
    title = "Before and after"
    several = len(subjects) > 1
    rows: list[Row] = []
    tables: list[Block] = []
    missing: list[Block] = []
    notes: list[Block] = []
    for subject in subjects:
        found = of_tasks(read_figures(subject.connection))
        if not found:
            named = f"Run {subject.name}: " if several else ""
            missing.append(Note(named + NOTHING, "missing"))
            continue
        choice = read_choice(subject.connection, subject.recipe.get("seed"))
        if choice is not None:
            notes.append(Note(f"Run {subject.name}: {choice}" if several else f"{choice}"))
        rows += [row for figure in found if (row := _gain_row(figure, subject)) is not None]
        tables += _tables(found, f"Run {subject.name}. " if several else "")
    blocks: list[Block] = []
    if rows:
        spec = charts.intervals(rows, title="gain in points")
        alt = "Gains with 95 % intervals. " + "; ".join(f"{r['name']}: {r['said']}" for r in rows)
        marks = "" if several else " A grey square marks one that includes zero, a circle others."
        caption = (
            "The gain over the untouched model in points, with its 95 % interval. If the interval "
            f"includes zero, no difference is shown.{marks}"
        )
        blocks.append(Chart(spec, caption, alt))
    blocks += [*notes, *tables, *missing]
    lead = (
        "The trained encoder against the untouched backbone on the same data. Intervals of gains "
        "are paired: both models saw the same queries and pairs."
    )
    return Section(title, blocks, lead)


def _gain_row(figure: Figure, subject: Subject) -> Row | None:
    gain, low, high = figure.gain()
    if gain is None or low is None or high is None or not figure.headline:
        return None
    return {
        "name": figure.name,
        "run": subject.name,
        "gain": gain,
        "low": low,
        "high": high,
        "said": f"{format_number(gain, sign='+')} ({format_range(low, high, sign='+')})",
        "clear": low > 0 or high < 0,
    }


def _tables(found: Sequence[Figure], of_run: str) -> list[Block]:
    first = [figure for figure in found if figure.headline]
    rest = [figure for figure in found if not figure.headline]
    caption = (
        of_run + "In percent, gains in points. Bold: the interval of the gain excludes zero. n: "
        "queries, pairs or examples."
    )
    if any(figure.few for figure in found):
        caption += f" {WHY}"
    blocks: list[Block] = [_table(first or rest, caption)]
    if first and rest:
        blocks.append(
            Fold(
                f"{len(rest)} more: single files, kinds of change and other averages",
                [_table(rest)],
            )
        )
    return blocks


def _table(found: Sequence[Figure], caption: str = "") -> Table:
    rows: list[list[Cell]] = []
    strong = set()
    for place, figure in enumerate(found):
        gain, low, high = figure.gain()
        after = figure.mean()
        if low is not None and high is not None and (low > 0 or high < 0):
            strong.add(place)
        one = figure.first or figure.before
        rows.append(
            [
                # The gain beside the name, where a phone shows it.
                figure.name,
                format_number(gain, sign="+"),
                TOO_FEW if figure.few and not figure.fixed else format_range(low, high, sign="+"),
                None if figure.before is None else f"{figure.before.value:.2f}",
                None if after is None else f"{after:.2f}",
                None if one is None else one.n,
                figure.metric.suite,
                None if one is None else one.text_form or None,
                None if one is None else (one.digest or "")[:8] or None,
            ]
        )
    heads = ["figure", "gain", "its 95 % interval", "before", "after", "n", "suite", "text", "data"]
    return Table(heads, rows, caption, "lrrrrrlll", frozenset(strong))


@of_each_run(
    "Seeds",
    "Trained with fewer than two seeds: `seeds: 5` in the recipe trains and evaluates five.",
    "The same recipe, trained with other random numbers.",
)
def over_seeds(subject: Subject) -> list[Block]:
    """The spread of the figures over seeds."""
    from tercet.models.measures import comparisons

    found = of_tasks(read_figures(subject.connection))
    count = len(seeds(found))
    if count < 2:
        return []
    points: list[Row] = []
    rows: list[list[Cell]] = []
    for figure in found:
        values = figure.values()
        if len(values) < 2 or not figure.headline:
            continue
        over = comparisons.summarise_seeds(list(values.values()))
        ends = TOO_FEW if figure.few else format_range(over.low, over.high)
        rows.append([figure.name, f"{over.mean:.2f}", format_number(over.sd), ends, over.n])
        points += [
            {"name": figure.name, "seed": str(seed), "value": value - over.mean}
            for seed, value in values.items()
        ]
    spec = charts.strip(points, title="points from the mean over seeds")
    alt = f"Each seed's distance from the mean of {count} seeds, by figure."
    caption = (
        "Each mark is one training; its shape shows the seed. A gain smaller than this spread is "
        "no evidence for a recipe."
    )
    heads = ["figure", "mean", "sd", "95 % interval of the mean", "seeds"]
    table = Table(heads, rows, "Student's t over the seeds' trainings.", "lrrrr")
    return [Chart(spec, caption, alt, f"{count} seeds"), table]


def space(subjects: Sequence[Subject]) -> Section:
    """Alignment against uniformity, before and after."""
    title = "Alignment and uniformity"
    several = len(subjects) > 1
    points: list[Row] = []
    moves: list[Row] = []
    rows: list[list[Cell]] = []
    for place, subject in enumerate(subjects):
        found = of_geometry(read_figures(subject.connection))
        sets = dict.fromkeys((f.metric.task, f.metric.subset) for f in found)
        for texts in sets:
            mine = {f.metric.name: f for f in found if (f.metric.task, f.metric.subset) == texts}
            name = f"{texts[0].replace('_', ' ')} {texts[1]}".removesuffix(" all")
            name += next(iter(mine.values())).mark
            base = {m: f.before.value for m, f in mine.items() if f.before is not None}
            made = {m: mean for m, f in mine.items() if (mean := f.mean()) is not None}
            after = f"after, run {subject.name}" if several else "after"
            for model, values in (("before", base), (after, made)):
                # Two runs usually start from the same model: it is shown once.
                if {"alignment", "uniformity"} <= set(values):
                    # A dev set's mark is close to its test set's, whose label is enough.
                    labelled = model == "before" and not place and not texts[0].endswith(" dev")
                    point = {"model": model, "texts": name, "labelled": labelled, **values}
                    points.append(point)
                    if not (model == "before" and place):
                        told = [values.get(m) for m in ("alignment", "uniformity", "isotropy")]
                        said = [format_number(value, 3) for value in told]
                        rows.append([name, model, *said])
            if {"alignment", "uniformity"} <= set(base) & set(made):
                moves.append({**base, **{f"{m}_after": value for m, value in made.items()}})
    if not points:
        return Section(title, [Note(NOTHING, "missing")])
    spec = spaces.ways(sorted(points, key=lambda point: point["model"] != "before"), moves)
    alt = "Alignment against uniformity: " + "; ".join(
        f"{p['texts']} {p['model']}: {p['alignment']:.3f}, {p['uniformity']:.3f}" for p in points
    )
    caption = (
        "Lower left is better. Alignment is the mean squared distance between texts that belong "
        "together; uniformity measures, on a log scale, how crowded the sphere is. The dotted line "
        "leads from the untouched model to the trained one on the same texts."
    )
    table = Table(
        ["texts", "model", "alignment", "uniformity", "isotropy"],
        rows,
        "Isotropy: how evenly the directions are used, if measured.",
        "llrrr",
    )
    blocks = [Grid([Chart(spec, caption, alt), table], least=24)]
    return Section(
        title,
        blocks,
        "Where a gain comes from: are pairs closer together, or all other texts further apart?",
    )
