"""Vega-Lite specs as plain dicts. The page gives colours, fonts and widths (`page.js`).

Where colour distinguishes things, so does a second channel: dash, shape, place or a label.
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


def bars(
    values: Sequence[Row], *, of: str, amount: str, said: str, title: str, row: int = 30
) -> Spec:
    """One bar per row, in the rows' order, labelled with its value."""
    y = field(of, "N", sort=None)
    longest = max((value[amount] for value in values), default=1) or 1
    # Leaves room for the longest label, on a phone too.
    room = 1 + 0.075 * max((len(str(value[said])) for value in values), default=0)
    scale = {"domain": [0, longest * room]}
    return chart(
        [
            {
                "mark": {"type": "bar", "height": {"band": 0.66}},
                "encoding": {
                    "x": field(amount, "Q", title, axis=None, scale=scale),
                    "y": y,
                    "tooltip": [field(of, "N", " "), field(said, "N", title)],
                },
            },
            {
                "mark": {"type": "text", "style": "label", "align": "left", "dx": 6},
                "encoding": {"x": field(amount, "Q"), "y": y, "text": field(said, "N")},
            },
        ],
        row * max(1, len(values)),
        values,
    )


def intervals(values: Sequence[Row], *, title: str) -> Spec:
    """Gains with their intervals. Rows: name, gain, low, high, said, clear, and maybe run."""
    runs = sorted({str(value.get("run", "")) for value in values})
    several = len(runs) > 1
    # On a phone the end of a name, which tells two apart, would be cut off.
    wrapped = "width < 300 ? split(datum.label, ', ') : datum.label"
    y = field("name", "N", sort=None, axis={"labelExpr": wrapped})
    aside: Spec = {"yOffset": field("run", "N", sort=None)} if several else {}
    colour: Spec = (
        {
            "color": field("run", "N", "run", scale={"domain": runs}),
            "shape": field("run", "N", "run", scale={"domain": runs, "range": SHAPES}),
        }
        if several
        else {
            "color": field(
                "clear",
                "N",
                scale={"domain": [True, False], "range": ["var(--c1)", "var(--c8)"]},
                legend=None,
            ),
            "shape": field(
                "clear",
                "N",
                scale={"domain": [True, False], "range": ["circle", "square"]},
                legend=None,
            ),
        }
    )
    tip = [field("name", "N", " "), field("said", "N", "gain")]
    hidden = (
        {"color": {**colour["color"], "legend": None}}
        if not several
        else {"color": colour["color"]}
    )
    return chart(
        [
            {"mark": {"type": "rule", "style": "zero"}, "encoding": {"x": {"datum": 0}}},
            {
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": {
                    "x": field("low", "Q", title, axis={"format": "+~r", "tickCount": 7}),
                    "x2": {"field": "high"},
                    "y": y,
                    **hidden,
                    **aside,
                    "tooltip": tip,
                },
            },
            {
                "mark": {"type": "point", "size": 90, "opacity": 1},
                "encoding": {
                    "x": field("gain", "Q", title),
                    "y": y,
                    **colour,
                    **aside,
                    "tooltip": tip,
                },
            },
        ],
        max(1, len({value["name"] for value in values})) * (40 if several else 32),
        values,
    )


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
    told: Spec = {
        "color": field(
            by,
            "N",
            scale={"domain": names},
            legend=legend,
        ),
        "strokeDash": field(
            by,
            "N",
            scale={"domain": names, "range": DASHES},
            legend=legend,
        ),
    }
    if detail:
        told["detail"] = field(detail, "N")
    scale: Spec = {"zero": False} if domain is None else {"domain": list(domain)}
    mark: Spec = {"type": "line", "strokeWidth": 2, "clip": domain is not None}
    if points:
        mark |= {"point": {"filled": True, "size": 40}}
    return chart(
        [
            {
                "mark": mark,
                "encoding": {
                    "x": field(
                        x, "Q", titles[0], axis={"grid": False, "format": ",~r", "tickMinStep": 1}
                    ),
                    "y": field(y, "Q", titles[1], scale=scale),
                    **told,
                },
            },
            {
                "mark": {"type": "point", "size": 120, "opacity": 0},
                "encoding": {
                    "x": field(x, "Q", titles[0]),
                    "y": field(y, "Q", titles[1], scale=scale),
                    "tooltip": [
                        field(by, "N", " "),
                        field(x, "Q", titles[0], format=",d"),
                        field(y, "Q", titles[1], format=",.4~r"),
                    ],
                },
            },
        ],
        height,
        values,
    )


def grouped(values: Sequence[Row], *, of: str, kind: str, amount: str, title: str) -> Spec:
    """Bars of two or three kinds for each row, with their numbers."""
    y = {
        "y": field(of, "N", sort=None),
        "yOffset": field(kind, "N", sort=None),
    }
    longest = max((value[amount] for value in values), default=1) or 1
    x = field(amount, "Q", title, axis=None, scale={"domain": [0, longest * 1.5]})
    n = len({value[kind] for value in values})
    return chart(
        [
            {
                "mark": {"type": "bar"},
                "encoding": {
                    "x": x,
                    **y,
                    "color": field(kind, "N", sort=None, legend={"title": None}),
                },
            },
            {
                "mark": {"type": "text", "style": "label", "align": "left", "dx": 6},
                "encoding": {"x": x, **y, "text": field("said", "N")},
            },
        ],
        max(1, len({value[of] for value in values})) * (22 * n + 14),
        values,
    )


def strip(values: Sequence[Row], *, title: str) -> Spec:
    """Marks along a line for each name. Rows: name, value, seed."""
    return chart(
        [
            {"mark": {"type": "rule", "style": "zero"}, "encoding": {"x": {"datum": 0}}},
            {
                "mark": {"type": "point", "size": 80, "opacity": 0.85},
                "encoding": {
                    "x": field("value", "Q", title),
                    "y": field("name", "N", sort=None),
                    "shape": field("seed", "N", "seed", scale={"range": SHAPES}),
                    "color": field("seed", "N", "seed"),
                    "tooltip": [
                        field("name", "N", " "),
                        field("seed", "N", "seed"),
                        field("value", "Q", title, format="+.2f"),
                    ],
                },
            },
        ],
        30 * max(1, len({value["name"] for value in values})),
        values,
    )


def flow(nodes: Sequence[Row], edges: Sequence[Row]) -> Spec:
    """A graph from top to bottom, with names beside the marks.

    Nodes have name, x (0 to 1), depth, state, reused; edges lead from x and depth to x2 and depth2.
    """
    deepest = max((node["depth"] for node in nodes), default=0)
    x = field("x", "Q", axis=None, scale={"domain": [0, 1]})
    y = field(
        "depth",
        "Q",
        axis=None,
        scale={"domain": [deepest + 0.4, -0.3], "nice": False},
    )
    own = {"data": {"values": list(edges)}}
    tip = [field("name", "N", " "), field("state", "N", "state")]
    return chart(
        [
            {
                **own,
                "mark": {"type": "rule", "strokeWidth": 1.5, "opacity": 0.45},
                "encoding": {"x": x, "y": y, "x2": {"field": "x2"}, "y2": {"field": "depth2"}},
            },
            {
                "mark": {"type": "point", "size": 110, "strokeWidth": 2, "opacity": 1},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": {"value": "var(--c1)"},
                    "fill": {
                        "condition": {"test": "datum.reused", "value": "var(--paper)"},
                        "value": "var(--c1)",
                    },
                    "tooltip": tip,
                },
            },
            {
                "mark": {"type": "text", "style": "label", "align": "left", "dx": 9},
                "encoding": {"x": x, "y": y, "text": field("name", "N")},
            },
        ],
        42 * (deepest + 1),
        nodes,
    )
