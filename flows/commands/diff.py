"""`tercet diff`: why two runs differ, in which rows, and how that changed the figures."""

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tercet.flows.formatting import printable, shorten
from tercet.flows.results.figure_differences import (
    FigureDifference,
    compare_figures,
    difference_table,
)
from tercet.flows.results.run_differences import (
    TableDifference,
    compare_recipes,
    compare_rows,
    compare_steps,
    describe_step,
)
from tercet.flows.results.subject import Subject, open_runs
from tercet.flows.terminal import text_table
from tercet.storage.store import open_store

# Characters of a value, and of an example, that are shown.
_VALUE, _EXAMPLE = 60, 200
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


def show_difference(ref_a: str, ref_b: str, format_: str, store: str) -> None:
    """Prints B against A; the store is only read.

    Raises: UnknownRef for an unknown run, BadInput for an unknown format.
    """
    with open_runs(open_store(store, create=False), [ref_a, ref_b]) as (a, b):
        recipe = compare_recipes(a.recipe, b.recipe)
        steps = compare_steps(a.store, a.run, b.run)
        tables = list(compare_rows(a.store, a.connection, steps, a.run, b.run))
        figures = compare_figures(a, b)
        if format_ == "json":
            content = {
                "runs": [_named(a), _named(b)],
                "recipe": [{"key": key, "a": one, "b": other} for key, one, other in recipe],
                "steps": [asdict(step) for step in steps],
                "tables": [asdict(table) for table in tables],
                "figures": difference_table([f for f in figures if f.same_data]).records(),
                "on_other_data": [figure.name for figure in figures if not figure.same_data],
            }
            # A terminal would obey some characters instead of showing them.
            plain = sys.stdout.isatty()
            print(json.dumps(_finite(content), indent=2, ensure_ascii=plain, default=str))
            return
        reached = {entry["step"] for side in (a, b) for entry in side.run["steps"]}
        lines = [
            *(_said(side) for side in (a, b)),
            *_titled(
                "Recipe",
                _differ(len(recipe), "key"),
                ["key", "A", "B"],
                [[key, _short(one), _short(other)] for key, one, other in recipe],
            ),
            *_titled(
                "Steps",
                f"{len(steps)} of {len(reached)} differ",
                ["step", "difference"],
                [[step.step, describe_step(step)] for step in steps],
            ),
            *_row_lines(tables),
            *_figure_lines(figures),
        ]
        print(printable("\n".join(lines)))


def _named(side: Subject) -> dict[str, str]:
    run = side.run
    return {"run": side.run_id, "recipe": str(run["recipe_name"]), "state": str(run["state"])}


def _said(side: Subject) -> str:
    return f"{side.name}: run {side.run_id} of {side.run['recipe_name']}, {side.run['state']}"


def _titled(
    title: str, text: str, heads: Sequence[str], rows: Sequence[Sequence[Any]]
) -> Iterator[str]:
    """A heading with a table below; one line if there is nothing to show."""
    yield ""
    yield f"{title}: {text if rows else 'no difference'}"
    if rows:
        yield from text_table.render(heads, rows, text_table.terminal_width())[0]


def _row_lines(tables: Sequence[TableDifference]) -> Iterator[str]:
    differ = [table for table in tables if table.added or table.removed or table.changed]
    rows = [
        [
            *(table.table, table.added, table.removed, table.changed if table.key else None),
            ", ".join(f"{name} {count:,}" for name, count in table.columns.items()) or None,
        ]
        for table in differ
    ]
    heads = ["table", "added", "removed", "changed", "in the columns"]
    if differ or not any(table.fault for table in tables):
        yield from _titled("Rows", _differ(len(differ), "table"), heads, rows)
    else:
        yield from ("", "Rows: none differ of those that can be compared")
    for table in differ:
        for kind, sign in _SIGNS.items():
            for row in table.examples.get(kind, ()):
                yield shorten(f"  {sign} {table.table}  {_example(row, table.key)}", _EXAMPLE)
    same = [t.table for t in tables if t not in differ and t.only is None and t.fault is None]
    if same:
        yield f"Made anew with the same rows: {', '.join(same)}"
    for side in ("a", "b"):
        if only := [table.table for table in tables if table.only == side]:
            yield f"Only {side.upper()} has made: {', '.join(only)}"
    for fault in dict.fromkeys(table.fault for table in tables if table.fault is not None):
        names = [table.table for table in tables if table.fault == fault]
        yield f"{', '.join(names)} cannot be compared: {fault}"


def _example(row: Mapping[str, Any], key: Sequence[str]) -> str:
    """A row in one line: its key and changes if it has changed, else its texts and numbers."""
    if "changed" in row:
        parts = [f"{name} {_short(row[name])}" for name in key]
        parts += [f"{n}: {_short(x)} → {_short(y)}" for n, (x, y) in row["changed"].items()]
    else:
        filled = {n: v for n, v in row.items() if v is not None and not isinstance(v, list | dict)}
        # Ids say little by themselves; a row that holds only ids shows its key.
        content = [name for name in filled if not name.endswith("_id")]
        parts = [f"{name} {_short(filled[name])}" for name in content or filled]
    return ", ".join(parts)


def _figure_lines(figures: Sequence[FigureDifference]) -> Iterator[str]:
    same = [figure for figure in figures if figure.same_data]
    yield ""
    if same:
        yield "Figures: of the trained encoders, on the same data"
        yield from difference_table(same).text(text_table.terminal_width())
    else:
        yield "Figures: the runs have none in common that were measured on the same data"
    other = [figure.name for figure in figures if not figure.same_data]
    if other:
        yield f"Measured on other data in each run, so not compared: {'; '.join(other)}"


def _differ(count: int, what: str) -> str:
    return f"1 {what} differs" if count == 1 else f"{count:,} {what}s differ"


def _short(value: Any) -> str | None:
    return None if value is None else shorten(text_table.cell(value), _VALUE)


def _finite(value: Any) -> Any:
    """A value as JSON has it: without NaN and infinity."""
    if isinstance(value, Mapping):
        return {str(key): _finite(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(member) for member in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
