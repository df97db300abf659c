"""The last lines of a run: what came of it, where it lies, what to type and ask next."""

import shlex

import duckdb

from tercet.flows.running.runner import RunPlan
from tercet.models.measures import comparisons
from tercet.storage import runs
from tercet.storage.artifacts import open_artifact
from tercet.storage.catalog import views as catalog
from tercet.storage.store import Store, open_store

NEXT_QUERY = (
    "SELECT anchor, positive, negative, round(negative_similarity, 2) AS similarity "
    "FROM triplets USING SAMPLE 5"
)
ACCEPTANCE_QUERY = "SELECT role, method, candidates, accepted, used, threshold FROM acceptance"


def of_run(run_plan: RunPlan, run_id: str, command: str) -> str:
    """The summary of a run that is done, as text for the terminal."""
    store = open_store(run_plan.store)
    steps = {entry["step"]: entry for entry in runs.resolve_run(store, run_id)["steps"]}
    lines = [f"\nRun {run_id} is done."]
    with catalog.connect(store, run_id) as connection:
        lines += _asked(connection, run_id)
        if "evaluate.encoder" in steps and "evaluate.base" in steps:
            lines += _before_and_after(connection, run_plan.recipe.seed)
            lines += _over_seeds(connection)
    if "train" in steps:
        lines += _how_to_load(store, steps["train"]["version"])
    option = "" if run_plan.store == "./tercet-store" else f" --store {shlex.quote(run_plan.store)}"
    lines.append(
        f"\nSame run again (all of it reused), or after a change of the recipe:\n  {command}"
    )
    if "select" in steps:
        lines.append(f'Ask next:\n  tercet sql "{NEXT_QUERY}"{option}')
        lines.append(f'Accepted by method:\n  tercet sql "{ACCEPTANCE_QUERY}"{option}')
    else:
        lines.append(f'Ask next:\n  tercet sql "SELECT * FROM run_steps"{option}')
    return "\n".join(lines)


def _asked(connection: duckdb.DuckDBPyConnection, run_id: str) -> list[str]:
    """What the language model was asked in this run, by method; nothing where it was not."""
    rows = connection.execute(
        """
        SELECT method, model, answers, failed, retries, prompt_tokens, n_tokens, cost
        FROM usage WHERE run_id = $run ORDER BY "first"
        """,
        {"run": run_id},
    ).fetchall()
    if not rows:
        return []
    lines = [f"\nAsked of {rows[0][1]}, answers, failed, retries, tokens in and out:"]
    for method, _, answers, failed, retries, asked, said, cost in rows:
        money = "" if cost is None else f"   {cost:.4f}"
        lines.append(
            f"  {method:<24}{answers:>9,}{failed:>7,}{retries:>7,}{asked:>13,}{said:>12,}{money}"
        )
    return lines


def _before_and_after(connection: duckdb.DuckDBPyConnection, seed: int) -> list[str]:
    rows = connection.execute(
        """
        WITH told AS (
            SELECT phase, suite, task, subset, metric, value, n FROM evaluations
            WHERE (ci_low IS NOT NULL OR suite = 'sts') AND seed = $seed
        )
        SELECT b.suite, b.task, b.subset, b.metric, b.value, a.value, b.n,
               g.value, g.ci_low, g.ci_high
        FROM told b JOIN told a USING (suite, task, subset, metric)
        LEFT JOIN evaluations g ON g.metric = b.metric || '_gain' AND g.suite = b.suite
             AND g.task = b.task AND g.subset = b.subset AND g.seed = $seed
        WHERE b.phase = 'base' AND a.phase <> 'base' AND b.metric NOT LIKE '%_gain'
          AND (b.suite <> 'sts' OR b.subset = 'all')
        ORDER BY b.suite, b.task, b.subset, b.metric
        """,
        {"seed": seed},
    ).fetchall()
    if not rows:
        return [
            "\nNothing was measured: the corpus has no document pairs (evaluate.retrieval), and "
            "evaluate.suite names no directory of STS sets."
        ]
    lines = [f"\n{'':<44}{'before':>8}{'after':>8}   {'gain (95 % interval)':<26}{'n':>7}"]
    gains = []
    for suite, task, subset, metric, before, after, n, gain, low, high in rows:
        name = f"{suite} {task.replace('_', ' ')} {subset} {metric}"
        told = f"{after - before:+.2f}"
        if low is not None:
            told = f"{gain:+.2f} ({low:+.2f} to {high:+.2f})"
            gains.append((metric, gain, low))
        lines.append(f"{name:<44}{before:>8.2f}{after:>8.2f}   {told:<26}{n:>7,}")
    if gains and not any(low > 0 for _, _, low in gains):
        lines.append(
            "The encoder is not measurably better. Try: more rows (sample.rows), a lower "
            "select.negative_max, other weights of the methods, a larger learning rate; and look "
            "at the triplets with the query below."
        )
    return lines


def _over_seeds(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Mean and spread over the trainings of this run; nothing where there is one."""
    rows = connection.execute(
        """
        SELECT suite, task, subset, metric, list(value ORDER BY seed) AS found
        FROM evaluations
        WHERE phase <> 'base' AND metric LIKE '%_gain' AND (suite <> 'sts' OR subset = 'all')
        GROUP BY suite, task, subset, metric HAVING count(DISTINCT seed) > 1
        ORDER BY suite, task, subset, metric
        """
    ).fetchall()
    if not rows:
        return []
    lines = [f"\nOver {len(rows[0][4])} seeds:{'':<32}{'mean':>8}{'sd':>7}   95 % interval"]
    for suite, task, subset, metric, values in rows:
        told = comparisons.over_seeds(values)
        name = f"{suite} {task.replace('_', ' ')} {subset} {metric.replace('_', ' ')}"
        known = told.low is not None and told.high is not None
        spread = f"({told.low:+.2f} to {told.high:+.2f})" if known else "the same with each"
        lines.append(f"{name:<46}{told.mean:>+8.2f}{told.sd:>7.2f}   {spread}")
    return lines


def _how_to_load(store: Store, version: str) -> list[str]:
    folder = open_artifact(store, "train", version).model_dir()
    return [
        f"\nThe encoder lies in {folder}",
        "  from sentence_transformers import SentenceTransformer",
        f"  model = SentenceTransformer({str(folder)!r})",
        '  model.encode(["a sentence of your field"])',
    ]
