"""All measures: the tables of figures that a run's summary, report and card, and Python, show.

An installed package adds its own in the entry points `tercet.measures` (docs/plugins.md).
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cache

from tercet.flows.formatting import format_range
from tercet.flows.results.figures import (
    Figure,
    of_geometry,
    of_tasks,
    read_choice,
    read_figures,
)
from tercet.flows.results.measure import FIRST, FOLDED, ON_PAGES, Column, Measure, Rows, Table
from tercet.flows.results.metric_names import FEW, GEOMETRY, is_few
from tercet.flows.results.subject import Row, Subject
from tercet.models.plugins import with_installed
from tercet.storage.rows import quoted, quoted_name
from tercet.tasks.evaluation.evaluation_rows import DOCUMENT_PAIRS


@cache
def all_measures() -> Mapping[str, Measure]:
    """Tercet's and installed packages' measures, by name. Raises: Unusable for an invalid one."""
    return with_installed("tercet.measures", MEASURES)


def read_measures(subject: Subject, brief: bool = False) -> dict[str, tuple[Measure, Table]]:
    """The measures of which the run has figures, by name. brief: only measures of a summary."""
    return {
        name: (measure, table)
        for name, measure in all_measures().items()
        if (measure.brief or not brief) and (table := measure.read(subject)) is not None
    }


def _pivot(metrics: Collection[str], ends: Collection[str] = ()) -> str:
    """SQL for one column per metric; for metrics in `ends`, with the ends of the interval."""
    columns = []
    for metric in metrics:
        where = f"FILTER (metric = {quoted(metric)})"
        columns.append(f"any_value(value) {where} AS {quoted_name(metric)}")
        if metric in ends:
            columns += (
                f"any_value(ci_{end}) {where} AS {quoted_name(f'{metric}_{end}')}"
                for end in ("low", "high")
            )
    return ", ".join(columns)


def _name_sql(column: str, names: Mapping[str, str]) -> str:
    """SQL for the readable name of a value."""
    cases = " ".join(f"WHEN {quoted(value)} THEN {quoted(name)}" for value, name in names.items())
    return f"CASE {column} {cases} ELSE {column} END"


def _place_sql(column: str, names: Collection[str]) -> str:
    """SQL for the place of a value in this order."""
    return f"list_position([{', '.join(map(quoted, names))}], {column})"


USAGE = Measure(
    "usage",
    "Language models",
    "This run's requests; answers already in the pool do not count.",
    "No language model was asked: rules made the candidates.",
    """SELECT method, model, answers, failed, retries, prompt_tokens, n_tokens,
        n_tokens / nullif(seconds_busy, 0) AS rate, cost
    FROM usage WHERE run_id = $run ORDER BY "first" """,
    (
        Column("method", "method"),
        Column("model", "model"),
        Column("answers", "answers"),
        Column("failed", "failed"),
        Column("retries", "retries"),
        Column("prompt_tokens", "tokens in"),
        Column("n_tokens", "tokens out"),
        Column("rate", "tokens/s", 0),
        Column("cost", "cost", 4),
    ),
)

# The metrics of `generator_metrics` that tell a paraphrase from noise and from a copy.
_GENERATED = {
    "average_rouge": "ROUGE",
    "sentence_cosine": "cosine",
    "source_diversity": "other words",
    "generation_diversity": "among",
    "average": "average",
    "deficiency": "deficiency",
    "length": "length",
    "perplexity": "perplexity",
}
# Gains in cosine over a control, and how the control changes the same share of words.
_OVER = {
    "gain_over_replaced": "words replaced at random",
    "gain_over_deleted": "words deleted at random",
    "gain_over_synonym": "words exchanged for synonyms",
}


def _equal_diversity(subject: Subject, rows: Rows) -> list[str]:
    """A sentence on the gains of each generator."""
    sentences = []
    for row in rows:
        if row["generator"] is None:
            continue
        gains = []
        for metric, control in _OVER.items():
            column = Column(metric, "", 1, "+", interval=True)
            if row[f"{metric}_low"] is not None and (gain := column.cell(row)) is not None:
                gains.append(f"{gain} against {control}")
        sentences.append(
            f"{row['generator']}'s cosine with the target at the same share of other words, in "
            f"points: {', '.join(gains)}."
            if gains
            else f"{row['generator']} changes more words than any control, or too few to compare: "
            "its similarity is not compared at equal diversity."
        )
    return sentences


GENERATORS = Measure(
    "generators",
    "Generators",
    "The generators' texts beside controls that anyone could make: the human's own text, a copy, "
    "and words replaced, deleted or shuffled at random, or exchanged for synonyms. In percent, "
    "except the perplexity.",
    "No generator was measured: `measure_generators` names the pairs for it.",
    f"""SELECT coalesce(generator, arm) AS texts, generator, max(n) AS n,
        generator IS NOT NULL AS strong, {_pivot([*_GENERATED, *_OVER], _OVER)}
    FROM (SELECT *, row_number() OVER () AS place FROM generator_metrics)
    GROUP BY generator, arm ORDER BY strong DESC, generator, min(place)""",
    (
        Column("texts", "texts"),
        *(Column(metric, title, 1) for metric, title in _GENERATED.items()),
        Column("n", "pairs"),
    ),
    "In percent. Bold: generators.",
    _equal_diversity,
)

_JUDGES = {
    "discriminator": "the discriminator",
    "pair_words": "words of both texts",
    "cosine": "the evaluator's cosine",
    "hypothesis": "words of the second text alone",
}


def _filters_better(subject: Subject, rows: Rows) -> list[str]:
    """A sentence for each discriminator: whether it filters better than simple judges."""
    sentences = []
    for name in dict.fromkeys(row["discriminator"] for row in rows):
        ours = [row for row in rows if row["discriminator"] == name]
        if any(is_few(row["n"]) for row in ours):
            sentences.append(
                f"Whether {name} filters better than these is not known: fewer than {FEW} anchors "
                "were held out."
            )
            continue
        least = {row["judge"]: row["auc_gain_low"] for row in ours if not row["strong"]}
        as_good = [judge for judge, low in least.items() if low is None or low <= 0]
        sentences.append(
            f"{name} is not shown to be better than {' and '.join(as_good)}: as a filter it is "
            "worth no more."
            if as_good
            else f"{name} tells true pairs from false ones better than each of these, by an AUC "
            f"difference of at least {min(least.values()):.3f}."
        )
    return sentences


DISCRIMINATORS = Measure(
    "discriminators",
    "Discriminators",
    "How well a discriminator tells which texts follow from a sentence, on anchors that it was not "
    "fitted to.",
    "No discriminator was fitted: `fit_pair` under `models` makes one.",
    f"""SELECT discriminator, {_name_sql("arm", _JUDGES)} AS judge, arm = 'discriminator' AS strong,
        any_value(pairs) AS pairs, any_value(anchors) AS n,
        {_pivot(["auc", "accuracy", "calibration_error", "auc_gain"], ["auc", "auc_gain"])}
    FROM discriminator_metrics WHERE subset = 'all' AND arm IN ({", ".join(map(quoted, _JUDGES))})
    GROUP BY discriminator, arm ORDER BY discriminator, {_place_sql("arm", _JUDGES)}""",
    (
        Column("discriminator", "discriminator"),
        Column("judge", "judged by"),
        Column("auc", "AUC (95 % interval)", 3, interval=True),
        Column("accuracy", "right, %", 1),
        Column("calibration_error", "calibration error", 3, depth=ON_PAGES),
        Column("auc_gain", "gain over it", 3, "+", interval=True, depth=ON_PAGES),
        Column("pairs", "pairs"),
        Column("n", "anchors"),
    ),
    "Held-out pairs. Bold: the discriminator.",
    _filters_better,
)

RELIABILITY = Measure(
    "reliability",
    "Reliability",
    "Held-out pairs by the probability that a discriminator gave them.",
    "No discriminator was fitted: `fit_pair` under `models` makes one.",
    """SELECT discriminator, format('{:.2f} to {:.2f}', p_low, p_high) AS p, pairs, mean_p,
        share_true, ci_low AS share_true_low, ci_high AS share_true_high
    FROM reliability ORDER BY discriminator, p_low""",
    (
        Column("discriminator", "discriminator"),
        Column("p", "P(true)"),
        Column("pairs", "pairs"),
        Column("mean_p", "said on average", 3),
        Column("share_true", "true (95 % interval)", 3, interval=True),
    ),
    brief=False,
)

# Candidates that have a probability, by their writers. Only the scorer that decides refuses
# candidates, so other scorers have no counts.
CANDIDATES_JUDGED = Measure(
    "candidates_judged",
    "Candidates by their judges",
    "Candidates that keep or alter the meaning; texts on the topic are not judged.",
    "No scorer has judged the candidates.",
    """SELECT s.scorer, coalesce(g.model, 'rule') AS writer, c.method, c.role,
        count(*) AS candidates,
        avg(CASE c.role WHEN 'positive' THEN s.value ELSE 1 - s.value END) AS mean,
        if(coalesce($decides, s.scorer) = s.scorer,
            count(*) FILTER (r.reason = 'below_p_min'), NULL) AS below,
        if(coalesce($decides, s.scorer) = s.scorer,
            count(*) FILTER (r.row_id IS NULL), NULL) AS used
    FROM candidates c JOIN scores s ON s.candidate_id = c.candidate_id AND s.measure = 'p_true'
    LEFT JOIN generations g USING (generation_id)
    LEFT JOIN rejects r ON r.stage = 'select' AND r.row_id = c.candidate_id
    WHERE c.relation IN ('keeps', 'alters')
    GROUP BY s.scorer, g.model, c.method, c.role ORDER BY ALL""",
    (
        Column("scorer", "judged by"),
        Column("writer", "written by"),
        Column("method", "method"),
        Column("role", "role"),
        Column("candidates", "candidates"),
        Column("mean", "mean P(role)", 3),
        Column("below", "below p_min"),
        Column("used", "in triplets"),
    ),
    brief=False,
)

# Averages over seeds, each of which has a space of the same name.
ENTRIES = Measure(
    "entries",
    "Entries",
    "Definitions are trained to find their entries, whose vectors come from the encoder of the "
    "previous step. The more evenly these vectors spread over all directions (isotropy near 1, "
    "mean cosine near 0), the easier it is to tell one definition from another.",
    "No phase trains against the entries of a dictionary (loss `definition`).",
    """PIVOT (FROM entry_spaces WHERE NOT ends_with(name, '.own'))
    ON metric IN ('entries', 'definitions', 'isotropy', 'mean_cosine', 'deviation', 'ica_rounds')
    USING avg(value) GROUP BY name ORDER BY name""",
    (
        Column("name", "phase"),
        Column("entries", "entries", 0),
        Column("definitions", "definitions", 0),
        Column("isotropy", "isotropy", 4),
        Column("mean_cosine", "mean cosine", 3),
        Column("deviation", "deviation", 3),
        Column("ica_rounds", "ICA rounds", 0),
    ),
    "The entries that each phase trains against.",
    brief=False,
)

_FINDERS = {
    "own_entries": "after training, by cosine",
    "projection": "after training, by the projection",
    "before": "the encoder before it, by cosine",
    "words": "TF-IDF of the definitions",
}
_FOUND = {"recall@1": "recall@1", "recall@10": "recall@10", "mrr": "MRR"}
_FOUND |= {"median_rank": "median rank"}

# Intervals are over one seed's definitions, so a mean over seeds has none.
DEFINITIONS = Measure(
    "definitions",
    "Entries found by held-out definitions",
    "How well held-out definitions find their entries, in percent.",
    "No definition was held out to measure by.",
    f"""WITH means AS (
        SELECT name, arm, metric, avg(value) AS value, max(n) AS n, count(*) AS seeds,
            if(count(*) = 1, any_value(ci_low), NULL) AS ci_low,
            if(count(*) = 1, any_value(ci_high), NULL) AS ci_high
        FROM definition_figures WHERE metric <> 'mrr_gain' OR arm IN ('own_entries', 'projection')
        GROUP BY name, arm, metric
    )
    SELECT name, {_name_sql("arm", _FINDERS)} AS finder, max(n) AS n, max(seeds) AS seeds,
        {_pivot([*_FOUND, "mrr_gain"], ["mrr_gain"])}
    FROM means WHERE arm IN ({", ".join(map(quoted, _FINDERS))})
    GROUP BY name, arm HAVING mrr IS NOT NULL ORDER BY name, {_place_sql("arm", _FINDERS)}""",
    (
        Column("name", "phase"),
        Column("finder", "found by"),
        *(Column(metric, title, 1) for metric, title in _FOUND.items()),
        Column("mrr_gain", "MRR over the encoder before", 1, "+", interval=True),
        Column("n", "definitions"),
        Column("seeds", "seeds", depth=FOLDED),
    ),
    "In percent; means over seeds.",
)

# Random sentences count only in the triplets, since they only replace missing negatives.
FUNNEL = Measure(
    "funnel",
    "From corpus to triplets",
    "How much of the corpus became training data.",
    "No document was read.",
    f"""FROM (VALUES
        ('documents', {FIRST}, (SELECT count(*) FROM documents)),
        ('sentences', {FIRST}, (SELECT count(*) FROM sentences)),
        ('of these for training', {FIRST},
            (SELECT count(*) FROM sentences WHERE split = 'train')),
        ('of these in dev', {ON_PAGES}, (SELECT count(*) FROM sentences WHERE split = 'dev')),
        ('of these in test', {ON_PAGES}, (SELECT count(*) FROM sentences WHERE split = 'test')),
        ('document pairs', {ON_PAGES}, (SELECT count(*) FROM document_pairs)),
        ('anchors', {FIRST}, (SELECT coalesce(sum(anchors), 0)::BIGINT FROM anchor_shares)),
        ('generations', {FIRST}, (SELECT count(*) FROM generations WHERE method <> 'random')),
        ('candidates', {FIRST}, (SELECT count(*) FROM candidates WHERE method <> 'random')),
        ('within the thresholds', {FIRST},
            (SELECT coalesce(sum(accepted), 0)::BIGINT FROM acceptance WHERE method <> 'random')),
        ('triplets', {FIRST}, (SELECT count(*) FROM triplets))
    ) AS funnel (what, depth, rows)""",
    (Column("what", "what"), Column("rows", "rows")),
    "Generations are the methods' raw outputs, candidates the usable ones. An anchor can have "
    "several of either, so the counts may grow before they shrink. Random sentences that replace a "
    "missing negative are counted only in the triplets.",
    brief=False,
)

ACCEPTANCE = Measure(
    "acceptance",
    "Acceptance by method",
    "How many candidates of each method were accepted, and how many became triplets.",
    "No candidate was scored: this run has no synthesis, or it has not reached the stage `select` "
    "yet.",
    """SELECT role, method, candidates, accepted, 100 * accepted / greatest(1, candidates) AS share,
        used, threshold, similarity_p10, similarity_median, similarity_p90
    FROM acceptance ORDER BY acceptance.role DESC, acceptance.method""",
    (
        Column("role", "role"),
        Column("method", "method"),
        Column("candidates", "candidates"),
        Column("accepted", "accepted"),
        Column("used", "used"),
        Column("share", "accepted %", 1),
        Column("threshold", "threshold", 3),
        Column("similarity_p10", "10 %", 3),
        Column("similarity_median", "median", 3),
        Column("similarity_p90", "90 %", 3),
    ),
    "10 %, median and 90 % are quantiles of the candidates' cosines.",
    brief=False,
)

CONTAMINATION = Measure(
    "contamination",
    "Contamination",
    "Whether the training data contain texts that the models are evaluated on.",
    "Training rows were not compared with evaluation sets. They are if the recipe names a suite "
    "(`evaluate.suite`) or files of fact order.",
    """SELECT suite, task, level, count(DISTINCT text_id) AS found,
        count(DISTINCT text_id) FILTER (removed) AS removed,
        array_to_string(
            list_distinct([format('{:.2f}', s) FOR s IN [min(score), max(score)]]), ' to '
        ) AS score
    FROM contamination GROUP BY suite, task, level ORDER BY suite, task, level""",
    (
        Column("suite", "suite"),
        Column("task", "task"),
        Column("level", "level"),
        Column("found", "training texts"),
        Column("removed", "removed"),
        Column("score", "score"),
    ),
    "Training texts that also occur in an evaluation set, by match level.",
    brief=False,
)


def _before_and_after(subject: Subject) -> list[Row]:
    rows = []
    for figure in of_tasks(read_figures(subject.connection, subject.model)):
        gain, low, high = figure.gain()
        after, one = figure.mean(), figure.first or figure.before
        # With several seeds the interval of the gain is over them; one encoder's tells less.
        alone = figure.first if len(figure.after) == 1 else None
        rows.append(
            {
                "figure": figure.unmarked,
                "transductive": figure.transductive,
                "few": figure.few,
                "depth": _depth(figure),
                "strong": low is not None and high is not None and (low > 0 or high < 0),
                "before": figure.before and figure.before.value,
                "after": after,
                "gain": gain,
                "gain_low": low,
                "gain_high": high,
                "interval": alone and format_range(alone.low, alone.high),
                "n": one and one.n,
                "suite": figure.metric.suite,
                "text": one and (one.text_form or None),
                "pooling": one and (one.pooling or None),
                "data": one and one.digest and one.digest[:8],
                "seeds": ", ".join(str(seed) for seed in figure.after if seed is not None) or None,
            }
        )
    return rows


def _depth(figure: Figure) -> int:
    """Where a figure is shown: FIRST, ON_PAGES or FOLDED.

    The terminal shows one figure of each question beside the natural pairs, and figures without
    interval of STS alone, where that is usual.
    """
    metric = figure.metric
    if not figure.headline:
        return FOLDED
    if metric.suite == "retrieval" and metric.task != DOCUMENT_PAIRS and metric.name != "recall@1":
        return ON_PAGES
    sides = [figure.before, *figure.after.values()]
    has_ends = all(side is None or side.low is not None for side in sides)
    return FIRST if has_ends or figure.few or metric.suite == "sts" else ON_PAGES


def _choice(subject: Subject, rows: Rows) -> list[str]:
    """The encoder that the run ends with, if it has chosen one."""
    choice = read_choice(subject.connection, subject.recipe.get("seed"))
    return [] if choice is None else [str(choice)]


EVALUATIONS = Measure(
    "evaluations",
    "Before and after",
    "The trained encoder against the untouched backbone on the same data. Intervals of gains are "
    "paired: both models saw the same queries and pairs.",
    "Nothing was evaluated: the run has not reached the stage `evaluate`, or it has neither "
    "document pairs (`evaluate.retrieval`), nor halves (`evaluate.halves`), nor labels, nor a "
    "suite (`evaluate.suite`), nor files of one's own (`evaluate.retrieval_sets`, "
    "`evaluate.sts_sets`, `evaluate.fact_order`).",
    _before_and_after,
    (
        Column("figure", ""),
        Column("before", "before", 2),
        Column("after", "after", 2),
        Column("gain", "gain (95 % interval)", 2, "+", interval=True),
        Column("n", "n"),
        Column("interval", "95 % interval of after", depth=FOLDED),
        Column("suite", "suite", depth=ON_PAGES),
        Column("seeds", "seeds", depth=FOLDED),
        Column("text", "text", depth=ON_PAGES),
        Column("pooling", "pooling", depth=FOLDED),
        Column("data", "data", depth=ON_PAGES),
    ),
    "In percent, gains in points. Bold: the interval of the gain excludes zero. n: queries, pairs "
    "or examples. Equal data means the same texts.",
    _choice,
)


def _over_seeds(subject: Subject) -> list[Row]:
    from tercet.models.measures.resampling import summarise_seeds

    rows = []
    for figure in of_tasks(read_figures(subject.connection)):
        values = list(figure.values().values())
        if len(values) < 2 or not figure.headline:
            continue
        over = summarise_seeds(values)
        gains = [gain.value for gain in figure.gains.values()]
        rows.append(
            {
                "figure": figure.unmarked,
                "transductive": figure.transductive,
                "few": figure.few,
                "depth": _depth(figure),
                "mean": over.mean,
                "mean_low": over.low,
                "mean_high": over.high,
                "sd": over.sd,
                "sd_of_gain": summarise_seeds(gains).sd if len(gains) > 1 else None,
                "seeds": over.n,
                "drawn": ", ".join(map(str, figure.after)),
                "values": {str(seed): value for seed, value in figure.values().items()},
            }
        )
    return rows


SEEDS = Measure(
    "seeds",
    "Seeds",
    "The same recipe, trained with other random numbers.",
    "Trained with fewer than two seeds: `seeds: 5` in the recipe trains and evaluates five.",
    _over_seeds,
    (
        Column("figure", ""),
        Column("mean", "mean (95 % interval)", 2, interval=True),
        Column("sd", "sd", 2),
        Column("sd_of_gain", "sd of the gain", 2),
        Column("seeds", "seeds"),
        Column("drawn", "these", depth=FOLDED),
    ),
    "Student's t over the seeds' trainings.",
)


def _geometry(subject: Subject) -> list[Row]:
    rows = []
    by_texts: dict[tuple[str, str], list[Figure]] = {}
    for figure in of_geometry(read_figures(subject.connection, subject.model)):
        by_texts.setdefault((figure.metric.task, figure.metric.subset), []).append(figure)
    for (task, subset), figures in by_texts.items():
        name = f"{task.replace('_', ' ')} {subset}".removesuffix(" all")
        before = {f.metric.name: f.before.value for f in figures if f.before is not None}
        after = {f.metric.name: mean for f in figures if (mean := f.mean()) is not None}
        for model, values in (("before", before), ("after", after)):
            if {"alignment", "uniformity"} <= values.keys():
                marks = {"transductive": figures[0].transductive, "model": model, "texts": name}
                rows.append({**marks, **values})
    return rows


GEOMETRY_OF_SPACE = Measure(
    "space",
    "Alignment and uniformity",
    "Where a gain comes from: are pairs closer together, or all other texts further apart?",
    "The vectors' space was not measured.",
    _geometry,
    (
        Column("texts", "texts"),
        Column("model", "model"),
        *(Column(name, name, 3) for name in GEOMETRY),
    ),
    "Lower alignment and uniformity are better. Isotropy: how evenly the directions are used, if "
    "measured.",
    brief=False,
)

MEASURES: Sequence[Measure] = (
    USAGE,
    GENERATORS,
    DISCRIMINATORS,
    RELIABILITY,
    CANDIDATES_JUDGED,
    ENTRIES,
    DEFINITIONS,
    FUNNEL,
    ACCEPTANCE,
    CONTAMINATION,
    EVALUATIONS,
    SEEDS,
    GEOMETRY_OF_SPACE,
)
