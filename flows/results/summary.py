"""The summary of a run: its results, where they are, and what to run next."""

import re
import shlex
from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Any

import duckdb

from tercet.flows.formatting import count_of
from tercet.flows.pipeline.compile import trained_by
from tercet.flows.recipe.model import ModelSettings, Recipe
from tercet.flows.recipe.names import shipped_corpora
from tercet.flows.results import figures, queries
from tercet.flows.results.encoder_form import how_to_load, measured_form, reformed
from tercet.flows.results.first_look import first_look, trained_on
from tercet.flows.results.measures import EVALUATIONS, read_measures
from tercet.flows.results.queries import connect, final_stage
from tercet.flows.results.search import AFTER, step_of
from tercet.flows.results.subject import Subject
from tercet.flows.results.verdict import verdict_of
from tercet.flows.running.arguments import DEFAULT_STORE
from tercet.flows.running.run_plan import RunPlan
from tercet.flows.terminal import text_table
from tercet.storage import runs
from tercet.storage.artifacts import open_artifact
from tercet.storage.store import Store, open_store

NEXT_QUERY = (
    "SELECT anchor, positive, negative, round(negative_similarity, 2) AS similarity "
    "FROM triplets{anti_join} USING SAMPLE 5"
)
ACCEPTANCE_QUERY = "SELECT role, method, candidates, accepted, used, threshold FROM acceptance"


def summarise_run(run_plan: RunPlan, run_id: str, command: str, tables: bool = True) -> str:
    """The summary of a finished run, as text for the terminal.

    tables: whether it includes the tables of figures; False if they are shown beside it.
    """
    store = open_store(run_plan.store)
    with store.as_listed():
        return _summary(store, run_plan, runs.resolve_run(store, run_id), command, tables)


def _summary(store: Store, run_plan: RunPlan, run: runs.Run, command: str, tables: bool) -> str:
    run_id = run["run_id"]
    steps = {entry["step"]: entry for entry in run["steps"]}
    lines = [f"\nRun {run_id} is done."]
    with closing(connect(store, run_id)) as connection:
        subject = Subject(store, run, "run", connection)
        warnings = queries.list_warnings(queries.read_warnings(connection))
        lines += ["", *warnings] if warnings else []
        lines += _failed_rows(connection, command)
        lines += (f"\n{sentence}" for sentence in figures.describe_draws(connection, run["recipe"]))
        lines += (f"\n{sentence}" for sentence in describe_unmeasured(connection, run_plan.recipe))
        shown = read_measures(subject, brief=True)
        if tables:
            for measure, table in shown.values():
                lines += [f"\n{measure.title}", *table.text(text_table.terminal_width())]
        if "evaluate.encoder" in steps and "evaluate.base" in steps:
            if EVALUATIONS.name not in shown:
                lines.append(f"\n{EVALUATIONS.absent}")
            lines += trained_on(connection, run_plan.recipe)
            lines += first_look(connection, run_plan.recipe.seed, run["recipe"])
        anti_join = _without_shipped(connection, run) if "select" in steps else ""
    stages = {name: step["stage"] for name, step in steps.items()}
    last = final_stage(stages.values())
    if last is not None:
        step = runs.meant(last, [name for name, stage in stages.items() if stage == last])
        lines += _how_to_load(store, step, steps[step]["version"], run)
    lines += _models(store, steps)
    option = "" if run_plan.store == DEFAULT_STORE else f" --store {shlex.quote(run_plan.store)}"
    lines.append(
        f"\nSame run again (reuses everything), or after a change to the recipe:\n  {command}"
    )
    if "select" in steps:
        query = NEXT_QUERY.format(anti_join=anti_join)
        lines.append(f'Query next:\n  tercet sql "{query}"{option}')
        lines.append(f'Acceptance by method:\n  tercet sql "{ACCEPTANCE_QUERY}"{option}')
    else:
        lines.append(f'Query next:\n  tercet sql "SELECT * FROM run_steps"{option}')
    if step_of(run, AFTER) is not None:
        lines.append(f'Search in your texts:\n  tercet search "what you look for"{option}')
    if asking := _define_next(run_plan.recipe, steps):
        lines.append(f"Entries by their description:\n  {asking}{option}")
    if (verdict := verdict_of(run["end_info"])) is not None:
        lines.append(f"\n{verdict.sentence()}")
    return "\n".join(lines)


def _without_shipped(connection: duckdb.DuckDBPyConnection, run: runs.Run) -> str:
    """SQL that leaves out triplets of texts that come with Tercet; empty if none would be left."""
    shipped = shipped_corpora(run["recipe"])
    # Names with other characters would need quoting for the shell.
    if not shipped or not all(re.fullmatch(r"[\w .-]+", name) for name in shipped):
        return ""
    names = ", ".join(f"'{name}'" for name in shipped)
    left_out = f" ANTI JOIN (FROM sentences WHERE corpus IN ({names})) USING (sentence_id)"
    ((left,),) = connection.execute(f"SELECT count(*) FROM triplets{left_out}").fetchall()
    return left_out if left else ""


def _models(store: Store, steps: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Where the models under `models:` are, and how other recipes take them."""
    lines = []
    for name, step in steps.items():
        artifact = open_artifact(store, name, step["version"])
        folder = artifact.model_dir() if step["stage"] in ModelSettings.model_fields else None
        if folder is not None:
            lines.append(f"\nThe model {name} is in {folder}")
            # A model of fit_pair reads the vectors of this recipe's evaluator alone.
            if step["stage"] != "fit_pair":
                lines.append(
                    f"  for tag:NAME in other recipes: tercet tag {name}@{step['version']} NAME"
                )
    return lines


def _failed_rows(connection: duckdb.DuckDBPyConnection, command: str) -> list[str]:
    """The number of rows that the language model failed to answer, and how to ask again."""
    ((rows,),) = connection.execute(
        "SELECT count(*) FROM rejects WHERE reason = 'failed'"
    ).fetchall()
    if not rows:
        return []
    return [f"\n{count_of(rows, 'row')} failed; to ask again:\n  {command} --retry-failed"]


def _define_next(recipe: Recipe, steps: Collection[str]) -> str | None:
    """The command that asks the dictionary that was trained on last; None without one."""
    for phase in reversed(recipe.train.phases):
        last = trained_by(recipe, recipe.seed)
        step = trained_by(recipe, recipe.seed, phase.name)
        parts = [part.name for part in phase.parts if part.loss["name"] == "definition"]
        if parts and step in steps:
            model = "" if step == last else f" --model {step}"
            part = "" if len(parts) == 1 else f" --part {parts[0]}"
            return f'tercet define "a description in your own words"{model}{part}'
    return None


def _how_to_load(store: Store, step: str, version: str, run: runs.Run) -> list[str]:
    artifact = open_artifact(store, step, version)
    folder = artifact.model_dir()
    if folder is None:
        return []
    lines = [f"\nThe encoder is in {folder}", *(f"  {line}" for line in how_to_load(folder))]
    other = reformed(folder, measured_form(store, run, artifact))
    if other is not None:
        lines.append(
            f"It pools as it was trained ({other.trained}) but was evaluated with "
            f"{other.measured}; `tercet export {step} DIRECTORY` writes the evaluated form."
        )
    return lines


# A reject of a whole measure has no row id; if it is of one split, `text` is the split's name.
_NOT_MEASURED = """
SELECT DISTINCT stage, reason, detail, text FROM rejects
WHERE row_id IS NULL AND stage IN ('halves', 'labels', 'awareness', 'evaluate', 'define')
    AND reason <> 'no_document' -- a warning
ORDER BY ALL
"""
_OF_A_SPLIT = ("no_halves", "no_pairs", "no_texts")


def describe_unmeasured(connection: duckdb.DuckDBPyConnection, recipe: Recipe) -> list[str]:
    """A sentence for each measure that was not made; for a split only if the recipe measures it."""
    rejects = connection.execute(_NOT_MEASURED).fetchall()
    pairs = connection.execute("SELECT count(*) FROM document_pairs").fetchall()[0][0]
    # Without pairs, and without `query` in a corpus, nobody expects any.
    paired = bool(pairs) or any(corpus.query is not None for corpus in recipe.corpora)
    return [
        f"Not measured: {detail}."
        for _, reason, detail, text in rejects
        if (reason not in _OF_A_SPLIT or text in recipe.evaluate.splits)
        and (reason != "no_pairs" or paired)
    ]
