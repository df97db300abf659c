"""The background of a run: contamination, time and cost, the recipe."""

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
from tercet.flows.pages.redaction import public_path, public_values
from tercet.flows.report.subject import Row, Subject
from tercet.flows.results import transductive

Cells = list[str | int | float | None]
_EXAMPLES = 6


def contamination(subjects: Sequence[Subject]) -> Section:
    """Texts of evaluation sets found among the training rows."""
    title = "Contamination"
    blocks: list[Block] = []
    for subject in subjects:
        named = f"Run {subject.name}: " if len(subjects) > 1 else ""
        if not subject.reached("guard"):
            text = (
                f"{named}Training rows were not compared with evaluation sets. They are if the "
                "recipe names a suite (`evaluate.suite`) or files of fact order."
            )
            blocks.append(Note(text, "missing"))
            continue
        found = subject.rows(
            "SELECT suite, task, level, count(DISTINCT text_id) AS texts, "
            "count(DISTINCT text_id) FILTER (removed) AS removed, "
            "min(score) AS low, max(score) AS high "
            "FROM contamination GROUP BY ALL ORDER BY suite, task, level"
        )
        if not found:
            blocks.append(Note(f"{named}No text of the evaluation sets was found in training."))
            continue
        rows: list[Cells] = [
            [r["suite"], r["task"], r["level"], r["texts"], r["removed"], _range(r)] for r in found
        ]
        heads = ["suite", "task", "level", "texts found", "removed", "score"]
        if any(r["removed"] < r["texts"] for r in found):
            blocks.append(Note(f"{named}{transductive.WHY}", "warning"))
        caption = f"{named}Training texts that also occur in an evaluation set, by match level."
        blocks.append(Table(heads, rows, caption, "lllrrr"))
        examples = subject.rows(
            "SELECT task, level, score, removed, text, evaluation_text FROM contamination "
            f"ORDER BY level <> 'exact', text_id LIMIT {_EXAMPLES}"
        )
        items = [
            Item(
                shorten(row["text"]),
                f"{row['task']}: {shorten(row['evaluation_text'])}",
                f"· {row['level']}",
                "bad" if row["removed"] else "",
                "removed" if row["removed"] else "kept",
            )
            for row in examples
        ]
        blocks.append(Fold(f"{len(items)} of them", [Items(items)]))
    lead = "Whether the training data contain texts that the models are evaluated on."
    return Section(title, blocks, lead)


def _range(row: Row) -> str | None:
    if row["low"] is None:
        return None
    low, high = f"{row['low']:.2f}", f"{row['high']:.2f}"
    return low if low == high else f"{low} to {high}"


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
        asked += _asked(subject, f"Run {subject.name}. " if several else "")
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


def _asked(subject: Subject, named: str) -> list[Block]:
    rows = subject.rows(
        "SELECT method, model, answers, failed, retries, prompt_tokens, n_tokens, cost, "
        "n_tokens / nullif(seconds_busy, 0) AS rate FROM usage WHERE run_id = $run "
        'ORDER BY "first"',
        {"run": subject.run_id},
    )
    if not rows:
        return []
    told: list[Cells] = [
        [
            row["method"],
            None if row["model"] is None else public_path(row["model"]),
            row["answers"],
            row["failed"],
            row["retries"],
            row["prompt_tokens"],
            row["n_tokens"],
            None if row["rate"] is None else f"{row['rate']:.0f}",
            None if row["cost"] is None else f"{row['cost']:.4f}",
        ]
        for row in rows
    ]
    heads = ["method", "model", "answers", "failed", "retries", "tokens in", "tokens out"]
    caption = f"{named}This run's requests; answers that were already in the pool do not count."
    return [Table([*heads, "tokens/s", "cost"], told, caption, "llrrrrrrr")]


def recipe(subjects: Sequence[Subject]) -> Section:
    """The run's recipe, with defaults filled in."""
    blocks: list[Block] = []
    for subject in subjects:
        text = yaml.safe_dump(
            public_values(plain(subject.recipe)), sort_keys=False, allow_unicode=True, width=100
        ).rstrip()
        code = Code(text, f"Recipe {subject.recipe.get('name', '')}")
        if len(subjects) > 1:
            blocks.append(Fold(f"Recipe of run {subject.name}", [code]))
        else:
            blocks.append(Fold(f"{len(text.splitlines())} lines of YAML", [code]))
    lead = (
        "With all defaults filled in. To keep this machine's layout private, absolute "
        "paths are shortened to file names, and keys are removed."
    )
    return Section("Recipe", blocks, lead)


def plain(value: Any) -> Any:
    """Converts to types that YAML has."""
    if isinstance(value, Mapping):
        return {str(key): plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
