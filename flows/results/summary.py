"""The summary of a run: its results, where they are, and what to run next."""

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import duckdb

from tercet.flows.pipeline.training import trained_by
from tercet.flows.recipe.corpus_names import shipped_corpora
from tercet.flows.recipe.model import ModelSettings, Recipe
from tercet.flows.results import figures, metric_names, queries
from tercet.flows.results.encoder_form import how_to_load, measured_form, reformed
from tercet.flows.results.figures import Figure, read_choice, read_figures
from tercet.flows.results.first_look import DOCUMENT_PAIRS, first_look, trained_on
from tercet.flows.results.metric_names import TOO_FEW, WHY_TOO_FEW
from tercet.flows.results.queries import connect, final_stage
from tercet.flows.results.search import AFTER, step_of
from tercet.flows.results.verdict import verdict_of
from tercet.flows.running.arguments import DEFAULT_STORE
from tercet.flows.running.run_plan import RunPlan
from tercet.models.measures import resampling
from tercet.storage import runs
from tercet.storage.artifacts import open_artifact
from tercet.storage.store import Store, open_store

NEXT_QUERY = (
    "SELECT anchor, positive, negative, round(negative_similarity, 2) AS similarity "
    "FROM triplets{own} USING SAMPLE 5"
)
ACCEPTANCE_QUERY = "SELECT role, method, candidates, accepted, used, threshold FROM acceptance"


def summarise_run(run_plan: RunPlan, run_id: str, command: str) -> str:
    """The summary of a finished run, as text for the terminal."""
    store = open_store(run_plan.store)
    run = runs.resolve_run(store, run_id)
    steps = {entry["step"]: entry for entry in run["steps"]}
    lines = [f"\nRun {run_id} is done."]
    with connect(store, run_id) as connection:
        told = queries.list_warnings(queries.read_warnings(connection))
        lines += ["", *told] if told else []
        if any(step.stage.asks is not None for step in run_plan.steps):
            lines += _asked(connection, run_id)
        lines += _failed(connection, command)
        lines += (f"\n{sentence}" for sentence in figures.describe_draws(connection, run["recipe"]))
        lines += (f"\n{sentence}" for sentence in describe_unmeasured(connection, run_plan.recipe))
        lines += _generators(connection)
        lines += _discriminators(connection)
        lines += of_definitions(connection)
        if "evaluate.encoder" in steps and "evaluate.base" in steps:
            found = read_figures(connection)
            lines += _before_and_after(found, run_plan.recipe)
            choice = read_choice(connection, run_plan.recipe.seed)
            lines += [] if choice is None else [f"{choice}"]
            lines += trained_on(connection, run_plan.recipe)
            lines += _over_seeds(found)
            lines += first_look(connection, run_plan.recipe.seed, run["recipe"])
        own = _without_shipped(connection, run) if "select" in steps else ""
    made = {name: step["stage"] for name, step in steps.items()}
    last = final_stage(made.values())
    if last is not None:
        step = runs.meant(last, [name for name, stage in made.items() if stage == last])
        lines += _how_to_load(store, step, steps[step]["version"], run)
    lines += _models(store, steps)
    option = "" if run_plan.store == DEFAULT_STORE else f" --store {shlex.quote(run_plan.store)}"
    lines.append(
        f"\nSame run again (reuses everything), or after a change to the recipe:\n  {command}"
    )
    if "select" in steps:
        query = NEXT_QUERY.format(own=own)
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
    """What leaves triplets of texts that come with Tercet out of a query, if others are left."""
    shipped = shipped_corpora(run["recipe"])
    # Other names would have to be quoted for the shell.
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
            # Numbers about the vectors of this recipe's evaluator serve no other recipe.
            if step["stage"] != "fit_pair":
                lines.append(
                    f"  for tag:NAME in other recipes: tercet tag {name}@{step['version']} NAME"
                )
    return lines


def _generators(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Figures of the run's generators beside their controls; empty if none was measured."""
    found = figures.measured_generators(connection)
    if found is None:
        return []
    lines = [f"\nGenerators on {found.pairs:,} pairs, and controls, in percent:"]
    lines.append(
        f"  {'':<16}" + "".join(f"{name:>13}" for name in figures.GENERATOR_LABELS.values())
    )
    for name, values in [*found.generators.items(), *found.controls.items()]:
        shown = "".join(f"{'·' if v is None else format(v, '.1f'):>13}" for v in values)
        lines.append(f"  {name:<16}{shown}")
    return lines + [f"  {figures.gains_in_words(*of_one)}" for of_one in found.gains.items()]


def _discriminators(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Figures of the run's discriminators beside their controls; empty if there is none."""
    lines = []
    for one in figures.judged(connection):
        lines.append(f"\nDiscriminator {one.name} on {one.pairs:,} held-out pairs:")
        lines.append(f"  {'':<32}{'AUC':>8}  {'95 % interval':<18}{'right, %':>8}")
        for arm, of in one.arms.items():
            auc = "·" if of.auc is None else f"{of.auc:.3f}"
            ends = "" if of.low is None else f"{of.low:.3f} to {of.high:.3f}"
            right = "·" if of.accuracy is None else f"{of.accuracy:.1f}"
            name = figures.JUDGE_ARMS[arm]
            lines.append(f"  {name:<32}{auc:>8}  {ends:<18}{right:>8}")
        lines.append(f"  {figures.judged_in_words(one)}")
    return lines


def of_definitions(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """How well held-out definitions find their entries; empty where none was trained on."""
    lines = []
    for one in figures.defined(connection):
        seeds = "" if one.seeds == 1 else f", the mean of {one.seeds} seeds"
        lines.append(
            f"\n{one.name}: entries found by {one.definitions:,} held-out definitions{seeds}:"
        )
        names = "".join(f"{name:>13}" for name in figures.DEFINITION_METRICS.values())
        lines.append(f"  {'':<34}{names}")
        for arm, values in one.figures.items():
            shown = "".join(f"{values[metric][0]:>13,.1f}" for metric in figures.DEFINITION_METRICS)
            lines.append(f"  {figures.DEFINITION_ARMS[arm]:<34}{shown}")
        if one.gains:
            lines.append(f"  {figures.defined_in_words(one)}")
    return lines


def _asked(connection: duckdb.DuckDBPyConnection, run_id: str) -> list[str]:
    """This run's use of the language model, by method; empty if there was none."""
    rows = connection.execute(
        """
        SELECT method, model, answers, failed, retries, prompt_tokens, n_tokens, cost
        FROM usage WHERE run_id = $run ORDER BY "first"
        """,
        {"run": run_id},
    ).fetchall()
    if not rows:
        return []
    lines = [f"\nUse of {rows[0][1]}: answers, failed, retries, tokens in and out"]
    for method, _, answers, failed, retries, asked, said, cost in rows:
        money = "" if cost is None else f"   {cost:.4f}"
        lines.append(
            f"  {method:<24}{answers:>9,}{failed:>7,}{retries:>7,}{asked:>13,}{said:>12,}{money}"
        )
    return lines


def _failed(connection: duckdb.DuckDBPyConnection, command: str) -> list[str]:
    """The number of rows that the language model failed to answer, and how to ask again."""
    ((rows,),) = connection.execute(
        "SELECT count(*) FROM rejects WHERE reason = 'failed'"
    ).fetchall()
    if not rows:
        return []
    said = "1 row" if rows == 1 else f"{rows:,} rows"
    return [f"\n{said} failed; to ask again:\n  {command} --retry-failed"]


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


def _before_and_after(found: Sequence[Figure], recipe: Recipe) -> list[str]:
    """Each figure of the recipe's seed before and after, with its gain."""
    rows = []
    for figure in found:
        before = figure.before
        after, gain = figure.after.get(recipe.seed), figure.gains.get(recipe.seed)
        if _shown(figure) and before is not None and after is not None:
            # Only STS figures are shown without an interval, as is usual for them.
            known = before.low is not None and after.low is not None
            if known or figure.few or figure.metric.suite == "sts":
                rows.append((figure, before, after, gain))
    if not rows:
        return [
            "\nNothing was evaluated: the corpus has no document pairs (evaluate.retrieval), no "
            "texts are cut in two (evaluate.halves), no corpus names a column of labels, and the "
            "recipe names neither a directory of STS sets (evaluate.suite) nor files of your own "
            "(evaluate.retrieval_sets, evaluate.sts_sets, evaluate.fact_order)."
        ]
    width = max(42, *(len(_named(row[0])) for row in rows)) + 2
    lines = [f"\n{'':<{width}}{'before':>8}{'after':>8}   {'gain (95 % interval)':<26}{'n':>7}"]
    for figure, before, after, gain in rows:
        text = f"{after.value - before.value:+.2f}"
        if figure.fixed:
            text = ""
        elif figure.few:
            text += f" ({TOO_FEW})"
        elif gain is not None and gain.low is not None:
            text = f"{gain.value:+.2f} ({gain.low:+.2f} to {gain.high:+.2f})"
        name = _named(figure)
        lines.append(
            f"{name:<{width}}{before.value:>8.2f}{after.value:>8.2f}   {text:<26}{before.n:>7,}"
        )
    if any(figure.few for figure, *_ in rows):
        lines.append(WHY_TOO_FEW)
    if any(figure.transductive for figure, *_ in rows):
        lines.append(metric_names.WHY_TRANSDUCTIVE)
    return lines


def _shown(figure: Figure) -> bool:
    """Of a question beside the natural pairs one figure is enough here."""
    metric = figure.metric
    beside = metric.suite == "retrieval" and metric.task != DOCUMENT_PAIRS
    return figure.headline and (not beside or metric.name == "recall@1")


def _over_seeds(found: Sequence[Figure]) -> list[str]:
    """Mean and spread of the gains over the seeds of this run; empty if there is only one."""
    several = [figure for figure in found if _shown(figure) and len(figure.gains) > 1]
    if not several:
        return []
    seeds = len(several[0].gains)
    lines = [f"\nOver {seeds} seeds:{'':<32}{'mean':>8}{'sd':>7}   95 % interval"]
    for figure in several:
        over = resampling.summarise_seeds([gain.value for gain in figure.gains.values()])
        known = over.low is not None and over.high is not None
        spread = f"({over.low:+.2f} to {over.high:+.2f})" if known else "the same for each"
        spread = TOO_FEW if figure.few else spread
        name = f"{_named(figure)} gain"
        lines.append(f"{name:<46}{over.mean:>+8.2f}{over.sd:>7.2f}   {spread}")
    return lines


def _named(figure: Figure) -> str:
    return f"{figure.metric}".replace("_", " ") + figure.mark


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


# Those of a whole measure concern no row. Of a split, `text` has its name.
_SAID = """
SELECT DISTINCT stage, reason, detail, text FROM rejects
WHERE row_id IS NULL AND stage IN ('halves', 'labels', 'awareness', 'evaluate', 'define')
    AND reason <> 'no_document' -- a warning
ORDER BY ALL
"""
_OF_A_SPLIT = ("no_halves", "no_pairs", "no_texts")


def describe_unmeasured(connection: duckdb.DuckDBPyConnection, recipe: Recipe) -> list[str]:
    """A sentence for each measure; of a split only where the recipe measures on it."""
    found = connection.execute(_SAID).fetchall()
    pairs = connection.execute("SELECT count(*) FROM document_pairs").fetchall()[0][0]
    # A corpus without pairs has none to be found, and nobody asked for them.
    paired = bool(pairs) or any(corpus.query is not None for corpus in recipe.corpora)
    return [
        f"Not measured: {detail}."
        for _, reason, detail, text in found
        if (reason not in _OF_A_SPLIT or text in recipe.evaluate.splits)
        and (reason != "no_pairs" or paired)
    ]
