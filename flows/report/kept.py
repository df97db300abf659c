"""The background of a run: warnings, contamination, time and cost, the recipe."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from tercet.flows.formatting import format_duration, shorten
from tercet.flows.pages import charts
from tercet.flows.pages.blocks import (
    Block,
    Chart,
    Code,
    Fold,
    Grid,
    Item,
    Items,
    Note,
    Section,
    Table,
)
from tercet.flows.pages.redaction import public, public_values
from tercet.flows.report.subject import Row, Subject, of_each_run
from tercet.flows.results import metric_names, queries

_EXAMPLES = 6
_CONTAMINATION = """
SELECT suite, task, level, count(DISTINCT text_id) AS "texts found",
    count(DISTINCT text_id) FILTER (removed) AS removed,
    array_to_string(list_distinct([format('{:.2f}', s) FOR s IN [min(score), max(score)]]), ' to ')
        AS score
FROM contamination GROUP BY suite, task, level ORDER BY suite, task, level
"""
_USAGE = """
SELECT method, model, answers, failed, retries, prompt_tokens AS "tokens in",
    n_tokens AS "tokens out", format('{:.0f}', n_tokens / nullif(seconds_busy, 0)) AS "tokens/s",
    format('{:.4f}', cost) AS cost
FROM usage WHERE run_id = $run ORDER BY "first"
"""


@of_each_run(
    "Contamination",
    "Training rows were not compared with evaluation sets. They are if the recipe names a suite "
    "(`evaluate.suite`) or files of fact order.",
    "Whether the training data contain texts that the models are evaluated on.",
)
def contamination(subject: Subject) -> list[Block]:
    """Texts of evaluation sets found among the training rows."""
    if not subject.reached("guard"):
        return []
    caption = "Training texts that also occur in an evaluation set, by match level."
    table = subject.table(_CONTAMINATION, caption, "lllrrr")
    if not table:
        return [Note("No text of the evaluation sets was found in training.")]
    stayed = subject.value("SELECT count(*) FROM contamination WHERE NOT removed")
    items = [
        Item(
            shorten(row["text"]),
            f"{row['task']}: {shorten(row['evaluation_text'])}",
            f"· {row['level']}",
            "bad" if row["removed"] else "",
            "removed" if row["removed"] else "kept",
        )
        for row in subject.rows(
            "SELECT task, level, removed, text, evaluation_text FROM contamination "
            f"ORDER BY level <> 'exact', text_id LIMIT {_EXAMPLES}"
        )
    ]
    notes = [Note(metric_names.WHY_TRANSDUCTIVE, "warning")] if stayed else []
    return [*notes, *table, Fold(f"{len(items)} of them", [Items(items)])]


def cost(subjects: Sequence[Subject]) -> Section:
    """Seconds by step, and the use of language models."""
    several = len(subjects) > 1
    shown: list[Block] = []
    asked: list[Block] = []
    for subject in subjects:
        values = [_took(subject, step) for step in subject.steps]
        named = f"Run {subject.name}" if several else ""
        if not values:
            shown.append(Note(f"{named or 'The run'} has reached no step yet.", "missing"))
            continue
        spec = charts.bars(
            values, of="step", amount="seconds", said="said", title="seconds", row=26
        )
        alt = "Time by step: " + "; ".join(f"{value['step']} {value['said']}" for value in values)
        shown.append(Chart(spec, _times(values), alt, named))
        of_run = f"{named}. " if named else ""
        caption = f"{of_run}This run's requests; answers already in the pool do not count."
        run = {"run": subject.run_id}
        asked += subject.table(_USAGE, caption, "llrrrrrrr", run, public_values)
    if not asked:
        asked = [Note("No language model was asked: rules made the candidates.", "missing")]
    return Section("Time and cost", [Grid(shown, least=24), *asked], "Where the time went.")


def _took(subject: Subject, step: Mapping[str, Any]) -> Row:
    """The time of a step; for a reused one, the time it took when it was made."""
    if step.get("state") != "reused":
        seconds = float(step.get("seconds") or 0.0)
        return {
            "step": step["step"],
            "seconds": seconds,
            "said": format_duration(seconds),
            "here": True,
        }
    noted = subject.manifest(step["step"], str(step["version"])).get("seconds")
    said = "reused" if noted is None else f"reused: {format_duration(float(noted))} when made"
    return {"step": step["step"], "seconds": float(noted or 0.0), "said": said, "here": False}


def _times(values: Sequence[Row]) -> str:
    here = sum(value["seconds"] for value in values if value["here"])
    if all(value["here"] for value in values):
        return f"{format_duration(here)} in all."
    before = sum(value["seconds"] for value in values if not value["here"])
    return (
        f"{format_duration(here)} in this run. The steps it reused took {format_duration(before)} "
        "when they were made."
    )


@of_each_run(
    "Recipe",
    "",
    "With all defaults filled in. To keep this machine's layout private, absolute paths are "
    "shortened to file names, and keys are removed.",
)
def recipe(subject: Subject) -> list[Block]:
    """The run's recipe, with defaults filled in."""
    text = yaml.safe_dump(
        public_values(subject.recipe), sort_keys=False, allow_unicode=True, width=100
    ).rstrip()
    code = Code(text, f"Recipe {subject.recipe.get('name', '')}")
    return [Fold(f"{len(text.splitlines())} lines of YAML", [code])]


def warned(subjects: Sequence[Subject]) -> Section:
    """The table `warnings`; empty without one."""
    several = len(subjects) > 1
    rows = [
        [
            *([subject.name] if several else []),
            row["step"],
            public(
                row["message"] + (f": {shorten(row['example'], 120)!r}" if row["example"] else "")
            ),
            f"{row['count']:,} of {row['total']:,}",
            public(row["remedy"]),
        ]
        for subject in subjects
        for row in queries.read_warnings(subject.connection)
    ]
    heads = [*(["run"] if several else []), "step", "what was found", "rows", "what to do"]
    return Section("Warnings", [Table(heads, rows)] if rows else [])
