"""Chart specs for scores, cosines, the sphere and the plane."""

from collections.abc import Sequence

from tercet.flows.pages.charts import DASHES, SHAPES, Row, Spec, chart, field

COSINE = "cosine with the anchor"


def histogram(
    values: Sequence[Row], *, threshold: Sequence[Row], domain: tuple[float, float], width: float
) -> Spec:
    """Stacked bars. Rows: start (of the bin), count, outcome. threshold: rows with at, run."""
    outcomes = ["within the threshold", "beyond it"]
    bar = {
        "mark": {"type": "bar", "binSpacing": 0.5, "cornerRadiusEnd": 0},
        "encoding": {
            "x": field(
                "start",
                "Q",
                COSINE,
                bin="binned",
                scale={"domain": list(domain)},
                axis={"grid": False, "tickCount": 6},
            ),
            "x2": {"field": "end"},
            "y": field("count", "Q", "candidates", stack="zero", axis={"tickCount": 4}),
            "color": field(
                "outcome",
                "N",
                legend=None,
                scale={"domain": outcomes, "range": ["var(--c1)", "var(--c2)"]},
            ),
            "tooltip": [
                field("start", "Q", "from", format=".2f"),
                field("count", "Q", "candidates", format=","),
                field("outcome", "N", " "),
            ],
        },
    }
    rows = [{**value, "end": value["start"] + width} for value in values]
    return chart([bar, *_thresholds(threshold)], 130, rows)


def shares(values: Sequence[Row], *, threshold: Sequence[Row], domain: tuple[float, float]) -> Spec:
    """The distributions of two runs, overlaid. Rows: start, share (percent), run."""
    line = {
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 2},
        "encoding": {
            "x": field(
                "start",
                "Q",
                COSINE,
                scale={"domain": list(domain)},
                axis={"grid": False, "tickCount": 6},
            ),
            "y": field("share", "Q", "% of candidates", axis={"tickCount": 4}),
            "color": field("run", "N", legend={"title": None}),
            "strokeDash": field("run", "N", scale={"range": DASHES}, legend={"title": None}),
        },
    }
    return chart([line, *_thresholds(threshold)], 130, values)


def _thresholds(rows: Sequence[Row]) -> list[Spec]:
    return [
        {
            "data": {"values": list(rows)},
            "mark": {"type": "rule", "style": "threshold"},
            "encoding": {
                "x": field("at", "Q", COSINE),
                "tooltip": [field("run", "N", " "), field("at", "Q", "threshold", format=".3f")],
            },
        }
    ]


def densities(values: Sequence[Row], labels: Sequence[Row], *, domain: tuple[float, float]) -> Spec:
    """Density of cosine by gold label. Rows: x, density, gold; labels: the peaks, with said."""
    golds = sorted({value["gold"] for value in values})
    place = {
        "x": field(
            "x",
            "Q",
            "cosine of the pair",
            scale={"domain": list(domain)},
            axis={"grid": False, "tickCount": 6},
        ),
        "y": field("density", "Q", axis=None),
    }
    return chart(
        [
            {
                "mark": {"type": "area", "opacity": 0.28, "line": {"strokeWidth": 2}},
                "encoding": {
                    **place,
                    "y": {**place["y"], "stack": None},
                    "color": field("gold", "O", scale={"domain": golds}, legend=None),
                },
            },
            {
                "data": {"values": list(labels)},
                "mark": {"type": "text", "style": "label", "dy": -9, "fontWeight": 600},
                "encoding": {**place, "text": field("said", "N")},
            },
        ],
        200,
        values,
    )


def ways(points: Sequence[Row], moves: Sequence[Row]) -> Spec:
    """Alignment against uniformity: one point per model and text set, lines from before to after.

    labelled: whether points are labelled with their texts.
    """
    names = list(dict.fromkeys(point["model"] for point in points))
    x = {"scale": {"zero": False, "padding": 48}, "axis": {"tickCount": 6}}
    place = {
        "x": field("uniformity", "Q", "uniformity (lower: spread more evenly)", **x),
        "y": field("alignment", "Q", "alignment (lower: pairs closer)", **x),
    }
    return chart(
        [
            {
                "data": {"values": list(moves)},
                "mark": {"type": "rule", "strokeWidth": 1.5, "strokeDash": [2, 2]},
                "encoding": {
                    **place,
                    "x2": {"field": "uniformity_after"},
                    "y2": {"field": "alignment_after"},
                },
            },
            {
                "mark": {"type": "point", "size": 130, "opacity": 1},
                "encoding": {
                    **place,
                    "color": field(
                        "model",
                        "N",
                        legend={"title": None},
                        scale={"domain": names, "range": ["var(--c8)", "var(--c1)", "var(--c2)"]},
                    ),
                    "shape": field(
                        "model",
                        "N",
                        legend={"title": None},
                        scale={"domain": names, "range": SHAPES},
                    ),
                    "tooltip": [
                        field("model", "N", " "),
                        field("texts", "N", "texts"),
                        field("alignment", "Q", "alignment", format=".3f"),
                        field("uniformity", "Q", "uniformity", format=".3f"),
                    ],
                },
            },
            {
                "transform": [{"filter": "datum.labelled"}],
                "mark": {"type": "text", "style": "quiet", "dy": -15},
                "encoding": {**place, "text": field("texts", "N")},
            },
        ],
        300,
        points,
    )


def scatter(points: Sequence[Row]) -> Spec:
    """Texts in a plane with axes through its origin. Points: x, y, text."""
    axis = {"axis": {"tickCount": 4}, "scale": {"zero": True}}
    return chart(
        [
            {
                "mark": {"type": "point", "size": 12, "stroke": None, "opacity": 0.5},
                "encoding": {
                    "x": field("x", "Q", "first direction", **axis),
                    "y": field("y", "Q", "second direction", **axis),
                    "color": {"value": "var(--c1)"},
                    "tooltip": [field("text", "N", " ")],
                },
            }
        ],
        240,
        points,
    )


def cloud(points: Sequence[Row], names: Sequence[Row]) -> Spec:
    """Texts in the plane. Points: x, y, method, text. names: method, colour, shape, in order."""
    order = [name["method"] for name in names]
    bare: Spec = {"axis": None, "scale": {"zero": False, "nice": False}}
    legend = {"title": None}
    return chart(
        [
            {
                "mark": {"type": "point", "size": 34, "stroke": None},
                "encoding": {
                    "x": field("x", "Q", **bare),
                    "y": field("y", "Q", **bare),
                    "color": field(
                        "method",
                        "N",
                        legend=legend,
                        scale={"domain": order, "range": [name["colour"] for name in names]},
                    ),
                    "shape": field(
                        "method",
                        "N",
                        legend=legend,
                        scale={"domain": order, "range": [name["shape"] for name in names]},
                    ),
                    "opacity": {
                        "condition": {
                            "test": "!isValid(shown) || datum.method == shown",
                            "value": 0.8,
                        },
                        "value": 0.06,
                    },
                    "tooltip": [field("method", "N", " "), field("text", "N", "text")],
                },
            }
        ],
        460,
        points,
        params=[
            {
                "name": "shown",
                "value": None,
                "bind": {
                    "input": "select",
                    "name": "Highlight",
                    "options": [None, *order],
                    "labels": ["all", *order],
                },
            }
        ],
    )
