"""Examples of what training changed: some queries, one case of fact order, own questions."""

import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import duckdb
import numpy as np

from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.names import is_shipped, shipped_corpora
from tercet.flows.results.queries import fetch_dicts
from tercet.models import seeding
from tercet.tasks.evaluation.suites.beir import BM25, ENCODER, HYBRID
from tercet.tasks.synthesis.methods import method_of
from tercet.tasks.training.phases import OF_TRIPLETS

# The natural pairs, as the table `evaluations` calls this task.
DOCUMENT_PAIRS = "document_pairs"
HALVES = "halves"
# Methods that make positives like the pairs of documentation (a summary with its next paragraph),
# and like the halves (a sentence with its surroundings).
_LIKE_PAIRS, _LIKE_HALVES = "neighbour_paragraph", "rest_of_paragraph"
# The table with the texts of a task's pairs, and the name of its queries.
_TABLES = {DOCUMENT_PAIRS: "document_pairs", HALVES: "questions"}
_QUERIES_OF = {DOCUMENT_PAIRS: "queries", HALVES: "queries (halves of paragraphs)"}
_QUERIES = 3
_WIDTH = 100


def trained_on(connection: duckdb.DuckDBPyConnection, recipe: Recipe) -> list[str]:
    """Says which retrieval tasks rows of training resemble; empty if retrieval was not measured."""
    trained = trained_tasks(connection, recipe)
    names = _measured(connection)
    if not trained:
        return ["None of these retrieval tasks was trained on."] if names else []
    listed = ", ".join(_spaced(name) + (f" ({of})" if of else "") for name, of in trained.items())
    others = ", ".join(_spaced(name) for name in names if name not in trained)
    rest = f" Not trained on: {others}." if others else ""
    return textwrap.wrap(f"Also trained on, with other documents: {listed}.{rest}", _WIDTH)


def trained_tasks(connection: duckdb.DuckDBPyConnection, recipe: Recipe) -> dict[str, str]:
    """The measured retrieval tasks that training rows resemble, each with these rows in words."""
    rows = {DOCUMENT_PAIRS: _pair_rows(connection, recipe), HALVES: _half_rows(connection, recipe)}
    kinds = {name: rows.get(name) for name in _measured(connection)}
    return {name: of for name, of in kinds.items() if of is not None}


def _measured(connection: duckdb.DuckDBPyConnection) -> list[str]:
    rows = connection.execute(
        "SELECT DISTINCT task FROM evaluations WHERE suite = 'retrieval' ORDER BY task"
    ).fetchall()
    return [task for (task,) in rows]


def _spaced(task: str) -> str:
    return task.replace("_", " ")


def _half_rows(connection: duckdb.DuckDBPyConnection, recipe: Recipe) -> str | None:
    """The training rows that are like halves, in words: "" for a whole source, None for none."""
    parts = [part for phase in recipe.train.phases for part in phase.parts]
    if any(part.rows.positive == "half" for part in parts):
        return ""
    return _triplet_share(connection, recipe, _LIKE_HALVES)


def _pair_rows(connection: duckdb.DuckDBPyConnection, recipe: Recipe) -> str | None:
    """The training rows that are like document pairs, as `_half_rows` describes them."""
    sources = {source for phase in recipe.train.phases for source in phase.sources()}
    # A table's column of titles is both the pairs' query and the title of the passages.
    titled = any((corpus.query or "").lower() == "title" for corpus in recipe.unlabelled)
    titled = titled and "title" in recipe.synthesise and "queries" in sources
    if titled or DOCUMENT_PAIRS in sources:
        return ""
    if all(corpus.source != "pydocs" for corpus in recipe.unlabelled):
        return None
    return _triplet_share(connection, recipe, _LIKE_PAIRS)


def _triplet_share(
    connection: duckdb.DuckDBPyConnection, recipe: Recipe, method: str
) -> str | None:
    """The method's share of the triplets, if it has any and its relation is trained on."""
    parts = [part.rows for phase in recipe.train.phases for part in phase.parts]
    # The positives of other parts are other texts, or keep the meaning.
    rows = [part for part in parts if part.source in OF_TRIPLETS and part.positive != "anchor"]
    relation = method_of(method).relation
    if not any(not part.relation or relation in part.relation for part in rows):
        return None
    ((same, all_),) = connection.execute(
        "SELECT count(*) FILTER (positive_method = $method), count(*) FROM triplets",
        {"method": method},
    ).fetchall()
    return f"{same / all_:.0%} of the triplets are {method}" if same else None


def first_look(
    connection: duckdb.DuckDBPyConnection, seed: int, recipe: Mapping[str, Any]
) -> list[str]:
    """Queries with their nearest texts, and a changed fact, before and after training.

    The queries are the questions in `evaluate.retrieval_sets` that gained and lost most. Without
    such questions they are drawn by the seed from all queries whose nearest text changed, the
    user's own first; the fact is drawn alike.

    recipe: as its run has recorded it.
    """
    versions = connection.execute(
        """SELECT DISTINCT phase, model_version FROM evaluations
           WHERE phase = 'base' OR (phase = 'encoder' AND seed = $seed)""",
        {"seed": seed},
    ).fetchall()
    models = dict(versions)
    if set(models) != {"base", "encoder"}:
        return []
    files = (recipe.get("evaluate") or {}).get("fact_order") or {}
    of_tercet = {task for task, file in files.items() if is_shipped(file)}
    shipped = shipped_corpora(recipe)
    # Show queries of the natural pairs or, if none moved, halves.
    moved = (_queries(connection, models, seed, shipped, task) for task in _TABLES)
    shown = _questions(connection, seed) or next(filter(None, moved), [])
    return [*shown, *_fact(connection, models, seed, of_tercet)]


def _questions(connection: duckdb.DuckDBPyConnection, seed: int) -> list[str]:
    """The questions that gained and lost most; empty if no question did."""
    rows = read_questions(connection, seed)
    gained = [row for row in rows if row["gain"] > 0]
    lost = [row for row in rows if row["gain"] < 0]
    if not gained and not lost:
        return []
    lines = [
        "",
        *textwrap.wrap(
            f"{len(gained):,} of {len(rows):,} questions gained and {len(lost):,} lost nDCG@10. "
            "Those that gained and lost most, with the rank of the best answer and what came "
            "first:",
            _WIDTH,
        ),
    ]
    for row in gained[:_QUERIES] + lost[-_QUERIES:]:
        lines.append(_line("question", row["query"], f"{row['gain']:+.1f}"))
        for when in ("before", "after"):
            rank = "not found" if row[when] is None else f"rank {row[when]}"
            lines.append(_line(f"  {when}", row[f"first_{when}"] or "", rank))
    return lines


def _queries(
    connection: duckdb.DuckDBPyConnection,
    models: dict[str, str],
    seed: int,
    shipped: Sequence[str],
    task: str,
) -> list[str]:
    ranks = fetch_dicts(
        connection,
        """SELECT a.split, a.pair_id, b.nearest_id AS old, a.nearest_id AS new,
                b.nearest_similarity AS old_similarity, a.nearest_similarity AS new_similarity
            FROM retrieval_ranks a JOIN retrieval_ranks b USING (pair_id, split, task)
            WHERE a.model_version = $encoder AND b.model_version = $base
                AND task = $task ORDER BY pair_id""",
        {**models, "task": task},
    )
    split = "test" if any(row["split"] == "test" for row in ranks) else "dev"
    ranks = [row for row in ranks if row["split"] == split]
    moved = [row for row in ranks if row["old"] != row["new"]]
    if not moved:
        return []
    gained = sum(row["new"] == row["pair_id"] for row in moved)
    lost = sum(row["old"] == row["pair_id"] for row in moved)
    lines = [
        "",
        *textwrap.wrap(
            f"Another text became the nearest for {len(moved):,} of {len(ranks):,} {split} "
            f"{_QUERIES_OF[task]}: for {gained:,} their own answer, for {lost:,} a wrong one in "
            f"its place. {min(_QUERIES, len(moved))} of these, drawn by seed (= marks the own "
            "answer):",
            _WIDTH,
        ),
    ]
    of_tercet = _pairs_of(connection, shipped, task) if shipped else set()
    drawn = _shuffled(moved, [row["pair_id"] for row in moved], seed)
    shown = sorted(drawn, key=lambda row: row["pair_id"] in of_tercet)[:_QUERIES]
    ids = {row[key] for row in shown for key in ("pair_id", "old", "new")}
    pairs = connection.execute(
        f"""SELECT pair_id, query, answer FROM {_TABLES[task]}
            WHERE list_contains($ids, pair_id)""",
        {"ids": list(ids)},
    ).fetchall()
    texts = {pair_id: (query, answer) for pair_id, query, answer in pairs}
    for row in shown:
        lines.append(_line("query", texts[row["pair_id"]][0]))
        for when, side in (("before", "old"), ("after", "new")):
            mark = "=" if row[side] == row["pair_id"] else " "
            figure = f"{row[f'{side}_similarity']:.2f} {mark}"
            lines.append(_line(f"  {when}", texts[row[side]][1], figure))
    return lines


def _pairs_of(connection: duckdb.DuckDBPyConnection, corpora: Sequence[str], task: str) -> set[int]:
    """The ids of the task's pairs that are of these corpora."""
    rows = connection.execute(
        f"""SELECT pair_id FROM {_TABLES[task]} JOIN documents USING (doc_id)
            WHERE list_contains($corpora, corpus)""",
        {"corpora": corpora},
    ).fetchall()
    return {pair_id for (pair_id,) in rows}


def _fact(
    connection: duckdb.DuckDBPyConnection,
    models: dict[str, str],
    seed: int,
    of_tercet: Collection[str],
) -> list[str]:
    cases = fetch_dicts(
        connection,
        """SELECT task, anchor, rewording, changed,
               b.rewording_similarity AS near_before, a.rewording_similarity AS near_after,
               b.changed_similarity AS far_before, a.changed_similarity AS far_after
           FROM fact_order_cases a JOIN fact_order_cases b
               USING (task, kind, item, anchor, rewording, changed)
           WHERE a.model_version = $encoder AND b.model_version = $base
               AND NOT ends_with(task, ' dev') ORDER BY task, kind, item""",
        models,
    )
    if not cases:
        return []
    right = [
        tuple(case[f"near_{when}"] > case[f"far_{when}"] for when in ("before", "after"))
        for case in cases
    ]
    moved = [case for case, (was, now) in zip(cases, right, strict=True) if was != now]
    gained = sum(now and not was for was, now in right)
    chosen = moved or cases
    chosen = [case for case in chosen if case["task"] not in of_tercet] or chosen
    ids = seeding.text_ids([f"{case['anchor']} {case['changed']}" for case in chosen])
    case = _shuffled(chosen, ids, seed)[0]
    title = f"{gained:,} of {len(cases):,} cases of fact order came right and "
    title += f"{len(moved) - gained:,} went wrong. One of these, drawn by seed"
    if not moved:
        title = f"One of {len(cases):,} cases of fact order, drawn by seed"
    lines_of_title = textwrap.wrap(f"{title} (cosines before and after):", _WIDTH)
    lines = ["", *lines_of_title, _line("sentence", case["anchor"])]
    for name, text, side in (("reworded", "rewording", "near"), ("changed", "changed", "far")):
        figures = f"{case[f'{side}_before']:.2f} {case[f'{side}_after']:.2f}"
        lines.append(_line(f"  {name}", case[text], figures))
    return lines


def _line(name: str, text: str, figures: str = "") -> str:
    line = f"  {name:<11}{figures:<10}{' '.join(text.split())}"
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"


def _shuffled(rows: Sequence[dict[str, Any]], ids: Any, seed: int) -> list[dict[str, Any]]:
    """The rows in a seeded order."""
    draws = seeding.draws(seed, "first look", np.asarray(ids, dtype=np.uint64))
    return [rows[place] for place in np.argsort(draws, kind="stable")]


# If training changed nothing, both models are one version and each row occurs twice: DISTINCT.
_QUESTIONS = f"""
WITH models AS (
    SELECT DISTINCT phase, model_version FROM evaluations
    WHERE phase = 'base' OR (phase = 'encoder' AND seed = $seed)
), ranks AS (
    SELECT DISTINCT ON (phase, task, way, item) phase, task, way, item, query, rank,
        concat_ws(': ', p.source, r.first) AS first
    FROM question_ranks r JOIN models USING (model_version)
    LEFT JOIN passages p ON p.passage_id = r.first_id
), measures AS (
    SELECT DISTINCT ON (phase, task, item) phase, task, item, 100 * value AS ndcg
    FROM evaluation_items JOIN models USING (model_version)
    WHERE suite = 'retrieval_sets' AND metric = 'ndcg@10'
)
SELECT task, a.query, ma.ndcg - mb.ndcg AS gain, b.rank AS before, a.rank AS after,
    w.rank AS bm25, h.rank AS both, b.first AS first_before, a.first AS first_after
FROM ranks a JOIN ranks b USING (task, item) JOIN ranks w USING (task, item)
JOIN ranks h USING (task, item) JOIN measures ma USING (task, item)
JOIN measures mb USING (task, item)
WHERE (a.phase, a.way) = ('encoder', '{ENCODER}') AND (b.phase, b.way) = ('base', '{ENCODER}')
    AND (w.phase, w.way) = ('encoder', '{BM25}') AND (h.phase, h.way) = ('encoder', '{HYBRID}')
    AND ma.phase = 'encoder' AND mb.phase = 'base'
ORDER BY gain DESC, task, item
"""


def read_questions(connection: duckdb.DuckDBPyConnection, seed: int) -> list[dict[str, Any]]:
    """The questions of `evaluate.retrieval_sets` in test, else in dev, by falling gain.

    Each has its task and query; gain: of nDCG@10, in points; before, after, bm25, both: the rank of
    its best answer, from 1, None if it was not found; first_before, first_after: the file and the
    beginning of the text that came first.
    """
    rows = fetch_dicts(connection, _QUESTIONS, {"seed": seed})
    return [row for row in rows if not row["task"].endswith(" dev")] or rows
