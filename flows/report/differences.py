"""Compares two runs: figures, counts, and the recipe keys that differ."""

from typing import Any

from tercet.flows.formatting import format_duration, format_number, format_range
from tercet.flows.pages.blocks import Block, Note, Section, Table
from tercet.flows.pages.redaction import public_values
from tercet.flows.report.made import counts
from tercet.flows.report.subject import Subject
from tercet.flows.results.figure_differences import FigureDifference, compare_figures
from tercet.flows.results.metric_names import FEW, TOO_FEW, WHY_TOO_FEW
from tercet.flows.results.step_differences import compare_recipes, compare_steps, describe_step

Cells = list[str | int | float | None]


def difference(a: Subject, b: Subject) -> Section:
    """B against A."""
    blocks: list[Block] = [_figures(a, b), _counts(a, b)]
    lead = (
        "B minus A. If both runs have several seeds in common, the interval is paired over these; "
        "with one training each it is over the queries and pairs that both were evaluated on."
    )
    return Section("A and B", blocks, lead)


def verdict(a: Subject, b: Subject) -> str | None:
    """In words, how B's encoder compares with A's by the first figure that both have.

    Those of too few questions come last.
    """
    found = min(compare_figures(a, b), key=lambda figure: figure.one.few, default=None)
    if found is None:
        return None
    said = f"{found.name}: A {found.a:.2f}, B {found.b:.2f}, B − A {found.b - found.a:+.2f} points"
    if not found.same_data:
        return f"The runs were evaluated on different data and cannot be compared. {said}."
    if found.same_encoder:
        return f"A and B have the same encoder. {found.name}: {found.a:.2f}."
    gap = found.gap
    if gap is None:
        return (
            "Whether B is better than A is not known: they have neither several seeds in "
            f"common nor one training each, evaluated on the same texts. {said}."
        )
    if found.few:
        return (
            f"Whether B is better than A is not known: fewer than {FEW} "
            f"{found.counted} were measured. {said}."
        )
    if gap.low is None or gap.high is None:
        return (
            f"Whether B is better than A is not known: the difference over {gap.over} has no "
            f"interval. {said}."
        )
    which = "B is better than A" if gap.low > 0 else "B is worse than A"
    if gap.low <= 0 <= gap.high:
        which = "No difference shown between A and B"
    ends = format_range(gap.low, gap.high, sign="+")
    text = f"{which}. {said}, 95 % interval {ends} over {gap.over}."
    if not gap.seeds:
        text += " With one training each, the variation between trainings is not known."
    return text


def keys(a: Subject, b: Subject) -> Section:
    """The recipe keys that differ, and what else makes steps differ."""
    rows = compare_recipes(a.recipe, b.recipe)
    told: list[Cells] = [[row[0], *(_public(row[0], value) for value in row[1:])] for row in rows]
    caption = "– marks a missing key; absolute paths are shortened to file names."
    same = "No key differs: both runs used the same recipe."
    blocks: list[Block] = [Table(["key", "A", "B"], told, caption) if told else Note(same)]
    steps: list[Cells] = [
        [step.step, describe_step(step)] for step in compare_steps(a.store, a.run, b.run)
    ]
    if steps:
        caption = "The steps that both runs do not share, and what in them differs."
        blocks.append(Table(["step", "difference"], steps, caption))
    return Section("Differences between the recipes", blocks)


def _public(key: str, value: Any) -> Any:
    return public_values({key.rpartition(".")[2]: value})[key.rpartition(".")[2]]


def _figures(a: Subject, b: Subject) -> Block:
    found = compare_figures(a, b)
    if not found:
        return Note("The runs have no figure in common.", "missing")
    heads = ["figure", "A", "B", "B − A", "95 % interval", "over", "data"]
    caption = (
        "The trained encoders, means over seeds. Bold: the interval excludes zero. An interval "
        "over queries or pairs does not include the variation between trainings. Figures on "
        "different data cannot be compared."
    )
    if any(figure.few for figure in found):
        caption += f" {WHY_TOO_FEW}"
    strong = {
        place for place, figure in enumerate(found) if figure.gap is not None and figure.gap.clear
    }
    return Table(heads, [_cells(figure) for figure in found], caption, "lrrrrll", frozenset(strong))


def _cells(figure: FigureDifference) -> Cells:
    gap = figure.gap
    ends: str | None = "–"
    if gap is not None:
        ends = TOO_FEW if figure.few else format_range(gap.low, gap.high, sign="+")
    return [
        figure.name,
        f"{figure.a:.2f}",
        f"{figure.b:.2f}",
        format_number(figure.b - figure.a, sign="+"),
        ends,
        None if gap is None else gap.over,
        "same" if figure.same_data else "different",
    ]


def _counts(a: Subject, b: Subject) -> Table:
    rows: list[Cells] = []
    for (name, one), (_, other) in zip(counts(a), counts(b), strict=True):
        rows.append([name, f"{one:,}", f"{other:,}", f"{other - one:+,}".replace("-", "−")])
    rows.append(["time", format_duration(a.seconds), format_duration(b.seconds), None])
    rows.append(["total time", format_duration(a.made_in), format_duration(b.made_in), None])
    return Table(["rows", "A", "B", "B − A"], rows, "Rows of each kind.", "lrrr")
