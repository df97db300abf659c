"""Vega-Lite specs as plain dicts. The page gives colours, fonts and widths (`page.js`).

Whatever colour distinguishes, a second channel does too: dash, shape, place or a label.
"""

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]
Spec = dict[str, Any]

SHAPES = ["circle", "triangle-up", "square", "diamond", "cross", "triangle-down", "stroke"]
DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 2], [1, 3]]


def chart(layers: Sequence[Spec], height: int, values: Sequence[Row], **more: Any) -> Spec:
    """Layers over one table of rows, as wide as the page allows."""
    return {
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": list(values)},
        "layer": list(layers),
        **more,
    }


def field(name: str, kind: str, title: str | None = None, **more: Any) -> Spec:
    """A channel. kind: the first letter of Vega-Lite's type (N, O, Q)."""
    full = {"N": "nominal", "O": "ordinal", "Q": "quantitative"}[kind]
    return {"field": name, "type": full, "title": title, **more}


def layer(mark: Spec, **channels: Any) -> Spec:
    """One mark with its channels. mark: its type and its properties."""
    return {"mark": mark, "encoding": channels}


# Marks zero, so that gains and losses stand on its two sides.
ZERO = layer({"type": "rule", "style": "zero"}, x={"datum": 0})


def labels(**channels: Any) -> Spec:
    """A text to the right of each mark."""
    return layer({"type": "text", "style": "label", "align": "left", "dx": 8}, **channels)


def bars(values: Sequence[Row], *, of: str, amount: str, title: str, row: int = 30) -> Spec:
    """One bar per row, in the rows' order, with its `label`."""
    y = field(of, "N", sort=None)
    longest = max((value[amount] for value in values), default=1) or 1
    # Leaves room for the longest label, on a phone too.
    room = 1 + 0.075 * max((len(str(value["label"])) for value in values), default=0)
    x = field(amount, "Q", title, axis=None, scale={"domain": [0, longest * room]})
    tip = [field(of, "N", " "), field("label", "N", title)]
    layers = [
        layer({"type": "bar", "height": {"band": 0.66}}, x=x, y=y, tooltip=tip),
        labels(x=x, y=y, text=field("label", "N")),
    ]
    return chart(layers, row * max(1, len(values)), values)


def intervals(values: Sequence[Row], *, title: str) -> Spec:
    """Gains with their intervals. Rows: name, gain, low, high, label, clear, and maybe run."""
    runs = sorted({str(value.get("run", "")) for value in values})
    several = len(runs) > 1
    # A phone would cut names off at their end, where names differ: break names into lines.
    wrapped = "width < 300 ? split(datum.label, ', ') : datum.label"
    place: Spec = {"y": field("name", "N", sort=None, axis={"labelExpr": wrapped})}
    if several:
        place["yOffset"] = field("run", "N", sort=None)
        colour = field("run", "N", "run", scale={"domain": runs})
        shape = field("run", "N", "run", scale={"domain": runs, "range": SHAPES})
    else:
        colours = {"domain": [True, False], "range": ["var(--c1)", "var(--c8)"]}
        colour = field("clear", "N", scale=colours, legend=None)
        shapes = {"domain": [True, False], "range": ["circle", "square"]}
        shape = field("clear", "N", scale=shapes, legend=None)
    channels = {
        **place,
        "color": colour,
        "tooltip": [field("name", "N", " "), field("label", "N", "gain")],
    }
    low = field("low", "Q", title, axis={"format": "+~r", "tickCount": 7})
    layers = [
        ZERO,
        layer({"type": "rule", "strokeWidth": 2}, x=low, x2={"field": "high"}, **channels),
        layer(
            {"type": "point", "size": 90, "opacity": 1},
            x=field("gain", "Q", title),
            shape=shape,
            **channels,
        ),
    ]
    names = len({value["name"] for value in values})
    return chart(layers, max(1, names) * (40 if several else 32), values)


def lines(
    values: Sequence[Row],
    *,
    x: str,
    y: str,
    by: str,
    titles: tuple[str, str],
    height: int = 220,
    domain: tuple[float, float] | None = None,
    detail: str | None = None,
    points: bool = False,
) -> Spec:
    """Curves, distinguished by colour and dash; a single curve has no legend."""
    names = list(dict.fromkeys(value[by] for value in values))
    legend = None if len(names) < 2 else {"title": None, "symbolType": "stroke"}
    # Vega-Lite merges legends of equal domains; a `sort` would keep them apart.
    channels: Spec = {
        "color": field(by, "N", scale={"domain": names}, legend=legend),
        "strokeDash": field(by, "N", scale={"domain": names, "range": DASHES}, legend=legend),
    }
    if detail:
        channels["detail"] = field(detail, "N")
    mark: Spec = {"type": "line", "strokeWidth": 2, "clip": domain is not None}
    if points:
        mark |= {"point": {"filled": True, "size": 40}}
    scale: Spec = {"zero": False} if domain is None else {"domain": list(domain)}
    axis = {"grid": False, "format": ",~r", "tickMinStep": 1}
    place = {"x": field(x, "Q", titles[0], axis=axis), "y": field(y, "Q", titles[1], scale=scale)}
    tip = [
        field(by, "N", " "),
        field(x, "Q", titles[0], format=",d"),
        field(y, "Q", titles[1], format=",.4~r"),
    ]
    over = layer({"type": "point", "size": 120, "opacity": 0}, **place, tooltip=tip)
    return chart([layer(mark, **place, **channels), over], height, values)


def grouped(values: Sequence[Row], *, of: str, kind: str, amount: str, title: str) -> Spec:
    """Bars of two or three kinds for each row, each with its `label`."""
    longest = max((value[amount] for value in values), default=1) or 1
    place = {
        "x": field(amount, "Q", title, axis=None, scale={"domain": [0, longest * 1.5]}),
        "y": field(of, "N", sort=None),
        "yOffset": field(kind, "N", sort=None),
    }
    colour = field(kind, "N", sort=None, legend={"title": None})
    kinds, groups = (len({value[name] for value in values}) for name in (kind, of))
    return chart(
        [
            layer({"type": "bar"}, **place, color=colour),
            labels(**place, text=field("label", "N")),
        ],
        max(1, groups) * (22 * kinds + 14),
        values,
    )


def strip(values: Sequence[Row], *, title: str) -> Spec:
    """Marks along a line for each name. Rows: name, value, seed."""
    marks = layer(
        {"type": "point", "size": 80, "opacity": 0.85},
        x=field("value", "Q", title),
        y=field("name", "N", sort=None),
        shape=field("seed", "N", "seed", scale={"range": SHAPES}),
        color=field("seed", "N", "seed"),
        tooltip=[
            field("name", "N", " "),
            field("seed", "N", "seed"),
            field("value", "Q", title, format="+.2f"),
        ],
    )
    return chart([ZERO, marks], 30 * max(1, len({value["name"] for value in values})), values)


def flow(nodes: Sequence[Row], edges: Sequence[Row]) -> Spec:
    """A graph from top to bottom, with names beside the marks.

    Nodes have name, x (0 to 1), depth, state, reused; edges lead from x and depth to x2 and depth2.
    """
    deepest = max((node["depth"] for node in nodes), default=0)
    depths = {"domain": [deepest + 0.4, -0.3], "nice": False}
    place = {
        "x": field("x", "Q", axis=None, scale={"domain": [0, 1]}),
        "y": field("depth", "Q", axis=None, scale=depths),
    }
    line = {"type": "rule", "strokeWidth": 1.5, "opacity": 0.45}
    hollow = {"test": "datum.reused", "value": "var(--paper)"}
    layers = [
        {
            "data": {"values": list(edges)},
            **layer(line, **place, x2={"field": "x2"}, y2={"field": "depth2"}),
        },
        layer(
            {"type": "point", "size": 110, "strokeWidth": 2, "opacity": 1},
            **place,
            color={"value": "var(--c1)"},
            fill={"condition": hollow, "value": "var(--c1)"},
            tooltip=[field("name", "N", " "), field("state", "N", "state")],
        ),
        labels(**place, text=field("name", "N")),
    ]
    return chart(layers, 42 * (deepest + 1), nodes)
