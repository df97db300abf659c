"""Publishes what a run did as one markdown artifact of its flow run in Prefect's pages.

This module is apart from the flow's own module, which Prefect keeps to the end of the process:
functions imported there would keep DuckDB, whose bindings then print complaints of leaks into the
log of `serve`.
"""

import re
import shlex
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from tercet.flows.results import queries, summary
from tercet.flows.results.measure import markdown_cell
from tercet.flows.results.measures import read_measures
from tercet.flows.results.queries import connect
from tercet.flows.results.subject import Subject
from tercet.flows.results.verdict import verdict_of
from tercet.flows.running.run_plan import RunPlan
from tercet.flows.terminal.progress import ProgressReading
from tercet.storage import runs
from tercet.storage.store import Store, open_store
from tercet.tasks.findings.warning import sentence


def publish_run(plan: RunPlan, run_id: str) -> None:
    """Makes the artifact of a run that has ended; versions of one key are a recipe's runs.

    The description, which pages show beside its name, says how it ended, and why.
    """
    _publish(runs.resolve_run(open_store(plan.store), run_id), describe_run(plan, run_id))


def publish_refused(store: Store, run_id: str) -> None:
    """Makes the artifact of a run that ended before its first step."""
    run = runs.resolve_run(store, run_id)
    error = markdown_cell(str(run["end_info"].get("error")))
    _publish(run, f"# {run['recipe_name']}: {run['state']}\n\n**{error}**\n\nNo step was begun.")


def _publish(run: runs.Run, text: str) -> None:
    from prefect.artifacts import create_markdown_artifact

    name = re.sub(r"[^a-z0-9]+", "-", run["recipe_name"].lower()).strip("-")
    error = (run.get("end_info") or {}).get("error")
    verdict = verdict_of(run.get("end_info") or {})
    reason = error if verdict is None else verdict.sentence()
    ended = f"Run {run['run_id']} {run['state']}" + (f": {reason}" if reason else "")
    create_markdown_artifact(text, key=f"runs-of-{name}", description=ended)


def describe_run(plan: RunPlan, run_id: str) -> str:
    """Steps with rows and seconds, warnings, figures, and how to see more, in markdown."""
    store = open_store(plan.store)
    run = runs.resolve_run(store, run_id)
    place = f"--store {shlex.quote(plan.store)}"
    lines = [f"# {plan.recipe.name}: {run['state']}", ""]
    if (verdict := verdict_of(run["end_info"])) is not None:
        lines += [f"**{markdown_cell(verdict.sentence())}**", ""]
    error = (run.get("end_info") or {}).get("error")
    if error:
        lines += [f"**{markdown_cell(error)}**", "", "A retry goes on from what the store has.", ""]
    lines += ["| step | state | seconds | rows |", "|---|---|--:|---|"]
    lines += [_row(entry) for entry in run["steps"]]
    if left := runs.steps_left(run):
        lines += ["", f"Not reached: {', '.join(left)}"]
    with closing(connect(store, run_id)) as connection:
        warnings = [sentence(row) for row in queries.read_warnings(connection)]
        shown = read_measures(Subject(store, run, "run", connection))
    if warnings:
        lines += [
            "",
            f"## Warnings ({len(warnings)})",
            "",
            *(f"- {markdown_cell(one)}" for one in warnings),
        ]
    for measure, table in shown.values():
        lines += ["", f"## {measure.title}", "", table.markdown()]
    if run["state"] == "done":
        command = shlex.join(["tercet", "run", *plan.arguments.words()])
        text = summary.summarise_run(plan, run_id, command, tables=False)
        lines += ["", "## Summary", "", "```", text, "```"]
    lines += ["", f"The report, on the machine of the store: `tercet report {run_id} {place}`"]
    return "\n".join(lines)


def _row(entry: Mapping[str, Any]) -> str:
    counts = [f"{n:,} {table}" for table, n in (entry.get("tables") or {}).items() if n]
    rows = ", ".join(counts) or "none"
    return f"| {entry['step']} | {entry['state']} | {entry['seconds']:.1f} | {rows} |"


ARTIFACT_SECONDS = 2.0


class PrefectArtifact:
    """A progress artifact; a server that refuses it does not fail the run."""

    every = ARTIFACT_SECONDS

    def __init__(self, step: str) -> None:
        self._step = step
        self._id: Any = None
        self._broken = False

    def show(self, numbers: ProgressReading) -> None:
        self._put(numbers.percent, numbers.text())

    def close(self, numbers: ProgressReading) -> None:
        if self._id is not None:
            self._put(100.0, numbers.text())

    def _put(self, percent: float, text: str) -> None:
        if self._broken:
            return
        try:
            from prefect.artifacts import create_progress_artifact, update_progress_artifact

            described = f"{self._step}: {text}"
            if self._id is None:
                key = re.sub(r"[^a-z0-9]+", "-", self._step.lower()).strip("-")
                self._id = create_progress_artifact(percent, key=key, description=described)
            else:
                update_progress_artifact(self._id, percent, description=described)
        except Exception:
            self._broken = True
