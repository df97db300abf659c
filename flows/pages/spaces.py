"""Chart specs for scores, cosines, the sphere and the plane."""

from collections.abc import Sequence

from tercet.flows.pages.charts import DASHES, SHAPES, Row, Spec, chart, field, layer

COSINE = "cosine with the anchor"
_UNNAMED = {"title": None}


def histogram(
    values: Sequence[Row], *, threshold: Sequence[Row], domain: tuple[float, float], width: float
) -> Spec:
    """Stacked bars. Rows: start (of the bin), count, outcome. threshold: rows with at, run."""
    outcomes = ["within the threshold", "beyond it"]
    colours = {"domain": outcomes, "range": ["var(--c1)", "var(--c2)"]}
    bar = layer(
        {"type": "bar", "binSpacing": 0.5, "cornerRadiusEnd": 0},
        x=_cosine("start", COSINE, domain, bin="binned"),
        x2={"field": "end"},
        y=field("count", "Q", "candidates", stack="zero", axis={"tickCount": 4}),
        color=field("outcome", "N", legend=None, scale=colours),
        tooltip=[
            field("start", "Q", "from", format=".2f"),
            field("count", "Q", "candidates", format=","),
            field("outcome", "N", " "),
        ],
    )
    rows = [{**value, "end": value["start"] + width} for value in values]
    return chart([bar, _thresholds(threshold)], 130, rows)


def shares(values: Sequence[Row], *, threshold: Sequence[Row], domain: tuple[float, float]) -> Spec:
    """The distributions of two runs, overlaid. Rows: start, share (percent), run."""
    line = layer(
        {"type": "line", "interpolate": "step-after", "strokeWidth": 2},
        x=_cosine("start", COSINE, domain),
        y=field("share", "Q", "% of candidates", axis={"tickCount": 4}),
        color=field("run", "N", legend=_UNNAMED),
        strokeDash=field("run", "N", scale={"range": DASHES}, legend=_UNNAMED),
    )
    return chart([line, _thresholds(threshold)], 130, values)


def _cosine(name: str, title: str, domain: tuple[float, float], **more: str) -> Spec:
    axis = {"grid": False, "tickCount": 6}
    return field(name, "Q", title, scale={"domain": list(domain)}, axis=axis, **more)


def _thresholds(rows: Sequence[Row]) -> Spec:
    tip = [field("run", "N", " "), field("at", "Q", "threshold", format=".3f")]
    rule = layer({"type": "rule", "style": "threshold"}, x=field("at", "Q", COSINE), tooltip=tip)
    return {"data": {"values": list(rows)}, **rule}


def densities(values: Sequence[Row], labels: Sequence[Row], *, domain: tuple[float, float]) -> Spec:
    """Density of cosine by gold score. Rows: x, density, gold; labels: the peaks, with a label."""
    golds = sorted({value["gold"] for value in values})
    x = _cosine("x", "cosine of the pair", domain)
    area = layer(
        {"type": "area", "opacity": 0.28, "line": {"strokeWidth": 2}},
        x=x,
        y=field("density", "Q", axis=None, stack=None),
        color=field("gold", "O", scale={"domain": golds}, legend=None),
    )
    peaks = layer(
        {"type": "text", "style": "label", "dy": -9, "fontWeight": 600},
        x=x,
        y=field("density", "Q", axis=None),
        text=field("label", "N"),
    )
    return chart([area, {"data": {"values": list(labels)}, **peaks}], 200, values)


def alignment_and_uniformity(points: Sequence[Row], moves: Sequence[Row]) -> Spec:
    """Alignment against uniformity: one point per model and text set, lines from before to after.

    Points: model, texts, alignment, uniformity, labelled (whether the name of the texts is shown).
    """
    names = list(dict.fromkeys(point["model"] for point in points))
    colours = {"domain": names, "range": ["var(--c8)", "var(--c1)", "var(--c2)"]}
    x = {"scale": {"zero": False, "padding": 48}, "axis": {"tickCount": 6}}
    place = {
        "x": field("uniformity", "Q", "uniformity (lower: spread more evenly)", **x),
        "y": field("alignment", "Q", "alignment (lower: pairs closer)", **x),
    }
    layers = [
        {
            "data": {"values": list(moves)},
            **layer(
                {"type": "rule", "strokeWidth": 1.5, "strokeDash": [2, 2]},
                **place,
                x2={"field": "uniformity_after"},
                y2={"field": "alignment_after"},
            ),
        },
        layer(
            {"type": "point", "size": 130, "opacity": 1},
            **place,
            color=field("model", "N", legend=_UNNAMED, scale=colours),
            shape=field("model", "N", legend=_UNNAMED, scale={"domain": names, "range": SHAPES}),
            tooltip=[
                field("model", "N", " "),
                field("texts", "N", "texts"),
                field("alignment", "Q", "alignment", format=".3f"),
                field("uniformity", "Q", "uniformity", format=".3f"),
            ],
        ),
        {
            "transform": [{"filter": "datum.labelled"}],
            **layer(
                {"type": "text", "style": "quiet", "dy": -15}, **place, text=field("texts", "N")
            ),
        },
    ]
    return chart(layers, 300, points)


def scatter(points: Sequence[Row]) -> Spec:
    """Texts in a plane with axes through its origin. Points: x, y, text."""
    axis = {"axis": {"tickCount": 4}, "scale": {"zero": True}}
    marks = layer(
        {"type": "point", "size": 12, "stroke": None, "opacity": 0.5},
        x=field("x", "Q", "first direction", **axis),
        y=field("y", "Q", "second direction", **axis),
        color={"value": "var(--c1)"},
        tooltip=[field("text", "N", " ")],
    )
    return chart([marks], 240, points)


def cloud(points: Sequence[Row], names: Sequence[Row]) -> Spec:
    """Texts in the plane. Points: x, y, method, text. names: method, colour, shape, in order."""
    order = [name["method"] for name in names]
    bare: Spec = {"axis": None, "scale": {"zero": False, "nice": False}}
    colours = {"domain": order, "range": [name["colour"] for name in names]}
    shapes = {"domain": order, "range": [name["shape"] for name in names]}
    shown = {"test": "!isValid(shown) || datum.method == shown", "value": 0.8}
    marks = layer(
        {"type": "point", "size": 34, "stroke": None},
        x=field("x", "Q", **bare),
        y=field("y", "Q", **bare),
        color=field("method", "N", legend=_UNNAMED, scale=colours),
        shape=field("method", "N", legend=_UNNAMED, scale=shapes),
        opacity={"condition": shown, "value": 0.06},
        tooltip=[field("method", "N", " "), field("text", "N", "text")],
    )
    choices = {"options": [None, *order], "labels": ["all", *order]}
    highlight = {"input": "select", "name": "Highlight", **choices}
    return chart([marks], 460, points, params=[{"name": "shown", "value": None, "bind": highlight}])
