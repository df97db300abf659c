"""Sections of figures: before and after, seeds, space, entries, questions, all other measures."""

from collections.abc import Sequence

from tercet.flows.formatting import format_number, format_range
from tercet.flows.pages import charts, spaces
from tercet.flows.pages.blocks import Block, Cell, Chart, Grid, Note, Section, Table
from tercet.flows.results.first_look import read_questions
from tercet.flows.results.measure import FOLDED, Measure
from tercet.flows.results.measures import ENTRIES, EVALUATIONS, GEOMETRY_OF_SPACE, SEEDS
from tercet.flows.results.metric_names import GEOMETRY, TRANSDUCTIVE
from tercet.flows.results.subject import Part, Row, Subject, of_each_run


def measure_section(measure: Measure) -> Part:
    """The section of a measure that needs no chart."""

    @of_each_run(measure.title, measure.absent, measure.lead)
    def shown(subject: Subject) -> list[Block]:
        table = measure.read(subject)
        return [] if table is None else table.on_page()

    shown.__name__ = measure.name
    return shown


def before_and_after(subjects: Sequence[Subject]) -> Section:
    """Figures of the untouched and the trained model, with intervals of the gains."""
    several = len(subjects) > 1
    rows: list[Row] = []
    shown: list[Block] = []
    for subject in subjects:
        table = EVALUATIONS.read(subject)
        of_run = f"Run {subject.name}. " if several else ""
        if table is None:
            shown.append(Note(of_run + EVALUATIONS.absent, "missing"))
            continue
        shown += table.on_page(of_run.strip())
        rows += (gain for row in table.rows if (gain := _gain(row, subject)) is not None)
    if rows:
        spec = charts.intervals(rows, title="gain in points")
        alt = "Gains with 95 % intervals. " + "; ".join(f"{r['name']}: {r['label']}" for r in rows)
        marks = "" if several else " A grey square marks one that includes zero, a circle others."
        caption = (
            "The gain over the untouched model in points, with its 95 % interval. If the interval "
            f"includes zero, no difference is shown.{marks}"
        )
        shown.insert(0, Chart(spec, caption, alt))
    return Section(EVALUATIONS.title, shown, EVALUATIONS.lead)


def _gain(row: Row, subject: Subject) -> Row | None:
    gain, low, high = (row[key] for key in ("gain", "gain_low", "gain_high"))
    if gain is None or low is None or high is None or row["depth"] == FOLDED:
        return None
    return {
        "name": row["figure"] + (TRANSDUCTIVE if row["transductive"] else ""),
        "run": subject.name,
        "gain": gain,
        "low": low,
        "high": high,
        "label": f"{format_number(gain, sign='+')} ({format_range(low, high, sign='+')})",
        "clear": row["strong"],
    }


@of_each_run(SEEDS.title, SEEDS.absent, SEEDS.lead)
def over_seeds(subject: Subject) -> list[Block]:
    """The spread of the figures over seeds."""
    table = SEEDS.read(subject)
    if table is None:
        return []
    points: list[Row] = [
        {"name": row["figure"], "seed": seed, "value": value - row["mean"]}
        for row in table.rows
        for seed, value in row["values"].items()
    ]
    count = len({point["seed"] for point in points})
    spec = charts.strip(points, title="points from the mean over seeds")
    alt = f"Each seed's distance from the mean of {count} seeds, by figure."
    caption = (
        "Each mark is one training; its shape shows the seed. A gain smaller than this spread is "
        "no evidence for a recipe."
    )
    return [Chart(spec, caption, alt, f"{count} seeds"), *table.on_page()]


def space(subjects: Sequence[Subject]) -> Section:
    """Alignment against uniformity, before and after."""
    several = len(subjects) > 1
    points: list[Row] = []
    moves: list[Row] = []
    shown: list[Block] = []
    for place, subject in enumerate(subjects):
        table = GEOMETRY_OF_SPACE.read(subject)
        if table is None:
            continue
        shown += table.on_page(f"Run {subject.name}." if several else "")
        before: dict[str, Row] = {}
        for row in table.rows:
            texts, model = row["texts"], row["model"]
            values: Row = {axis: row[axis] for axis in GEOMETRY if axis in row}
            # A dev set's mark is close to that of its test set: one label is enough.
            labelled = model == "before" and not place and not texts.endswith(" dev")
            name = texts + (TRANSDUCTIVE if row["transductive"] else "")
            if model == "before":
                before[texts] = values
            else:
                after = {f"{key}_after": value for key, value in values.items()}
                moves += [before[texts] | after] if texts in before else []
                model = f"after, run {subject.name}" if several else model
            points.append({"model": model, "texts": name, "labelled": labelled, **values})
    if not points:
        return Section(GEOMETRY_OF_SPACE.title, [Note(GEOMETRY_OF_SPACE.absent, "missing")])
    spec = spaces.alignment_and_uniformity(
        sorted(points, key=lambda point: point["model"] != "before"), moves
    )
    alt = "Alignment against uniformity: " + "; ".join(
        f"{p['texts']} {p['model']}: {p['alignment']:.3f}, {p['uniformity']:.3f}" for p in points
    )
    caption = (
        "Lower left is better. Alignment is the mean squared distance between texts that belong "
        "together; uniformity measures, on a log scale, how crowded the sphere is. The dotted line "
        "leads from the untouched model to the trained one on the same texts."
    )
    blocks = [Grid([Chart(spec, caption, alt), *shown], least=24)]
    return Section(GEOMETRY_OF_SPACE.title, blocks, GEOMETRY_OF_SPACE.lead)


# Questions in the table: half from its beginning, half from its end.
_SHOWN = 200


@of_each_run(
    "Questions one by one",
    "The recipe names no questions (`evaluate.retrieval_sets`), or they are not measured yet.",
    "The rank of the best answer to each question among all passages, files or documents: by the "
    "encoder before and after training, by words (BM25), and by BM25 and the trained encoder "
    "together.",
)
def questions(subject: Subject) -> list[Block]:
    """A table of the questions; questions that gained most come first."""
    answered = read_questions(subject.connection, subject.recipe["seed"])
    if not answered:
        return []
    half = _SHOWN // 2
    shown = answered
    if len(answered) > _SHOWN:
        shown = [*answered[:half], *answered[-half:]]
    rows: list[list[Cell]] = [
        [
            row["query"],
            format_number(row["gain"], 1, sign="+"),
            *(row[way] for way in ("before", "after", "bm25", "both")),
            row["first_after"] if row["after"] != 1 else None,
            row["task"],
        ]
        for row in shown
    ]
    which = "" if shown is answered else f"The first and last {half} of {len(answered):,}. "
    caption = (
        f"{which}Gain: of nDCG@10, in points. A rank that is missing: not among the first 1,000."
    )
    heads = ["question", "gain", "before", "after", "BM25", "both", "came first instead", "set"]
    return [Table(heads, rows, caption, "lrrrrrll")]


# Each seed has a space of the same name: only the first seed's points are shown.
_POINTS = """
SELECT * REPLACE (left(text, 60) AS text) FROM entry_points
QUALIFY rank() OVER (PARTITION BY name ORDER BY seed) = 1 ORDER BY name, entry_id
"""
# If the entries lie in a cone, the first singular direction is almost their mean.
_AXES = {
    "two largest singular directions (SVD)": ("x", "y"),
    "two first principal components (PCA, around the mean)": ("pca_x", "pca_y"),
}


@of_each_run(ENTRIES.title, ENTRIES.absent, ENTRIES.lead)
def entries(subject: Subject) -> list[Block]:
    """A table of the spaces' figures, and each space along its first two directions."""
    table = ENTRIES.read(subject)
    if table is None:
        return []
    points = subject.rows(_POINTS)
    clouds: list[Block] = [
        _cloud(row["name"], [point for point in points if point["name"] == row["name"]], axes)
        for row in table.rows
        for axes in _AXES
    ]
    return [*table.on_page(), Grid(clouds, least=18)]


def _cloud(name: str, points: Sequence[Row], axes: str) -> Chart:
    x, y = _AXES[axes]
    rows = [{"text": p["text"], "x": round(p[x], 3), "y": round(p[y], 3)} for p in points]
    caption = f"{len(rows):,} entries of {name}, along the {axes}."
    return Chart(spaces.scatter(rows), caption, f"Entries of {name} in a plane: {axes}.", name)
