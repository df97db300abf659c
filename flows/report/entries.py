"""The spaces of a dictionary's entries, step by step."""

from collections.abc import Sequence

from tercet.flows.pages import spaces
from tercet.flows.pages.blocks import Block, Cell, Chart, Grid, Table
from tercet.flows.report.subject import Row, Subject, of_each_run
from tercet.flows.results import definitions

# Each seed has a space of the same name: the figures are averaged, the points are the first's.
_FIGURES = """
SELECT name, metric, avg(value) AS value FROM entry_spaces WHERE NOT ends_with(name, '.own')
GROUP BY ALL ORDER BY name
"""
_POINTS = """
SELECT * REPLACE (left(text, 60) AS text) FROM entry_points
QUALIFY rank() OVER (PARTITION BY name ORDER BY seed) = 1 ORDER BY name, entry_id
"""
# Where the entries lie in a cone, the first singular direction is little but their mean.
_AXES = {
    "two largest singular directions (SVD)": ("x", "y"),
    "two first principal components (PCA, around the mean)": ("pca_x", "pca_y"),
}
_COLUMNS = {"entries": 0, "definitions": 0, "isotropy": 4, "mean_cosine": 3, "deviation": 3}
_COLUMNS["ica_rounds"] = 0


@of_each_run(
    "Entries",
    "No phase trains against the entries of a dictionary (loss `definition`).",
    "Definitions are trained to find their entries, whose vectors come from the encoder of the "
    "previous step. The more evenly these vectors spread over all directions (isotropy near 1, "
    "mean cosine near 0), the easier it is to tell one definition from another.",
)
def entries(subject: Subject) -> list[Block]:
    """A table of the spaces' figures, and each space along its first two directions."""
    found = subject.rows(_FIGURES)
    if not found:
        return []
    names = list(dict.fromkeys(row["name"] for row in found))
    values = {(row["name"], row["metric"]): row["value"] for row in found}
    rows: list[list[Cell]] = [
        [name, *(_rounded(values.get((name, key)), digits) for key, digits in _COLUMNS.items())]
        for name in names
    ]
    titles = ["phase", *(key.replace("_", " ") for key in _COLUMNS)]
    caption = "The entries that each phase trains against."
    points = subject.rows(_POINTS)
    charts: list[Block] = [
        _cloud(name, [p for p in points if p["name"] == name], axes)
        for name in names
        for axes in _AXES
    ]
    table = Table(titles, rows, caption, "l" + "r" * len(_COLUMNS))
    return [table, *_found(subject), Grid(charts, least=18)]


def _found(subject: Subject) -> list[Block]:
    """A table of what held-out definitions find; none where none was held out."""
    measured = definitions.defined(subject.connection)
    if not measured:
        return []
    rows: list[list[Cell]] = [
        [
            one.name,
            definitions.ARMS[arm],
            *(round(values[key][0], 1) for key in definitions.METRICS),
        ]
        for one in measured
        for arm, values in one.figures.items()
    ]
    counts = ", ".join(f"{one.definitions:,} of {one.name}" for one in measured)
    caption = (
        f"How well held-out definitions find their entries ({counts}), in percent. "
    ) + " ".join(f"{one.name}: {definitions.in_words(one)}" for one in measured if one.gains)
    titles = ["phase", "", *definitions.METRICS.values()]
    return [Table(titles, rows, caption, "ll" + "r" * len(definitions.METRICS))]


def _cloud(name: str, points: Sequence[Row], axes: str) -> Chart:
    x, y = _AXES[axes]
    rows = [{"text": p["text"], "x": round(p[x], 3), "y": round(p[y], 3)} for p in points]
    caption = f"{len(rows):,} entries of {name}, along the {axes}."
    return Chart(spaces.scatter(rows), caption, f"Entries of {name} in a plane: {axes}.", name)


def _rounded(value: float | None, digits: int) -> float | int | None:
    if value is None:
        return None
    return round(value, digits) if digits else round(value)
