"""Shows a study: its table and plot as one HTML page, and its table as CSV."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tercet.flows.exports.writing import whole_file
from tercet.flows.formatting import count_of, format_range
from tercet.flows.pages import charts, page
from tercet.flows.pages.blocks import Chart, Code, Fact, Note, Section
from tercet.flows.recipe.secrets import public
from tercet.flows.results.measure import Column, Table
from tercet.flows.results.metric_names import FEW, TOO_FEW, more_of
from tercet.flows.studies.arms import as_text, short_keys
from tercet.flows.studies.results import Results, Row

# Up to this many values of a key have a tick each.
MOST_TICKS = 10
_CSV = (
    *("metric", "mean", "sd", "seeds", "low", "high"),
    *("difference", "difference_low", "difference_high", "smallest_visible"),
    *("dev", "test", "best_by_dev", "untouched", "values", "run_id", "why"),
)

_AGAIN = (
    "The same study; finished arms are reused. Absolute paths are shortened to file "
    "names, so that the page can be shared."
)


def write_csv(path: Path, results: Results) -> None:
    """One line per arm, with the grid's keys and the value of each seed."""
    keys = list(dict.fromkeys(key for row in results.rows for key in row.arm.values))
    text = io.StringIO()
    writer = csv.DictWriter(text, ["arm", *keys, *_CSV], extrasaction="ignore")
    writer.writeheader()
    for row, shown in zip(results.rows, _rows(results), strict=True):
        values = {key: as_text(value) for key, value in row.arm.values.items()}
        writer.writerow({**shown, **values, "arm": row.arm.name})
    with whole_file(path, replaces=True) as sink:
        sink.write(text.getvalue().encode())


def write_html(path: Path, recipe: str, results: Results, command: str) -> None:
    """Writes the page: what was compared, one plot, one table, and the command that repeats it."""
    best = None if results.best is None else results.rows[results.best]
    seeds = max((row.summary.n for row in results.rows if row.summary is not None), default=1)
    facts = [Fact("arms", str(len(results.rows))), Fact("over", count_of(seeds, "seed"))]
    if best is not None and best.dev is not None:
        few = f" ({TOO_FEW} questions)" if results.few_on_dev else ""
        facts.append(Fact("best by dev", best.arm.name, f"dev {best.dev.mean:.2f}{few}"))
    notices = [
        Note(public(f"{row.arm.name}: {row.why}"), tone="warning")
        for row in results.rows
        if row.why
    ]
    shown = [row for row in results.rows if row.summary is not None]
    plot = Chart(
        spec_of(results),
        f"{results.metric}: means with 95 % intervals {_INTERVALS[results.over]}.",
        "; ".join(f"{row.arm.name}: {row.summary.mean:.2f}" for row in shown if row.summary),
    )
    table = table_of(results)
    html = page.page(
        f"Study of {recipe}",
        [
            Section("Plot", [plot]),
            Section("Table", table.on_page()),
            Section("Repeat", [Code(public(command), "The command")], _AGAIN),
        ],
        subtitle=str(results.metric),
        facts=facts,
        notices=notices,
        footer="Made by tercet study.",
    )
    with whole_file(path, replaces=True) as sink:
        sink.write(html.encode("utf-8", "replace"))


def table_of(results: Results) -> Table:
    """The arms' figures with notes; the arm that is best on dev has a star."""
    on_dev = results.metric.of_dev
    columns = (
        Column("arm", "arm"),
        Column("dev", "dev (95 % interval)" if on_dev else "dev", 2, interval=on_dev),
        Column("test", "test" if on_dev else "test (95 % interval)", 2, interval=not on_dev),
        Column("sd", "sd", 2),
        Column("seeds", "seeds"),
        Column("difference", "vs first (95 % interval)", 2, "+", interval=True),
        Column("smallest_visible", "smallest detectable", 2),
    )
    return Table(columns, _rows(results), findings=_notes(results))


def _rows(results: Results) -> list[dict[str, Any]]:
    """A row for each arm, for the table and the CSV."""
    rows = []
    for place, row in enumerate(results.rows):
        best = place == results.best
        shown: dict[str, Any] = {
            "arm": row.arm.name + (" *" if best else ""),
            "strong": best,
            "few": row.few,
            "transductive": row.transductive,
            "metric": str(results.metric),
            "dev": None if row.dev is None else row.dev.mean,
            "test": None if row.test is None else row.test.mean,
            "best_by_dev": str(best).lower(),
            "untouched": row.untouched,
            "values": " ".join(f"{seed}:{v:.6g}" for seed, v in sorted(row.values.items())),
            "run_id": row.run_id,
            "why": row.why,
        }
        if (summary := row.summary) is not None:
            ends = {"low": summary.low, "high": summary.high}
            shown |= {"mean": summary.mean, "sd": summary.sd, "seeds": summary.n, **ends}
            side = "dev" if results.metric.of_dev else "test"
            shown |= {side: summary.mean} | {f"{side}_{end}": value for end, value in ends.items()}
        if (change := row.difference) is not None:
            shown |= {"difference": change.mean, "smallest_visible": change.visible}
            shown |= {"difference_low": change.low, "difference_high": change.high}
        rows.append(shown)
    return rows


def _notes(results: Results) -> list[str]:
    """Notes on the table's figures, and on how the best arm was chosen."""
    notes = [
        f"Figures are {results.metric}, with intervals {_INTERVALS[results.over]}. `vs first` is "
        f"each arm minus {results.rows[0].arm.name!r}, {_PAIRED[results.over]}; `smallest "
        "detectable` is the smallest difference that this study could have shown."
    ]
    untouched = dict.fromkeys(
        f"{row.untouched:.2f}" for row in results.rows if row.untouched is not None
    )
    if untouched:
        notes.append(f"The untouched backbone scores {', '.join(untouched)}.")
    return [*notes, _choice(results)]


def _choice(results: Results) -> str:
    """How the best arm was chosen, or why none was."""
    suite, dev = results.metric.suite, results.metric.on_dev()
    if results.best is not None:
        name = results.rows[results.best].arm.name
        message = f"* {name!r} is the best on dev ({dev}): chosen on dev, never on test."
        if results.few_on_dev:
            message += (
                f" But dev has fewer than {FEW} questions, which cannot tell arms apart"
                f"{more_of(suite, 'dev')}."
            )
        return message
    if dev is None:
        return f"{suite} has no dev set, so no arm is marked as the best."
    message = f"No arm has {dev}, so none is marked as the best"
    if not results.on_dev:
        return f"{message}: --set 'evaluate.splits=[dev, test]'."
    return f"{message}, since dev has no such questions{more_of(suite, 'dev')}."


def spec_of(results: Results) -> dict[str, Any]:
    """The plot: a line over a numeric key if there is one, otherwise one dot per arm."""
    rows = [row for row in results.rows if row.summary is not None]
    key = _numeric_key(rows)
    values = [_point(row, key) for row in rows]
    title, free = str(results.metric), {"scale": {"zero": False}}
    tip = [charts.field("arm", "N", "arm"), charts.field("label", "N", results.metric.name)]
    low, mean = (charts.field(name, "Q", title, **free) for name in ("low", "mean"))
    point = {"type": "point", "filled": True, "size": 90, "opacity": 1}
    rule = {"type": "rule", "strokeWidth": 2}
    encoding: dict[str, Any] = {"tooltip": tip}
    if key is None:
        encoding["y"] = charts.field("arm", "N", sort=None, axis={"labelLimit": 260})
        layers = [
            charts.layer(rule, x=low, x2={"field": "high"}, **encoding),
            charts.layer(point, x=mean, **encoding),
        ]
        return charts.chart(layers, 34 * max(1, len(values)), values)
    series = list(dict.fromkeys(value["series"] for value in values))
    # Vega-Lite merges the legends of colour and dash into one, since their domains are equal.
    legend: dict[str, Any] = {"legend": None if len(series) < 2 else {"title": None, "columns": 1}}
    places = sorted({value["x"] for value in values})
    # A tick for each value that was tried, as it was written.
    axis = {"values": places, "labelExpr": "datum.value"} if len(places) <= MOST_TICKS else {}
    encoding["color"] = charts.field("series", "N", scale={"domain": series}, **legend)
    # On a linear axis, rates of 1e-5 and 2e-5 would coincide beside a rate of 1e-3.
    wide = places[0] > 0 and places[-1] >= 10 * places[0]
    scale = {"type": "log"} if wide else {"zero": False}
    encoding["x"] = charts.field("x", "Q", key, axis=axis, scale=scale)
    dashes = {"domain": series, "range": charts.DASHES}
    dash = charts.field("series", "N", scale=dashes, **legend)
    layers = [
        charts.layer(rule | {"opacity": 0.6}, y=low, y2={"field": "high"}, **encoding),
        charts.layer({"type": "line"}, y=mean, strokeDash=dash, **encoding),
        charts.layer(point, y=mean, **encoding),
    ]
    return charts.chart(layers, 280, values)


def _numeric_key(rows: Sequence[Row]) -> str | None:
    """The first key of the grid that has several values, all of them numbers."""
    keys = dict.fromkeys(key for row in rows for key in row.arm.values)
    for key in keys:
        values = [row.arm.values.get(key) for row in rows]
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
        if numbers and len(set(values)) > 1:
            return key
    return None


def _point(row: Row, key: str | None) -> dict[str, Any]:
    assert row.summary is not None
    mean, low, high = row.summary.mean, row.summary.low, row.summary.high
    label = f"{mean:.2f}" + (f" ({format_range(low, high)})" if low is not None else "")
    point = {"arm": row.arm.name, "mean": mean, "low": low, "high": high, "label": label}
    if key is not None:
        point["x"] = row.arm.values[key]
        point["series"] = _series(row, key)
    return point


def _series(row: Row, key: str) -> str:
    """The label of an arm's line: its name without the key on the axis."""
    short = short_keys(list(row.arm.values))
    others = [f"{short[k]}={as_text(v)}" for k, v in row.arm.values.items() if k != key]
    return ", ".join(part for part in (row.arm.base, *others) if part) or key


# By `Results.over`: the units over which intervals are taken and differences are paired.
_INTERVALS = {
    "seeds": "over the seeds (Student's t)",
    "queries": "over the queries of one seed (bootstrap)",
}
_PAIRED = {"seeds": "over the seeds in common", "queries": "over the same queries"}
